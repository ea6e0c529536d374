// local_error_kernel.h -- what the CPU files of local_error.h share in SIMD code: a tile of weights becomes sums per class.
//
// A tile is (refs, kPanel), a panel of queries in the lanes (nw_kernel.h).  Products with residuals are float32 within a
// tile and join the double sums of the block at its end; weights, of which some are subtracted from the sum of all, are
// double from the start.
//
// Included once per SIMD target, after foreach_target.h, like every "-inl" header of Highway.
#if defined(LC_KERNELS_LOCAL_ERROR_KERNEL_H_) == defined(HWY_TARGET_TOGGLE)
    #ifdef LC_KERNELS_LOCAL_ERROR_KERNEL_H_
        #undef LC_KERNELS_LOCAL_ERROR_KERNEL_H_
    #else
        #define LC_KERNELS_LOCAL_ERROR_KERNEL_H_
    #endif

    #include "kernels/local_error_table.h"
    #include "kernels/nw_kernel.h"

HWY_BEFORE_NAMESPACE();
namespace lc::cpu::HWY_NAMESPACE {
namespace {

static_assert(kBlock == kRefs && kBlock % kPanel == 0 && kGroup % kPanel == 0 && kBlock % kGroup == 0);

// A vector of floats as doubles: two vectors of them.
constexpr hn::Repartition<double, decltype(df)> dd;
using VD = hn::Vec<decltype(dd)>;
struct DoubleLanes {
    VD low, high;

    #if HWY_TARGET == HWY_SCALAR
    static HWY_INLINE DoubleLanes of(V x) { return {hn::PromoteTo(dd, x), hn::Zero(dd)}; }
    HWY_INLINE void add_to(double* sums) const { sums[0] += hn::GetLane(low); }
    #else
    static HWY_INLINE DoubleLanes of(V x) {
        constexpr hn::Half<decltype(df)> half;
        return {hn::PromoteTo(dd, hn::LowerHalf(half, x)), hn::PromoteTo(dd, hn::UpperHalf(half, x))};
    }
    HWY_INLINE void add_to(double* sums) const {  // (kLanes)
        hn::Store(hn::Add(hn::Load(dd, sums), low), dd, sums);
        hn::Store(hn::Add(hn::Load(dd, sums + kLanes / 2), high), dd, sums + kLanes / 2);
    }
    #endif
    HWY_INLINE void add(const DoubleLanes& x) { low = hn::Add(low, x.low), high = hn::Add(high, x.high); }
};

// The queries of one panel, in the arrays of their block.
struct QueryPanel {
    const LocalSums* sums;
    const int32_t* bins;      // (C, kBlock) by place()
    const uint64_t* present;  // (C): bins in which some query is, and maybe others
    int64_t lane;             // the panel's first
    int64_t first;            // its place in class 0

    QueryPanel(const LocalSums& s, const LocalTable& t, int64_t block, int64_t first_lane)
        : sums(&s),
          bins(t.bins_of(block)),
          present(t.present_in(block, first_lane)),
          lane(first_lane),
          first(place(0, first_lane, t.C)) {}
    HWY_INLINE int64_t at_class(int64_t c, int v) const { return first + c * kGroup + v * kLanes; }
    HWY_INLINE Mask in_bin(int64_t c, int v, int32_t bin) const {
        return hn::RebindMask(df, hn::Eq(hn::Load(di, bins + at_class(c, v)), hn::Set(di, bin)));
    }
};

// Asks for the sums of a panel before they are needed: those of all blocks together are far larger than a cache, and a
// sparse entry that has to wait for memory costs more than all its arithmetic.
inline void prefetch_sums(const QueryPanel& q, int64_t C) {
    constexpr int64_t kLine = 64 / int64_t(sizeof(double));
    for (int64_t c = 0; c < C; ++c) {
        for (int64_t l = 0; l < kPanel; l += kLine) {
            const int64_t at_lane = q.first + c * kGroup + l;
            hwy::Prefetch(q.sums->product + at_lane);
            hwy::Prefetch(q.sums->weight.same + at_lane);
            hwy::Prefetch(q.sums->weight.missing + at_lane);
        }
    }
}

// product += sum_j w_j r_jc over the references in the dense bin, for the queries that are in it
inline void add_dense(const QueryPanel& q, const float* tile, const float* residual, const LocalTable& t,
                      int64_t refs) {
    HWY_ALIGN float products[kTileRows * kPanel];
    for (int64_t first = 0; first < t.C; first += kTileRows) {
        const int64_t rows = std::min<int64_t>(kTileRows, t.C - first);
        micro_kernel_for(rows, kPanel)({products, kPanel, 1.0f, 0.0f}, residual + first * kBlock, kBlock, tile, refs);
        for (int64_t c = first; c < first + rows; ++c) {
            for (int v = 0; v < kTileVectors; ++v) {
                const V x = at(products + (c - first) * kPanel, v);
                const V mine = hn::IfThenElseZero(q.in_bin(c, v, t.dense[size_t(c)]), x);
                DoubleLanes::of(mine).add_to(q.sums->product + q.at_class(c, v));
            }
        }
    }
}

// sum.all += every row of x; two tiles: of their products
HWY_INLINE void add_all(const PairSum& sum, int64_t lane, const float* x, const float* y, int64_t refs) {
    DoubleLanes all[kTileVectors];
    for (DoubleLanes& a : all) a = {hn::Zero(dd), hn::Zero(dd)};
    for (int64_t j = 0; j < refs; ++j) {
        for (int v = 0; v < kTileVectors; ++v) {
            const V value = at(x + j * kPanel, v);
            all[v].add(DoubleLanes::of(y == nullptr ? value : hn::Mul(value, at(y + j * kPanel, v))));
        }
    }
    for (int v = 0; v < kTileVectors; ++v) all[v].add_to(sum.all + lane + v * kLanes);
}

// sum.missing += the entries of a class: none of them is in its dense bin
HWY_INLINE void add_missing(const PairSum& sum, const QueryPanel& q, const float* x, const float* y,
                            const LocalTable& t, const SparseClass& of) {
    DoubleLanes missing[kTileVectors];
    for (DoubleLanes& m : missing) m = {hn::Zero(dd), hn::Zero(dd)};
    const int64_t end = t.runs[size_t(of.end - 1)].end;
    for (int64_t k = t.runs[size_t(of.begin)].begin; k < end; ++k) {
        const int64_t j = t.sparse[size_t(k)].j * kPanel;
        for (int v = 0; v < kTileVectors; ++v) {
            const V value = at(x + j, v);
            missing[v].add(DoubleLanes::of(y == nullptr ? value : hn::Mul(value, at(y + j, v))));
        }
    }
    for (int v = 0; v < kTileVectors; ++v) missing[v].add_to(sum.missing + q.at_class(of.c, v));
}

// sum.same += the entries of a run, for the queries of its bin; and product likewise, where asked for.
template <bool kProducts>
void add_same(const PairSum& sum, const QueryPanel& q, const float* x, const float* y, const LocalTable& t,
              const SparseRun& run, int64_t c) {
    for (int v = 0; v < kTileVectors; ++v) {
        const Mask same = q.in_bin(c, v, run.bin);
        if (hn::AllFalse(df, same)) continue;
        V total = hn::Zero(df), product = total;
        for (int64_t k = run.begin; k < run.end; ++k) {
            const SparseEntry& e = t.sparse[size_t(k)];
            V w = at(x + e.j * kPanel, v);
            if (y != nullptr) w = hn::Mul(w, at(y + e.j * kPanel, v));
            total = hn::Add(total, w);
            if (kProducts) product = hn::MulAdd(w, hn::Set(df, e.r), product);
        }
        DoubleLanes::of(hn::IfThenElseZero(same, total)).add_to(sum.same + q.at_class(c, v));
        if (!kProducts) continue;
        DoubleLanes::of(hn::IfThenElseZero(same, product)).add_to(q.sums->product + q.at_class(c, v));
    }
}

// The sparse entries of a block.  x, y as in add_all.
template <bool kProducts>
void add_sparse(const PairSum& sum, const QueryPanel& q, const float* x, const float* y, const LocalTable& t,
                int64_t block) {
    for (int64_t k = t.first_class[size_t(block)]; k < t.first_class[size_t(block + 1)]; ++k) {
        const SparseClass& of = t.classes[size_t(k)];
        add_missing(sum, q, x, y, t, of);
        for (int64_t r = of.begin; r < of.end; ++r) {
            const SparseRun& run = t.runs[size_t(r)];
            const bool maybe = run.bin >= 0 && (q.present[of.c] >> (run.bin % 64) & 1) != 0;
            if (maybe) add_same<kProducts>(sum, q, x, y, t, run, of.c);
        }
    }
}

// Adds a tile of weights (refs, kPanel) of the references in `block` to the sums of the queries.  by_l1: the weights times
// |phi_i - phi_j|_1, or null.
inline void add_tile(const QueryPanel& q, const float* tile, const float* by_l1, const LocalTable& t, int64_t block) {
    const int64_t refs = t.rows(block);
    const LocalSums& s = *q.sums;
    add_dense(q, tile, t.residual_of(block), t, refs);
    add_all(s.weight, q.lane, tile, nullptr, refs);
    add_sparse<true>(s.weight, q, tile, nullptr, t, block);
    if (s.squares) {
        add_all(s.square, q.lane, tile, tile, refs);
        add_sparse<false>(s.square, q, tile, tile, t, block);
    }
    if (by_l1 != nullptr) {
        add_all(s.spread, q.lane, by_l1, nullptr, refs);
        add_sparse<false>(s.spread, q, by_l1, nullptr, t, block);
    }
}

// tile (refs, kPanel) = exp(h D)
HWY_INLINE void weights_of(float* tile, const float* distances, float h, int64_t refs) {
    const V scale = hn::Set(df, h);
    for (int64_t j = 0; j < refs; ++j) {
        for (int v = 0; v < kTileVectors; ++v) {
            put(exp_weight_lanes(df, hn::Mul(scale, at(distances + j * kPanel, v))), tile + j * kPanel, v);
        }
    }
}

}  // namespace
}  // namespace lc::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif  // per-target guard

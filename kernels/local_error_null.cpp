// local_error_null.cpp -- CPU backend of local_error_null (contract: local_error_null.h; tiles: local_error_kernel.h).
//
// Idea     e_bic = (sum w p - S_bic) / weight, where S_bic = sum of w_ij over the rows j of the bin with label_bj = c.
//          The first sum and the weights are those of local_error, for all b together.  For S every pair adds its
//          weight once per set of labels: to the class of label_bj, if the query's bin of that class is row j's.
// Order    a panel of queries walks over all references, 768 at a time: the weights (768, kPanel) stay in L2 while the
//          sets of labels pass by, each with its own sums (C, kPanel) in L1.
// Threads  the blocks of queries are dealt to at most 64 groups; a group's results are added in the order of its
//          blocks, the groups' at the end.  Every number of threads gives the same bits.
// Memory   B C kPanel floats for each thread, B C doubles for each group, and B n codes.
// Numbers  S is float32: noise of 1e-5 where the answer is itself a random draw.
// Profile  `make bench`
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/local_error_null.cpp"
#include "kernels/local_error_null.h"

#include <hwy/foreach_target.h>

#include "kernels/local_error_kernel.h"

#ifndef LC_KERNELS_LOCAL_ERROR_NULL_CPP_ONCE
    #define LC_KERNELS_LOCAL_ERROR_NULL_CPP_ONCE
namespace lc::cpu {
namespace {

constexpr int64_t kBlocksAtOnce = 4;
constexpr int64_t kGroups = 64;

// Where a pair goes for one set of labels: the class of the reference's label and its bin there, in one number.
constexpr int32_t kNowhere = -1;  // the label is no class, or its entry is left out
int32_t code_of(int32_t c, int32_t bin) { return c * kMostBins + bin; }

struct Draws {
    int64_t B;
    const int32_t* codes;  // (B, n)
};

struct Results {
    double* total;    // (B, C)
    float* largest;   // (B, C)
    float* row_most;  // (B)
};

struct Scratch {
    double* doubles;  // LocalSums of a block
    float* queries;   // (d, kPanel)
    float* tiles;     // (kBlocksAtOnce kBlock, kPanel)
    float* expected;  // (C, kPanel): sum w p / weight
    float* inverse;   // (C, kPanel): 1 / weight; 0 where there are no neighbours
    float* sums;      // (B, C, kPanel)

    static int64_t floats(const LocalError& in, int64_t B) {
        return 2 * LocalSums::doubles(in.C, false, false) +
               (in.d + kBlocksAtOnce * kBlock + (2 + B) * in.C) * kMaxPanel;
    }
    Scratch(float* memory, const LocalError& in)
        : doubles(reinterpret_cast<double*>(memory)),
          queries(memory + 2 * LocalSums::doubles(in.C, false, false)),
          tiles(queries + in.d * kMaxPanel),
          expected(tiles + kBlocksAtOnce * kBlock * kMaxPanel),
          inverse(expected + in.C * kMaxPanel),
          sums(inverse + in.C * kMaxPanel) {}
};

}  // namespace
}  // namespace lc::cpu
#endif

HWY_BEFORE_NAMESPACE();
namespace lc::cpu::HWY_NAMESPACE {
namespace {

// sums (C, kPanel) += the weights of the tile, each for the class its code names, where the bins agree
void add_draw(float* sums, const QueryPanel& q, const float* tile, const int32_t* codes, int64_t refs) {
    for (int64_t j = 0; j < refs; ++j) {
        if (codes[j] == kNowhere) continue;
        const int64_t c = codes[j] / kMostBins;
        const int32_t bin = codes[j] % kMostBins;
        float* const sum = sums + c * kPanel;
        for (int v = 0; v < kTileVectors; ++v) {
            const Mask same = q.in_bin(c, v, bin);
            put(hn::Add(at(sum, v), hn::IfThenElseZero(same, at(tile + j * kPanel, v))), sum, v);
        }
    }
}

void walk_panel(const LocalError& in, const LocalTable& t, const Draws& draws, const QueryPanel& q, int64_t first,
                int64_t rows, float h, const Scratch& s) {
    pack_panel(s.queries, in.Z + first * in.d, rows, in.d);
    std::fill(s.sums, s.sums + draws.B * in.C * kPanel, 0.0f);
    for (int64_t b = 0; b < t.blocks; b += kBlocksAtOnce) {
        int64_t refs = 0;
        for (int64_t k = b; k < std::min(t.blocks, b + kBlocksAtOnce); ++k, refs += kBlock) {
            float* const tile = s.tiles + refs * kPanel;
            distance_tile(tile, in.Z, s.queries, in.d, {first, rows, k * kBlock, t.rows(k)}, !in.include_self);
            weights_of(tile, tile, h, t.rows(k));
            add_tile(q, tile, nullptr, t, k);
        }
        refs = std::min(refs, in.n - b * kBlock);
        for (int64_t d = 0; d < draws.B; ++d) {
            add_draw(s.sums + d * in.C * kPanel, q, s.tiles, draws.codes + d * in.n + b * kBlock, refs);
        }
    }
}

// expected and inverse (C, kPanel) of a panel, from the sums of its block; zeros in lanes without a query.
void prepare(const Scratch& s, const LocalTable& t, const QueryPanel& q, int64_t rows) {
    for (int64_t c = 0; c < t.C; ++c) {
        for (int64_t l = 0; l < kPanel; ++l) {
            const int64_t k = place(c, q.lane + l, t.C);
            const int32_t bin = q.bins[k];
            const double weight = q.sums->weight.of(k, q.lane + l, bin == t.dense[size_t(c)]);
            const bool none = l >= rows || bin == kNoQuery || weight < double(kLeastWeight);
            s.expected[c * kPanel + l] = none ? 0.0f : float(q.sums->product[k] / weight);
            s.inverse[c * kPanel + l] = none ? 0.0f : float(1.0 / weight);
        }
    }
}

void add_results(const Results& to, const Scratch& s, int64_t B, int64_t C) {
    for (int64_t b = 0; b < B; ++b) {
        V row[kTileVectors];
        for (V& r : row) r = hn::Zero(df);
        for (int64_t c = 0; c < C; ++c) {
            V sum = hn::Zero(df), most = sum;
            for (int v = 0; v < kTileVectors; ++v) {
                const V S = at(s.sums + (b * C + c) * kPanel, v);
                const V e = hn::Abs(hn::NegMulAdd(S, at(s.inverse + c * kPanel, v), at(s.expected + c * kPanel, v)));
                sum = hn::Add(sum, e);
                most = hn::Max(most, e);
                row[v] = hn::Add(row[v], e);
            }
            to.total[b * C + c] += double(hn::GetLane(hn::SumOfLanes(df, sum)));
            to.largest[b * C + c] = std::max(to.largest[b * C + c], hn::GetLane(hn::MaxOfLanes(df, most)));
        }
        for (const V& r : row) to.row_most[b] = std::max(to.row_most[b], hn::GetLane(hn::MaxOfLanes(df, r)));
    }
}

// Adds the queries of a block to the results.
void null_block(const Results& to, const LocalError& in, const LocalTable& t, const Draws& draws, int64_t block,
                float* memory) {
    const Scratch s(memory, in);
    const LocalSums sums(s.doubles, in.C, false, false);
    std::fill(s.doubles, s.doubles + LocalSums::doubles(in.C, false, false), 0.0);
    const float h = exponent_of(in.gammas[0]);
    for (int64_t i = 0; i < t.rows(block); i += kPanel) {
        const QueryPanel q(sums, t, block, i);
        const int64_t rows = std::min<int64_t>(kPanel, t.rows(block) - i);
        walk_panel(in, t, draws, q, block * kBlock + i, rows, h, s);
        prepare(s, t, q, rows);
        add_results(to, s, draws.B, in.C);
    }
}

}  // namespace
}  // namespace lc::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
    #include "kernels/local_error_common.h"
    #include "kernels/nw_threads.h"

namespace lc::cpu {
namespace {

HWY_EXPORT(null_block);

std::vector<int32_t> make_codes(const LocalError& in, const int32_t* labels, int64_t B) {
    std::vector<int32_t> codes(size_t(B * in.n));
    for_each_chunk(B * in.n, 1 << 16, [&](int64_t begin, int64_t end) {
        for (int64_t k = begin; k < end; ++k) {
            const int32_t c = labels[k];
            const int32_t bin = c < 0 || c >= in.C ? -1 : in.bin[k % in.n * in.C + c];
            codes[size_t(k)] = bin < 0 ? kNowhere : code_of(c, bin);
        }
    });
    return codes;
}

// The groups' results in one.  A maximum may miss a NaN, a sum does not: it tells the maxima.
void join(const LocalErrorNull& out, int64_t B, int64_t C, int64_t groups, const std::vector<double>& total,
          const std::vector<float>& largest, const std::vector<float>& row_most) {
    constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
    for (int64_t b = 0; b < B; ++b) {
        float row = 0;
        for (int64_t g = 0; g < groups; ++g) row = std::max(row, row_most[size_t(g * B + b)]);
        for (int64_t k = b * C; k < (b + 1) * C; ++k) {
            double sum = 0;
            float most = 0;
            for (int64_t g = 0; g < groups; ++g) {
                sum += total[size_t(g * B * C + k)];
                most = std::max(most, largest[size_t(g * B * C + k)]);
            }
            out.total[k] = float(sum);
            out.largest[k] = sum != sum ? kNaN : most;
            if (sum != sum) row = kNaN;
        }
        out.row_most[b] = row;
    }
}

}  // namespace

void local_error_null(const LocalErrorNull& out, const LocalError& in, const int32_t* labels, int64_t B,
                      const Progress& progress, Stream) {
    check_local_error_null(out, in, labels, B);
    const LocalTable t = make_local_table("local_error_null", in);
    const std::vector<int32_t> codes = make_codes(in, labels, B);
    const int64_t BC = B * in.C, groups = std::min(kGroups, t.blocks);
    std::vector<double> total(size_t(groups * BC));  // (groups, B, C)
    std::vector<float> largest(size_t(groups * BC)), row_most(size_t(groups * B));
    int64_t done = 0;
    if (progress) progress(0, "labels drawn at random");
    for_each_chunk_with_scratch(groups, 1, Scratch::floats(in, B), [&](int64_t g, int64_t, float* scratch) {
        const Results to = {total.data() + g * BC, largest.data() + g * BC, row_most.data() + g * B};
        for (int64_t block = g; block < t.blocks; block += groups) {
            HWY_DYNAMIC_DISPATCH(null_block)(to, in, t, {B, codes.data()}, block, scratch);
    #pragma omp critical(local_error_null_progress)
            if (progress) progress(double(++done) / double(t.blocks), "labels drawn at random");
        }
    });
    join(out, B, in.C, groups, total, largest, row_most);
}

}  // namespace lc::cpu
#endif  // HWY_ONCE

// softmax.cpp -- CPU backend of softmax (contract and formulas: softmax.h).
//
// Idea     few classes: as many rows as the vector has lanes are turned into columns (simd_rows.h), so that a lane owns a row
//          and nothing is ever reduced across lanes.  Many classes: one row at a time, its vectors run along the classes.
// Traffic  softmax and log_softmax read and write each score once (the passes over a row stay in the first-level cache):
//          8 bytes and one exp per element.  The backward ops move 12 bytes; log_softmax_bwd has the exp as well.
// Numbers  float32 sums of at most 32 terms per lane, joined in double.  Scores are shifted by the row's maximum before exp,
//          so S is in [1, C].  A NaN or an infinite maximum reaches S, and S reaches every element of the row:
//          (+inf) - (+inf) and (-inf) - (-inf) are NaN, so broken rows need no branch.
//          Order of sums: by class, fixed by C and the SIMD target; threads only share out whole rows.
// Profile  build/bench/softmax
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/softmax.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <limits>

#include "kernels/simd_math.h"
#include "kernels/simd_rows.h"
#include "kernels/softmax.h"

HWY_BEFORE_NAMESPACE();
namespace lc::cpu::HWY_NAMESPACE {
namespace {

constexpr int64_t kFewClasses = 64;  // up to here a lane owns a row: measured, the two ways cross near this width
constexpr float kMinusInfinity = -std::numeric_limits<float>::infinity();
constexpr hn::ScalableTag<float> d;
using V = hn::Vec<decltype(d)>;
constexpr int64_t kLanes = int64_t(hn::MaxLanes(d));
constexpr int64_t kBlock = 32 * kLanes;  // 32 terms per lane are added in float32 before the sum moves to double

// ---- few classes: a lane owns a row ---------------------------------------------------------------------------------

HWY_INLINE V column(const float* tile, int64_t c) { return hn::Load(d, tile + c * kLanes); }
HWY_INLINE void set_column(float* tile, int64_t c, V v) { hn::Store(v, d, tile + c * kLanes); }

HWY_INLINE V max_of_columns(const float* x, int64_t C) {
    V m = column(x, 0);
    for (int64_t c = 1; c < C; ++c) m = hn::Max(m, column(x, c));
    return m;
}

// The ops on tiles (C, lanes).  The output is a third tile, and serves as scratch before it is the result.
struct Softmax {
    static constexpr int kInputs = 1;
    HWY_INLINE void operator()(float* y, const float* x, const float*, int64_t C) const {
        const V m = max_of_columns(x, C);
        for (int64_t c = 0; c < C; ++c) set_column(y, c, exp_lanes(d, hn::Sub(column(x, c), m)));
        const V inverse = hn::Div(hn::Set(d, 1.0f), sum_of_columns(d, y, C));
        for (int64_t c = 0; c < C; ++c) set_column(y, c, hn::Mul(column(y, c), inverse));
    }
};

struct LogSoftmax {
    static constexpr int kInputs = 1;
    HWY_INLINE void operator()(float* y, const float* x, const float*, int64_t C) const {
        const V m = max_of_columns(x, C);
        for (int64_t c = 0; c < C; ++c) set_column(y, c, exp_lanes(d, hn::Sub(column(x, c), m)));
        const V log_sum = log_lanes(d, sum_of_columns(d, y, C));
        for (int64_t c = 0; c < C; ++c) set_column(y, c, hn::Sub(hn::Sub(column(x, c), m), log_sum));
    }
};

struct SoftmaxBwd {
    static constexpr int kInputs = 2;
    HWY_INLINE void operator()(float* dx, const float* dy, const float* y, int64_t C) const {
        for (int64_t c = 0; c < C; ++c) set_column(dx, c, hn::Mul(column(dy, c), column(y, c)));
        const V dot = sum_of_columns(d, dx, C);
        for (int64_t c = 0; c < C; ++c) set_column(dx, c, hn::Mul(column(y, c), hn::Sub(column(dy, c), dot)));
    }
};

struct LogSoftmaxBwd {
    static constexpr int kInputs = 2;
    HWY_INLINE void operator()(float* dx, const float* dy, const float* y, int64_t C) const {
        const V sum = sum_of_columns(d, dy, C);
        for (int64_t c = 0; c < C; ++c) {
            set_column(dx, c, hn::NegMulAdd(exp_lanes(d, column(y, c)), sum, column(dy, c)));
        }
    }
};

// All rows of a chunk.  The last group of rows may be short: it is copied to a full one, whose other rows are zeros.
template <class Op>
HWY_INLINE void for_groups_of_rows(const Op& op, float* out, const float* a, const float* b, int64_t N, int64_t C) {
    constexpr int64_t kTile = kFewClasses * kLanes;
    HWY_ALIGN float tile[kTile], tile_a[kTile], tile_b[kTile];  // (C, lanes)
    int64_t r = 0;
    for (; r + kLanes <= N; r += kLanes) {
        load_columns(d, tile_a, a + r * C, C);
        if (Op::kInputs == 2) load_columns(d, tile_b, b + r * C, C);
        op(tile, tile_a, tile_b, C);
        store_columns(d, out + r * C, tile, C);
    }
    if (r == N) return;
    const int64_t rest = (N - r) * C;
    float rows[kTile] = {};  // (lanes, C)
    for (int64_t i = 0; i < rest; ++i) rows[i] = a[r * C + i];
    load_columns(d, tile_a, rows, C);
    for (int64_t i = 0; i < rest && Op::kInputs == 2; ++i) rows[i] = b[r * C + i];
    if (Op::kInputs == 2) load_columns(d, tile_b, rows, C);
    op(tile, tile_a, tile_b, C);
    store_columns(d, rows, tile, C);
    for (int64_t i = 0; i < rest; ++i) out[r * C + i] = rows[i];
}

// ---- many classes: one row at a time --------------------------------------------------------------------------------

// Calls body(i, n) for vectors at i: n = lanes for whole ones, known at compile time, and the rest of the row at last.
template <class Body>
HWY_INLINE void for_vectors(int64_t begin, int64_t end, const Body& body) {
    int64_t i = begin;
    for (; i + kLanes <= end; i += kLanes) body(i, kLanes);
    if (i < end) body(i, end - i);
}
HWY_INLINE V load_row(const float* p, int64_t n, float fill) { return n == kLanes ? hn::LoadU(d, p) : load_padded(d, p, n, fill); }
HWY_INLINE void store_row(V v, float* p, int64_t n) { n == kLanes ? hn::StoreU(v, d, p) : store_first(v, d, p, n); }

HWY_INLINE float max_of_row(const float* x, int64_t C) {
    V m0 = hn::Set(d, kMinusInfinity), m1 = m0;
    int64_t i = 0;
    for (; i + 2 * kLanes <= C; i += 2 * kLanes) {
        m0 = hn::Max(m0, hn::LoadU(d, x + i));
        m1 = hn::Max(m1, hn::LoadU(d, x + i + kLanes));
    }
    for_vectors(i, C, [&](int64_t k, int64_t n) HWY_ATTR { m0 = hn::Max(m0, load_row(x + k, n, kMinusInfinity)); });
    return hn::GetLane(hn::MaxOfLanes(d, hn::Max(m0, m1)));
}

// Sum over the row of the vectors that term(i, n) gives, blocks of float32 joined in double.
template <class Term>
HWY_INLINE double sum_over_row(int64_t C, const Term& term) {
    double total = 0;
    for (int64_t begin = 0; begin < C; begin += kBlock) {
        V sum = hn::Zero(d);
        for_vectors(begin, HWY_MIN(C, begin + kBlock), [&](int64_t i, int64_t n) HWY_ATTR { sum = hn::Add(sum, term(i, n)); });
        total += double(hn::GetLane(hn::SumOfLanes(d, sum)));
    }
    return total;
}

void softmax_row(float* y, const float* x, int64_t C) {
    const V m = hn::Set(d, max_of_row(x, C));
    const double sum = sum_over_row(C, [&](int64_t i, int64_t n) HWY_ATTR {
        const V e = exp_lanes(d, hn::Sub(load_row(x + i, n, kMinusInfinity), m));
        store_row(e, y + i, n);
        return e;
    });
    const V inverse = hn::Set(d, float(1.0 / sum));
    for_vectors(0, C, [&](int64_t i, int64_t n) HWY_ATTR { store_row(hn::Mul(load_row(y + i, n, 0), inverse), y + i, n); });
}

void log_softmax_row(float* y, const float* x, int64_t C) {
    const V m = hn::Set(d, max_of_row(x, C));
    const double sum = sum_over_row(C, [&](int64_t i, int64_t n) HWY_ATTR {
        return exp_lanes(d, hn::Sub(load_row(x + i, n, kMinusInfinity), m));
    });
    const V log_sum = log_lanes(d, hn::Set(d, float(sum)));
    for_vectors(0, C, [&](int64_t i, int64_t n) HWY_ATTR {
        store_row(hn::Sub(hn::Sub(load_row(x + i, n, 0), m), log_sum), y + i, n);
    });
}

void softmax_bwd_row(float* dx, const float* dy, const float* y, int64_t C) {
    const double sum = sum_over_row(C, [&](int64_t i, int64_t n) HWY_ATTR {
        return hn::Mul(load_row(dy + i, n, 0), load_row(y + i, n, 0));
    });
    const V dot = hn::Set(d, float(sum));
    for_vectors(0, C, [&](int64_t i, int64_t n) HWY_ATTR {
        store_row(hn::Mul(load_row(y + i, n, 0), hn::Sub(load_row(dy + i, n, 0), dot)), dx + i, n);
    });
}

void log_softmax_bwd_row(float* dx, const float* dy, const float* y, int64_t C) {
    const V sum = hn::Set(d, float(sum_over_row(C, [&](int64_t i, int64_t n) HWY_ATTR { return load_row(dy + i, n, 0); })));
    for_vectors(0, C, [&](int64_t i, int64_t n) HWY_ATTR {
        store_row(hn::NegMulAdd(exp_lanes(d, load_row(y + i, n, 0)), sum, load_row(dy + i, n, 0)), dx + i, n);
    });
}

// ---- chunks of rows -------------------------------------------------------------------------------------------------

void softmax_chunk(float* y, const float* x, int64_t N, int64_t C) {
    if (C <= kFewClasses) return for_groups_of_rows(Softmax(), y, x, nullptr, N, C);
    for (int64_t r = 0; r < N; ++r) softmax_row(y + r * C, x + r * C, C);
}
void log_softmax_chunk(float* y, const float* x, int64_t N, int64_t C) {
    if (C <= kFewClasses) return for_groups_of_rows(LogSoftmax(), y, x, nullptr, N, C);
    for (int64_t r = 0; r < N; ++r) log_softmax_row(y + r * C, x + r * C, C);
}
void softmax_bwd_chunk(float* dx, const float* dy, const float* y, int64_t N, int64_t C) {
    if (C <= kFewClasses) return for_groups_of_rows(SoftmaxBwd(), dx, dy, y, N, C);
    for (int64_t r = 0; r < N; ++r) softmax_bwd_row(dx + r * C, dy + r * C, y + r * C, C);
}
void log_softmax_bwd_chunk(float* dx, const float* dy, const float* y, int64_t N, int64_t C) {
    if (C <= kFewClasses) return for_groups_of_rows(LogSoftmaxBwd(), dx, dy, y, N, C);
    for (int64_t r = 0; r < N; ++r) log_softmax_bwd_row(dx + r * C, dy + r * C, y + r * C, C);
}

}  // namespace
}  // namespace lc::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
    #include "kernels/arguments.h"
    #include "kernels/parallel.h"

namespace lc::cpu {
HWY_EXPORT(softmax_chunk);
HWY_EXPORT(log_softmax_chunk);
HWY_EXPORT(softmax_bwd_chunk);
HWY_EXPORT(log_softmax_bwd_chunk);

static void check_classes(const char* op, int64_t N, int64_t C) {
    check_shape(op, N, C);
    LC_CHECK(C >= 1, op << ": a row needs at least one class; found C = " << C);
}

// Rows per chunk: about 16384 elements, in whole groups of 16 rows (the lanes of the widest target).
static int64_t chunk_rows(int64_t C) { return C >= 1024 ? ceil_div(16384, C) : 16 * ceil_div(1024, C); }

void softmax(float* y, const float* x, int64_t N, int64_t C, Stream) {
    check_classes("softmax", N, C);
    check_same_or_disjoint("softmax", {"y", y, N * C}, {"x", x, N * C});
    for_each_chunk(N, chunk_rows(C), [=](int64_t r, int64_t end) {
        HWY_DYNAMIC_DISPATCH(softmax_chunk)(y + r * C, x + r * C, end - r, C);
    });
}

void log_softmax(float* y, const float* x, int64_t N, int64_t C, Stream) {
    check_classes("log_softmax", N, C);
    check_same_or_disjoint("log_softmax", {"y", y, N * C}, {"x", x, N * C});
    for_each_chunk(N, chunk_rows(C), [=](int64_t r, int64_t end) {
        HWY_DYNAMIC_DISPATCH(log_softmax_chunk)(y + r * C, x + r * C, end - r, C);
    });
}

void softmax_bwd(float* dx, const float* dy, const float* y, int64_t N, int64_t C, Stream) {
    check_classes("softmax_bwd", N, C);
    check_same_or_disjoint("softmax_bwd", {"dx", dx, N * C}, {"dy", dy, N * C});
    check_same_or_disjoint("softmax_bwd", {"dx", dx, N * C}, {"y", y, N * C});
    for_each_chunk(N, chunk_rows(C), [=](int64_t r, int64_t end) {
        HWY_DYNAMIC_DISPATCH(softmax_bwd_chunk)(dx + r * C, dy + r * C, y + r * C, end - r, C);
    });
}

void log_softmax_bwd(float* dx, const float* dy, const float* y, int64_t N, int64_t C, Stream) {
    check_classes("log_softmax_bwd", N, C);
    check_same_or_disjoint("log_softmax_bwd", {"dx", dx, N * C}, {"dy", dy, N * C});
    check_same_or_disjoint("log_softmax_bwd", {"dx", dx, N * C}, {"y", y, N * C});
    for_each_chunk(N, chunk_rows(C), [=](int64_t r, int64_t end) {
        HWY_DYNAMIC_DISPATCH(log_softmax_bwd_chunk)(dx + r * C, dy + r * C, y + r * C, end - r, C);
    });
}

}  // namespace lc::cpu
#endif  // HWY_ONCE

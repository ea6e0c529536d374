// softmax.cpp -- CPU backend of softmax (contract and formulas: softmax.h).
//
// Idea     few classes: as many rows as the vector has lanes are turned into columns (simd_rows.h), so that a lane owns
//          a row and nothing is ever reduced across lanes.  Many classes: one row at a time, its vectors run along the
//          classes.  Both walks are in simd_softmax.h.
// Traffic  softmax and log_softmax read and write each score once (the passes over a row stay in the first-level
//          cache): 8 bytes and one exp per element.  The backward ops move 12 bytes, log_softmax_bwd with an exp.
// Numbers  as simd_softmax.h: a NaN or an infinite maximum reaches S, and S reaches every element of the row.  Threads
//          only share out whole rows.
// Profile  `make bench`
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/softmax.cpp"
#include "kernels/softmax.h"

#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/simd_softmax.h"

HWY_BEFORE_NAMESPACE();
namespace lc::cpu::HWY_NAMESPACE {
namespace {

// Up to here a lane owns a row.  Measured: near these widths the two ways cross, in cache above, from memory below.
constexpr int64_t kFewForward = 48, kFewBackward = 24;
constexpr hn::ScalableTag<float> d;
using V = hn::Vec<decltype(d)>;
constexpr int64_t kLanes = int64_t(hn::MaxLanes(d));

// ---- few classes: a lane owns a row ---------------------------------------------------------------------------------

// The ops on tiles (C, lanes).  The output is a third tile, and serves as scratch before it is the result.
struct Softmax {
    static constexpr int kInputs = 1;
    static constexpr int64_t kFewClasses = kFewForward;
    HWY_INLINE void operator()(float* y, const float* x, const float*, int64_t C) const {
        const V inverse = hn::Div(hn::Set(d, 1.0f), exp_of_columns(d, y, x, C).sum);
        for (int64_t c = 0; c < C; ++c) set_column(d, y, c, hn::Mul(column(d, y, c), inverse));
    }
};

struct LogSoftmax {
    static constexpr int kInputs = 1;
    static constexpr int64_t kFewClasses = kFewForward;
    HWY_INLINE void operator()(float* y, const float* x, const float*, int64_t C) const {
        const auto [top, sum] = exp_of_columns(d, y, x, C);
        const V log_sum = log_lanes(d, sum);
        for (int64_t c = 0; c < C; ++c) set_column(d, y, c, hn::Sub(hn::Sub(column(d, x, c), top), log_sum));
    }
};

struct SoftmaxBwd {
    static constexpr int kInputs = 2;
    static constexpr int64_t kFewClasses = kFewBackward;
    HWY_INLINE void operator()(float* dx, const float* dy, const float* y, int64_t C) const {
        for (int64_t c = 0; c < C; ++c) set_column(d, dx, c, hn::Mul(column(d, dy, c), column(d, y, c)));
        const V dot = sum_of_columns(d, dx, C);
        for (int64_t c = 0; c < C; ++c) set_column(d, dx, c, hn::Mul(column(d, y, c), hn::Sub(column(d, dy, c), dot)));
    }
};

struct LogSoftmaxBwd {
    static constexpr int kInputs = 2;
    static constexpr int64_t kFewClasses = kFewBackward;
    HWY_INLINE void operator()(float* dx, const float* dy, const float* y, int64_t C) const {
        const V sum = sum_of_columns(d, dy, C);
        for (int64_t c = 0; c < C; ++c) {
            set_column(d, dx, c, hn::NegMulAdd(exp_lanes(d, column(d, y, c)), sum, column(d, dy, c)));
        }
    }
};

// All rows of a chunk.  The last group of rows may be short: it is copied to a full one, whose other rows are zeros.
template <class Op>
HWY_INLINE void for_groups_of_rows(const Op& op, float* out, const float* a, const float* b, int64_t N, int64_t C) {
    constexpr int64_t kTile = Op::kFewClasses * kLanes;
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

void softmax_row(float* y, const float* x, int64_t C) {
    const V m = max_of_row(d, x, C);
    const V sum = sum_row(
        d, y, C, [&](V v) HWY_ATTR { return exp_lanes(d, hn::Sub(v, m)); }, x);
    const V inverse = hn::Div(hn::Set(d, 1.0f), sum);
    map_row(
        d, y, C, [&](V e) HWY_ATTR { return hn::Mul(e, inverse); }, y);
}

void log_softmax_row(float* y, const float* x, int64_t C) {
    const V m = max_of_row(d, x, C);
    const V sum = sum_row(
        d, nullptr, C, [&](V v) HWY_ATTR { return exp_lanes(d, hn::Sub(v, m)); }, x);
    const V log_sum = log_lanes(d, sum);
    map_row(
        d, y, C, [&](V v) HWY_ATTR { return hn::Sub(hn::Sub(v, m), log_sum); }, x);
}

void softmax_bwd_row(float* dx, const float* dy, const float* y, int64_t C) {
    const V dot = sum_row(
        d, nullptr, C, [](V g, V p) HWY_ATTR { return hn::Mul(g, p); }, dy, y);
    map_row(
        d, dx, C, [&](V g, V p) HWY_ATTR { return hn::Mul(p, hn::Sub(g, dot)); }, dy, y);
}

void log_softmax_bwd_row(float* dx, const float* dy, const float* y, int64_t C) {
    const V sum = sum_row(
        d, nullptr, C, [](V g) HWY_ATTR { return g; }, dy);
    map_row(
        d, dx, C, [&](V g, V log_p) HWY_ATTR { return hn::NegMulAdd(exp_lanes(d, log_p), sum, g); }, dy, y);
}

// ---- chunks of rows -------------------------------------------------------------------------------------------------

void softmax_chunk(float* y, const float* x, int64_t N, int64_t C) {
    if (C <= kFewForward) return for_groups_of_rows(Softmax(), y, x, nullptr, N, C);
    for (int64_t r = 0; r < N; ++r) softmax_row(y + r * C, x + r * C, C);
}
void log_softmax_chunk(float* y, const float* x, int64_t N, int64_t C) {
    if (C <= kFewForward) return for_groups_of_rows(LogSoftmax(), y, x, nullptr, N, C);
    for (int64_t r = 0; r < N; ++r) log_softmax_row(y + r * C, x + r * C, C);
}
void softmax_bwd_chunk(float* dx, const float* dy, const float* y, int64_t N, int64_t C) {
    if (C <= kFewBackward) return for_groups_of_rows(SoftmaxBwd(), dx, dy, y, N, C);
    for (int64_t r = 0; r < N; ++r) softmax_bwd_row(dx + r * C, dy + r * C, y + r * C, C);
}
void log_softmax_bwd_chunk(float* dx, const float* dy, const float* y, int64_t N, int64_t C) {
    if (C <= kFewBackward) return for_groups_of_rows(LogSoftmaxBwd(), dx, dy, y, N, C);
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

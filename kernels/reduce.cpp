// reduce.cpp -- CPU backend of reduce (contract and formulas: reduce.h).
//
// Idea     rows, few columns   as many rows as the vector has lanes are turned into columns (simd_rows.h): a lane owns a row
//          rows, many columns  vectors run along the row; a very long row is cut into segments, which threads share
//          columns             vectors run along the row and every lane owns a column; a matrix of few columns is read as
//                              a wider one of fewer rows, (N, C) as (N / f, f C), so that no lane is idle; threads share
//                              tiles of rows and columns
//          The maximum is the value at the arg-maximum, so that NaN, ties and signed zeros follow one rule.
// Traffic  4 bytes per element, read once: bound by memory.
// Numbers  few columns: float32, in four interleaved sums.  Otherwise float32 over a fixed block (2048 elements of a row, 64
//          rows of a column), blocks joined in double: the error does not grow with the length at all.  The tree of
//          additions depends on N and C only: not on threads, and not on the SIMD target, because the sums are laid out
//          for 32 lanes, whatever the vectors have.
// Profile  build/bench/reduce
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/reduce.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <limits>

#include "kernels/reduce.h"
#include "kernels/simd_rows.h"

#ifndef LC_REDUCE_SHAPES  // this file is included once per target
    #define LC_REDUCE_SHAPES
namespace lc::cpu {
constexpr int64_t kFewColumns = 128;  // up to here a lane owns a row
constexpr int64_t kTile = 2048;      // columns of a tile: its running sums stay in the first-level cache
}  // namespace lc::cpu
#endif

HWY_BEFORE_NAMESPACE();
namespace lc::cpu::HWY_NAMESPACE {
namespace {

constexpr hn::ScalableTag<float> d;
constexpr hn::RebindToSigned<decltype(d)> di;
constexpr hn::CappedTag<float, 1> one;
using V = hn::Vec<decltype(d)>;
using VI = hn::Vec<decltype(di)>;
constexpr int64_t kLanes = int64_t(hn::MaxLanes(d));

// Where x is greater than the best so far, a NaN being greater than everything and nothing greater than a NaN.
template <class W>
HWY_INLINE auto beats(W x, W best) {
    return hn::And(hn::Not(hn::Le(x, best)), hn::Eq(best, best));
}

// ---- rows of few columns --------------------------------------------------------------------------------------------

HWY_INLINE V column(const float* tile, int64_t c) { return hn::Load(d, tile + c * kLanes); }

// Calls body(row, rows, tile) for groups of rows, turned into columns.  The last group may have fewer rows than lanes: it is
// padded with zeros, and the body keeps the results of `rows` lanes.
template <class Body>
HWY_INLINE void for_groups_of_rows(const float* x, int64_t N, int64_t C, const Body& body) {
    HWY_ALIGN float tile[kFewColumns * kLanes];  // (C, lanes)
    int64_t r = 0;
    for (; r + kLanes <= N; r += kLanes) {
        load_columns(d, tile, x + r * C, C);
        body(r, kLanes, tile);
    }
    if (r == N) return;
    float rows[kFewColumns * kLanes] = {};  // (lanes, C)
    for (int64_t i = 0; i < (N - r) * C; ++i) rows[i] = x[r * C + i];
    load_columns(d, tile, rows, C);
    body(r, N - r, tile);
}

void sum_short_rows(float* out, const float* x, int64_t N, int64_t C, float divisor) {
    for_groups_of_rows(x, N, C, [=](int64_t r, int64_t rows, const float* tile) HWY_ATTR {
        const V result = hn::Div(sum_of_columns(d, tile, C), hn::Set(d, divisor));
        rows == kLanes ? hn::StoreU(result, d, out + r) : store_first(result, d, out + r, rows);
    });
}

void best_of_short_rows(float* value, int32_t* place, const float* x, int64_t N, int64_t C) {
    for_groups_of_rows(x, N, C, [=](int64_t r, int64_t rows, const float* tile) HWY_ATTR {
        V best = column(tile, 0);
        VI at = hn::Zero(di);
        for (int64_t c = 1; c < C; ++c) {
            const V v = column(tile, c);
            const auto better = beats(v, best);
            best = hn::IfThenElse(better, v, best);
            at = hn::IfThenElse(hn::RebindMask(di, better), hn::Set(di, int32_t(c)), at);
        }
        HWY_ALIGN float values[kLanes];
        HWY_ALIGN int32_t places[kLanes];
        hn::Store(best, d, values);
        hn::Store(at, di, places);
        for (int64_t i = 0; i < rows && value != nullptr; ++i) value[r + i] = values[i];
        for (int64_t i = 0; i < rows && place != nullptr; ++i) place[r + i] = places[i];
    });
}

// ---- contiguous runs: rows of many columns --------------------------------------------------------------------------

constexpr int64_t kWidth = 32;               // partial sums, in as many vectors as that takes
constexpr int64_t kVectors = kWidth / kLanes;
constexpr int64_t kBlock = 2048;             // elements added in float32 before the sum moves to double

// Adds the upper half of the partial sums to the lower half until one is left; the same tree for every vector length.
HWY_INLINE float fold(V (&sums)[kVectors]) {
    for (int64_t half = kVectors / 2; half >= 1; half /= 2) {
        for (int64_t k = 0; k < half; ++k) sums[k] = hn::Add(sums[k], sums[k + half]);
    }
    HWY_ALIGN float lane[kLanes];
    hn::Store(sums[0], d, lane);
    for (int64_t half = kLanes / 2; half >= 1; half /= 2) {
        for (int64_t k = 0; k < half; ++k) lane[k] += lane[k + half];
    }
    return lane[0];
}

double sum_run(const float* x, int64_t n) {
    double total = 0;
    for (int64_t begin = 0; begin < n; begin += kBlock) {
        const int64_t end = HWY_MIN(n, begin + kBlock);
        V sums[kVectors];
        for (V& s : sums) s = hn::Zero(d);
        int64_t i = begin;
        for (; i + kWidth <= end; i += kWidth) {
            for (int64_t k = 0; k < kVectors; ++k) sums[k] = hn::Add(sums[k], hn::LoadU(d, x + i + k * kLanes));
        }
        for (int64_t k = 0; k < kVectors; ++k) {  // the rest, to the same lanes
            const int64_t n = end - i - k * kLanes;
            if (n >= kLanes) sums[k] = hn::Add(sums[k], hn::LoadU(d, x + i + k * kLanes));
            if (n > 0 && n < kLanes) sums[k] = hn::Add(sums[k], load_padded(d, x + i + k * kLanes, n, 0.0f));
        }
        total += double(fold(sums));
    }
    return total;
}

// The maximum, NaN if there is one.  Of several NaN or signed zeros any may come back: find_run decides.
float max_run(const float* x, int64_t n) {
    const V first = hn::Set(d, x[0]);
    V m0 = first, m1 = first;
    auto nan = hn::IsNaN(first);
    int64_t i = 0;
    for (; i + 2 * kLanes <= n; i += 2 * kLanes) {
        const V a = hn::LoadU(d, x + i), b = hn::LoadU(d, x + i + kLanes);
        nan = hn::Or(nan, hn::Or(hn::IsNaN(a), hn::IsNaN(b)));
        m0 = hn::Max(m0, a);
        m1 = hn::Max(m1, b);
    }
    for (; i < n; i += kLanes) {
        const V a = i + kLanes <= n ? hn::LoadU(d, x + i) : load_padded(d, x + i, n - i, x[0]);
        nan = hn::Or(nan, hn::IsNaN(a));
        m0 = hn::Max(m0, a);
    }
    if (!hn::AllFalse(d, nan)) return std::numeric_limits<float>::quiet_NaN();
    return hn::GetLane(hn::MaxOfLanes(d, hn::Max(m0, m1)));
}

// The first place of `value`, or of a NaN if it is one; n if there is none.
int64_t find_run(const float* x, int64_t n, float value) {
    const bool want_nan = value != value;
    const V v = hn::Set(d, value);
    int64_t i = 0;
    for (; i + kLanes <= n; i += kLanes) {
        const V a = hn::LoadU(d, x + i);
        const auto hit = want_nan ? hn::IsNaN(a) : hn::Eq(a, v);
        if (!hn::AllFalse(d, hit)) return i + int64_t(hn::FindFirstTrue(d, hit));
    }
    for (; i < n; ++i) {
        if (want_nan ? x[i] != x[i] : x[i] == value) return i;
    }
    return n;
}

// ---- tiles of columns -----------------------------------------------------------------------------------------------

// sum_w += the rows r .. r + 3, or the one row r.  Two forms, because four rows at once load and store the sums once.
template <class D>
HWY_INLINE void add_four(D tag, float* sum, const float* x, int64_t stride) {
    const auto a = hn::Add(hn::LoadU(tag, x), hn::LoadU(tag, x + stride));
    const auto b = hn::Add(hn::LoadU(tag, x + 2 * stride), hn::LoadU(tag, x + 3 * stride));
    hn::StoreU(hn::Add(hn::LoadU(tag, sum), hn::Add(a, b)), tag, sum);
}
template <class D>
HWY_INLINE void add_one(D tag, float* sum, const float* x) {
    hn::StoreU(hn::Add(hn::LoadU(tag, sum), hn::LoadU(tag, x)), tag, sum);
}

void sum_tile(double* total,                                                      // (width)
              const float* x, int64_t stride, int64_t rows, int64_t width) {      // (rows, width), width <= kTile
    constexpr int64_t kBlockRows = 64;  // rows added in float32 before the sums move to double
    HWY_ALIGN float sum[kTile];
    for (int64_t w = 0; w < width; ++w) total[w] = 0;
    for (int64_t begin = 0; begin < rows; begin += kBlockRows) {
        const int64_t end = HWY_MIN(rows, begin + kBlockRows);
        for (int64_t w = 0; w < width; ++w) sum[w] = x[begin * stride + w];
        int64_t r = begin + 1;
        for (; r + 4 <= end; r += 4) {
            const float* row = x + r * stride;
            int64_t w = 0;
            for (; w + kLanes <= width; w += kLanes) add_four(d, sum + w, row + w, stride);
            for (; w < width; ++w) add_four(one, sum + w, row + w, stride);
        }
        for (; r < end; ++r) {
            const float* row = x + r * stride;
            int64_t w = 0;
            for (; w + kLanes <= width; w += kLanes) add_one(d, sum + w, row + w);
            for (; w < width; ++w) add_one(one, sum + w, row + w);
        }
        for (int64_t w = 0; w < width; ++w) total[w] += double(sum[w]);
    }
}

// Rows begin .. end - 1 against the best so far of one vector of columns.
template <class D>
HWY_INLINE void best_of_rows(D tag, float* value, int32_t* place, const float* x, int64_t stride, int64_t begin, int64_t end) {
    const hn::RebindToSigned<D> itag;
    auto best = hn::LoadU(tag, value);
    auto at = hn::LoadU(itag, place);
    for (int64_t r = begin; r < end; ++r) {
        const auto v = hn::LoadU(tag, x + r * stride);
        const auto better = beats(v, best);
        best = hn::IfThenElse(better, v, best);
        at = hn::IfThenElse(hn::RebindMask(itag, better), hn::Set(itag, int32_t(r)), at);
    }
    hn::StoreU(best, tag, value);
    hn::StoreU(at, itag, place);
}

void best_of_tile(float* value, int32_t* place,                                   // (width)
                  const float* x, int64_t stride, int64_t rows, int64_t width) {  // (rows, width), width <= kTile
    constexpr int64_t kBlockRows = 8;  // rows that are read side by side while the best of a vector stays in registers
    for (int64_t w = 0; w < width; ++w) {
        value[w] = x[w];
        place[w] = 0;
    }
    for (int64_t begin = 1; begin < rows; begin += kBlockRows) {
        const int64_t end = HWY_MIN(rows, begin + kBlockRows);
        int64_t w = 0;
        for (; w + kLanes <= width; w += kLanes) best_of_rows(d, value + w, place + w, x + w, stride, begin, end);
        for (; w < width; ++w) best_of_rows(one, value + w, place + w, x + w, stride, begin, end);
    }
}

}  // namespace
}  // namespace lc::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
    #include <memory>
    #include <vector>

    #include "kernels/arguments.h"
    #include "kernels/parallel.h"

namespace lc::cpu {
HWY_EXPORT(sum_short_rows);
HWY_EXPORT(best_of_short_rows);
HWY_EXPORT(sum_run);
HWY_EXPORT(max_run);
HWY_EXPORT(find_run);
HWY_EXPORT(sum_tile);
HWY_EXPORT(best_of_tile);

static bool beats(float x, float best) { return best == best && !(x <= best); }

// ---- rows -----------------------------------------------------------------------------------------------------------

constexpr int64_t kSegment = 1 << 16;  // elements of a row that one thread takes, and the work worth waking it for

// Calls body(row, segment) for rows longer than a segment: threads share the segments of all rows.
template <class Body>
static void for_each_segment(int64_t N, int64_t C, const Body& body) {
    const int64_t segments = ceil_div(C, kSegment);
    for_each_chunk(N * segments, 1, [&](int64_t k, int64_t) { body(k / segments, k % segments); });
}

static int64_t chunk_rows(int64_t C) { return 16 * ceil_div(kSegment / 16, C); }

static void sum_long_rows(float* out, const float* x, int64_t N, int64_t C, double divisor) {
    const int64_t segments = ceil_div(C, kSegment);
    std::vector<double> part(size_t(N * segments));  // (N, segments)
    for_each_segment(N, C, [&](int64_t r, int64_t k) {
        const int64_t n = std::min(kSegment, C - k * kSegment);
        part[size_t(r * segments + k)] = HWY_DYNAMIC_DISPATCH(sum_run)(x + r * C + k * kSegment, n);
    });
    for (int64_t r = 0; r < N; ++r) {
        double total = 0;
        for (int64_t k = 0; k < segments; ++k) total += part[size_t(r * segments + k)];
        out[r] = float(total / divisor);
    }
}

static void sum_rows(float* out, const float* x, int64_t N, int64_t C, double divisor) {
    if (C == 0) return std::fill(out, out + N, 0.0f);
    if (C > kSegment) return sum_long_rows(out, x, N, C, divisor);
    for_each_chunk(N, chunk_rows(C), [=](int64_t r, int64_t end) {
        if (C <= kFewColumns) return HWY_DYNAMIC_DISPATCH(sum_short_rows)(out + r, x + r * C, end - r, C, float(divisor));
        for (; r < end; ++r) out[r] = float(HWY_DYNAMIC_DISPATCH(sum_run)(x + r * C, C) / divisor);
    });
}

// The arg-maximum of a run: first the value, then its first place.
static int64_t best_of_run(const float* x, int64_t n) {
    return HWY_DYNAMIC_DISPATCH(find_run)(x, n, HWY_DYNAMIC_DISPATCH(max_run)(x, n));
}

// In the functions below, value or place is null where it is not wanted.
static void best_of_long_rows(float* value, int32_t* place, const float* x, int64_t N, int64_t C) {
    const int64_t segments = ceil_div(C, kSegment);
    std::vector<int64_t> part(size_t(N * segments));  // (N, segments), columns
    for_each_segment(N, C, [&](int64_t r, int64_t k) {
        const int64_t c = k * kSegment;
        part[size_t(r * segments + k)] = c + best_of_run(x + r * C + c, std::min(kSegment, C - c));
    });
    for (int64_t r = 0; r < N; ++r) {
        int64_t best = part[size_t(r * segments)];
        for (int64_t k = 1; k < segments; ++k) {
            const int64_t c = part[size_t(r * segments + k)];
            if (beats(x[r * C + c], x[r * C + best])) best = c;
        }
        if (value != nullptr) value[r] = x[r * C + best];
        if (place != nullptr) place[r] = int32_t(best);
    }
}

static void best_of_rows(float* value, int32_t* place, const float* x, int64_t N, int64_t C) {
    if (C > kSegment) return best_of_long_rows(value, place, x, N, C);
    for_each_chunk(N, chunk_rows(C), [=](int64_t r, int64_t end) {
        if (C <= kFewColumns) {
            float* const v = value != nullptr ? value + r : nullptr;
            int32_t* const p = place != nullptr ? place + r : nullptr;
            return HWY_DYNAMIC_DISPATCH(best_of_short_rows)(v, p, x + r * C, end - r, C);
        }
        for (; r < end; ++r) {
            const int64_t best = best_of_run(x + r * C, C);
            if (value != nullptr) value[r] = x[r * C + best];
            if (place != nullptr) place[r] = int32_t(best);
        }
    });
}

// ---- columns --------------------------------------------------------------------------------------------------------

// How a column reduction is cut, by its shape alone.
struct Plan {
    int64_t fold = 1;    // rows of x that make one wide row
    int64_t rows = 0;    // wide rows
    int64_t width = 0;   // fold * C
    int64_t chunk = 0;   // wide rows per chunk
    int64_t chunks = 0;  // at most kMaxChunks, which bounds the memory of partial results, (chunks, width)
    int64_t tiles = 0;   // of kTile columns
    int64_t left = 0;    // rows of x from here on do not fill a wide row

    Plan(int64_t N, int64_t C) {
        constexpr int64_t kElements = 1 << 18;  // per tile, enough to pay for waking a thread
        constexpr int64_t kMaxChunks = 64;
        if (C < 128) fold = 16 * std::max<int64_t>(1, 8 / C);
        rows = N / fold;
        width = fold * C;
        chunk = std::max(ceil_div(kElements, std::min(width, kTile)), ceil_div(rows, kMaxChunks));
        chunks = ceil_div(rows, chunk);
        tiles = ceil_div(width, kTile);
        left = rows * fold;
    }

    // Calls body(chunk, first row, rows, first column, columns) for every tile of every chunk.
    template <class Body>
    void for_each_tile(const Body& body) const {
        for_each_chunk(chunks * tiles, 1, [&](int64_t task, int64_t) {
            const int64_t k = task / tiles, r = k * chunk, w = task % tiles * kTile;
            body(k, r, std::min(chunk, rows - r), w, std::min(kTile, width - w));
        });
    }
};

static void sum_columns(float* out, const float* x, int64_t N, int64_t C, double divisor) {
    const Plan plan(N, C);
    if (plan.chunks == 1 && plan.fold == 1) {  // no partial results to join
        plan.for_each_tile([&](int64_t, int64_t, int64_t rows, int64_t w, int64_t width) {
            double total[kTile];
            HWY_DYNAMIC_DISPATCH(sum_tile)(total, x + w, C, rows, width);
            for (int64_t c = 0; c < width; ++c) out[w + c] = float(total[c] / divisor);
        });
        return;
    }
    const auto part = std::make_unique_for_overwrite<double[]>(size_t(plan.chunks * plan.width));  // (chunks, fold, C)
    plan.for_each_tile([&](int64_t k, int64_t r, int64_t rows, int64_t w, int64_t width) {
        const float* tile = x + r * plan.width + w;
        HWY_DYNAMIC_DISPATCH(sum_tile)(part.get() + k * plan.width + w, tile, plan.width, rows, width);
    });
    std::vector<double> total(size_t(C), 0.0);  // (C)
    for (int64_t i = 0; i < plan.chunks * plan.fold; ++i) {
        for (int64_t c = 0; c < C; ++c) total[size_t(c)] += part[size_t(i * C + c)];
    }
    for (int64_t r = plan.left; r < N; ++r) {
        for (int64_t c = 0; c < C; ++c) total[size_t(c)] += double(x[r * C + c]);
    }
    for (int64_t c = 0; c < C; ++c) out[c] = float(total[size_t(c)] / divisor);
}

// The best so far of every column, and the row where it stands.
struct BestOfColumns {
    std::vector<float> value;
    std::vector<int64_t> row;

    BestOfColumns(const float* x, int64_t C) : value(x, x + C), row(size_t(C), 0) {}

    void offer(int64_t c, float v, int64_t r) {
        const size_t i = size_t(c);
        const bool tie = v == value[i] || (v != v && value[i] != value[i]);
        if (!beats(v, value[i]) && !(tie && r < row[i])) return;
        value[i] = v;
        row[i] = r;
    }
};

static void best_of_columns(float* value, int32_t* place, const float* x, int64_t N, int64_t C) {
    const Plan plan(N, C);
    if (plan.chunks == 1 && plan.fold == 1) {
        plan.for_each_tile([&](int64_t, int64_t, int64_t rows, int64_t w, int64_t width) {
            float v[kTile];
            int32_t p[kTile];
            HWY_DYNAMIC_DISPATCH(best_of_tile)(v, p, x + w, C, rows, width);
            if (value != nullptr) std::copy(v, v + width, value + w);
            if (place != nullptr) std::copy(p, p + width, place + w);
        });
        return;
    }
    const size_t parts = size_t(plan.chunks * plan.width);
    const auto part = std::make_unique_for_overwrite<float[]>(parts);  // (chunks, fold, C)
    const auto at = std::make_unique_for_overwrite<int32_t[]>(parts);  // wide row, counted from the first of its chunk
    plan.for_each_tile([&](int64_t k, int64_t r, int64_t rows, int64_t w, int64_t width) {
        const int64_t i = k * plan.width + w;
        const float* tile = x + r * plan.width + w;
        HWY_DYNAMIC_DISPATCH(best_of_tile)(part.get() + i, at.get() + i, tile, plan.width, rows, width);
    });
    BestOfColumns best(x, C);
    for (int64_t i = 0; i < plan.chunks * plan.fold; ++i) {
        const int64_t k = i / plan.fold, f = i % plan.fold;
        for (int64_t c = 0; c < C; ++c) {
            const size_t j = size_t(i * C + c);
            best.offer(c, part[j], (k * plan.chunk + at[j]) * plan.fold + f);
        }
    }
    for (int64_t r = plan.left; r < N; ++r) {
        for (int64_t c = 0; c < C; ++c) best.offer(c, x[r * C + c], r);
    }
    if (value != nullptr) std::copy(best.value.begin(), best.value.end(), value);
    for (int64_t c = 0; c < C && place != nullptr; ++c) place[c] = int32_t(best.row[size_t(c)]);
}

// ---- the ops --------------------------------------------------------------------------------------------------------

// lines of `length` elements each, along rows or columns.  True where there is something to do.
static bool check_lines(const char* op, Array out, const float* x, int64_t N, int64_t C, int64_t length, bool may_be_empty) {
    if (out.count == 0) return false;
    LC_CHECK(length > 0 || may_be_empty, op << ": only the sum of no elements exists; found N = " << N << ", C = " << C);
    check_disjoint(op, out, {"x", x, N * C});
    return true;
}

static void check_places(const char* op, int64_t N, int64_t C) {
    constexpr int64_t kMost = std::numeric_limits<int32_t>::max();
    LC_CHECK(N <= kMost && C <= kMost, op << ": places are 32-bit, so N and C stay below 2^31; found N = " << N << ", C = " << C);
}

void row_reduce(float* out, const float* x, int64_t N, int64_t C, Reduction how, Stream) {
    check_shape("row_reduce", N, C);
    if (!check_lines("row_reduce", {"out", out, N}, x, N, C, C, how == Reduction::sum)) return;
    if (how == Reduction::max) return best_of_rows(out, nullptr, x, N, C);
    sum_rows(out, x, N, C, how == Reduction::mean ? double(C) : 1.0);
}

void col_reduce(float* out, const float* x, int64_t N, int64_t C, Reduction how, Stream) {
    check_shape("col_reduce", N, C);
    if (!check_lines("col_reduce", {"out", out, C}, x, N, C, N, how == Reduction::sum)) return;
    if (how == Reduction::max) return best_of_columns(out, nullptr, x, N, C);
    sum_columns(out, x, N, C, how == Reduction::mean ? double(N) : 1.0);
}

void row_argmax(int32_t* out, const float* x, int64_t N, int64_t C, Stream) {
    check_shape("row_argmax", N, C);
    check_places("row_argmax", N, C);
    if (!check_lines("row_argmax", {"out", out, N}, x, N, C, C, false)) return;
    best_of_rows(nullptr, out, x, N, C);
}

void col_argmax(int32_t* out, const float* x, int64_t N, int64_t C, Stream) {
    check_shape("col_argmax", N, C);
    check_places("col_argmax", N, C);
    if (!check_lines("col_argmax", {"out", out, C}, x, N, C, N, false)) return;
    best_of_columns(nullptr, out, x, N, C);
}

}  // namespace lc::cpu
#endif  // HWY_ONCE

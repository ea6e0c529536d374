// reduce.cpp -- CPU backend of reduce (contract and formulas: reduce.h; the vector code: reduce_kernel.h).
//
// Idea     rows, few columns   as many rows as the vector has lanes are turned into columns (simd_rows.h): a lane owns
//                              a row
//          rows, many columns  vectors run along the row; a very long row is cut into segments, which threads share
//          columns             vectors run along the row and every lane owns a column; a matrix of few columns is read
//                              as a wider one of fewer rows, (N, C) as (N / f, f C), so that no lane is idle; threads
//                              share tiles of rows and columns
//          The maximum is the value at the arg-maximum, so that NaN, ties and signed zeros follow one rule.
// Traffic  4 bytes per element, read once: bound by memory.
// Numbers  few columns: float32, in four interleaved sums.  Otherwise float32 over a fixed block (2048 elements of a
//          row, 64 rows of a column), blocks joined in double: the error does not grow with the length at all.  The
//          tree of additions depends on N and C only: not on threads, and not on the SIMD target, because the sums are
//          laid out for 32 lanes, whatever the vectors have.
// Profile  `make bench`
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/reduce.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/reduce_kernel.h"

#if HWY_ONCE
    #include <algorithm>
    #include <limits>
    #include <memory>
    #include <vector>

    #include "kernels/arguments.h"
    #include "kernels/parallel.h"
    #include "kernels/reduce.h"
    #include "kernels/reduce_columns.h"

namespace lc::cpu {
HWY_EXPORT(sum_short_rows);
HWY_EXPORT(best_of_short_rows);
HWY_EXPORT(sum_run);
HWY_EXPORT(max_run);
HWY_EXPORT(find_run);
HWY_EXPORT(sum_tile);
HWY_EXPORT(best_of_tile);

static bool beats(float x, float best) { return best == best && !(x <= best); }

// Where the arg-maxima go: their values or their places, whichever the op wants; the other is null.
struct BestOut {
    float* value = nullptr;
    int32_t* place = nullptr;

    void set(int64_t line, float v, int64_t p) const {
        if (value != nullptr) value[line] = v;
        if (place != nullptr) place[line] = int32_t(p);
    }
    BestOut from(int64_t line) const {
        return {value != nullptr ? value + line : nullptr, place != nullptr ? place + line : nullptr};
    }
};

// ---- rows -----------------------------------------------------------------------------------------------------------

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
        if (C <= kFewColumns)
            return HWY_DYNAMIC_DISPATCH(sum_short_rows)(out + r, x + r * C, end - r, C, float(divisor));
        for (; r < end; ++r) out[r] = float(HWY_DYNAMIC_DISPATCH(sum_run)(x + r * C, C) / divisor);
    });
}

// The arg-maximum of a run: first the value, then its first place.
static int64_t best_of_run(const float* x, int64_t n) {
    return HWY_DYNAMIC_DISPATCH(find_run)(x, n, HWY_DYNAMIC_DISPATCH(max_run)(x, n));
}

static void best_of_long_rows(BestOut out, const float* x, int64_t N, int64_t C) {
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
        out.set(r, x[r * C + best], best);
    }
}

static void best_of_rows(BestOut out, const float* x, int64_t N, int64_t C) {
    if (C > kSegment) return best_of_long_rows(out, x, N, C);
    for_each_chunk(N, chunk_rows(C), [=](int64_t r, int64_t end) {
        if (C <= kFewColumns) {
            const BestOut here = out.from(r);
            return HWY_DYNAMIC_DISPATCH(best_of_short_rows)(here.value, here.place, x + r * C, end - r, C);
        }
        for (; r < end; ++r) {
            const int64_t best = best_of_run(x + r * C, C);
            out.set(r, x[r * C + best], best);
        }
    });
}

// ---- columns --------------------------------------------------------------------------------------------------------

static void sum_columns(float* out, const float* x, int64_t N, int64_t C, double divisor) {
    sum_columns(
        out, N, C, divisor,
        [=](double* total, int64_t first, int64_t stride, int64_t rows, int64_t width) {
            HWY_DYNAMIC_DISPATCH(sum_tile)(total, x + first, stride, rows, width);
        },
        [=](int64_t i) { return x[i]; });
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

static void best_of_columns(BestOut out, const float* x, int64_t N, int64_t C) {
    const ColumnPlan plan(N, C);
    if (plan.chunks == 1 && plan.fold == 1) {
        plan.for_each_tile([&](int64_t, int64_t, int64_t rows, int64_t w, int64_t width) {
            float v[kTile];
            int32_t p[kTile];
            HWY_DYNAMIC_DISPATCH(best_of_tile)(v, p, x + w, C, rows, width);
            for (int64_t c = 0; c < width; ++c) out.set(w + c, v[c], p[c]);
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
    for (int64_t c = 0; c < C; ++c) out.set(c, best.value[size_t(c)], best.row[size_t(c)]);
}

// ---- the ops --------------------------------------------------------------------------------------------------------

// lines of `length` elements each, along rows or columns.  True where there is something to do.
static bool check_lines(const char* op, Array out, const float* x, int64_t N, int64_t C, int64_t length,
                        bool may_be_empty) {
    if (out.count == 0) return false;
    LC_CHECK(length > 0 || may_be_empty,
             op << ": only the sum of no elements exists; found N = " << N << ", C = " << C);
    check_disjoint(op, out, {"x", x, N * C});
    return true;
}

static void check_places(const char* op, int64_t N, int64_t C) {
    constexpr int64_t kMost = std::numeric_limits<int32_t>::max();
    LC_CHECK(N <= kMost && C <= kMost,
             op << ": places are 32-bit, so N and C stay below 2^31; found N = " << N << ", C = " << C);
}

void row_reduce(float* out, const float* x, int64_t N, int64_t C, Reduction how, Stream) {
    check_shape("row_reduce", N, C);
    if (!check_lines("row_reduce", {"out", out, N}, x, N, C, C, how == Reduction::sum)) return;
    if (how == Reduction::max) return best_of_rows({.value = out}, x, N, C);
    sum_rows(out, x, N, C, how == Reduction::mean ? double(C) : 1.0);
}

void col_reduce(float* out, const float* x, int64_t N, int64_t C, Reduction how, Stream) {
    check_shape("col_reduce", N, C);
    if (!check_lines("col_reduce", {"out", out, C}, x, N, C, N, how == Reduction::sum)) return;
    if (how == Reduction::max) return best_of_columns({.value = out}, x, N, C);
    sum_columns(out, x, N, C, how == Reduction::mean ? double(N) : 1.0);
}

void row_argmax(int32_t* out, const float* x, int64_t N, int64_t C, Stream) {
    check_shape("row_argmax", N, C);
    check_places("row_argmax", N, C);
    if (!check_lines("row_argmax", {"out", out, N}, x, N, C, C, false)) return;
    best_of_rows({.place = out}, x, N, C);
}

void col_argmax(int32_t* out, const float* x, int64_t N, int64_t C, Stream) {
    check_shape("col_argmax", N, C);
    check_places("col_argmax", N, C);
    if (!check_lines("col_argmax", {"out", out, C}, x, N, C, N, false)) return;
    best_of_columns({.place = out}, x, N, C);
}

}  // namespace lc::cpu
#endif  // HWY_ONCE

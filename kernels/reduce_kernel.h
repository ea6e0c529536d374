// reduce_kernel.h -- the SIMD part of the CPU backend of reduce (reduce.cpp): sums and arg-maxima of one piece of a
// matrix, on one thread.
//
//     sum_short_rows, best_of_short_rows    rows of at most kFewColumns elements, a lane per row
//     sum_run, max_run, find_run            a contiguous run of elements: a longer row, or a segment of it
//     sum_tile, best_of_tile                columns, a lane per column
#ifndef LC_KERNELS_REDUCE_KERNEL_H_ONCE  // the rest is read once per SIMD target, this part only the first time
#define LC_KERNELS_REDUCE_KERNEL_H_ONCE
#include <cstdint>
#include <limits>

#include "kernels/reduce_columns.h"

namespace lc::cpu {
constexpr int64_t kFewColumns = 64;  // measured: near it the two ways cross, in cache above, from memory below
}  // namespace lc::cpu
#endif

#if defined(LC_KERNELS_REDUCE_KERNEL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef LC_KERNELS_REDUCE_KERNEL_H
    #undef LC_KERNELS_REDUCE_KERNEL_H
#else
    #define LC_KERNELS_REDUCE_KERNEL_H
#endif

#include <hwy/highway.h>

#include "kernels/simd_columns.h"
#include "kernels/simd_rows.h"

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

// Calls body(row, rows, tile) for groups of rows, turned into columns.  The last group may have fewer rows than lanes:
// it is padded with zeros, and the body keeps the results of `rows` lanes.
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

constexpr int64_t kWidth = 32;  // partial sums, in as many vectors as that takes
constexpr int64_t kVectors = kWidth / kLanes;
constexpr int64_t kBlock = 2048;  // elements added in float32 before the sum moves to double

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
            const int64_t here = i + k * kLanes, left = end - here;
            if (left >= kLanes) sums[k] = hn::Add(sums[k], hn::LoadU(d, x + here));
            if (left > 0 && left < kLanes) sums[k] = hn::Add(sums[k], load_padded(d, x + here, left, 0.0f));
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

struct PlainTerm {
    const float* x;
    template <class D>
    HWY_INLINE hn::Vec<D> operator()(D tag, int64_t i, int64_t) const {
        return hn::LoadU(tag, x + i);
    }
};
void sum_tile(double* total, const float* x, int64_t stride, int64_t rows, int64_t width) {
    sum_tile_of(total, PlainTerm{x}, stride, rows, width);
}

// Rows begin .. end - 1 against the best so far of one vector of columns.
template <class D>
HWY_INLINE void best_of_rows(D tag, float* value, int32_t* place, const float* x, int64_t stride, int64_t begin,
                             int64_t end) {
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

#endif  // per-target guard

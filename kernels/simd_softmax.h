// simd_softmax.h -- the two ways in which CPU ops walk over the softmax of rows.
//
// Few classes: a lane owns a row.  Tiles (C, lanes) of columns, as simd_rows.h makes them:
//
//     column(d, tile, c), set_column(d, tile, c, v)
//     exp_of_columns(d, y, x, C)      y = exp(x - max), and both maximum and sum of every row
//
// Many classes: one row at a time, its vectors run along the classes; a row is no shorter than a vector:
//
//     max_of_row(d, x, C)             in every lane
//     map_row(d, out, C, f, in...)    out_c = f(in_c, ...)
//     sum_row(d, out, C, f, in...)    the sum over c of f(in_c, ...) in every lane, and these values in out unless it is null
//
// Numbers  float32 sums of at most 32 terms per lane, joined in double.  Scores are shifted by the row's maximum before
//          exp, so the sum is in [1, C].  A NaN or an infinite maximum reaches the sum: (+inf) - (+inf) and
//          (-inf) - (-inf) are NaN, so broken rows need no branch.  Order of sums: fixed by C and the SIMD target.

// Included once per target: Highway flips HWY_TARGET_TOGGLE, so an ordinary #pragma once would be wrong.
#if defined(LC_KERNELS_SIMD_SOFTMAX_H) == defined(HWY_TARGET_TOGGLE)
    #ifdef LC_KERNELS_SIMD_SOFTMAX_H
        #undef LC_KERNELS_SIMD_SOFTMAX_H
    #else
        #define LC_KERNELS_SIMD_SOFTMAX_H
    #endif

    #include <cstdint>
    #include <hwy/highway.h>

    #include "kernels/simd_math.h"
    #include "kernels/simd_rows.h"

HWY_BEFORE_NAMESPACE();
namespace lc::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// ---- few classes: a lane owns a row ---------------------------------------------------------------------------------

template <class D>
HWY_INLINE hn::Vec<D> column(D d, const float* tile, int64_t c) {
    return hn::Load(d, tile + c * int64_t(hn::MaxLanes(d)));
}
template <class D>
HWY_INLINE void set_column(D d, float* tile, int64_t c, hn::Vec<D> v) {
    hn::Store(v, d, tile + c * int64_t(hn::MaxLanes(d)));
}

template <class V>
struct ExpOfColumns {
    V top, sum;
};
template <class D, class V = hn::Vec<D>>
HWY_INLINE ExpOfColumns<V> exp_of_columns(D d, float* y, const float* x, int64_t C) {  // y may be x
    V top = column(d, x, 0);
    for (int64_t c = 1; c < C; ++c) top = hn::Max(top, column(d, x, c));
    for (int64_t c = 0; c < C; ++c) set_column(d, y, c, exp_lanes(d, hn::Sub(column(d, x, c), top)));
    return {top, sum_of_columns(d, y, C)};
}

// ---- many classes: one row at a time --------------------------------------------------------------------------------

// Where C is not a multiple of the lanes, the last vector of a row reaches back over elements that were already done.
// It is loaded before anything is stored, so that working in place changes nothing, and stores what is already there.

template <class D, class V = hn::Vec<D>>
HWY_INLINE V max_of_row(D d, const float* x, int64_t C) {
    constexpr int64_t kLanes = int64_t(hn::MaxLanes(D()));
    V m0 = hn::LoadU(d, x + C - kLanes), m1 = m0;
    int64_t i = 0;
    for (; i + 2 * kLanes <= C; i += 2 * kLanes) {
        m0 = hn::Max(m0, hn::LoadU(d, x + i));
        m1 = hn::Max(m1, hn::LoadU(d, x + i + kLanes));
    }
    if (i + kLanes <= C) m0 = hn::Max(m0, hn::LoadU(d, x + i));
    return hn::MaxOfLanes(d, hn::Max(m0, m1));
}

template <class D, class F, class... In>
HWY_INLINE void map_row(D d, float* out, int64_t C, const F& f, const In*... in) {
    constexpr int64_t kLanes = int64_t(hn::MaxLanes(D()));
    const int64_t last = C - kLanes;
    const auto tail = f(hn::LoadU(d, in + last)...);
    for (int64_t i = 0; i <= last; i += kLanes) hn::StoreU(f(hn::LoadU(d, in + i)...), d, out + i);
    hn::StoreU(tail, d, out + last);
}

template <class D, class F, class... In>
HWY_INLINE hn::Vec<D> sum_row(D d, float* out, int64_t C, const F& f, const In*... in) {
    constexpr int64_t kLanes = int64_t(hn::MaxLanes(D()));
    constexpr int64_t kBlock = 32 * kLanes;  // 32 terms per lane are added in float32 before the sum moves to double
    const int64_t last = C - kLanes;
    const auto tail = f(hn::LoadU(d, in + last)...);
    double total = 0;
    int64_t i = 0;
    while (i <= last) {
        auto sum = hn::Zero(d);
        for (const int64_t end = HWY_MIN(last + 1, i + kBlock); i < end; i += kLanes) {
            const auto v = f(hn::LoadU(d, in + i)...);
            if (out != nullptr) hn::StoreU(v, d, out + i);
            sum = hn::Add(sum, v);
        }
        total += double(hn::GetLane(hn::SumOfLanes(d, sum)));
    }
    const auto fresh = hn::IfThenZeroElse(hn::FirstN(d, size_t(i - last)), tail);  // without the lanes that were done
    if (out != nullptr) hn::StoreU(tail, d, out + last);
    return hn::Set(d, float(total + double(hn::GetLane(hn::SumOfLanes(d, fresh)))));
}

}  // namespace lc::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target guard

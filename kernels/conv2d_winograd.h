// conv2d_winograd.h -- the transforms of Winograd's convolution along one axis, a vector of channels at a time
// (conv2d_winograd.cpp says what they are for).
//
//     m = 2      1  0 -1  0        1   0   0                       m = 4     4  0 -5  0  1  0        1/4    0     0
//           B' = 0  1  1  0    G = 1/2 1/2 1/2                               0 -4 -4  1  1  0       -1/6  -1/6  -1/6
//                0 -1  1  0        1/2-1/2 1/2                          B' = 0  4 -4 -1  1  0   G = -1/6   1/6  -1/6
//                0  1  0 -1        0   0   1                                 0 -2 -1  2  1  0        1/24  1/12  1/6
//           A' = 1  1  1  0                                                  0  2 -1 -2  1  0        1/24 -1/12  1/6
//                0  1 -1 -1                                                  0  4  0 -5  0  1        0     0     1
//                                                            A' = 1 1 1 1 1 0,  0 1 -1 2 -2 0,  0 1 1 4 4 0,  0 1 -1 8 -8 1
//
// Included once per SIMD target, after foreach_target.h, like every "-inl" header of Highway.
#if defined(LC_KERNELS_CONV2D_WINOGRAD_H_) == defined(HWY_TARGET_TOGGLE)
    #ifdef LC_KERNELS_CONV2D_WINOGRAD_H_
        #undef LC_KERNELS_CONV2D_WINOGRAD_H_
    #else
        #define LC_KERNELS_CONV2D_WINOGRAD_H_
    #endif

    #include <cstdint>

    #include "kernels/gemm_kernel.h"

HWY_BEFORE_NAMESPACE();
namespace lc::cpu::HWY_NAMESPACE {

using Tag = hn::ScalableTag<float>;
using Vector = hn::Vec<Tag>;

HWY_INLINE Vector load_some(const float* p, int64_t n) {  // n of kLanes floats, the others 0
    const Tag d;
    if (n >= kLanes) return hn::LoadU(d, p);
    HWY_ALIGN float some[kLanes] = {};
    copy_short(some, p, n);
    return hn::Load(d, some);
}
HWY_INLINE void store_some(Vector v, float* p, int64_t n) {
    const Tag d;
    if (n >= kLanes) return hn::StoreU(v, d, p);
    HWY_ALIGN float some[kLanes];
    hn::Store(v, d, some);
    copy_short(p, some, n);
}

HWY_INLINE Vector times(float a, Vector x) { return hn::Mul(hn::Set(Tag(), a), x); }
HWY_INLINE Vector plus_times(Vector y, float a, Vector x) { return hn::MulAdd(hn::Set(Tag(), a), x, y); }

// ---- the three transforms along one axis ----------------------------------------------------------------------------

template <int m>
HWY_INLINE void filter_axis(Vector* u, Vector g0, Vector g1, Vector g2) {  // u (a) = G g
    if constexpr (m == 2) {
        const Vector sum = hn::Add(g0, g2);
        u[0] = g0;
        u[1] = times(0.5f, hn::Add(sum, g1));
        u[2] = times(0.5f, hn::Sub(sum, g1));
        u[3] = g2;
    } else {
        const Vector sum = hn::Add(g0, g2), far = plus_times(times(1.0f / 24, g0), 1.0f / 6, g2);
        u[0] = times(0.25f, g0);
        u[1] = times(-1.0f / 6, hn::Add(sum, g1));
        u[2] = times(-1.0f / 6, hn::Sub(sum, g1));
        u[3] = plus_times(far, 1.0f / 12, g1);
        u[4] = plus_times(far, -1.0f / 12, g1);
        u[5] = g2;
    }
}

template <int m>
HWY_INLINE void input_axis(Vector* v, const Vector* d, int step) {  // v (a) = B' d
    const auto at = [=](int i) { return d[i * step]; };
    if constexpr (m == 2) {
        v[0] = hn::Sub(at(0), at(2));
        v[1] = hn::Add(at(1), at(2));
        v[2] = hn::Sub(at(2), at(1));
        v[3] = hn::Sub(at(1), at(3));
    } else {
        const Vector even = plus_times(at(4), -4, at(2)), odd = plus_times(at(3), -4, at(1));
        const Vector even2 = hn::Sub(at(4), at(2)), odd2 = times(2, hn::Sub(at(3), at(1)));
        v[0] = plus_times(plus_times(at(4), -5, at(2)), 4, at(0));
        v[1] = hn::Add(even, odd);
        v[2] = hn::Sub(even, odd);
        v[3] = hn::Add(even2, odd2);
        v[4] = hn::Sub(even2, odd2);
        v[5] = plus_times(plus_times(at(5), -5, at(3)), 4, at(1));
    }
}

template <int m>
HWY_INLINE void output_axis(Vector* y, const Vector* p, int step) {  // y (m) = A' p
    const auto at = [=](int i) { return p[i * step]; };
    const Vector sum = hn::Add(at(1), at(2)), difference = hn::Sub(at(1), at(2));
    if constexpr (m == 2) {
        y[0] = hn::Add(at(0), sum);
        y[1] = hn::Sub(difference, at(3));
    } else {
        const Vector sum2 = hn::Add(at(3), at(4)), difference2 = hn::Sub(at(3), at(4));
        y[0] = hn::Add(hn::Add(at(0), sum), sum2);
        y[1] = plus_times(difference, 2, difference2);
        y[2] = plus_times(sum, 4, sum2);
        y[3] = hn::Add(plus_times(difference, 8, difference2), at(5));
    }
}

}  // namespace lc::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif  // LC_KERNELS_CONV2D_WINOGRAD_H_

// intrinsics.h -- device functions that CUDA has and C++ has not.  The fast approximations (__expf ...) compute the
// accurate value here: their error on hardware is a tolerance of the tests, not something a CPU can reproduce.
#pragma once
#include <cmath>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "kernels/sim/engine.h"

namespace cusim {

template <class To, class From>
CUSIM_INLINE To bit_cast(From from) {
    static_assert(sizeof(To) == sizeof(From));
    To to;
    std::memcpy(&to, &from, sizeof(To));
    return to;
}

// min and max as CUDA has them: of two floats the one that is a number, of two integers the usual.
template <class A, class B>
CUSIM_INLINE auto min_of(A a, B b) {
    using T = std::common_type_t<A, B>;
    if constexpr (std::is_floating_point_v<T>)
        return std::fmin(T(a), T(b));
    else
        return T(b) < T(a) ? T(b) : T(a);
}
template <class A, class B>
CUSIM_INLINE auto max_of(A a, B b) {
    using T = std::common_type_t<A, B>;
    if constexpr (std::is_floating_point_v<T>)
        return std::fmax(T(a), T(b));
    else
        return T(a) < T(b) ? T(b) : T(a);
}

// The C library's fmaf is a call into a table of versions; kernels live on it, so the instruction is worth a branch.
extern const bool have_fma;  // config.cpp
CUSIM_INLINE float fused_multiply_add(float a, float b, float c) {
#if defined(__x86_64__)
    if (have_fma) [[likely]] {
        __asm__("vfmadd231ss %2, %1, %0" : "+x"(c) : "x"(a), "x"(b));
        return c;
    }
#endif
    return __builtin_fmaf(a, b, c);
}

}  // namespace cusim

namespace lc::sim {  // where kernels live: found there before the C library's
CUSIM_INLINE float fmaf(float a, float b, float c) { return cusim::fused_multiply_add(a, b, c); }
}  // namespace lc::sim

template <class A, class B>
requires(std::is_arithmetic_v<A>&& std::is_arithmetic_v<B>) CUSIM_INLINE auto min(A a, B b) {
    return cusim::min_of(a, b);
}
template <class A, class B>
requires(std::is_arithmetic_v<A>&& std::is_arithmetic_v<B>) CUSIM_INLINE auto max(A a, B b) {
    return cusim::max_of(a, b);
}

// Macros where the C library owns the name already.
#define __expf(x)          ::expf(x)
#define __exp2f(x)         ::exp2f(x)
#define __exp10f(x)        ::exp10f(x)
#define __logf(x)          ::logf(x)
#define __log2f(x)         ::log2f(x)
#define __log10f(x)        ::log10f(x)
#define __sinf(x)          ::sinf(x)
#define __cosf(x)          ::cosf(x)
#define __powf(x, y)       ::powf(x, y)
#define __fdividef(x, y)   ((x) / (y))
#define rsqrtf(x)          (1.0f / ::sqrtf(x))
#define rsqrt(x)           (1.0 / ::sqrt(x))
#define __fsqrt_rn(x)      ::sqrtf(x)
#define __frcp_rn(x)       (1.0f / (x))
#define __fmaf_rn(a, b, c) ::cusim::fused_multiply_add(a, b, c)
#define __fadd_rn(a, b)    ((a) + (b))
#define __fmul_rn(a, b)    ((a) * (b))
#define __fdiv_rn(a, b)    ((a) / (b))

template <class T>
CUSIM_INLINE T __ldg(const T* p) {
    return *p;
}
CUSIM_INLINE int __float_as_int(float x) { return cusim::bit_cast<int>(x); }
CUSIM_INLINE unsigned __float_as_uint(float x) { return cusim::bit_cast<unsigned>(x); }
CUSIM_INLINE float __int_as_float(int x) { return cusim::bit_cast<float>(x); }
CUSIM_INLINE float __uint_as_float(unsigned x) { return cusim::bit_cast<float>(x); }
CUSIM_INLINE long long __double_as_longlong(double x) { return cusim::bit_cast<long long>(x); }
CUSIM_INLINE double __longlong_as_double(long long x) { return cusim::bit_cast<double>(x); }
CUSIM_INLINE float __saturatef(float x) { return x > 0.0f ? (x < 1.0f ? x : 1.0f) : 0.0f; }  // NaN becomes 0
CUSIM_INLINE int __popc(unsigned x) { return __builtin_popcount(x); }
CUSIM_INLINE int __clz(int x) { return x == 0 ? 32 : __builtin_clz(unsigned(x)); }
CUSIM_INLINE int __ffs(int x) { return __builtin_ffs(x); }
CUSIM_INLINE unsigned __brev(unsigned x) {
    unsigned r = 0;
    for (int i = 0; i < 32; ++i) r |= (x >> i & 1u) << (31 - i);
    return r;
}
CUSIM_INLINE unsigned __umulhi(unsigned a, unsigned b) { return unsigned(uint64_t(a) * b >> 32); }
CUSIM_INLINE int __mulhi(int a, int b) { return int(int64_t(a) * b >> 32); }
CUSIM_INLINE void __threadfence() { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
CUSIM_INLINE void __threadfence_block() { __atomic_thread_fence(__ATOMIC_SEQ_CST); }

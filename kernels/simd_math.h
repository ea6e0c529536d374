// simd_math.h -- exp and log of every lane of a vector, for every SIMD target.
//
//     V exp_lanes(d, x)      within 1 ulp, denormal results too; exp(-inf) = 0, exp(+inf) = +inf
//     V exp_weight_lanes  the same for x <= 88, but 0 below -86
//     V log_lanes(d, x)      within 1 ulp, denormal x too; log(0) = -inf, log(+inf) = +inf, log(x < 0) = NaN
//     V log1p_lanes(d, x)    log(1 + x) within 2 ulp, small x too; log1p(-1) = -inf, log1p(+inf) = +inf
//                            NaN stays NaN in all of them
//
// The bounds are measured, on every target, by tests/test_simd_math.cpp.  Targets with a fused multiply-add (AVX2,
// AVX3) and without one (SSE4, baseline) differ in the last bit; one target always gives the same bits.
//
// Highway's own hwy/contrib/math does not serve: its Exp turns NaN into 0, and here no NaN may vanish.
//
// The coefficients are minimax fits (Remez) of the relative error, before rounding to float32 3.1e-9 for exp and 5.8e-9
// for log, where half a unit in the last place is 6.0e-8.

// Included once per target: Highway flips HWY_TARGET_TOGGLE, so an ordinary #pragma once would be wrong.
#if defined(LC_KERNELS_SIMD_MATH_H) == defined(HWY_TARGET_TOGGLE)
    #ifdef LC_KERNELS_SIMD_MATH_H
        #undef LC_KERNELS_SIMD_MATH_H
    #else
        #define LC_KERNELS_SIMD_MATH_H
    #endif

    #include <hwy/highway.h>
    #include <limits>

HWY_BEFORE_NAMESPACE();
namespace lc::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// ln 2 in two parts.  The first has 16 significant bits, so that n * kLn2High is exact for |n| < 2^8 even where
// multiply and add round separately.
constexpr float kLn2High = 0.693145751953125f, kLn2Low = 1.42860677e-6f;

// 2^n for -126 <= n <= 127, by writing the exponent field.
template <class D, class VI>
HWY_INLINE hn::Vec<D> pow2_lanes(D d, VI n) {
    const hn::RebindToSigned<D> di;
    return hn::BitCast(d, hn::ShiftLeft<23>(hn::Add(n, hn::Set(di, 127))));
}

// exp(x) = 2^n exp(r) with n = round(x / ln 2) and |r| <= ln 2 / 2.
template <class V>
struct ExpParts {
    V p;        // exp(r)
    V shifted;  // n in the low bits of its mantissa
};
constexpr float kExpShifter = 12582912.0f;  // 1.5 * 2^23: adding it pushes the fraction out of the mantissa

template <class D, class V = hn::Vec<D>>
HWY_INLINE ExpParts<V> exp_parts(D d, V x) {
    const V shifter = hn::Set(d, kExpShifter);
    const V shifted = hn::MulAdd(x, hn::Set(d, 1.44269504f), shifter);
    const V n = hn::Sub(shifted, shifter);
    const V r = hn::NegMulAdd(n, hn::Set(d, kLn2Low), hn::NegMulAdd(n, hn::Set(d, kLn2High), x));

    V p = hn::Set(d, 0.001381432f);
    p = hn::MulAdd(p, r, hn::Set(d, 0.008368851f));
    p = hn::MulAdd(p, r, hn::Set(d, 0.0416684f));
    p = hn::MulAdd(p, r, hn::Set(d, 0.1666652f));
    p = hn::MulAdd(p, r, hn::Set(d, 0.49999994f));
    #if HWY_NATIVE_FMA
    p = hn::MulAdd(p, r, hn::Set(d, 1.0f));
    p = hn::MulAdd(p, r, hn::Set(d, 1.0f));
    #else  // 1 + (r + r^2 p), because the product of the last step above would round as well: another 1/4 ulp
    p = hn::MulAdd(p, hn::Mul(r, r), r);
    p = hn::Add(p, hn::Set(d, 1.0f));
    #endif
    return {p, shifted};
}

template <class D, class V = hn::Vec<D>>
HWY_INLINE V exp_lanes(D d, V x) {
    const hn::RebindToSigned<D> di;
    const auto [p, shifted] = exp_parts(d, x);

    // Two factors, because 2^n itself leaves the range of float32 for n = 128 and n < -126.  Only the second one can
    // round, so that denormal results are rounded once.
    const auto whole = hn::Sub(hn::BitCast(di, shifted), hn::BitCast(di, hn::Set(d, kExpShifter)));
    const auto half = hn::ShiftRight<1>(whole);
    const V y = hn::Mul(hn::Mul(p, pow2_lanes(d, half)), pow2_lanes(d, hn::Sub(whole, half)));

    // Outside [-104, 89] n is meaningless and the answer known; a NaN is in neither region and went through p.
    const V infinity = hn::Set(d, std::numeric_limits<float>::infinity());
    const V bounded = hn::IfThenZeroElse(hn::Lt(x, hn::Set(d, -104.0f)), y);
    return hn::IfThenElse(hn::Gt(x, hn::Set(d, 89.0f)), infinity, bounded);
}

// exp(x) for weights, x <= 88: 0 below -86 where exp_lanes goes on to the denormals, at two thirds of its price.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V exp_weight_lanes(D d, V x) {
    const hn::RebindToSigned<D> di;
    const auto [p, shifted] = exp_parts(d, x);
    const auto one = hn::Set(di, 127 << 23);
    const V pow2 =
        hn::BitCast(d, hn::Add(hn::ShiftLeft<23>(hn::BitCast(di, shifted)), one));  // the rest is shifted out
    return hn::IfThenZeroElse(hn::Lt(x, hn::Set(d, -86.0f)), hn::Mul(p, pow2));     // a NaN is still in p
}

// log(x) = e ln 2 + log(1 + f) with x = 2^e (1 + f) and sqrt(1/2) <= 1 + f < sqrt(2).
template <class D, class V = hn::Vec<D>>
HWY_INLINE V log_lanes(D d, V x) {
    const hn::RebindToSigned<D> di;
    const V infinity = hn::Set(d, std::numeric_limits<float>::infinity());

    // Denormals have no exponent to read: scale them up by 2^25 first.
    const auto tiny = hn::Lt(x, hn::Set(d, std::numeric_limits<float>::min()));
    const V scaled = hn::IfThenElse(tiny, hn::Mul(x, hn::Set(d, 33554432.0f)), x);
    const V e_scale = hn::IfThenElseZero(tiny, hn::Set(d, -25.0f));

    // Counting mantissas from sqrt(1/2) makes the exponent field the rounded one: subtract its bits, then split.
    const auto root_half = hn::Set(di, 0x3F3504F3);
    const auto bits = hn::Sub(hn::BitCast(di, scaled), root_half);
    const V e = hn::Add(hn::ConvertTo(d, hn::ShiftRight<23>(bits)), e_scale);
    const V m = hn::BitCast(d, hn::Add(hn::And(bits, hn::Set(di, 0x007FFFFF)), root_half));
    const V f = hn::Sub(m, hn::Set(d, 1.0f));

    V p = hn::Set(d, -0.07634494f);
    p = hn::MulAdd(p, f, hn::Set(d, 0.12761575f));
    p = hn::MulAdd(p, f, hn::Set(d, -0.13160183f));
    p = hn::MulAdd(p, f, hn::Set(d, 0.14201759f));
    p = hn::MulAdd(p, f, hn::Set(d, -0.16623357f));
    p = hn::MulAdd(p, f, hn::Set(d, 0.20001227f));
    p = hn::MulAdd(p, f, hn::Set(d, -0.2500082f));
    p = hn::MulAdd(p, f, hn::Set(d, 0.3333333f));

    // f - f^2/2 + f^3 p + e ln 2, the small terms first.
    const V f2 = hn::Mul(f, f);
    V tail = hn::Mul(hn::Mul(f2, f), p);
    tail = hn::MulAdd(e, hn::Set(d, kLn2Low), tail);
    tail = hn::NegMulAdd(hn::Set(d, 0.5f), f2, tail);
    const V finite = hn::MulAdd(e, hn::Set(d, kLn2High), hn::Add(f, tail));

    // +inf and NaN answer themselves; a negative number answers NaN.
    const V large = hn::IfThenElse(hn::Lt(x, infinity), finite, x);
    const V checked =
        hn::IfThenElse(hn::Lt(x, hn::Zero(d)), hn::Set(d, std::numeric_limits<float>::quiet_NaN()), large);
    return hn::IfThenElse(hn::Eq(x, hn::Zero(d)), hn::Neg(infinity), checked);
}

// log(u) + lost / u, where u = 1 + x is rounded and `lost` what its rounding lost: near u = 1 that is as large as the
// logarithm itself.  Above x = 1 the logarithm can do without; at x = -1 and infinity `lost` is 0 / 0.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V log1p_lanes(D d, V x) {
    const V one = hn::Set(d, 1.0f), u = hn::Add(one, x);
    const V lost = hn::Div(hn::Sub(x, hn::Sub(u, one)), u);
    return hn::Add(log_lanes(d, u), hn::IfThenElseZero(hn::Lt(hn::Abs(x), one), lost));
}

}  // namespace lc::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target guard

// ptx_oracle.h -- what PTX instructions should compute, written from the ISA and without kernels/sim/ptx.h: exact
// arithmetic in 128 bits for rounding, loops over single bits for bit fields.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <vector>

namespace oracle {

using i128 = __int128;
using f128 = __float128;  // 113 bits: holds any product of two doubles
enum Mode { rn, rz, rm, rp };

template <class To, class From>
To bits(From v) {
    static_assert(sizeof(To) == sizeof(From));
    To to;
    std::memcpy(&to, &v, sizeof(to));
    return to;
}
inline int sign(f128 v) { return v > 0 ? 1 : v < 0 ? -1 : 0; }

// ---- rounding -------------------------------------------------------------------------------------------------------

// Halfway between two neighbours.  The neighbour beyond the largest number is infinity, but rounding treats it as the
// number that would come next.
template <class T>
f128 midpoint(T down, T up) {
    constexpr T kMax = std::numeric_limits<T>::max();
    const f128 half_step = (f128(kMax) - f128(std::nextafter(kMax, T(0)))) / 2;
    if (up == std::numeric_limits<T>::infinity()) return f128(kMax) + half_step;
    if (down == -std::numeric_limits<T>::infinity()) return -f128(kMax) - half_step;
    return (f128(down) + f128(up)) / 2;
}

// Rounds a real number that is known only through `compare(c)`, the sign of (number - c).  `guess` lies near it.
template <class T, class Compare>
T round_real(Mode mode, T guess, Compare compare) {
    constexpr T kInf = std::numeric_limits<T>::infinity();
    const auto side = [&](T c) { return c == kInf ? -1 : c == -kInf ? 1 : compare(f128(c)); };
    T down = guess;
    while (side(down) < 0) down = std::nextafter(down, -kInf);
    while (side(std::nextafter(down, kInf)) >= 0) down = std::nextafter(down, kInf);
    if (side(down) == 0) return down;
    const T up = std::nextafter(down, kInf);
    const bool positive = compare(f128(0)) > 0;
    bool take_up = mode == rp || (mode == rz && !positive);
    if (mode == rn) {
        const int s = compare(midpoint(down, up));
        take_up = s > 0 ||
                  (s == 0 &&
                   (down == 0 ? false : (bits<std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>>(down) & 1) != 0));
    }
    const T r = take_up ? up : down;
    return r == 0 ? std::copysign(T(0), positive ? T(1) : T(-1)) : r;
}

// a b + c, exactly: the product fits f128, and the rounding error of its sum with c is kept (Knuth's two-sum).
template <class T>
T fma(Mode mode, T a, T b, T c) {
    const f128 p = f128(a) * f128(b), hi = p + f128(c);
    if (!std::isfinite(a) || !std::isfinite(b)) return a * b + c;
    if (!std::isfinite(c)) return c;
    const f128 t = hi - p, lo = (p - (hi - t)) + (f128(c) - t);
    if (hi == 0 && lo == 0) {
        const bool negative_product = std::signbit(a) != std::signbit(b);
        if (p == 0 && c == 0 && negative_product == std::signbit(c)) return c;  // two zeros of one sign
        return mode == rm ? -T(0) : T(0);
    }
    return round_real(mode, T(hi), [=](f128 v) { return hi != v ? sign(hi - v) : sign(lo); });
}
template <class T>
T add(Mode mode, T a, T b) {
    return fma(mode, a, T(1), b);
}
template <class T>
T sub(Mode mode, T a, T b) {
    return fma(mode, a, T(1), -b);
}
template <class T>
T mul(Mode mode, T a, T b) {
    if (!std::isfinite(a) || !std::isfinite(b) || a == 0 || b == 0) return a * b;
    const f128 p = f128(a) * f128(b);
    return round_real(mode, T(p), [=](f128 v) { return sign(p - v); });
}
template <class T>
T div(Mode mode, T a, T b) {
    if (!std::isfinite(a) || !std::isfinite(b) || a == 0 || b == 0) return a / b;
    // q > v  <=>  a > v b, the other way round where b is negative
    return round_real(mode, T(f128(a) / f128(b)),
                      [=](f128 v) { return sign(f128(a) - v * f128(b)) * (b > 0 ? 1 : -1); });
}
template <class T>
T sqrt(Mode mode, T a) {
    if (!(a > 0) || !std::isfinite(a)) return std::sqrt(a);
    return round_real(mode, std::sqrt(a), [=](f128 v) { return v < 0 ? 1 : sign(f128(a) - v * v); });
}
template <class T, class From>
T to_float(Mode mode, From a) {
    if constexpr (std::is_floating_point_v<From>) {
        if (!std::isfinite(a) || a == 0) return T(a);
    } else {
        if (a == 0) return 0;
    }
    return round_real(mode, T(a), [=](f128 v) { return sign(f128(a) - v); });
}

template <class T>
T integral(Mode mode, T a) {  // the nearest integer, halves to even
    if (!(std::fabs(a) < T(1) / std::numeric_limits<T>::epsilon())) return a;
    const int64_t down = int64_t(a) - (a < T(int64_t(a)));
    const T above = a - T(down);  // in [0, 1)
    bool up = mode == rp ? above > 0 : mode == rm ? false : mode == rz ? a < 0 && above > 0 : above > T(0.5);
    if (mode == rn && above == T(0.5)) up = down % 2 != 0;
    return std::copysign(T(down + up), a);
}
template <class To, class From>
To to_int(Mode mode, From a) {
    if (std::isnan(a)) {
        const bool narrow = sizeof(From) < 8 && sizeof(To) < 8;
        return narrow                 ? To(0)
               : std::is_signed_v<To> ? std::numeric_limits<To>::min()
                                      : To(To(1) << (8 * sizeof(To) - 1));
    }
    const f128 r = integral(mode, a);
    const f128 lo = f128(std::numeric_limits<To>::min()), hi = f128(std::numeric_limits<To>::max());
    return r < lo ? std::numeric_limits<To>::min() : r > hi ? std::numeric_limits<To>::max() : To(r);
}
template <class To, class From>
To clamp(From a) {
    const i128 lo = std::numeric_limits<To>::min(), hi = std::numeric_limits<To>::max();
    return To(std::min(std::max(i128(a), lo), hi));
}

// ---- floats ---------------------------------------------------------------------------------------------------------

inline float ftz(float a) { return std::fpclassify(a) == FP_SUBNORMAL ? std::copysign(0.0f, a) : a; }
template <class T>
T sat(T a) {
    return std::isnan(a) ? T(0) : std::min(std::max(a, T(0)), T(1)) + T(0);
}
template <class T>
T canonical_nan() {
    if constexpr (sizeof(T) == 4)
        return bits<T>(uint32_t(0x7fffffff));
    else
        return bits<T>(uint64_t(0x7fffffffffffffff));
}
template <class T>
bool before(T a, T b) {  // in the order -0 < +0
    return a < b || (a == b && std::signbit(a) && !std::signbit(b));
}
template <class T>
T min(T a, T b) {
    if (std::isnan(a) && std::isnan(b)) return canonical_nan<T>();
    return std::isnan(a) ? b : std::isnan(b) ? a : before(a, b) ? a : b;
}
template <class T>
T max(T a, T b) {
    if (std::isnan(a) && std::isnan(b)) return canonical_nan<T>();
    return std::isnan(a) ? b : std::isnan(b) ? a : before(a, b) ? b : a;
}
template <class T>
bool any_nan(T a, T b) {
    return std::isnan(a) || std::isnan(b);
}

inline float flip_sign(float a) { return bits<float>(bits<uint32_t>(a) ^ 0x80000000u); }
inline double flip_sign(double a) { return bits<double>(bits<uint64_t>(a) ^ (uint64_t(1) << 63)); }
inline double high_word(double a) { return bits<double>(bits<uint64_t>(a) >> 32 << 32); }
inline double ftz64(double a) { return std::fpclassify(a) == FP_SUBNORMAL ? std::copysign(0.0, a) : a; }

inline float half_value(uint16_t h) {
    const int exponent = h >> 10 & 31;
    const double fraction = h & 1023, s = h & 0x8000 ? -1 : 1;
    if (exponent == 31) return fraction ? std::nanf("") : float(s * INFINITY);
    return float(s * (exponent ? std::ldexp(1024 + fraction, exponent - 25) : std::ldexp(fraction, -24)));
}
inline uint16_t to_half(float x) {  // looks the nearest one up
    if (std::isnan(x)) return 0x7fff;
    const double a = std::fabs(double(x));
    int best = 0;
    for (int low = 0, high = 0x7c00; low <= high;) {  // the largest half <= a
        const int mid = (low + high) / 2;
        if (half_value(uint16_t(mid)) <= a)
            best = mid, low = mid + 1;
        else
            high = mid - 1;
    }
    if (best < 0x7c00) {
        const double here = half_value(uint16_t(best)),
                     next = best == 0x7bff ? 65536.0 : half_value(uint16_t(best + 1));
        if (a - here > next - a || (a - here == next - a && best % 2 == 1)) ++best;
    }
    return uint16_t(best | (std::signbit(x) ? 0x8000 : 0));
}

// ---- integers and bits ----------------------------------------------------------------------------------------------

template <class T>
constexpr int kWidth = 8 * sizeof(T);
template <class T>
bool bit(T a, int i) {
    return (std::make_unsigned_t<T>(a) >> i & 1) != 0;
}
template <class T, class F>
T from_bits(F f) {  // bit i is f(i)
    std::make_unsigned_t<T> r = 0;
    for (int i = 0; i < kWidth<T>; ++i) r |= std::make_unsigned_t<T>(f(i)) << i;
    return T(r);
}

inline uint32_t carry_chain(uint64_t product, uint64_t addend, bool carry) {  // madc.cc, then addc
    const uint64_t sum = product + addend + carry;
    return uint32_t(sum) + uint32_t(sum >> 32);
}

inline uint64_t mul_hi_u64(uint64_t a, uint64_t b) {  // schoolbook, in words of 32 bits
    const uint64_t a0 = a & 0xffffffff, a1 = a >> 32, b0 = b & 0xffffffff, b1 = b >> 32;
    const uint64_t mid = a1 * b0 + (a0 * b0 >> 32), mid2 = a0 * b1 + (mid & 0xffffffff);
    return a1 * b1 + (mid >> 32) + (mid2 >> 32);
}
template <class T>
T mul_hi(T a, T b) {
    if constexpr (sizeof(T) < 8)
        return T(i128(a) * b >> kWidth<T>);
    else
        return T(mul_hi_u64(uint64_t(a), uint64_t(b)) - (a < 0 ? uint64_t(b) : 0) - (b < 0 ? uint64_t(a) : 0));
}
template <class T>
T div(T a, T b) {
    return b == 0 ? T(-1) : T(i128(a) / i128(b));
}
template <class T>
T rem(T a, T b) {
    return b == 0 ? a : T(i128(a) % i128(b));
}
template <class T>
T shl(T a, uint32_t n) {
    return from_bits<T>([=](int i) { return n <= uint32_t(i) && bit(a, i - int(n)); });
}
template <class T>
T shr(T a, uint32_t n) {
    return from_bits<T>([=](int i) { return uint64_t(i) + n < uint64_t(kWidth<T>) ? bit(a, i + int(n)) : a < T(0); });
}
inline uint32_t funnel(uint32_t lo, uint32_t hi, int shift_right) {  // 32 bits of hi:lo from bit `shift_right`
    return from_bits<uint32_t>([=](int i) {
        const int k = i + shift_right;
        return k < 32 ? bit(lo, k) : k < 64 && bit(hi, k - 32);
    });
}
template <class T>
T bfe(T a, uint32_t pos, uint32_t len) {
    const int p = pos & 255, n = len & 255;
    const bool fill = std::is_signed_v<T> && n > 0 && bit(a, std::min(p + n - 1, kWidth<T> - 1));
    return from_bits<T>([=](int i) { return i < n && p + i < kWidth<T> ? bit(a, p + i) : fill; });
}
template <class T>
T bfi(T a, T b, uint32_t pos, uint32_t len) {
    const int p = pos & 255, n = len & 255;
    return from_bits<T>([=](int i) { return i >= p && i < p + n ? bit(a, i - p) : bit(b, i); });
}
template <class T>
uint32_t bfind(T a) {
    for (int i = kWidth<T> - 1; i >= 0; --i) {
        if (bit(a, i) != (a < T(0))) return uint32_t(i);
    }
    return 0xffffffffu;
}
template <class T>
uint32_t popc(T a) {
    uint32_t n = 0;
    for (int i = 0; i < kWidth<T>; ++i) n += bit(a, i);
    return n;
}
template <class T>
uint32_t clz(T a) {
    uint32_t n = 0;
    while (n < kWidth<T> && !bit(a, kWidth<T> - 1 - int(n))) ++n;
    return n;
}
template <class T>
T brev(T a) {
    return from_bits<T>([=](int i) { return bit(a, kWidth<T> - 1 - i); });
}
inline uint32_t prmt(uint32_t a, uint32_t b, uint32_t c) {
    const uint8_t source[8] = {uint8_t(a), uint8_t(a >> 8), uint8_t(a >> 16), uint8_t(a >> 24),
                               uint8_t(b), uint8_t(b >> 8), uint8_t(b >> 16), uint8_t(b >> 24)};
    return from_bits<uint32_t>([&](int i) {
        const uint32_t selector = c >> (i / 8 * 4);
        return bit(source[selector & 7], selector & 8 ? 7 : i % 8);
    });
}
template <class B, class A>  // element i of A, of type B
int64_t element(A a, int i) {
    return B(uint32_t(a) >> (kWidth<B> * i));
}
template <class BA, class BB, class A, class B>
i128 dp4a(A a, B b) {
    i128 s = 0;
    for (int i = 0; i < 4; ++i) s += element<BA>(a, i) * element<BB>(b, i);
    return s;
}
template <class WA, class BB, class A, class B>
i128 dp2a(A a, B b, int first) {
    return i128(element<WA>(a, 0)) * element<BB>(b, first) + i128(element<WA>(a, 1)) * element<BB>(b, first + 1);
}
inline i128 low24(int32_t a) { return int32_t(uint32_t(a) << 8) >> 8; }
inline i128 low24(uint32_t a) { return a & 0xffffff; }

}  // namespace oracle

// ptx.h -- what translated PTX calls: one small function per opcode, with the semantics of the PTX ISA (version 9.0) and
// not those of C++.  kernels/sim/ptx2cpp.py writes code such as
//
//     r3 = px::add(r1, r2);                      // add.s32 %r3, %r1, %r2;
//     f4 = px::fma<px::Round::down>(f1, f2, f3); // fma.rm.f32 %f4, %f1, %f2, %f3;
//
// Registers are C++ variables: unsigned integers for .b/.u/.s, float and double, bool for predicates.  Where a result must
// be bits of another type, px::bits converts.  Memory is accessed by the generated code itself, so that a finding of the
// checks stands in the line of the kernel and not in this file.  Everything here is tested by tests/test_ptx.cpp.
#pragma once
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>

#include "kernels/sim/engine.h"
#include "kernels/sim/ptx_registry.h"

#define PTX_INLINE CUSIM_INLINE
// nvcc contracts nearly every product into an fma, and the library's fma is a call: translated code uses the instruction.
#if defined(__x86_64__)
    #define PTX_FUNCTION __attribute__((target("fma")))
#else
    #define PTX_FUNCTION
#endif
// The kernel's source line, for barriers and warp operations: generated code sets it by #line.
#define PTX_HERE __FILE__, __LINE__
// One 16-byte access.  In hooked code the call itself must stand in the kernel's line.
#if CUSIM_HOOKED
    #define PTX_LOAD16(p)     ::cusim::checked_load16(p)
    #define PTX_STORE16(p, v) ::cusim::checked_store16(p, v)
#else
    #define PTX_LOAD16(p)     ::cusim::load16(p)
    #define PTX_STORE16(p, v) ::cusim::store16(p, v)
#endif

namespace cusim::ptx {

enum class Round { nearest, zero, down, up };  // .rn .rz .rm .rp

template <class T>
using Unsigned = std::make_unsigned_t<T>;
template <class T>
constexpr unsigned kBits = 8 * sizeof(T);
// Twice as wide, for products: int32_t -> int64_t, uint64_t -> unsigned __int128.
template <class T>
using Wide =
    std::conditional_t<sizeof(T) == 2, std::conditional_t<std::is_signed_v<T>, int32_t, uint32_t>,
                       std::conditional_t<sizeof(T) == 4, std::conditional_t<std::is_signed_v<T>, int64_t, uint64_t>,
                                          std::conditional_t<std::is_signed_v<T>, __int128, unsigned __int128>>>;

// ---- registers and memory -------------------------------------------------------------------------------------------

template <class To, class From>
PTX_INLINE To bits(From from) {
    static_assert(sizeof(To) == sizeof(From));
    To to;
    std::memcpy(&to, &from, sizeof(To));
    return to;
}

// Element i of a vector that was loaded by one access of 2, 4, 8 (an integer) or 16 bytes (a float4), and the reverse.
template <class T, class Packed>
PTX_INLINE T lane(Packed v, int i) {
    T t;
    std::memcpy(&t, reinterpret_cast<const char*>(&v) + i * int(sizeof(T)), sizeof(T));
    return t;
}
template <class Packed, class... T>
PTX_INLINE Packed pack(T... elements) {
    static_assert(sizeof(Packed) == (sizeof(T) + ...));
    Packed v;
    char* to = reinterpret_cast<char*>(&v);
    ((std::memcpy(to, &elements, sizeof(T)), to += sizeof(T)), ...);
    return v;
}

// Address of a shared array in the block's window.  A launch without dynamic shared memory has none: 2 GiB behind the
// window nothing is mapped.
PTX_INLINE uint32_t shared_offset(const void* array, const char* base) {
    return array == nullptr ? 0x80000000u : uint32_t(static_cast<const char*>(array) - base);
}

PTX_INLINE uint32_t warp_id() { return thread_rank() / 32; }
PTX_INLINE uint32_t lane_mask_eq() { return 1u << lane_id(); }
PTX_INLINE uint32_t lane_mask_lt() { return (1u << lane_id()) - 1; }
PTX_INLINE uint32_t lane_mask_le() { return lane_mask_lt() | lane_mask_eq(); }
PTX_INLINE uint32_t lane_mask_gt() { return ~lane_mask_le(); }
PTX_INLINE uint32_t lane_mask_ge() { return ~lane_mask_lt(); }

// ---- integers: everything wraps, division by zero gives all ones ---------------------------------------------------

template <class T>
PTX_INLINE T add(T a, T b) {
    return T(Unsigned<T>(a) + Unsigned<T>(b));
}
template <class T>
PTX_INLINE T sub(T a, T b) {
    return T(Unsigned<T>(a) - Unsigned<T>(b));
}
template <class T>
PTX_INLINE T mul(T a, T b) {
    return T(uint64_t(a) * uint64_t(b));
}
template <class T>
PTX_INLINE T mul_hi(T a, T b) {
    return T((Wide<T>(a) * Wide<T>(b)) >> kBits<T>);
}
// The low 24 bits of each factor, sign-extended where T is signed; bits 0..31 or 16..47 of the 48-bit product.
template <class T>
PTX_INLINE int64_t low24(T a) {
    return std::is_signed_v<T> ? int64_t(int32_t(uint32_t(a) << 8) >> 8) : int64_t(uint32_t(a) & 0xffffffu);
}
template <class T>
PTX_INLINE T mul24_lo(T a, T b) {
    return T(low24(a) * low24(b));
}
template <class T>
PTX_INLINE T mul24_hi(T a, T b) {
    return T(uint64_t(low24(a) * low24(b)) >> 16);
}

PTX_INLINE int32_t clamp_to_int(int64_t v) {
    return v > INT32_MAX ? INT32_MAX : v < INT32_MIN ? INT32_MIN : int32_t(v);
}
PTX_INLINE int32_t add_sat(int32_t a, int32_t b) { return clamp_to_int(int64_t(a) + b); }
PTX_INLINE int32_t sub_sat(int32_t a, int32_t b) { return clamp_to_int(int64_t(a) - b); }

// add.cc, addc, sub.cc, subc: the carry (or borrow) comes in by value and goes out through a pointer, or nowhere.
template <class T>
PTX_INLINE T add_carry(T a, T b, bool in, bool* out) {
    static_assert(std::is_unsigned_v<T>);
    const T sum = T(a + b), r = T(sum + in);
    if (out) *out = sum < a || r < sum;
    return r;
}
template <class T>
PTX_INLINE T sub_borrow(T a, T b, bool in, bool* out) {
    static_assert(std::is_unsigned_v<T>);
    const T difference = T(a - b), r = T(difference - in);
    if (out) *out = a < b || difference < T(in);
    return r;
}

template <class T>
PTX_INLINE T div(T a, T b) {
    if (b == 0) return T(-1);
    if (std::is_signed_v<T> && b == T(-1)) return sub(T(0), a);  // the quotient of the least integer wraps
    return T(a / b);
}
template <class T>
PTX_INLINE T rem(T a, T b) {
    if (b == 0) return a;
    if (std::is_signed_v<T> && b == T(-1)) return 0;
    return T(a % b);
}
template <class T>
PTX_INLINE T neg(T a) {
    if constexpr (std::is_floating_point_v<T>)
        return -a;
    else
        return sub(T(0), a);
}
template <class T>
PTX_INLINE T abs(T a) {
    if constexpr (std::is_floating_point_v<T>)
        return std::fabs(a);
    else
        return a < 0 ? neg(a) : a;
}
template <class T>
PTX_INLINE T sad(T a, T b, T c) {  // c + |a - b|
    return add(c, a < b ? sub(b, a) : sub(a, b));
}

// Dot products of four bytes, or of two 16-bit words with two bytes, added to c.
template <class A, class B, class C>
PTX_INLINE C dp4a(A a, B b, C c) {
    for (int i = 0; i < 4; ++i) {
        const auto byte = [i](auto v) {
            using Byte = std::conditional_t<std::is_signed_v<decltype(v)>, int8_t, uint8_t>;
            return int32_t(Byte(uint32_t(v) >> (8 * i)));
        };
        c = add(c, C(byte(a) * byte(b)));
    }
    return c;
}
template <bool high, class A, class B, class C>
PTX_INLINE C dp2a(A a, B b, C c) {
    for (int i = 0; i < 2; ++i) {
        using Word = std::conditional_t<std::is_signed_v<A>, int16_t, uint16_t>;
        using Byte = std::conditional_t<std::is_signed_v<B>, int8_t, uint8_t>;
        const int64_t word = Word(uint32_t(a) >> (16 * i)), byte = Byte(uint32_t(b) >> (8 * (i + 2 * high)));
        c = add(c, C(word * byte));
    }
    return c;
}

// ---- bits -----------------------------------------------------------------------------------------------------------

template <class T>
PTX_INLINE T shl(T a, uint32_t n) {
    return n >= kBits<T> ? T(0) : T(Unsigned<T>(a) << n);
}
template <class T>
PTX_INLINE T shr(T a, uint32_t n) {  // arithmetic where T is signed
    if (n >= kBits<T>) return a < T(0) ? T(-1) : T(0);
    return T(a >> n);
}
// Funnel shifts of the 64 bits hi:lo.  .wrap takes the distance modulo 32, .clamp stops at 32.
PTX_INLINE uint32_t shf_l(uint32_t lo, uint32_t hi, uint32_t n) {
    return uint32_t(((uint64_t(hi) << 32 | lo) << n) >> 32);
}
PTX_INLINE uint32_t shf_r(uint32_t lo, uint32_t hi, uint32_t n) { return uint32_t((uint64_t(hi) << 32 | lo) >> n); }
PTX_INLINE uint32_t wrap_distance(uint32_t n) { return n % 32; }
PTX_INLINE uint32_t clamp_distance(uint32_t n) { return n < 32 ? n : 32; }

template <class T>
PTX_INLINE uint32_t popc(T a) {
    return uint32_t(__builtin_popcountll(a));
}
template <class T>
PTX_INLINE uint32_t clz(T a) {
    return a == 0 ? kBits<T> : uint32_t(__builtin_clzll(a)) - (64 - kBits<T>);
}
template <class T>
PTX_INLINE T brev(T a) {
    T r = 0;
    for (unsigned i = 0; i < kBits<T>; ++i) r = T(r << 1 | (a >> i & 1));
    return r;
}
// Position of the most significant bit that differs from the sign; all ones where there is none.
template <class T>
PTX_INLINE uint32_t bfind(T a) {
    const auto u = Unsigned<T>(a < T(0) ? T(~a) : a);
    return u == 0 ? 0xffffffffu : kBits<T> - 1 - clz(u);
}
template <class T>
PTX_INLINE uint32_t bfind_shiftamt(T a) {  // the shift that brings this bit to the top
    const uint32_t p = bfind(a);
    return p == 0xffffffffu ? p : kBits<T> - 1 - p;
}
// Bit field of `len` bits at `pos`; the part beyond the word is filled with the field's sign (zero where T is unsigned).
template <class T>
PTX_INLINE T bfe(T a, uint32_t pos, uint32_t len) {
    pos &= 255;
    len &= 255;
    if (len == 0) return 0;
    const T field = shr(a, pos);
    if (len >= kBits<T>) return field;
    const uint32_t unused = kBits<T> - len;
    return shr(shl(field, unused), unused);
}
template <class T>
PTX_INLINE T bfi(T field, T into, uint32_t pos, uint32_t len) {
    pos &= 255;
    len &= 255;
    const T ones = len >= kBits<T> ? T(-1) : T((T(1) << len) - 1);
    const T mask = shl(ones, pos);
    return T((into & ~mask) | (shl(field, pos) & mask));
}
// Four bytes chosen from the eight of b:a; bit 3 of a selector spreads the byte's sign instead.
PTX_INLINE uint32_t prmt(uint32_t a, uint32_t b, uint32_t selectors) {
    const uint64_t source = uint64_t(b) << 32 | a;
    uint32_t r = 0;
    for (int i = 0; i < 4; ++i) {
        const uint32_t s = selectors >> (4 * i) & 15;
        uint32_t byte = uint32_t(source >> (8 * (s & 7))) & 255;
        if (s & 8) byte = byte & 128 ? 255 : 0;
        r |= byte << (8 * i);
    }
    return r;
}
// Any function of three bits: bit (4a + 2b + c) of `table` is its value.
PTX_INLINE uint32_t lop3(uint32_t a, uint32_t b, uint32_t c, unsigned table) {
    uint32_t r = 0;
    for (unsigned i = 0; i < 8; ++i) {
        if (table >> i & 1) r |= (i & 4 ? a : ~a) & (i & 2 ? b : ~b) & (i & 1 ? c : ~c);
    }
    return r;
}

// ---- floats ---------------------------------------------------------------------------------------------------------

// Directed rounding (ptx.cpp): exact, by the machine's own rounding mode.
template <Round R, class T>
T add(T a, T b);
template <Round R, class T>
T sub(T a, T b);
template <Round R, class T>
T mul(T a, T b);
template <Round R, class T>
T div(T a, T b);
template <Round R, class T>
PTX_FUNCTION T fma(T a, T b, T c);
template <Round R, class T>
T sqrt(T a);
template <Round R, class To, class From>
To to_float(From a);  // from a 64-bit integer, or from double to float

template <class T>
PTX_INLINE T sqrt(T a) {
    if constexpr (sizeof(T) == 4)
        return __builtin_sqrtf(a);
    else
        return __builtin_sqrt(a);
}

// .ftz: subnormals become zeros of the same sign.
PTX_INLINE float ftz(float a) { return std::fabs(a) < std::numeric_limits<float>::min() ? std::copysign(0.0f, a) : a; }
// .sat: to [0, 1]; NaN becomes 0.
template <class T>
PTX_INLINE T sat(T a) {
    return a > T(0) ? (a < T(1) ? a : T(1)) : T(0);
}

template <class T>
PTX_INLINE T canonical_nan() {
    if constexpr (sizeof(T) == 4)
        return bits<T>(uint32_t(0x7fffffff));
    else
        return bits<T>(uint64_t(0x7fffffffffffffff));
}
// Integers: the usual.  Floats: of a number and a NaN the number; -0 is less than +0.
template <class T>
PTX_INLINE T min(T a, T b) {
    if constexpr (std::is_floating_point_v<T>) {
        if (a != a) return b != b ? canonical_nan<T>() : b;
        if (a == b) return std::signbit(a) ? a : b;
        return b < a ? b : a;
    } else {
        return b < a ? b : a;
    }
}
template <class T>
PTX_INLINE T max(T a, T b) {
    if constexpr (std::is_floating_point_v<T>) {
        if (a != a) return b != b ? canonical_nan<T>() : b;
        if (a == b) return std::signbit(a) ? b : a;
        return a < b ? b : a;
    } else {
        return a < b ? b : a;
    }
}
template <class T>
PTX_INLINE T min_nan(T a, T b) {  // .NaN: a NaN wins
    return a != a || b != b ? canonical_nan<T>() : min(a, b);
}
template <class T>
PTX_INLINE T max_nan(T a, T b) {
    return a != a || b != b ? canonical_nan<T>() : max(a, b);
}
template <class T>
PTX_INLINE T copysign(T sign, T magnitude) {
    return std::copysign(magnitude, sign);
}

// Comparisons that C++ has no operator for.
template <class T>
PTX_INLINE bool ordered(T a, T b) {  // .num
    return a == a && b == b;
}
template <class T>
PTX_INLINE bool less_or_greater(T a, T b) {  // .ne of floats is false where one is NaN
    return a < b || a > b;
}
template <class T>
PTX_INLINE bool is_infinite(T a) {
    return std::fabs(a) == std::numeric_limits<T>::infinity();
}
template <class T>
PTX_INLINE bool is_finite(T a) {
    return std::fabs(a) < std::numeric_limits<T>::infinity();
}
template <class T>
PTX_INLINE bool is_normal(T a) {
    return is_finite(a) && std::fabs(a) >= std::numeric_limits<T>::min();
}
template <class T>
PTX_INLINE bool is_subnormal(T a) {
    return a != T(0) && std::fabs(a) < std::numeric_limits<T>::min();
}

// ---- conversions ----------------------------------------------------------------------------------------------------

template <Round R, class T>
PTX_INLINE T round_to_integer(T a) {  // .rni .rzi .rmi .rpi
    if constexpr (R == Round::nearest)
        return std::nearbyint(a);
    else if constexpr (R == Round::zero)
        return std::trunc(a);
    else if constexpr (R == Round::down)
        return std::floor(a);
    else
        return std::ceil(a);
}
// Out of range clamps.  NaN gives 0, but where 64 bits take part (either side) the top bit alone.
template <Round R, class To, class From>
PTX_INLINE To to_int(From a) {
    using Limits = std::numeric_limits<To>;
    if (a != a) {
        if (sizeof(From) < 8 && sizeof(To) < 8) return 0;
        return To(Unsigned<To>(1) << (kBits<To> - 1));
    }
    const From r = round_to_integer<R>(a);
    const From end = From(2) * From(Unsigned<To>(1) << (Limits::digits - 1));  // 2^digits, the first that is too large
    if (r >= end) return Limits::max();
    if (r < (std::is_signed_v<To> ? -end : From(0))) return Limits::min();
    return To(r);
}
template <class To, class From>
PTX_INLINE To saturate(From a) {  // cvt.sat between integers
    using Limits = std::numeric_limits<To>;
    if (__int128(a) < __int128(Limits::min())) return Limits::min();
    if (__int128(a) > __int128(Limits::max())) return Limits::max();
    return To(a);
}

// ---- ptx.cpp --------------------------------------------------------------------------------------------------------

float half_to_float(uint16_t h);
uint16_t float_to_half(float x);  // round to nearest even

// Instructions that are approximate on hardware compute the correctly rounded value (nearly always; a double rounded to
// float).  Environment variable CUSIM_PERTURB=k moves each result by up to k units in the last place, up or down as the
// bits of the operand say: the same operand always gives the same result, and a test can see whether its tolerance holds.
float rcp_approx(float a);
float sqrt_approx(float a);
float rsqrt_approx(float a);
float ex2_approx(float a);
float lg2_approx(float a);
float sin_approx(float a);
float cos_approx(float a);
float tanh_approx(float a);
float div_approx(float a, float b);
double rsqrt_approx(double a);
double rcp_approx_ftz(double a);  // .ftz.f64: only the high word of the operand is read and of the result written
double rsqrt_approx_ftz(double a);
void set_perturbation(int units_in_last_place);  // what CUSIM_PERTURB sets; for tests

// Warp operations as PTX has them, on the engine's.
enum class Shuffle { up, down, bfly, idx };
// c: clamp in bits 0..4, segment mask in bits 8..12.  *in_range: did the source lane lie in the segment?
uint32_t shuffle(Shuffle mode, uint32_t value, uint32_t b, uint32_t c, uint32_t mask, bool* in_range, const char* file,
                 int line);
bool vote_uni(uint32_t mask, bool value, const char* file, int line);
uint32_t match_any(uint32_t mask, uint64_t value, const char* file, int line);
uint32_t match_all(uint32_t mask, uint64_t value, bool* all, const char* file, int line);
enum class Reduce { add, min, max, and_, or_, xor_ };
template <Reduce op, class T>  // T: uint32_t, int32_t
T redux(uint32_t mask, T value, const char* file, int line);

// Registers a translated kernel, or refuses (once, on stderr) where the machine lacks the fma instruction.
bool register_kernel(const char* mangled_name, PtxEntry entry);

[[noreturn]] void trap(const char* what, const char* file, int line);

}  // namespace cusim::ptx
namespace px = cusim::ptx;

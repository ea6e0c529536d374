// ptx.cpp -- the opcode helpers of ptx.h that need more than a line: directed rounding, approximations, half precision,
// warp operations.  Compiled with the runtime, so never hooked.
#include "kernels/sim/ptx.h"

#include <cfenv>
#include <cstdio>
#include <cstdlib>

namespace cusim::ptx {

// ---- directed rounding ----------------------------------------------------------------------------------------------

namespace {

constexpr int fenv_mode(Round r) {
    return r == Round::zero   ? FE_TOWARDZERO
           : r == Round::down ? FE_DOWNWARD
           : r == Round::up   ? FE_UPWARD
                              : FE_TONEAREST;
}

class RoundingMode {
  public:
    explicit RoundingMode(Round r) { set(fenv_mode(r)); }
    ~RoundingMode() { set(FE_TONEAREST); }

  private:
#if defined(__x86_64__)
    // SSE alone: fesetround also writes the x87 control word, four times the price, and expf rounds down twice.
    static void set(int mode) { __builtin_ia32_ldmxcsr((__builtin_ia32_stmxcsr() & ~0x6000u) | unsigned(mode) << 3); }
#else
    static void set(int mode) { std::fesetround(mode); }
#endif
};

// Compilers believe that every operation rounds to nearest and may move it out of a RoundingMode; a value that passes
// through here cannot be computed earlier or later.
template <class T>
void pin(T& x) {
#if defined(__x86_64__)
    if constexpr (std::is_floating_point_v<T>) {
        __asm__ volatile("" : "+x"(x));
        return;
    }
#endif
    __asm__ volatile("" : "+m"(x) : : "memory");
}

template <Round R, class F, class... T>
auto rounded(F op, T... x) {
    RoundingMode mode(R);
    (pin(x), ...);
    auto r = op(x...);
    pin(r);
    return r;
}

}  // namespace

template <Round R, class T>
T add(T a, T b) {
    return rounded<R>([](T x, T y) { return x + y; }, a, b);
}
template <Round R, class T>
T sub(T a, T b) {
    return rounded<R>([](T x, T y) { return x - y; }, a, b);
}
template <Round R, class T>
T mul(T a, T b) {
    return rounded<R>([](T x, T y) { return x * y; }, a, b);
}
template <Round R, class T>
T div(T a, T b) {
    return rounded<R>([](T x, T y) { return x / y; }, a, b);
}
// expf rounds down twice, and changing the rounding mode takes longer than all the rest of it.  The product of two floats
// fits a double; so does the sum with c, up to an error e that is known exactly.
static float fma_down(float a, float b, float c) {
    const double p = double(a) * double(b), s = p + c, t = s - p, e = (p - (s - t)) + (c - t);
    if (s == 0 && e == 0) return p == 0 && std::signbit(p) == std::signbit(c) ? c : -0.0f;  // zeros of one sign keep it
    const float r = float(s);
    if (double(r) < s || (double(r) == s && !(e < 0))) return r;
    return std::nextafter(r, -INFINITY);
}
// Not through rounded(): its lambda would be compiled without the instruction.
template <Round R, class T>
PTX_FUNCTION T fma(T a, T b, T c) {
    if constexpr (R == Round::down && sizeof(T) == 4) return fma_down(a, b, c);
    RoundingMode mode(R);
    pin(a);
    T r;
    if constexpr (sizeof(T) == 4)
        r = __builtin_fmaf(a, b, c);
    else
        r = __builtin_fma(a, b, c);
    pin(r);
    return r;
}
template <Round R, class T>
T sqrt(T a) {
    return rounded<R>([](T x) { return sqrt(x); }, a);
}
template <Round R, class To, class From>
To to_float(From a) {
    return rounded<R>([](From x) { return To(x); }, a);
}

#define PTX_INSTANTIATE_FLOAT(R, T)  \
    template T add<R>(T, T);         \
    template T sub<R>(T, T);         \
    template T mul<R>(T, T);         \
    template T div<R>(T, T);         \
    template T fma<R>(T, T, T);      \
    template T sqrt<R>(T);           \
    template T to_float<R>(int64_t); \
    template T to_float<R>(uint64_t);
#define PTX_INSTANTIATE(R)           \
    PTX_INSTANTIATE_FLOAT(R, float)  \
    PTX_INSTANTIATE_FLOAT(R, double) \
    template float to_float<R>(double);
PTX_INSTANTIATE(Round::zero)
PTX_INSTANTIATE(Round::down)
PTX_INSTANTIATE(Round::up)

// ---- approximations -------------------------------------------------------------------------------------------------

namespace {

int& perturbation() {
    static int units = [] {
        const char* s = std::getenv("CUSIM_PERTURB");
        return s ? std::atoi(s) : 0;
    }();
    return units;
}

// Moves a normal result of an ordinary operand by -k .. k units in the last place.
float perturb(float result, float operand) {
    const int k = perturbation();
    if (k == 0 || !is_normal(result) || !is_normal(operand)) return result;
    uint32_t hash = bits<uint32_t>(operand) * 0x9E3779B9u;  // the low bits of floats are alike, so stir
    hash ^= hash >> 15;
    const int step = int(hash * 0x85EBCA6Bu >> 16) % (2 * k + 1) - k;
    const float moved = bits<float>(bits<uint32_t>(result) + uint32_t(step));
    return is_normal(moved) && std::signbit(moved) == std::signbit(result) ? moved : result;
}

double high_word(double a) { return bits<double>(bits<uint64_t>(a) & 0xffffffff00000000u); }
double ftz(double a) { return is_subnormal(a) ? std::copysign(0.0, a) : a; }

}  // namespace

void set_perturbation(int units_in_last_place) { perturbation() = units_in_last_place; }

float rcp_approx(float a) { return perturb(1.0f / a, a); }
float sqrt_approx(float a) { return perturb(std::sqrt(a), a); }
float rsqrt_approx(float a) { return perturb(float(1.0 / std::sqrt(double(a))), a); }
float ex2_approx(float a) { return perturb(std::exp2(a), a); }  // the C library's float is as good as rounded
float lg2_approx(float a) { return perturb(float(std::log2(double(a))), a); }
float sin_approx(float a) { return perturb(float(std::sin(double(a))), a); }
float cos_approx(float a) { return perturb(float(std::cos(double(a))), a); }
float tanh_approx(float a) { return perturb(float(std::tanh(double(a))), a); }
float div_approx(float a, float b) { return perturb(a / b, b); }
double rsqrt_approx(double a) { return 1.0 / std::sqrt(a); }
double rcp_approx_ftz(double a) { return high_word(ftz(1.0 / ftz(high_word(a)))); }
double rsqrt_approx_ftz(double a) { return high_word(1.0 / std::sqrt(ftz(high_word(a)))); }

// ---- half precision -------------------------------------------------------------------------------------------------

float half_to_float(uint16_t h) {
    const uint32_t sign = uint32_t(h & 0x8000u) << 16, exponent = h >> 10 & 31, fraction = h & 1023;
    if (exponent == 31) return bits<float>(sign | 0x7f800000u | fraction << 13);
    if (exponent == 0) return bits<float>(sign | bits<uint32_t>(float(fraction) * 0x1p-24f));
    return bits<float>(sign | (exponent + 112) << 23 | fraction << 13);
}

uint16_t float_to_half(float x) {
    const uint32_t sign = bits<uint32_t>(x) >> 16 & 0x8000u;
    const float a = std::fabs(x);
    if (x != x) return 0x7fff;                           // the canonical NaN
    if (a >= 65520.0f) return uint16_t(sign | 0x7c00u);  // halfway to the first number that is too large
    if (a < 0x1p-14f) return uint16_t(sign | uint32_t(std::nearbyint(a * 0x1p24f)));  // subnormal: units of 2^-24
    const uint32_t u = bits<uint32_t>(a) - (112u << 23);
    return uint16_t(sign | (u + 0xfffu + (u >> 13 & 1)) >> 13);
}

// ---- warp operations ------------------------------------------------------------------------------------------------

uint32_t shuffle(Shuffle mode, uint32_t value, uint32_t b, uint32_t c, uint32_t mask, bool* in_range, const char* file,
                 int line) {
    const int lane = int(lane_id()), segment = int(c >> 8 & 31), distance = int(b & 31);
    const int first = lane & segment, last = first | (int(c & 31) & ~segment);
    int source = 0;
    switch (mode) {
        case Shuffle::up:
            source = lane - distance;
            break;
        case Shuffle::down:
            source = lane + distance;
            break;
        case Shuffle::bfly:
            source = lane ^ distance;
            break;
        case Shuffle::idx:
            source = first | (distance & ~segment);
            break;
    }
    *in_range = mode == Shuffle::up ? source >= last : source <= last;  // .up clamps from below
    if (!*in_range) source = lane;
    return uint32_t(warp_op(WarpOp::shfl_idx, mask, value, source, 32, file, line));
}

bool vote_uni(uint32_t mask, bool value, const char* file, int line) {
    const bool all = warp_op(WarpOp::all, mask, value, 0, 32, file, line) != 0;
    const bool any = warp_op(WarpOp::any, mask, value, 0, 32, file, line) != 0;
    return all == any;
}

uint32_t match_any(uint32_t mask, uint64_t value, const char* file, int line) {
    uint32_t same = 0;
    for (int lane = 0; lane < 32; ++lane) {  // the lanes of the mask show their values one after the other
        if ((mask >> lane & 1) == 0) continue;
        if (warp_op(WarpOp::shfl_idx, mask, value, lane, 32, file, line) == value) same |= 1u << lane;
    }
    return same;
}

uint32_t match_all(uint32_t mask, uint64_t value, bool* all, const char* file, int line) {
    *all = match_any(mask, value, file, line) == mask;
    return *all ? mask : 0;
}

template <Reduce op, class T>
T redux(uint32_t mask, T value, const char* file, int line) {
    T r = T();
    bool first = true;
    for (int lane = 0; lane < 32; ++lane) {
        if ((mask >> lane & 1) == 0) continue;
        const T v = T(uint32_t(warp_op(WarpOp::shfl_idx, mask, uint32_t(value), lane, 32, file, line)));
        if (first)
            r = v;
        else if (op == Reduce::add)
            r = add(r, v);
        else if (op == Reduce::min)
            r = min(r, v);
        else if (op == Reduce::max)
            r = max(r, v);
        else if (op == Reduce::and_)
            r &= v;
        else if (op == Reduce::or_)
            r |= v;
        else
            r ^= v;
        first = false;
    }
    return r;
}
#define PTX_INSTANTIATE_REDUX(op)                                              \
    template uint32_t redux<Reduce::op>(uint32_t, uint32_t, const char*, int); \
    template int32_t redux<Reduce::op>(uint32_t, int32_t, const char*, int);
PTX_INSTANTIATE_REDUX(add)
PTX_INSTANTIATE_REDUX(min)
PTX_INSTANTIATE_REDUX(max)
PTX_INSTANTIATE_REDUX(and_)
PTX_INSTANTIATE_REDUX(or_)
PTX_INSTANTIATE_REDUX(xor_)

// ---- kernels --------------------------------------------------------------------------------------------------------

bool register_kernel(const char* mangled_name, PtxEntry entry) {
#if defined(__x86_64__)
    if (!__builtin_cpu_supports("fma")) {
        static const int once =
            std::fprintf(stderr, "this CPU has no fma instruction: the ptx engine is not available\n");
        return once == 0;
    }
#endif
    register_ptx(mangled_name, entry);
    return true;
}

void trap(const char* what, const char* file, int line) {
    std::fprintf(stderr, "%s:%d: %s\n", file, line, what);
    std::abort();
}

}  // namespace cusim::ptx

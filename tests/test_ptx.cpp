// test_ptx.cpp -- the ptx engine: every opcode of kernels/sim/ptx on edge values (ptx_opcodes.h), CUDA's mathematical
// functions as nvcc expands them, and kernels for memory, control flow, atomics and warps.
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <random>

#include "kernels/launch.h"
#include "kernels/sim/ptx.h"
#include "tests/ptx_opcodes.h"
#include "tests/ptx_oracle.h"

namespace {

using b16 = uint16_t;
using u16 = uint16_t;
using s16 = int16_t;
using b32 = uint32_t;
using u32 = uint32_t;
using s32 = int32_t;
using b64 = uint64_t;
using u64 = uint64_t;
using s64 = int64_t;
using f32 = float;
using f64 = double;

// The host side of a kernel that exists as PTX alone: its address carries the name.
[[noreturn]] void only_ptx(const char* name) {
    ADD_FAILURE() << name << " exists as PTX alone, but was launched on the source engine";
    std::abort();
}

// ---- values ---------------------------------------------------------------------------------------------------------

template <class T>
std::vector<T> edges() {
    if constexpr (std::is_floating_point_v<T>) {
        using L = std::numeric_limits<T>;
        std::vector<T> v = {0, 1, 0.5, 1.5, 2.5, 3, T(1) / 3, T(0.49999997), 7, 100.25, 65504, 65519, 65520, 1e-5f, 1e-7f,
                            L::denorm_min(), L::min(), L::min() - L::denorm_min(), L::max(), L::infinity(), L::quiet_NaN(),
                            1 + L::epsilon(), 1 - L::epsilon() / 2, T(8388608.5), T(16777217), T(2147483647), T(2147483648),
                            T(4294967295), T(4294967296), T(9223372036854775807), T(18446744073709551615u), T(1e10), T(126.5)};
        const size_t n = v.size();
        for (size_t i = 0; i < n; ++i) v.push_back(-v[i]);
        return v;
    } else {
        using L = std::numeric_limits<T>;
        std::vector<T> v = {0, 1, 2, 3, 5, 7, 8, 15, 16, 31, 32, 33, 63, 64, 100, 127, 128, 255, T(256), T(0x8000), T(0xffff),
                            T(0x3210), T(0x7654), T(0xfedc), T(0xba98), L::max(), T(L::max() - 1), L::min(), T(L::min() + 1),
                            T(L::max() / 2), T(-1), T(-2), T(-31), T(-32), T(0x12345678), T(0xff00ff00), T(0x123456789abcdef0)};
        return v;
    }
}

// Values of operand number `place`: the first two run through all pairs of edges, then come random bits among edges.
template <class T>
std::vector<T> values(size_t n, int place, std::mt19937_64& random) {
    const std::vector<T> e = edges<T>();
    std::vector<T> v(n);
    for (size_t i = 0; i < n; ++i) {
        const size_t pick = place == 0 ? i % e.size() : place == 1 ? i / e.size() % e.size() : random() % e.size();
        v[i] = e[pick];
        if (i >= e.size() * e.size() && random() % 2 == 0) {
            const uint64_t word = random();
            std::memcpy(&v[i], &word, sizeof(T));
        }
    }
    return v;
}

// ---- launches -------------------------------------------------------------------------------------------------------

// Buffers are used again: the simulator keeps freed memory apart for a while, and hundreds of tests would fill it.
std::map<size_t, std::vector<void*>> spare_buffers;

template <class T>
class Device {
  public:
    explicit Device(const std::vector<T>& host) : size_(host.size()) {
        std::vector<void*>& spare = spare_buffers[bytes()];
        if (spare.empty()) {
            LC_CUDA_CHECK(cudaMalloc(&data_, bytes()));
        } else {
            data_ = static_cast<T*>(spare.back());
            spare.pop_back();
        }
        LC_CUDA_CHECK(cudaMemcpyAsync(data_, host.data(), bytes(), cudaMemcpyHostToDevice));
        LC_CUDA_CHECK(cudaStreamSynchronize(nullptr));
    }
    Device(const Device&) = delete;
    ~Device() { spare_buffers[bytes()].push_back(data_); }
    T* data() const { return data_; }
    std::vector<T> host() const {
        std::vector<T> v(size_);
        LC_CUDA_CHECK(cudaMemcpyAsync(v.data(), data_, bytes(), cudaMemcpyDeviceToHost));
        LC_CUDA_CHECK(cudaStreamSynchronize(nullptr));
        return v;
    }

  private:
    size_t bytes() const { return size_ * sizeof(T); }
    T* data_ = nullptr;
    size_t size_;
};

constexpr unsigned kBlock = 128;
dim3 grid_for(size_t n) { return dim3(unsigned((n + kBlock - 1) / kBlock)); }

class Ptx : public ::testing::Test {
  protected:
    void SetUp() override {
        if (!cusim::ptx_available()) GTEST_SKIP() << "no translated PTX is linked";
        cusim::set_engine(cusim::Engine::ptx);
        cusim::ptx::set_perturbation(0);
    }
    void TearDown() override {
        cusim::set_engine(cusim::Engine::source);
        cusim::ptx::set_perturbation(0);
        for (const auto& f : cusim::take_findings()) ADD_FAILURE() << f.text;
    }
};
using PtxApprox = Ptx;
using PtxMath = Ptx;

// ---- comparison -----------------------------------------------------------------------------------------------------

template <class T>
std::string show(T v) {
    std::ostringstream s;
    s.precision(std::is_same_v<T, float> ? 9 : 17);
    s << +v << " (0x" << std::hex << oracle::bits<std::conditional_t<sizeof(T) == 2, u16, std::conditional_t<sizeof(T) == 4, u32, u64>>>(v)
      << ")";
    return s.str();
}

// Distance in units in the last place; all NaN are one.
template <class T>
double ulps_apart(T got, long double want) {
    if (std::isnan(got) || std::isnan(want)) return std::isnan(got) && std::isnan(want) ? 0 : INFINITY;
    if (std::isinf(got) || std::isinf(T(want))) return got == T(want) ? 0 : INFINITY;
    const T next = std::nextafter(std::fabs(T(want)), std::numeric_limits<T>::infinity());
    return double(std::fabs((long double)(got)-want) / ((long double)(next)-std::fabs(T(want))));
}

template <class T>
bool same(T a, T b) {
    if constexpr (std::is_floating_point_v<T>) {
        if (a != a || b != b) return a != a && b != b;
    }
    return std::memcmp(&a, &b, sizeof(T)) == 0;
}

template <class D, class A, class B, class C, class E, class Expected>
void check(const char* name, void (*kernel)(D*, const A*, const B*, const C*, const E*, int), Expected expected, double ulps) {
    constexpr size_t n = 6000;
    std::mt19937_64 random(std::hash<std::string>()(name));
    const auto x = values<A>(n, 0, random);
    const auto y = values<B>(n, 1, random);
    const auto z = values<C>(n, 2, random);
    const auto w = values<E>(n, 3, random);
    const Device<D> out(std::vector<D>(n, D(77)));
    const Device<A> dx(x);
    const Device<B> dy(y);
    const Device<C> dz(z);
    const Device<E> dw(w);
    LC_LAUNCH(kernel, grid_for(n), dim3(kBlock), 0, nullptr, out.data(), dx.data(), dy.data(), dz.data(), dw.data(), int(n));
    const auto got = out.host();
    int bad = 0;
    for (size_t i = 0; i < n && bad < 3; ++i) {
        const auto want = expected(x[i], y[i], z[i], w[i]);
        bool good;
        if constexpr (std::is_floating_point_v<D>) good = ulps > 0 ? ulps_apart(got[i], want) <= ulps : same(got[i], D(want));
        else good = same(got[i], D(want));
        if (good) continue;
        ++bad;
        ADD_FAILURE() << name << " of " << show(x[i]) << ", " << show(y[i]) << ", " << show(z[i]) << ", " << show(w[i])
                      << "\n  gives    " << show(got[i]) << "\n  expected " << show(D(want));
    }
}

}  // namespace

// ---- every row of the table -----------------------------------------------------------------------------------------

namespace oracle {
inline float flip_sign(float a) { return bits<float>(bits<uint32_t>(a) ^ 0x80000000u); }
inline double flip_sign(double a) { return bits<double>(bits<uint64_t>(a) ^ (uint64_t(1) << 63)); }
inline double high_word(double a) { return bits<double>(bits<uint64_t>(a) >> 32 << 32); }
inline double ftz64(double a) { return std::fpclassify(a) == FP_SUBNORMAL ? std::copysign(0.0, a) : a; }
inline uint32_t carry_chain(uint64_t product, uint64_t addend, bool carry) {  // madc.cc, then addc
    const uint64_t sum = product + addend + carry;
    return uint32_t(sum) + uint32_t(sum >> 32);
}
}  // namespace oracle

#define ROW(fixture, result, ulps, name, d, a, b, c, e, text, ...)                                                      \
    extern "C" void op_##name(d*, const a*, const b*, const c*, const e*, int) { only_ptx("op_" #name); }               \
    TEST_F(fixture, name) {                                                                                             \
        check(                                                                                                          \
            #name, op_##name,                                                                                           \
            []([[maybe_unused]] a x, [[maybe_unused]] b y, [[maybe_unused]] c z, [[maybe_unused]] e w) -> result {      \
                using namespace oracle;                                                                                 \
                using std::signbit, std::isnan, std::isinf, std::isfinite, std::isnormal, std::fpclassify;              \
                [[maybe_unused]] d r{};                                                                                 \
                return (result)(__VA_ARGS__);                                                                            \
            },                                                                                                          \
            ulps);                                                                                                      \
    }
#define EXACT(name, d, ...)  ROW(Ptx, d, 0, name, d, __VA_ARGS__)
#define APPROX(name, d, ...) ROW(PtxApprox, long double, 1, name, d, __VA_ARGS__)
PTX_EXACT(EXACT)
PTX_APPROXIMATIONS(APPROX)

// ---- CUDA's functions -----------------------------------------------------------------------------------------------

template <class T, class Reference>
static void check_math(const char* name, void (*kernel)(T*, const T*, const T*, int), Reference reference, double ulps) {
    constexpr size_t n = 6000;
    std::mt19937_64 random(std::hash<std::string>()(name));
    std::vector<T> x = values<T>(n, 0, random), y = values<T>(n, 1, random);
    std::normal_distribution<T> normal(0, 10);
    for (size_t i = n / 2; i < n; ++i) x[i] = normal(random), y[i] = normal(random);
    const Device<T> dx(x), dy(y), out(x);
    LC_LAUNCH(kernel, grid_for(n), dim3(kBlock), 0, nullptr, out.data(), dx.data(), dy.data(), int(n));
    const auto got = out.host();
    int bad = 0;
    for (size_t i = 0; i < n && bad < 3; ++i) {
        const long double want = reference(x[i], y[i]);
        if (ulps_apart(got[i], want) <= ulps + 0.5) continue;  // the reference is not rounded, the result is
        ++bad;
        ADD_FAILURE() << name << " of " << show(x[i]) << ", " << show(y[i]) << " gives " << show(got[i]) << ", expected "
                      << show(T(want)) << ": " << ulps_apart(got[i], want) << " ulp";
    }
}

#define MATH(name, t, ulps, function, reference)                                                                        \
    extern "C" void math_##name(t*, const t*, const t*, int) { only_ptx("math_" #name); }                               \
    TEST_F(PtxMath, name) {                                                                                             \
        check_math(                                                                                                     \
            #name, math_##name, [](t x, [[maybe_unused]] t y) -> long double { return reference; }, ulps);              \
    }
PTX_MATH(MATH)

// ---- kernels with a shape of their own ------------------------------------------------------------------------------

#define STUB(name) \
    extern "C" void name(u32*, u32*) { only_ptx(#name); }
PTX_SHAPED(STUB)

using Words = std::vector<u32>;
using Shaped = void (*)(u32*, u32*);

// Runs a kernel on `in`, which it may change, and gives what it wrote.
static Words run(Shaped kernel, Words& in, size_t out_words, dim3 grid, dim3 block, size_t smem = 0) {
    const Device<u32> out(Words(out_words, 0xdeadbeef)), din(in);
    LC_LAUNCH(kernel, grid, block, smem, nullptr, out.data(), din.data());
    Words got = out.host();
    in = din.host();
    return got;
}
static Words numbers(size_t n, u32 first = 0) {
    Words v(n);
    for (size_t i = 0; i < n; ++i) v[i] = first + u32(i);
    return v;
}
static double as_double(const Words& w, size_t i) { return oracle::bits<double>(u64(w[i + 1]) << 32 | w[i]); }
static u64 as_u64(const Words& w, size_t i) { return u64(w[i + 1]) << 32 | w[i]; }
static float as_float(u32 w) { return oracle::bits<float>(w); }

TEST_F(Ptx, loads_extend_by_their_type) {
    Words in = {0x84f3f2f1, 0x87868586, 5, 6};
    const Words got = run(load_store_types, in, 22, dim3(1), dim3(1));
    const Words want = {0xfffffff1, 0xf2,       0xffff84f3, 0x8586,     0x8786,     0x87,       0xfffffff1, 0xffffffff,
                        0xfffff2f1, 0xffffffff, 0x84f3f2f1, 0xffffffff, 0x84f3f2f1, 0,          0x00f1fff1, 0x84f300f1,
                        0xfffffff1, 0xffffffff, 0x3fc00000, 0x84f3f2f1, 0,          0xc0040000};
    EXPECT_EQ(got, want);
}

// One row of load_store_vectors: 16 bytes in, and where `count` elements of `size` bytes stand in reverse order.
static void expect_reversed(const Words& got, const Words& in, size_t offset, size_t count, size_t size, size_t from = 0) {
    for (size_t t = 0; t < in.size() / 4; ++t) {
        const char* source = reinterpret_cast<const char*>(&in[4 * t]) + from;
        const char* result = reinterpret_cast<const char*>(&got[32 * t]) + offset;
        for (size_t k = 0; k < count; ++k) {
            EXPECT_EQ(std::memcmp(result + k * size, source + (count - 1 - k) * size, size), 0)
                << "thread " << t << ", element " << k << " of " << count << " x " << size << " bytes";
        }
    }
}

TEST_F(Ptx, vectors) {
    std::mt19937 random(5);
    Words in(4 * 8);
    for (u32& w : in) w = u32(random());
    const Words got = run(load_store_vectors, in, 32 * 8, dim3(1), dim3(8));
    expect_reversed(got, in, 0, 4, 1);
    expect_reversed(got, in, 4, 2, 1, 4);
    expect_reversed(got, in, 8, 4, 2);
    expect_reversed(got, in, 16, 2, 2);
    expect_reversed(got, in, 24, 2, 4);
    expect_reversed(got, in, 32, 4, 4);
    expect_reversed(got, in, 48, 2, 8);
    expect_reversed(got, in, 64, 2, 4);
    expect_reversed(got, in, 80, 4, 4);
    expect_reversed(got, in, 96, 2, 8);
    for (size_t t = 0; t < 8; ++t) EXPECT_EQ(int32_t(got[32 * t + 28]), int8_t(in[4 * t]));
}

// The checks must see a vector access as one: aligned to its whole size, counted as one request.
TEST_F(Ptx, vectors_are_one_access) {
    if (!cusim::hooked()) GTEST_SKIP() << "needs the checked build";
    Words in(4 * 32);
    const Device<u32> out(Words(32 * 32 + 4)), din(in);
    cusim::set_profile(1);
    (void)cusim::take_profile();
    LC_LAUNCH(load_store_vectors, dim3(1), dim3(32), 0, nullptr, out.data(), din.data());
    LC_CUDA_CHECK(cudaStreamSynchronize(nullptr));
    cusim::set_profile(0);
    int counts[33] = {};
    for (const auto& line : cusim::take_profile()) {
        if (!line.write && !line.shared && !line.barrier) counts[line.bytes] += int(line.requests);
    }
    EXPECT_EQ(counts[16], 4);  // v4.b32, v2.u64, v4.f32, v2.f64
    EXPECT_EQ(counts[8], 3);   // v4.u16, v2.u32, v2.f32
    EXPECT_EQ(counts[4], 2);   // v4.u8, v2.b16
    EXPECT_EQ(counts[2], 2);   // v2.u8, v2.s8
    LC_LAUNCH(load_store_vectors, dim3(1), dim3(1), 0, nullptr, out.data() + 2, din.data());
    EXPECT_THROW(LC_CUDA_CHECK(cudaStreamSynchronize(nullptr)), cusim::Fault);
    const auto findings = cusim::take_findings();
    ASSERT_FALSE(findings.empty());
    for (const auto& f : findings) {
        EXPECT_EQ(f.kind, cusim::Kind::misaligned);
        EXPECT_NE(f.text.find("ptx_opcodes.cu:"), std::string::npos) << f.text;
    }
}

TEST_F(Ptx, cache_hints_change_nothing) {
    Words in = numbers(32, 10);
    const Words got = run(load_hints, in, 64, dim3(1), dim3(32));
    for (u32 i = 0; i < 32; ++i) {
        EXPECT_EQ(got[2 * i], 36 * (10 + i));
        EXPECT_EQ(got[2 * i + 1], 36 * (10 + i) + 1);
    }
}

TEST_F(Ptx, shared_arrays) {
    Words in = numbers(128, 5);
    const Words got = run(shared_memory, in, 256, dim3(1), dim3(128));
    for (u32 i = 0; i < 128; ++i) {
        EXPECT_EQ(got[i], 5 + 127 - i);
        EXPECT_EQ(int32_t(got[128 + i]), i == 0 ? -1 : int32_t(5 + i - 1));
    }
    const Words swapped = run(dynamic_shared_memory, in, 128, dim3(1), dim3(128), 512);
    for (u32 i = 0; i < 128; ++i) EXPECT_EQ(swapped[i], 5 + (i ^ 1));
}

TEST_F(Ptx, local_arrays_and_tables) {
    Words in(64);
    for (u32 i = 0; i < 64; ++i) in[i] = i * 37 % 101;
    const Words local = run(local_memory, in, 64, dim3(1), dim3(64));
    u32 a[16];
    for (u32 k = 0; k < 16; ++k) a[k] = in[k] * 3;
    for (u32 k = 0; k < 16; ++k) a[in[k] % 16] += k;
    for (u32 t = 0; t < 64; ++t) {
        u32 sum = 0;
        for (u32 k = 0; k < 16; ++k) sum = sum * 31 + a[(in[k] + t) % 16];
        EXPECT_EQ(local[t], sum);
    }
    const Words table = run(constant_tables, in, 256, dim3(1), dim3(64));
    const float floats[] = {1.5f, -2.25f, 0.0f, 1e30f, -1e-30f};
    const int shorts[] = {-1, 2, -3, 4};
    const u64 wide[] = {0x123456789abcdef0ull, ~0ull};
    const double doubles[] = {0.1, -0.0, 1e300};
    for (u32 t = 0; t < 64; ++t) {
        EXPECT_EQ(as_float(table[4 * t]), floats[in[t] % 5]);
        EXPECT_EQ(int(table[4 * t + 1]), shorts[in[t] % 4]);
        EXPECT_EQ(table[4 * t + 2], u32(wide[in[t] % 2] >> 7));
        EXPECT_EQ(table[4 * t + 3], u32(oracle::bits<u64>(doubles[in[t] % 3]) >> 32));
    }
}

TEST_F(Ptx, generic_addresses_reach_every_memory) {
    Words in = {1};
    const Words got = run(generic_addresses, in, 128, dim3(1), dim3(128));
    for (u32 i = 0; i < 128; ++i) EXPECT_EQ(got[i], i % 3 == 1 ? 1000 * (100 + i) : 100 + i);
}

TEST_F(Ptx, functions_with_parameters) {
    Words in = numbers(32, 1);
    const Words got = run(calls, in, 8 * 32, dim3(1), dim3(32));
    const u32 fibonacci[] = {0, 1, 1, 2, 3, 5, 8, 13, 21, 34};
    for (u32 i = 0; i < 32; ++i) {
        const u32 v = in[i];
        const Words want = {v % 2 == 1 ? -v : v - 7, v - 3, 3 * v, v, 2 * v, fibonacci[v % 10], v % 3 == 0 ? 2 * v : v * v, v * v};
        EXPECT_EQ(Words(got.begin() + 8 * i, got.begin() + 8 * i + 8), want) << "v = " << v;
    }
}

TEST_F(Ptx, control_flow) {
    Words in = numbers(64, 1);
    const Words steps = run(branches, in, 64, dim3(1), dim3(64));
    for (u32 i = 0; i < 64; ++i) {
        u32 v = in[i], n = 0;
        for (; v != 1; ++n) v = v % 2 ? 3 * v + 1 : v / 2;
        EXPECT_EQ(steps[i], n);
    }
    const Words table = run(branch_table, in, 64, dim3(1), dim3(64));
    for (u32 i = 0; i < 64; ++i) EXPECT_EQ(table[i], 10 * (in[i] % 3 + 1));
    const Words left = run(leave_early, in, 64, dim3(1), dim3(64));
    for (u32 i = 0; i < 64; ++i) EXPECT_EQ(left[i], in[i] < 5 ? 1u : 2u);
}

TEST_F(Ptx, special_registers) {
    Words in = {42};
    const dim3 grid(2, 3, 2), block(5, 4, 3);  // 60 threads: the second warp is not full
    const Words got = run(special_registers, in, 20 * 60 * 12, grid, block);
    for (u32 b = 0; b < 12; ++b) {
        for (u32 t = 0; t < 60; ++t) {
            const u32 lane = t % 32, bit = 1u << lane;
            const Words want = {t % 5, t / 5 % 4, t / 20, 5, 4, 3, b % 2, b / 2 % 3, b / 6, 2, 3, 2, lane, t / 32, bit,
                                bit - 1, (bit - 1) | bit, ~((bit - 1) | bit), ~(bit - 1), 42};
            const size_t at = 20 * (t + 60 * b);
            EXPECT_EQ(Words(got.begin() + long(at), got.begin() + long(at) + 20), want) << "block " << b << ", thread " << t;
        }
    }
}

// ---- atomics --------------------------------------------------------------------------------------------------------

TEST_F(Ptx, atomics_of_32_bits) {
    constexpr u32 n = 100;
    Words in = {5, 1000, 3, 0, 0, ~0u, 0, 0, 0, 0, 500, 7, 0, 0, 0, 0};
    Words out = run(atomics_u32, in, 2 * n + 1, dim3(1), dim3(n));
    EXPECT_EQ(in[0], 5 + n * (n - 1) / 2);
    EXPECT_EQ(in[1], 0u);
    EXPECT_EQ(in[2], n - 1);
    EXPECT_EQ(int(in[3]), -50);
    EXPECT_EQ(int(in[4]), int(n) - 51);
    EXPECT_EQ(in[5], 0u);
    EXPECT_EQ(in[6], ~0u);
    EXPECT_EQ(in[7], 0xfffffff0u);  // lanes 0..3 came four times, the others three times
    EXPECT_EQ(in[8], 0u);           // 100 steps around 0..9
    EXPECT_EQ(in[9], 0u);
    EXPECT_GE(in[11], 1000u);
    EXPECT_EQ(in[12], 2 * n);
    EXPECT_EQ(in[13], 500 + n * (n - 1) / 2 - in[10]);  // everything exchanged out, the last one still in
    EXPECT_EQ(in[14], 1u);
    EXPECT_EQ(in[15], n * (n - 1) / 2);
    EXPECT_EQ(out[2 * n], n);
    for (u32 which : {0u, n}) {  // each of the ten values was seen ten times
        std::sort(out.begin() + which, out.begin() + which + n);
        for (u32 i = 0; i < n; ++i) EXPECT_EQ(out[which + i], i / 10);
    }
}

TEST_F(Ptx, atomics_of_64_bits) {
    constexpr u32 n = 100;
    Words in(22, 0);
    in[2] = in[3] = ~0u;    // u[1], the minimum
    in[10] = in[11] = ~0u;  // u[5], the conjunction
    in[16] = 500;
    in[18] = 7;
    run(atomics_u64, in, n, dim3(1), dim3(n));
    EXPECT_EQ(as_u64(in, 0), u64(n * (n - 1) / 2) << 32);
    EXPECT_EQ(as_u64(in, 2), 0u);
    EXPECT_EQ(as_u64(in, 4), u64(n - 1) << 33);
    EXPECT_EQ(s64(as_u64(in, 6)), s64(-50) * (s64(1) << 33));
    EXPECT_EQ(s64(as_u64(in, 8)), s64(n - 51) << 33);
    EXPECT_EQ(as_u64(in, 10), 0u);
    EXPECT_EQ(as_u64(in, 12), ~u64(0));
    EXPECT_EQ(as_u64(in, 14), ~u64(0) << 36);  // lanes 0..35 came twice
    EXPECT_GE(as_u64(in, 18), 1000u);
    EXPECT_EQ(as_u64(in, 20), (u64(1) << 32) + 500 + n * (n - 1) / 2 - as_u64(in, 16));
}

TEST_F(Ptx, atomics_of_floats) {
    constexpr u32 n = 100;
    Words in(8, 0);
    run(atomics_float, in, n, dim3(1), dim3(n));
    EXPECT_EQ(as_float(in[0]), 0.5f * n * (n - 1) / 2);
    EXPECT_EQ(as_double(in, 2), 0.25 * n * (n - 1) / 2);
    EXPECT_EQ(as_float(in[5]), n * (n - 1) / 2 - as_float(in[4]));
    EXPECT_EQ(as_float(in[6]), n);
}

TEST_F(Ptx, reductions_without_result) {
    constexpr u32 n = 100;
    Words in(10, 0);
    in[1] = u32(-1000);
    run(reductions, in, n, dim3(1), dim3(n));
    EXPECT_EQ(in[0], n * (n - 1) / 2);
    EXPECT_EQ(int(in[1]), int(n) - 51);
    EXPECT_EQ(as_float(in[2]), 0.5f * n * (n - 1) / 2);
    EXPECT_EQ(in[3], ~0u);
    EXPECT_EQ(as_double(in, 4), 0.25 * n * (n - 1) / 2);
    EXPECT_EQ(as_u64(in, 6), u64(n * (n - 1) / 2) << 32);
    EXPECT_EQ(in[8], 0u);
}

// ---- warps ----------------------------------------------------------------------------------------------------------

TEST_F(Ptx, shuffles_of_every_width) {
    Words in(64);
    for (u32 i = 0; i < 64; ++i) in[i] = i * 7 % 64;
    const Words got = run(shuffles, in, 48 * 64, dim3(1), dim3(64));
    for (int t = 0; t < 64; ++t) {
        const int lane = t % 32;
        for (int k = 0; k < 6; ++k) {
            const int width = 32 >> k, first = lane / width * width, last = first + width - 1;
            const int source[] = {lane - 3, lane + 5, lane ^ 9, first + int(in[size_t(t)]) % width};
            const bool inside[] = {source[0] >= first, source[1] <= last, source[2] <= last, true};
            for (int mode = 0; mode < 4; ++mode) {
                const size_t at = size_t(48 * t + 2 * (4 * k + mode));
                EXPECT_EQ(got[at], in[size_t(t - lane + (inside[mode] ? source[mode] : lane))]) << "mode " << mode << ", width " << width;
                EXPECT_EQ(got[at + 1], u32(inside[mode])) << "mode " << mode << ", width " << width << ", lane " << lane;
            }
        }
    }
}

TEST_F(Ptx, shuffle_with_a_clamp) {
    Words in = numbers(32, 50);
    const Words got = run(shuffle_clamp, in, 64, dim3(1), dim3(32));
    for (u32 i = 0; i < 32; ++i) {
        EXPECT_EQ(got[2 * i], 50 + (i + 4 <= 20 ? i + 4 : i));
        EXPECT_EQ(got[2 * i + 1], 50 + (i ^ 1));
    }
}

TEST_F(Ptx, votes) {
    Words in = numbers(32);
    const Words got = run(votes, in, 6 * 32, dim3(1), dim3(32));
    for (u32 i = 0; i < 32; ++i) {
        const Words want = {i < 16 ? 0xffc0u : 0u, i < 16 ? 1u : 0u, 1, 1, 1u << i, 0};
        EXPECT_EQ(Words(got.begin() + 6 * i, got.begin() + 6 * i + 6), want) << "lane " << i;
    }
}

TEST_F(Ptx, matches) {
    Words in(32);
    for (u32 i = 0; i < 32; ++i) in[i] = i % 5;
    const Words got = run(matches, in, 5 * 32, dim3(1), dim3(32));
    for (u32 i = 0; i < 32; ++i) {
        u32 same_value = 0;
        for (u32 k = i % 5; k < 32; k += 5) same_value |= 1u << k;
        const Words want = {same_value, same_value, ~0u, 0, 1};
        EXPECT_EQ(Words(got.begin() + 5 * i, got.begin() + 5 * i + 5), want) << "lane " << i;
    }
}

TEST_F(Ptx, reductions_over_a_warp) {
    Words in(32);
    for (u32 i = 0; i < 32; ++i) in[i] = i * 37 % 101 + 0x400;
    const Words got = run(warp_reductions, in, 8 * 24, dim3(1), dim3(32));
    Words want = {0, ~0u, 0, 0, 0, ~0u, 0, 0};
    for (u32 i = 0; i < 24; ++i) {
        want[0] += in[i];
        want[1] = std::min(want[1], in[i]);
        want[2] = std::max(want[2], in[i]);
        want[5] &= in[i];
        want[6] |= in[i];
        want[7] ^= in[i];
    }
    want[3] = want[1] - 100;
    want[4] = want[2] - 100;
    for (u32 i = 0; i < 24; ++i) EXPECT_EQ(Words(got.begin() + 8 * i, got.begin() + 8 * i + 8), want) << "lane " << i;
}

TEST_F(Ptx, barriers) {
    Words in = numbers(100);
    const Words got = run(barriers, in, 100, dim3(1), dim3(100));
    for (u32 i = 0; i < 100; ++i) EXPECT_EQ(got[i], (i + 2) % 100);
}

TEST_F(Ptx, trap_names_the_line) {
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    Words in = numbers(8);
    EXPECT_DEATH(run(stop, in, 8, dim3(1), dim3(8)), "ptx_opcodes.cu:[0-9]+: trap");
}

// ---- what the table cannot say --------------------------------------------------------------------------------------

TEST_F(Ptx, minimum_of_two_nans_is_the_canonical_one) {
    const Device<float> nan(std::vector<float>(1, oracle::bits<float>(0xffc12345u))), out(std::vector<float>(1, 0.0f));
    const Device<u32> none(Words(1));
    for (auto kernel : {op_fmin_f32, op_fmax_f32}) {
        LC_LAUNCH(kernel, dim3(1), dim3(1), 0, nullptr, out.data(), nan.data(), nan.data(), nan.data(), none.data(), 1);
        EXPECT_EQ(oracle::bits<u32>(out.host()[0]), 0x7fffffffu);
    }
}

// CUSIM_PERTURB: results move by up to k units, some do, always the same ones, and special values stay.
TEST_F(Ptx, perturbation) {
    std::vector<float> x(1000);
    std::mt19937 random(3);
    for (float& v : x) v = std::uniform_real_distribution<float>(-20, 20)(random);
    x[0] = 0.0f;
    x[1] = INFINITY;
    x[2] = -INFINITY;
    x[3] = NAN;
    const Device<float> dx(x), out(x);
    const Device<u32> none(Words(1000));
    const auto ex2 = [&](int k) {
        cusim::ptx::set_perturbation(k);
        LC_LAUNCH(op_ex2_approx, grid_for(1000), dim3(kBlock), 0, nullptr, out.data(), dx.data(), none.data(), none.data(),
                  none.data(), 1000);
        return out.host();
    };
    const auto exact = ex2(0), moved = ex2(2), again = ex2(2);
    double worst = 0;
    int up = 0, down = 0;
    for (size_t i = 0; i < 1000; ++i) {
        EXPECT_TRUE(same(moved[i], again[i]));
        if (i < 4) EXPECT_TRUE(same(moved[i], exact[i])) << show(x[i]);
        else worst = std::max(worst, std::fabs(ulps_apart(moved[i], exact[i])));
        up += moved[i] > exact[i];
        down += moved[i] < exact[i];
    }
    EXPECT_EQ(worst, 2.0);
    EXPECT_GT(up, 250);
    EXPECT_GT(down, 250);
}

// test_ptx.cpp -- the ptx engine: every opcode of kernels/sim/ptx on edge values (ptx_opcodes.h), CUDA's mathematical
// functions as nvcc expands them, and kernels for memory, control flow, atomics and warps.
#include <cmath>
#include <gtest/gtest.h>
#include <random>

#include "kernels/sim/ptx.h"
#include "tests/ptx_opcodes.h"
#include "tests/ptx_oracle.h"
#include "tests/ptx_support.h"

using namespace ptx_test;

namespace {

// The host side of a kernel that exists as PTX alone: its address carries the name.
[[noreturn]] void only_ptx(const char* name) {
    ADD_FAILURE() << name << " exists as PTX alone, but was launched on the source engine";
    std::abort();
}

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

// ---- every row of the tables ----------------------------------------------------------------------------------------

// All kernels of the tables take pointers and a count; which, only their rows know.
using Kernel = void (*)(void* out, const void* x, const void* y, const void* z, const void* w, int n);

struct Row {
    const char* name;
    const void* kernel;
    const TypeInfo* (*result)();
    const TypeInfo* (*operands[4])();
    double ulps;  // 0: all bits; else `expected` is a long double
    void (*expected)(const uint8_t* const operands[4], uint8_t* result);  // of one element
    bool math;                                                            // half of the operands of ordinary size
};

// Replaces the second half by numbers as programs have them: the edges alone would hardly meet the middle of a function.
void make_ordinary(const TypeInfo& type, Bytes& bytes, std::mt19937_64& random) {
    std::normal_distribution<double> normal(0, 10);
    for (size_t i = bytes.size() / 2 / type.bytes * type.bytes; i < bytes.size(); i += type.bytes) {
        const double v = normal(random);
        const float f = float(v);
        std::memcpy(&bytes[i], type.bytes == 4 ? static_cast<const void*>(&f) : &v, type.bytes);
    }
}

// One element against its expectation; true if it is good.
bool check_element(const Row& row, const uint8_t* const operands[4], const uint8_t* got) {
    const TypeInfo& type = *row.result();
    alignas(16) uint8_t want[16] = {};
    row.expected(operands, want);
    std::ostringstream text;
    if (row.ulps > 0) {
        const double error = ulps_apart(type, got, get<long double>(want));
        if (error <= row.ulps) return true;
        text << double(get<long double>(want)) << ", which is " << error << " ulp away";
    } else {
        if (same(type, got, want)) return true;
        text << type.show(want);
    }
    ADD_FAILURE() << row.name << " of " << row.operands[0]()->show(operands[0]) << ", "
                  << row.operands[1]()->show(operands[1]) << ", " << row.operands[2]()->show(operands[2]) << ", "
                  << row.operands[3]()->show(operands[3]) << "\n  gives    " << type.show(got) << "\n  expected "
                  << text.str();
    return false;
}

class PtxTable : public Ptx, public ::testing::WithParamInterface<const Row*> {};

void PrintTo(const Row* row, std::ostream* out) { *out << row->name; }

}  // namespace

TEST_P(PtxTable, computes) {
    const Row& row = *GetParam();
    constexpr size_t n = 6000;
    std::mt19937_64 random(std::hash<std::string>()(row.name));
    Bytes in[4];
    for (int k = 0; k < 4; ++k) {
        in[k] = row.operands[k]()->values(n, k, random);
        if (row.math && k < 2) make_ordinary(*row.operands[k](), in[k], random);
    }
    const Device out(Bytes(n * row.result()->bytes, 77)), x(in[0]), y(in[1]), z(in[2]), w(in[3]);
    const auto kernel = reinterpret_cast<Kernel>(const_cast<void*>(row.kernel));
    LC_LAUNCH(kernel, grid_for(n), dim3(kBlock), 0, nullptr, out.data(), x.data(), y.data(), z.data(), w.data(),
              int(n));
    const Bytes got = out.host<uint8_t>();
    int bad = 0;
    for (size_t i = 0; i < n && bad < 3; ++i) {
        const uint8_t* operands[4];
        for (int k = 0; k < 4; ++k) operands[k] = &in[k][i * row.operands[k]()->bytes];
        bad += !check_element(row, operands, &got[i * row.result()->bytes]);
    }
}

// The host side of every kernel, ...
#define OP_STUB(name, d, a, b, c, e, text, ...) \
    extern "C" void op_##name(d*, const a*, const b*, const c*, const e*, int) { only_ptx("op_" #name); }
#define MATH_STUB(name, t, ulps, function, reference) \
    extern "C" void math_##name(t*, const t*, const t*, const b32*, const b32*, int) { only_ptx("math_" #name); }
PTX_EXACT(OP_STUB)
PTX_APPROXIMATIONS(OP_STUB)
PTX_MATH(MATH_STUB)

// ... and its row: the expression of ptx_opcodes.h as a function of x, y, z, w.
#define ROW(symbol, math_, result_type, ulps_, d, a, b, c, e, ...)                                  \
    {#symbol,                                                                                       \
     reinterpret_cast<const void*>(symbol),                                                         \
     &type_of<d>,                                                                                   \
     {&type_of<a>, &type_of<b>, &type_of<c>, &type_of<e>},                                          \
     ulps_,                                                                                         \
     [](const uint8_t* const operands[4], uint8_t* to) {                                            \
         using namespace oracle;                                                                    \
         using std::signbit, std::isnan, std::isinf, std::isfinite, std::isnormal, std::fpclassify; \
         [[maybe_unused]] a x = get<a>(operands[0]);                                                \
         [[maybe_unused]] b y = get<b>(operands[1]);                                                \
         [[maybe_unused]] c z = get<c>(operands[2]);                                                \
         [[maybe_unused]] e w = get<e>(operands[3]);                                                \
         [[maybe_unused]] d r{};                                                                    \
         const auto value = (result_type)(__VA_ARGS__);                                             \
         std::memcpy(to, &value, sizeof(value));                                                    \
     },                                                                                             \
     math_},
#define EXACT(name, d, a, b, c, e, text, ...)  ROW(op_##name, false, d, 0, d, a, b, c, e, __VA_ARGS__)
#define APPROX(name, d, a, b, c, e, text, ...) ROW(op_##name, false, long double, 1, d, a, b, c, e, __VA_ARGS__)
// A reference is not rounded, a result is: half a unit more.
#define MATH(name, t, ulps, function, reference) \
    ROW(math_##name, true, long double, ulps + 0.5, t, t, t, b32, b32, reference)

static const Row kRows[] = {PTX_EXACT(EXACT) PTX_APPROXIMATIONS(APPROX) PTX_MATH(MATH)};

static std::vector<const Row*> all_rows() {
    std::vector<const Row*> rows;
    for (const Row& row : kRows) rows.push_back(&row);
    return rows;
}
INSTANTIATE_TEST_SUITE_P(Opcodes, PtxTable, ::testing::ValuesIn(all_rows()),
                         [](const auto& info) { return std::string(info.param->name); });

// ---- kernels with a shape of their own ------------------------------------------------------------------------------

#define STUB(name) \
    extern "C" void name(u32*, u32*) { only_ptx(#name); }
PTX_SHAPED(STUB)

using Words = std::vector<u32>;
using Shaped = void (*)(u32*, u32*);

// Runs a kernel on `in`, which it may change, and gives what it wrote.
static Words run(Shaped kernel, Words& in, size_t out_words, dim3 grid, dim3 block, size_t smem = 0) {
    const Device out(Words(out_words, 0xdeadbeef)), din(in);
    LC_LAUNCH(kernel, grid, block, smem, nullptr, out.data<u32>(), din.data<u32>());
    Words got = out.host<u32>();
    in = din.host<u32>();
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
    const Words want = {0xfffffff1, 0xf2,       0xffff84f3, 0x8586,     0x8786,     0x87,      0xfffffff1, 0xffffffff,
                        0xfffff2f1, 0xffffffff, 0x84f3f2f1, 0xffffffff, 0x84f3f2f1, 0,         0x00f1fff1, 0x84f300f1,
                        0xfffffff1, 0xffffffff, 0x3fc00000, 0x84f3f2f1, 0,          0xc0040000};
    EXPECT_EQ(got, want);
}

// One row of load_store_vectors: 16 bytes in, and where `count` elements of `size` bytes stand in reverse order.
static void expect_reversed(const Words& got, const Words& in, size_t offset, size_t count, size_t size,
                            size_t from = 0) {
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
    const Device out(Words(32 * 32 + 4)), din(in);
    cusim::set_profile(1);
    (void)cusim::take_profile();
    LC_LAUNCH(load_store_vectors, dim3(1), dim3(32), 0, nullptr, out.data<u32>(), din.data<u32>());
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
    LC_LAUNCH(load_store_vectors, dim3(1), dim3(1), 0, nullptr, out.data<u32>() + 2, din.data<u32>());
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
        const Words want = {v % 2 == 1 ? -v : v - 7,    v - 3, 3 * v, v, 2 * v, fibonacci[v % 10],
                            v % 3 == 0 ? 2 * v : v * v, v * v};
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
            const Words want = {
                t % 5, t / 5 % 4, t / 20, 5,      4,   3,       b % 2,           b / 2 % 3,          b / 6,      2,
                3,     2,         lane,   t / 32, bit, bit - 1, (bit - 1) | bit, ~((bit - 1) | bit), ~(bit - 1), 42};
            const size_t at = 20 * (t + 60 * b);
            EXPECT_EQ(Words(got.begin() + long(at), got.begin() + long(at) + 20), want)
                << "block " << b << ", thread " << t;
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
                EXPECT_EQ(got[at], in[size_t(t - lane + (inside[mode] ? source[mode] : lane))])
                    << "mode " << mode << ", width " << width;
                EXPECT_EQ(got[at + 1], u32(inside[mode]))
                    << "mode " << mode << ", width " << width << ", lane " << lane;
            }
        }
    }
}

TEST_F(Ptx, shuffle_with_a_clamp) {
    Words in = numbers(32, 50);
    const Words got = run(shuffle_clamp, in, 96, dim3(1), dim3(32));
    for (u32 i = 0; i < 32; ++i) {
        EXPECT_EQ(got[3 * i], 50 + (i + 4 <= 20 ? i + 4 : i));
        EXPECT_EQ(got[3 * i + 1], 50 + (i >= 6 ? i - 2 : i));
        EXPECT_EQ(got[3 * i + 2], 50 + (i ^ 1));
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
    const Device nan(Words(1, 0xffc12345u)), out(Words(1, 0)), none(Words(1, 0));
    for (auto kernel : {op_fmin_f32, op_fmax_f32}) {
        const float* x = nan.data<float>();
        LC_LAUNCH(kernel, dim3(1), dim3(1), 0, nullptr, out.data<float>(), x, x, x, none.data<u32>(), 1);
        EXPECT_EQ(out.host<u32>()[0], 0x7fffffffu);
    }
}

// CUSIM_PERTURB: results move by up to k units, some up, some down, always the same ones, and special values stay.
TEST_F(Ptx, perturbation) {
    constexpr int n = 1000;
    std::vector<float> x(n);
    std::mt19937 random(3);
    for (float& v : x) v = std::uniform_real_distribution<float>(-20, 20)(random);
    x[0] = 0.0f;
    x[1] = INFINITY;
    x[2] = -INFINITY;
    x[3] = NAN;
    const Device in(x), out(x), zeros(Words(n, 0));
    const auto ex2 = [&](int k) {
        cusim::ptx::set_perturbation(k);
        const u32* none = zeros.data<u32>();
        LC_LAUNCH(op_ex2_approx, grid_for(n), dim3(kBlock), 0, nullptr, out.data<float>(), in.data<float>(), none, none,
                  none, n);
        return out.host<float>();
    };
    const auto exact = ex2(0), moved = ex2(2);
    EXPECT_EQ(std::memcmp(moved.data(), ex2(2).data(), n * sizeof(float)), 0);
    EXPECT_EQ(std::memcmp(moved.data(), exact.data(), 4 * sizeof(float)), 0);
    double worst = 0;
    int up = 0, down = 0;
    for (size_t i = 4; i < n; ++i) {
        worst = std::max(worst, ulps_apart(moved[i], exact[i]));
        up += moved[i] > exact[i];
        down += moved[i] < exact[i];
    }
    EXPECT_EQ(worst, 2.0);
    EXPECT_GT(up, n / 4);
    EXPECT_GT(down, n / 4);
}

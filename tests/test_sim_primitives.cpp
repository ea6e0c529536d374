// test_sim_primitives.cpp -- every primitive of the simulator does what CUDA's documentation says, on both engines.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <map>
#include <random>

#include "tests/sim_arrays.h"
#include "tests/sim_faults.h"

namespace {

using cusim::Engine;
using cusim::Kind;
using cusim::Order;
using namespace lc::sim;
using namespace sim_test;

// Every probe on both engines, where there are two.
class Primitives : public testing::TestWithParam<Engine> {
  protected:
    void SetUp() override {
        if (GetParam() == Engine::ptx && !cusim::ptx_available())
            GTEST_SKIP() << "no translated PTX is linked (no nvcc)";
        cusim::set_engine(GetParam());
        forget_findings();
    }
    void TearDown() override {
        cusim::set_engine(Engine::source);
        cusim::set_order(Order::forward);
        cusim::set_profile(0);
        EXPECT_EQ(all_texts(cusim::take_findings()), "");
    }
};
INSTANTIATE_TEST_SUITE_P(Sim, Primitives, testing::Values(Engine::source, Engine::ptx),
                         [](const auto& info) { return text(info.param); });

// ---- indices, parameters, intrinsics --------------------------------------------------------------------------------

TEST_P(Primitives, ThreeDimensionalIndices) {
    const dim3 grid(3, 2, 4), block(5, 3, 2);
    const size_t threads = 3 * 2 * 4 * 5 * 3 * 2;
    Array<unsigned> out(6 * threads);
    probe_indices(out, grid, block);
    const std::vector<unsigned> h = out.host();
    size_t i = 0;
    for (unsigned bz = 0; bz < 4; ++bz)
        for (unsigned by = 0; by < 2; ++by)
            for (unsigned bx = 0; bx < 3; ++bx)
                for (unsigned tz = 0; tz < 2; ++tz)
                    for (unsigned ty = 0; ty < 3; ++ty)
                        for (unsigned tx = 0; tx < 5; ++tx, ++i) {
                            const unsigned want[6] = {tx, ty, tz, bx, by, bz};
                            ASSERT_TRUE(std::equal(want, want + 6, h.begin() + 6 * i)) << i;
                        }
}

TEST_P(Primitives, ParametersOfEverySizeArrive) {
    Array<double> out(10);
    probe_parameters(out, true, -3, 2.5, {1.5f, -7.25, 9}, -300, make_float4(4, 5, 6, 7), int64_t(1) << 40);
    const std::vector<double> want = {1, -3, 2.5, 1.5, -7.25, 9, -300, 4, 7, double(int64_t(1) << 40)};
    EXPECT_EQ(out.host(), want);
}

float bits(unsigned u) {
    float f;
    std::memcpy(&f, &u, 4);
    return f;
}
unsigned bits(float f) {
    unsigned u;
    std::memcpy(&u, &f, 4);
    return u;
}

std::vector<double> expected_intrinsics(float x, float y) {
    const unsigned a = bits(x) >> 3, b = bits(y) >> 5;
    unsigned reversed = 0;
    for (int i = 0; i < 32; ++i) reversed |= (a >> i & 1) << (31 - i);
    int leading = 0, first = 0;
    while (leading < 32 && (a >> (31 - leading) & 1) == 0) ++leading;
    while (first < 32 && (a >> first & 1) == 0) ++first;
    return {std::fmin(x, y),
            std::fmax(x, y),
            double(float(int(std::min(a, b)))),
            double(float(std::max(a, 7u))),
            1.0 / std::sqrt(double(std::fabs(x) + 1.0f)),
            std::exp(double(x * 0.1f)),
            std::log(double(std::fabs(x) + 1.0f)),
            double(x) / 3,
            x,
            double(std::popcount(a)),
            double(leading),
            first == 32 ? 0.0 : first + 1.0,
            double(float(reversed >> 8)),
            double(float(uint64_t(a) * b >> 32)),
            x > 0 ? std::fmin(x, 1.0) : 0.0,
            double(std::fmaf(x, y, 1.0f)),
            x,
            std::fmax(x, y),
            std::sqrt(std::fabs(double(x))),
            1.0 / (y == 0 ? 1.0 : y)};
}

TEST_P(Primitives, IntrinsicsOfNumbersAndNaN) {
    const std::vector<float> in = {0.0f, 1.0f, -1.0f, 0.3f, NAN, 5.5f, -17.0f, 1e-3f, 1e6f, bits(0x7f7fffffu), 3.0f};
    Array<float> x(in), out(in.size() * kIntrinsics);
    probe_intrinsics(out, x, int(in.size()));
    const std::vector<float> got = out.host();
    for (size_t i = 0; i < in.size(); ++i) {
        const std::vector<double> want = expected_intrinsics(in[i], in[(i + 1) % in.size()]);
        for (int k = 0; k < kIntrinsics; ++k) {
            const double g = got[i * kIntrinsics + size_t(k)], w = double(float(want[size_t(k)]));
            const bool same = (std::isnan(g) && std::isnan(w)) || g == w || std::fabs(g - w) <= 4e-7 * std::fabs(w);
            EXPECT_TRUE(same) << "intrinsic " << k << " of " << in[i] << ": got " << g << ", want " << w;
        }
    }
}

// ---- warp operations ------------------------------------------------------------------------------------------------

// CUDA C++ Programming Guide, "Warp Shuffle Functions".
int shuffle_source(int mode, int lane, int arg, int width) {
    const int first = lane / width * width;
    int source = lane;
    if (mode == 0) source = first + arg % width;
    if (mode == 1) source = lane - arg < first ? lane : lane - arg;
    if (mode == 2) source = lane + arg >= first + width ? lane : lane + arg;
    if (mode == 3) source = (lane ^ arg) >= first + width ? lane : lane ^ arg;
    return source;
}

TEST_P(Primitives, ShufflesOfEveryModeAndWidth) {
    const std::vector<float> in = ramp(64);
    Array<float> x(in), out(64);
    for (Order o : {Order::forward, Order::reverse, Order::random}) {
        cusim::set_order(o, 3);
        for (int mode = 0; mode < 4; ++mode)
            for (int width = 1; width <= 32; width *= 2)
                for (int arg : {0, 1, 2, 3, 7, 8, 16, 31}) {
                    probe_shuffle(out, x, mode, arg, width, 64);
                    const std::vector<float> got = out.host();
                    for (int t = 0; t < 64; ++t) {
                        const int want = t / 32 * 32 + shuffle_source(mode, t % 32, arg, width);
                        ASSERT_EQ(got[size_t(t)], in[size_t(want)]) << mode << " " << width << " " << arg << " " << t;
                    }
                }
    }
}

TEST_P(Primitives, ShufflesMoveDoubles) {
    std::vector<double> in(32);
    for (int i = 0; i < 32; ++i) in[size_t(i)] = 1.0 / (3 + i);
    Array<double> x(in), out(32);
    probe_shuffle_double(out, x, 5);
    const std::vector<double> got = out.host();
    for (size_t i = 0; i < 32; ++i) EXPECT_EQ(got[i], in[i ^ 5]);
}

TEST_P(Primitives, Votes) {
    for (unsigned mask : {0xffffffffu, 0x0000ffffu, 0x80000001u, 0x00f0f000u}) {
        for (unsigned yes : {0u, 0xffffffffu, 0x12345678u, 0x1u}) {
            std::vector<int> in(32);
            for (int i = 0; i < 32; ++i) in[size_t(i)] = int(yes >> i & 1);
            Array<int> x(in);
            Array<unsigned> out(96);
            probe_votes(out, x, mask);
            const std::vector<unsigned> got = out.host();
            for (size_t i = 0; i < 32; ++i) {
                if ((mask >> i & 1) == 0) continue;
                EXPECT_EQ(got[3 * i], yes & mask);
                EXPECT_EQ(got[3 * i + 1], unsigned((yes & mask) != 0));
                EXPECT_EQ(got[3 * i + 2], unsigned((yes & mask) == mask));
            }
        }
    }
}

// ---- atomics --------------------------------------------------------------------------------------------------------

TEST_P(Primitives, Atomics) {
    const int threads = 100, blocks = 3, all = threads * blocks;
    const int sum = blocks * threads * (threads - 1) / 2;
    Array<int> cells(std::vector<int>{0, 0, 0, 0, 255, 0, 0, 0, 0});
    probe_int_atomics(cells, threads);
    // 300 threads toggle bit t % 8: bits 0 to 3 an odd number of times (13 per block), the others an even one (12).
    EXPECT_EQ(cells.host(), (std::vector<int>{sum, -sum, -99, 99, 0, 255, 15, 7, all}));

    Array<unsigned> words(std::vector<unsigned>{0, 0, 1000, 0});
    probe_unsigned_atomics(words, threads);
    EXPECT_EQ(words.host(), (std::vector<unsigned>{all % 10, 0, 5, 0x80000000u + 99}));

    Array<float> f(std::vector<float>{1.0f});
    Array<double> d(std::vector<double>{1.0});
    Array<unsigned long long> u(std::vector<unsigned long long>{5});
    probe_float_atomics(f, d, u, threads);
    EXPECT_EQ(f.host()[0], 1.0f + 0.5f * all);
    EXPECT_EQ(d.host()[0], 1.0 + 0.25 * all);
    EXPECT_EQ(u.host()[0], 5 + (uint64_t(all) << 33));
}

// ---- shared memory --------------------------------------------------------------------------------------------------

TEST_P(Primitives, DynamicSharedMemoryAbove48KiB) {
    for (int n : {1, 100, 25'000, 58'112}) {  // 58112 floats are 227 KiB
        const std::vector<float> in = ramp(size_t(n));
        Array<float> x(in), out(static_cast<size_t>(n));
        probe_dynamic_shared(out, x, n, size_t(n) * sizeof(float));
        const std::vector<float> got = out.host();
        EXPECT_TRUE(std::equal(in.rbegin(), in.rend(), got.begin())) << n;
    }
}

TEST_P(Primitives, StaticArraysDoNotOverlap) {
    Array<float> out(64);
    probe_two_arrays(out);
    const std::vector<float> got = out.host();
    for (int t = 0; t < 64; ++t) EXPECT_EQ(got[size_t(t)], 101.0f * float(63 - t));
}

TEST_P(Primitives, NeighbouringBytesAreNoRace) {
    std::vector<unsigned char> in(61);
    std::iota(in.begin(), in.end(), 1);
    Array<unsigned char> x(in), out(in.size());
    probe_bytes(out, x, int(in.size()));
    const std::vector<unsigned char> got = out.host();
    for (size_t i = 0; i < in.size(); ++i) EXPECT_EQ(got[i], in[i] + 1);
}

// ---- the race detector against the definition -----------------------------------------------------------------------

struct Script {
    int steps, blocks;
    std::vector<int> actions;  // (blocks, steps, kScriptThreads)
    int at(int block, int step, int thread) const {
        return actions[size_t((block * steps + step) * kScriptThreads + thread)];
    }
};

// A few accesses by a few threads of two warps, whole steps of barriers between them.
Script random_script(std::mt19937& random) {
    const auto pick = [&](int n) { return int(random() % unsigned(n)); };
    Script s{4 + pick(6), pick(4) == 0 ? 2 : 1, {}};
    const int threads[] = {0, 1, 2, 31, 32, 33, 39};
    const bool with_atomics = pick(2) == 0;
    for (int b = 0; b < s.blocks; ++b) {
        for (int step = 0; step < s.steps; ++step) {
            std::vector<int> row(kScriptThreads, script_nothing);
            const int kind = pick(5);
            if (kind == 0)
                row.assign(kScriptThreads, script_syncthreads);
            else if (kind <= 2)
                row.assign(kScriptThreads, script_syncwarp);
            else {
                const int readers = pick(4);
                for (int i = 0; i < readers; ++i) row[size_t(threads[pick(7)])] = script_read;
                if (pick(4) == 0) row[size_t(threads[pick(7)])] = script_write;
                if (with_atomics && pick(2) == 0) row[size_t(threads[pick(7)])] = script_atomic;
            }
            s.actions.insert(s.actions.end(), row.begin(), row.end());
        }
    }
    return s;
}

// All pairs of accesses, by the definition in kernels/sim/shadow.h.
bool has_race(const Script& s) {
    struct Touch {
        int block, step, thread, action;
    };
    std::vector<Touch> touches;
    for (int b = 0; b < s.blocks; ++b)
        for (int i = 0; i < s.steps; ++i)
            for (int t = 0; t < kScriptThreads; ++t) {
                const int a = s.at(b, i, t);
                if (a == script_read || a == script_write || a == script_atomic) touches.push_back({b, i, t, a});
            }
    const auto barrier_between = [&](const Touch& x, const Touch& y) {
        for (int i = std::min(x.step, y.step) + 1; i < std::max(x.step, y.step); ++i) {
            const int a = s.at(x.block, i, 0);
            if (a == script_syncthreads || (a == script_syncwarp && x.thread / 32 == y.thread / 32)) return true;
        }
        return false;
    };
    for (const Touch& x : touches)
        for (const Touch& y : touches) {
            if (x.block == y.block && x.thread == y.thread) continue;
            if (x.action == y.action && x.action != script_write) continue;  // two reads, two atomics
            if (x.block != y.block || !barrier_between(x, y)) return true;
        }
    return false;
}

TEST_P(Primitives, RacesAreFoundExactlyWhereTheyAre) {
    if (!cusim::hooked()) GTEST_SKIP() << "races need hooks";
    const int trials = 4000;  // few of them tell this detector from one that remembers fewer readers
    std::mt19937 random(11);
    Array<float> cell(std::vector<float>{0.0f}), out(2 * kScriptThreads);
    Array<int> actions(2 * 10 * kScriptThreads);
    int races = 0;
    for (int trial = 0; trial < trials; ++trial) {
        const Script s = random_script(random);
        cusim::set_order(Order(trial % 3), unsigned(trial));
        cudaMemcpyAsync(actions, s.actions.data(), s.actions.size() * sizeof(int), cudaMemcpyHostToDevice);
        probe_script(cell, out, actions, s.steps, s.blocks);
        bool found = false;
        try {
            cudaDeviceSynchronize();
        } catch (const cusim::Fault& f) {
            found = f.kind() == Kind::race_block || f.kind() == Kind::race_grid;
            EXPECT_TRUE(found) << f.what();
        }
        const std::vector<cusim::Finding> findings = cusim::take_findings();
        ASSERT_EQ(found, has_race(s)) << "script " << trial << "\n" << all_texts(findings);
        races += found;
    }
    EXPECT_GT(races, trials / 5) << "the scripts are too tame";
    EXPECT_LT(races, trials * 4 / 5) << "the scripts are too wild";
}

// ---- orders ---------------------------------------------------------------------------------------------------------

std::vector<int> tickets(int blocks, int threads) {
    Array<int> out(size_t(blocks * threads)), counter(std::vector<int>{0});
    probe_order(out, counter, blocks, threads);
    return out.host();
}

TEST_P(Primitives, OrdersOfThreadsAndBlocks) {
    const int blocks = cusim::hooked() ? 3 : 1, threads = 70,
              n = blocks * threads;  // blocks run side by side without hooks
    std::vector<int> forward(static_cast<size_t>(n));
    std::iota(forward.begin(), forward.end(), 0);
    cusim::set_order(Order::forward);
    EXPECT_EQ(tickets(blocks, threads), forward);

    cusim::set_order(Order::reverse);
    std::vector<int> backward(forward.rbegin(), forward.rend());
    EXPECT_EQ(tickets(blocks, threads), backward);

    cusim::set_order(Order::random, 1);
    const std::vector<int> one = tickets(blocks, threads), again = tickets(blocks, threads);
    cusim::set_order(Order::random, 2);
    const std::vector<int> two = tickets(blocks, threads);
    EXPECT_EQ(one, again) << "a seed must give the same order every time";
    EXPECT_NE(one, two);
    std::vector<int> sorted = one;
    std::sort(sorted.begin(), sorted.end());
    EXPECT_EQ(sorted, forward);
}

// ---- counters -------------------------------------------------------------------------------------------------------

// The one line of a kernel that loads (or stores) from the given memory.
cusim::LineCounters counters_of(const std::string& kernel, bool shared, bool write) {
    std::vector<cusim::LineCounters> hits;
    for (const auto& c : cusim::take_profile()) {
        if (c.kernel.find(kernel) != std::string::npos && c.shared == shared && c.write == write && !c.barrier)
            hits.push_back(c);
    }
    EXPECT_EQ(hits.size(), 1u) << cusim::profile_table(hits);
    return hits.empty() ? cusim::LineCounters{} : hits[0];
}

TEST_P(Primitives, SectorsOfKnownStrides) {
    if (!cusim::hooked()) GTEST_SKIP() << "counters need hooks";
    cusim::set_profile(1);
    Array<float> in(std::vector<float>(32 * 36, 1.0f)), out(128);
    const std::map<int, unsigned> sectors = {{0, 1}, {1, 4}, {2, 8}, {4, 16}, {8, 32}, {33, 32}};
    for (const auto& [stride, want] : sectors) {
        probe_global_stride(out, in, stride);
        cudaDeviceSynchronize();
        const auto c = counters_of("global_stride_kernel", false, false);
        EXPECT_EQ(c.cost, want) << "stride " << stride;
        EXPECT_EQ(c.ideal, stride == 0 ? 1u : 4u);
        EXPECT_EQ(c.requests, 1u);
        EXPECT_EQ(c.lanes, 32u);
        EXPECT_EQ(c.bytes, 4);
        EXPECT_EQ(c.where.substr(0, c.where.find(":")), "sim_probes.cuh") << c.where;
    }
    probe_global_stride4(out, in, 4);
    cudaDeviceSynchronize();
    EXPECT_EQ(counters_of("global_stride4_kernel", false, false).cost, 16u);  // 512 bytes
    probe_global_stride4(out, in, 8);
    cudaDeviceSynchronize();
    const auto c = counters_of("global_stride4_kernel", false, false);
    EXPECT_EQ(c.cost, 32u);
    EXPECT_EQ(c.ratio(), 2.0);
    EXPECT_EQ(c.bytes, 16);
}

TEST_P(Primitives, BankConflictsOfKnownStrides) {
    if (!cusim::hooked()) GTEST_SKIP() << "counters need hooks";
    cusim::set_profile(1);
    Array<float> out(128);
    const std::map<int, unsigned> wavefronts = {{0, 1}, {1, 1}, {2, 2}, {4, 4}, {8, 8}, {31, 1}, {32, 32}, {33, 1}};
    for (const auto& [stride, want] : wavefronts) {
        probe_shared_stride(out, stride);
        cudaDeviceSynchronize();
        const auto c = counters_of("shared_stride_kernel", true, false);
        EXPECT_EQ(c.cost, want) << "stride " << stride;
        EXPECT_EQ(c.ideal, 1u);
    }
    const std::map<int, unsigned> wavefronts4 = {{4, 4}, {8, 8}, {32, 32}, {36, 4}};  // quarter warps of 16-byte words
    for (const auto& [stride, want] : wavefronts4) {
        probe_shared_stride4(out, stride);
        cudaDeviceSynchronize();
        EXPECT_EQ(counters_of("shared_stride4_kernel", true, false).cost, want) << "stride " << stride;
    }
}

TEST_P(Primitives, CountersOfDivergentLanesAndBarriers) {
    if (!cusim::hooked()) GTEST_SKIP() << "counters need hooks";
    cusim::set_profile(1);
    Array<float> in(std::vector<float>(64, 1.0f)), out(32);
    probe_divergent(out, in);
    cudaDeviceSynchronize();
    uint64_t lanes = 0, requests = 0;
    for (const auto& c : cusim::take_profile()) {
        if (c.write) continue;
        lanes += c.lanes;
        requests += c.requests;
    }
    EXPECT_EQ(lanes, 48u);  // 32 lanes read once, every other one twice
    EXPECT_EQ(requests, 2u);

    probe_shared_stride(out, 1);
    cudaDeviceSynchronize();
    uint64_t barriers = 0;
    const auto lines = cusim::take_profile();
    for (const auto& c : lines) barriers += c.barrier ? c.requests : 0;
    EXPECT_EQ(barriers, 1u);
    EXPECT_NE(cusim::profile_table(lines).find("__syncthreads"), std::string::npos);
}

}  // namespace

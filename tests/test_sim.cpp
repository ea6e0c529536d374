// test_sim.cpp -- who tests the tester: every planted fault must be reported, every healthy twin must be silent, in every
// order of threads and on both engines; and every primitive of the simulator does what CUDA's documentation says.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <map>
#include <numeric>
#include <random>
#include <set>

#include "kernels/sim/fibers.h"
#include "tests/sim_faults.h"

namespace {

using cusim::Engine;
using cusim::Kind;
using cusim::Order;
using namespace lc::sim;

const char* text(Engine e) { return e == Engine::source ? "source" : "ptx"; }

void forget_findings() {
    cusim::take_findings();
    cusim::take_warnings();
}

std::string all_texts(const std::vector<cusim::Finding>& findings) {
    std::string s;
    for (const auto& f : findings) s += "  " + f.text + "\n";
    return s;
}

// ---- planted faults -------------------------------------------------------------------------------------------------

struct FaultCase {
    const PlantedFault* fault;
    Engine engine;
    Order order;
};
void PrintTo(const FaultCase& c, std::ostream* o) { *o << c.fault->name; }

class PlantedFaults : public testing::TestWithParam<FaultCase> {
  protected:
    void SetUp() override {
        const auto& [fault, engine, order] = GetParam();
        if (engine == Engine::ptx && !cusim::ptx_available()) GTEST_SKIP() << "no translated PTX is linked (no nvcc)";
        cusim::set_engine(engine);
        cusim::set_order(order, 7);
        forget_findings();
    }
    void TearDown() override {
        cusim::set_engine(Engine::source);
        cusim::set_order(Order::forward);
        forget_findings();
    }
};

// Runs and says what was found; a Fault must be among the findings as well.
std::vector<cusim::Finding> findings_of(bool (*run)(), bool ptx, bool* right) {
    std::string thrown;
    try {
        *right = run();
    } catch (const cusim::Fault& f) {
        thrown = f.what();
    }
    std::vector<cusim::Finding> found = cusim::take_findings();
    if (!thrown.empty()) {
        const bool listed = std::any_of(found.begin(), found.end(), [&](const auto& f) { return f.text == thrown; });
        EXPECT_TRUE(listed) << "thrown but not listed: " << thrown;
    }
    if (ptx) {  // where an uninitialised read is a warning
        for (auto& w : cusim::take_warnings()) found.push_back(w);
    }
    return found;
}

void expect_death_of(const PlantedFault& fault, const char* sentence) {
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    EXPECT_DEATH(fault.run_bad(), sentence);
}

TEST_P(PlantedFaults, BadIsReported) {
    const auto& [fault, engine, order] = GetParam();
    const std::string kind = fault->kind;
    if (fault->seen == Seen::death) return expect_death_of(*fault, "host code touched device memory: buffer");
    if (CUSIM_ASAN && fault->on_device && (kind == "out_of_bounds" || kind == "use_after_free")) {
        return expect_death_of(*fault, "AddressSanitizer: use-after-poison|index .* out of bounds");
    }
    if (fault->seen == Seen::hooks && !cusim::hooked()) GTEST_SKIP() << "only builds with hooks see " << kind << " of a kernel";

    bool right = false;
    const std::vector<cusim::Finding> found = findings_of(fault->run_bad, engine == Engine::ptx, &right);
    if (fault->seen == Seen::value) {
        EXPECT_FALSE(right) << "the result should have shown the fault";
        return;
    }
    const auto is_it = [&](const cusim::Finding& f) { return cusim::name_of(f.kind) == kind; };
    const auto it = std::find_if(found.begin(), found.end(), is_it);
    ASSERT_NE(it, found.end()) << "wanted " << kind << ", found:\n" << all_texts(found);
    const bool has_line = cusim::hooked() && fault->on_device && kind != "launch_limit" && it->kernel.find("copy") == std::string::npos;
    if (has_line) {
        const bool ours = it->where.starts_with("sim_faults.cu:") || it->where.starts_with("sim_probes.cuh:");
        EXPECT_TRUE(ours) << it->where << "\n" << it->text;
    }
}

TEST_P(PlantedFaults, GoodIsSilent) {
    const auto& [fault, engine, order] = GetParam();
    bool right = false;
    const std::vector<cusim::Finding> found = findings_of(fault->run_good, engine == Engine::ptx, &right);
    EXPECT_TRUE(found.empty()) << all_texts(found);
    EXPECT_TRUE(right) << "a healthy kernel gave a wrong result";
}

std::vector<FaultCase> fault_cases() {
    std::vector<FaultCase> cases;
    for (const PlantedFault& f : planted_faults()) {
        for (Engine e : {Engine::source, Engine::ptx}) {
            if (e == Engine::ptx && !f.on_device) continue;
            for (Order o : {Order::forward, Order::reverse, Order::random}) cases.push_back({&f, e, o});
        }
    }
    return cases;
}
INSTANTIATE_TEST_SUITE_P(Sim, PlantedFaults, testing::ValuesIn(fault_cases()), [](const auto& info) {
    const FaultCase& c = info.param;
    return std::string(c.fault->name) + "_" + text(c.engine) + "_" + cusim::name_of(c.order);
});

TEST(PlantedFaultTable, CoversEveryKind) {
    std::set<std::string> covered;
    for (const PlantedFault& f : planted_faults()) covered.insert(f.kind);
    for (int k = 0; k <= int(Kind::unsynchronised); ++k) {
        EXPECT_TRUE(covered.count(cusim::name_of(Kind(k)))) << cusim::name_of(Kind(k));
    }
    EXPECT_GE(planted_faults().size(), 24u);
}

// ---- memory for the tests below -------------------------------------------------------------------------------------

template <class T>
class Array {
  public:
    explicit Array(size_t n) : n_(n) { EXPECT_EQ(cudaMalloc(&p_, n * sizeof(T)), cudaSuccess); }
    explicit Array(const std::vector<T>& v) : Array(v.size()) {
        cudaMemcpyAsync(p_, v.data(), n_ * sizeof(T), cudaMemcpyHostToDevice);
        cudaStreamSynchronize(nullptr);
    }
    Array(const Array&) = delete;
    ~Array() { cudaFree(p_); }
    operator T*() const { return p_; }
    std::vector<T> host() const {
        std::vector<T> v(n_);
        cudaMemcpyAsync(v.data(), p_, n_ * sizeof(T), cudaMemcpyDeviceToHost);
        cudaStreamSynchronize(nullptr);
        return v;
    }

  private:
    size_t n_;
    T* p_ = nullptr;
};

std::vector<float> ramp(size_t n) {
    std::vector<float> v(n);
    std::iota(v.begin(), v.end(), 1.0f);
    return v;
}

// Every probe on both engines, where there are two.
class Primitives : public testing::TestWithParam<Engine> {
  protected:
    void SetUp() override {
        if (GetParam() == Engine::ptx && !cusim::ptx_available()) GTEST_SKIP() << "no translated PTX is linked (no nvcc)";
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
    return {std::fmin(x, y), std::fmax(x, y), double(float(int(std::min(a, b)))), double(float(std::max(a, 7u))),
            1.0 / std::sqrt(double(std::fabs(x) + 1.0f)), std::exp(double(x * 0.1f)), std::log(double(std::fabs(x) + 1.0f)),
            double(x) / 3, x, double(std::popcount(a)), double(leading), first == 32 ? 0.0 : first + 1.0,
            double(float(reversed >> 8)), double(float(uint64_t(a) * b >> 32)), x > 0 ? std::fmin(x, 1.0) : 0.0,
            double(std::fmaf(x, y, 1.0f)), x, std::fmax(x, y), std::sqrt(std::fabs(double(x))), 1.0 / (y == 0 ? 1.0 : y)};
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
            if (kind == 0) row.assign(kScriptThreads, script_syncthreads);
            else if (kind <= 2) row.assign(kScriptThreads, script_syncwarp);
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
    const int trials = 4000;  // of which about one in a thousand needs the fourth reader that shadow.h keeps
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
    const int blocks = cusim::hooked() ? 3 : 1, threads = 70, n = blocks * threads;  // blocks run side by side without hooks
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
        if (c.kernel.find(kernel) != std::string::npos && c.shared == shared && c.write == write && !c.barrier) hits.push_back(c);
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

// ---- streams, events, copies ----------------------------------------------------------------------------------------

TEST(Streams, WorkWaitsForTheHost) {
    Array<float> x(std::vector<float>(4, 1.0f));
    std::vector<float> h(4, 0.0f);
    probe_scale(x, 3.0f, 4, nullptr);
    cudaMemcpyAsync(h.data(), x, 16, cudaMemcpyDeviceToHost);
    EXPECT_TRUE(std::isnan(h[0])) << "not run yet: the destination holds 0xFF";
    cudaStreamSynchronize(nullptr);
    EXPECT_EQ(h[0], 3.0f);
}

TEST(Streams, OneStreamDoesNotRunAnother) {
    cudaStream_t a, b;
    cudaStreamCreateWithFlags(&a, cudaStreamNonBlocking);
    cudaStreamCreateWithFlags(&b, cudaStreamNonBlocking);
    Array<float> x(std::vector<float>(4, 1.0f)), y(std::vector<float>(4, 1.0f));
    std::vector<float> hx(4), hy(4);
    probe_scale(x, 2.0f, 4, a);
    cudaMemcpyAsync(hx.data(), x, 16, cudaMemcpyDeviceToHost, a);
    probe_scale(y, 3.0f, 4, b);
    cudaMemcpyAsync(hy.data(), y, 16, cudaMemcpyDeviceToHost, b);
    cudaStreamSynchronize(b);
    EXPECT_EQ(hy[0], 3.0f);
    EXPECT_TRUE(std::isnan(hx[0]));
    cudaStreamDestroy(a);  // runs what is left
    EXPECT_EQ(hx[0], 2.0f);
    cudaStreamDestroy(b);
}

TEST(Streams, EventsOrderAcrossStreams) {
    for (Order o : {Order::forward, Order::reverse, Order::random}) {
        cusim::set_order(o, 5);
        cudaStream_t s[3];
        for (auto& q : s) cudaStreamCreateWithFlags(&q, cudaStreamNonBlocking);
        Array<float> x(std::vector<float>(4, 1.0f));
        std::vector<float> h(4);
        for (int i = 0; i < 3; ++i) {  // s0, then s1, then s2, all on one buffer
            probe_scale(x, float(i + 2), 4, s[i]);
            if (i == 2) break;
            cudaEvent_t e;
            cudaEventCreateWithFlags(&e, cudaEventDisableTiming);
            cudaEventRecord(e, s[i]);
            cudaStreamWaitEvent(s[i + 1], e);
            cudaEventDestroy(e);
        }
        cudaMemcpyAsync(h.data(), x, 16, cudaMemcpyDeviceToHost, s[2]);
        cudaStreamSynchronize(s[2]);  // must pull in the others
        EXPECT_EQ(h[0], 24.0f);
        cudaDeviceSynchronize();
        for (auto& q : s) cudaStreamDestroy(q);
    }
    cusim::set_order(Order::forward);
    EXPECT_EQ(all_texts(cusim::take_findings()), "");
}

TEST(Streams, AnEventCountsWhatWasQueuedWhenItWasRecorded) {
    cudaStream_t a, b;
    cudaStreamCreateWithFlags(&a, cudaStreamNonBlocking);
    cudaStreamCreateWithFlags(&b, cudaStreamNonBlocking);
    Array<float> x(std::vector<float>(4, 1.0f)), y(std::vector<float>(4, 1.0f));
    std::vector<float> hx(4), hy(4);
    cudaEvent_t e, never;
    cudaEventCreateWithFlags(&e, cudaEventDisableTiming);
    cudaEventCreateWithFlags(&never, cudaEventDisableTiming);
    probe_scale(x, 2.0f, 4, a);
    cudaEventRecord(e, a);
    probe_scale(y, 5.0f, 4, a);  // after the event: b need not wait for it
    cudaStreamWaitEvent(b, e);
    cudaStreamWaitEvent(b, never);  // never recorded: holds nobody up
    cudaMemcpyAsync(hx.data(), x, 16, cudaMemcpyDeviceToHost, b);
    cudaStreamSynchronize(b);
    EXPECT_EQ(hx[0], 2.0f);
    cudaMemcpyAsync(hy.data(), y, 16, cudaMemcpyDeviceToHost, a);
    EXPECT_TRUE(std::isnan(hy[0]));
    cudaDeviceSynchronize();
    EXPECT_EQ(hy[0], 5.0f);
    cudaEventDestroy(e);
    cudaEventDestroy(never);
    cudaStreamDestroy(a);
    cudaStreamDestroy(b);
    EXPECT_EQ(all_texts(cusim::take_findings()), "");
}

TEST(Streams, AFaultDropsWhatIsQueuedAndTheNextLaunchIsHealthy) {
    Array<float> x(std::vector<float>(4, 1.0f));
    const std::vector<float> h(5, 2.0f);
    probe_scale(x, 2.0f, 4, nullptr);
    EXPECT_THROW(cudaMemcpyAsync(x, h.data(), 20, cudaMemcpyHostToDevice), cusim::Fault);
    EXPECT_EQ(x.host()[0], 2.0f) << "a refused copy leaves the queue as it was";
    const auto found = cusim::take_findings();
    ASSERT_EQ(found.size(), 1u);
    EXPECT_EQ(found[0].kind, Kind::out_of_bounds);
    EXPECT_NE(found[0].text.find("20 bytes"), std::string::npos) << found[0].text;
}

TEST(Streams, CopiesAndMemsetsMoveTheRightBytes) {
    Array<float> x(ramp(8)), y(8);
    cudaMemcpyAsync(y + 2, x + 1, 5 * sizeof(float), cudaMemcpyDeviceToDevice);
    cudaMemsetAsync(y + 3, 0, 4);
    const std::vector<float> h = y.host();
    EXPECT_TRUE(std::isnan(h[0]) && std::isnan(h[1]) && std::isnan(h[7]));
    EXPECT_EQ(h[2], 2.0f);
    EXPECT_EQ(h[3], 0.0f);
    EXPECT_EQ(h[6], 6.0f);
}

// ---- device memory --------------------------------------------------------------------------------------------------

TEST(DeviceMemory, IsUsedAgainAfterQuarantine) {
    std::set<void*> places;
    for (int i = 0; i < 60; ++i) {  // 240 MiB: several times what waits
        void* p = nullptr;
        ASSERT_EQ(cudaMalloc(&p, 4 << 20), cudaSuccess);
        places.insert(p);
        cudaFree(p);
    }
    EXPECT_GT(places.size(), 1u) << "freed memory must not be handed out at once";
    EXPECT_LT(places.size(), 50u) << "but used again in the end";
}

TEST(DeviceMemory, IsAlignedAndFullOfNaN) {
    for (size_t n : {1u, 3u, 64u, 1000u}) {
        Array<float> x(n);
        EXPECT_EQ(reinterpret_cast<uintptr_t>(static_cast<float*>(x)) % 256, 0u);
        for (float v : x.host()) EXPECT_TRUE(std::isnan(v));
    }
}

TEST(DeviceMemory, RunsOutWithAnErrorCode) {
    void* p = nullptr;
    EXPECT_EQ(cudaMalloc(&p, size_t(5) << 30), cudaErrorMemoryAllocation);
    EXPECT_STREQ(cudaGetErrorString(cudaErrorMemoryAllocation), "out of memory");
    size_t free = 0, total = 0;
    cudaMemGetInfo(&free, &total);
    EXPECT_EQ(total, size_t(4) << 30);
    EXPECT_LE(free, total);
}

TEST(DeviceMemory, BuffersHaveNames) {
    Array<float> x(4);
    cusim::name_buffer(x, "weights");
    const std::vector<float> h(9);
    EXPECT_THROW(cudaMemcpyAsync(x, h.data(), 36, cudaMemcpyHostToDevice), cusim::Fault);
    const auto found = cusim::take_findings();
    ASSERT_EQ(found.size(), 1u);
    EXPECT_NE(found[0].text.find("'weights'"), std::string::npos) << found[0].text;
}

// ---- crashes say why ------------------------------------------------------------------------------------------------

constexpr bool kSanitized = CUSIM_ASAN || CUSIM_TSAN;

TEST(CrashDeathTest, AWildPointerIsNamedWithoutHooks) {
    if (cusim::hooked() || kSanitized) GTEST_SKIP() << "for plain builds: hooks report it, sanitizers have their own words";
    for (const PlantedFault& f : planted_faults()) {
        if (std::string(f.name) == "null_pointer") expect_death_of(f, "copy_kernel, thread .* touched address .* not device memory");
    }
}

TEST(CrashDeathTest, AStackOverflowIsNamed) {
    if (kSanitized) GTEST_SKIP() << "sanitized builds have larger stacks";
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    Array<float> out(64);
    EXPECT_DEATH(
        {
            probe_big_frame(out, 24 * 1024);
            cudaDeviceSynchronize();
        },
        "big_frame_kernel, thread .* need more than the stack");
}

// ---- findings -------------------------------------------------------------------------------------------------------

TEST(Findings, AreCountedOncePerPlace) {
    for (const PlantedFault& f : planted_faults()) {
        if (std::string(f.name) != "divergent_barrier") continue;
        for (int i = 0; i < 3; ++i) EXPECT_THROW(f.run_bad(), cusim::Fault);
    }
    const auto found = cusim::take_findings();
    ASSERT_EQ(found.size(), 1u) << all_texts(found);
    EXPECT_EQ(found[0].count, 3);
    EXPECT_NE(found[0].kernel.find("divergent_barrier_kernel<true>"), std::string::npos) << found[0].kernel;
    EXPECT_TRUE(cusim::take_findings().empty());
}

TEST(Findings, AMissingTranslationIsAClearError) {
    if (cusim::ptx_available()) GTEST_SKIP() << "all kernels of this program are translated";
    Array<float> x(std::vector<float>(4, 1.0f));
    cusim::set_engine(Engine::ptx);
    try {
        probe_scale(x, 2.0f, 4, nullptr);
        FAIL() << "should have thrown";
    } catch (const std::runtime_error& e) {
        EXPECT_NE(std::string(e.what()).find("no translated PTX"), std::string::npos) << e.what();
    }
    cusim::set_engine(Engine::source);
}

}  // namespace

// test_sim.cpp -- who tests the tester: every planted fault must be reported, every healthy twin must be silent, in
// every order of threads and on both engines.
#include <algorithm>
#include <set>

#include "kernels/sim/fibers.h"
#include "tests/sim_arrays.h"
#include "tests/sim_faults.h"

namespace lc::sim {
__global__ void untranslated_kernel(float* x) { *x = 1.0f; }  // nvcc never sees this file
}  // namespace lc::sim

namespace {

using cusim::Engine;
using cusim::Kind;
using cusim::Order;
using namespace lc::sim;
using namespace sim_test;

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
    if (fault->seen == Seen::hooks && !cusim::hooked())
        GTEST_SKIP() << "only builds with hooks see " << kind << " of a kernel";

    bool right = false;
    const std::vector<cusim::Finding> found = findings_of(fault->run_bad, engine == Engine::ptx, &right);
    if (fault->seen == Seen::value) {
        EXPECT_FALSE(right) << "the result should have shown the fault";
        return;
    }
    const auto is_it = [&](const cusim::Finding& f) { return cusim::name_of(f.kind) == kind; };
    const auto it = std::find_if(found.begin(), found.end(), is_it);
    ASSERT_NE(it, found.end()) << "wanted " << kind << ", found:\n" << all_texts(found);
    const bool has_line =
        cusim::hooked() && fault->on_device && kind != "launch_limit" && it->kernel.find("copy") == std::string::npos;
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

// ---- crashes say why ------------------------------------------------------------------------------------------------

constexpr bool kSanitized = CUSIM_ASAN || CUSIM_TSAN;

TEST(CrashDeathTest, AWildPointerIsNamedWithoutHooks) {
    if (cusim::hooked() || kSanitized)
        GTEST_SKIP() << "for plain builds: hooks report it, sanitizers have their own words";
    for (const PlantedFault& f : planted_faults()) {
        if (std::string(f.name) == "null_pointer")
            expect_death_of(f, "copy_kernel, thread .* touched address .* not device memory");
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
    Array<float> x(std::vector<float>(4, 1.0f));
    cusim::set_engine(Engine::ptx);
    try {
        LC_LAUNCH(untranslated_kernel, dim3(1), dim3(1), 0, nullptr, x);
        ADD_FAILURE() << "should have thrown";
    } catch (const std::runtime_error& e) {
        EXPECT_NE(std::string(e.what()).find("no translated PTX"), std::string::npos) << e.what();
    }
    cusim::set_engine(Engine::source);
}

}  // namespace

// engines.cpp -- the engines this test binary holds: the CPU at every SIMD level the machine has, CUDA where a device
// answers, and what tests/engines_sim.cpp adds where the simulator is linked.
#include <hwy/targets.h>
#include <omp.h>

#include "tests/harness.h"

namespace test {

static std::vector<Variant> thread_counts(int64_t simd_target) {
    std::vector<Variant> v;
    for (int threads : {1, 2, 3}) {
        v.push_back({std::to_string(threads) + " threads", [=] {
                         hwy::SetSupportedTargetsForTest(simd_target);
                         hwy::GetChosenTarget().Update(hwy::SupportedTargets());
                         omp_set_num_threads(threads);
                     }});
    }
    return v;
}

static std::vector<Engine> cpu_engines() {
    std::vector<Engine> list;
    const auto silent = [] { return std::vector<std::string>(); };
    const int64_t all = hwy::SupportedTargets();
    // Highway numbers targets from the most capable (lowest bit) upwards: the first is the one users get.
    for (int64_t rest = all & HWY_TARGETS; rest != 0; rest &= rest - 1) {
        const int64_t target = rest & -rest;
        const std::string name = list.empty() ? "cpu" : std::string("cpu_") + hwy::TargetName(target);
        list.push_back(
            {name, lc::find_backend("cpu"), thread_counts(target), list.empty() ? 1e12 : 2e7, false, silent, {}});
    }
    return list;
}

const std::vector<Engine>& engines() {
    static const std::vector<Engine> list = [] {
        if (sim_engines) return sim_engines();  // the CPU engines run in the binary without the simulator
        std::vector<Engine> l = cpu_engines();
        for (const lc::DeviceInfo& d : lc::devices()) {
            if (!d.usable || d.name.rfind("cuda", 0) != 0) continue;
            l.push_back({"cuda",
                         &lc::choose_backend(d.name),
                         {{"", [] {}}, {"again", [] {}}},
                         1e12,
                         false,
                         [] { return std::vector<std::string>(); },
                         {}});
            break;
        }
        return l;
    }();
    return list;
}

}  // namespace test

// peak.cpp -- the multiply-add rate of the machine (peak.h).
//
// Twelve chains, because a fused multiply-add takes 4 or 5 cycles and a core can begin two per cycle: fewer than ten
// would wait for each other, more than sixteen would not fit the registers of AVX2.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tests/bench/peak.cpp"
#include "tests/bench/peak.h"

#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace bench::HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;

constexpr int kChains = 12;

// Does `steps` multiply-adds in each lane of each chain and says how many floating-point operations that were.
double burn(int64_t steps, float* result) {
    const hn::ScalableTag<float> d;
    const auto a = hn::Set(d, 0.999f), b = hn::Set(d, 0.001f);
    hn::Vec<decltype(d)> x[kChains];
    for (int i = 0; i < kChains; ++i) x[i] = hn::Set(d, float(i));
    for (int64_t s = 0; s < steps; ++s) {
        HWY_UNROLL(kChains)
        for (int i = 0; i < kChains; ++i) x[i] = hn::MulAdd(x[i], a, b);
    }
    for (int i = 1; i < kChains; ++i) x[0] = hn::Add(x[0], x[i]);
    *result = hn::GetLane(hn::SumOfLanes(d, x[0]));  // else the compiler would see that nobody looks
    return 2.0 * double(kChains) * double(hn::Lanes(d)) * double(steps);
}

}  // namespace
}  // namespace bench::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
    #include <algorithm>
    #include <chrono>
    #include <omp.h>
    #include <vector>

namespace bench {

HWY_EXPORT(burn);

double fma_peak(int threads, double seconds) {
    using Clock = std::chrono::steady_clock;
    const auto since = [](Clock::time_point t) { return std::chrono::duration<double>(Clock::now() - t).count(); };
    const int64_t steps = 100'000;  // about a third of a millisecond
    std::vector<float> results(size_t(threads) * 16);
    double best = 0;
    for (const Clock::time_point start = Clock::now(); best == 0 || since(start) < seconds;) {
        double flops = 0;
        Clock::time_point begin;
    #pragma omp parallel num_threads(threads) reduction(+ : flops)
        {
    #pragma omp barrier
    #pragma omp single
            begin = Clock::now();
            for (int i = 0; i < 3; ++i)
                flops += HWY_DYNAMIC_DISPATCH(burn)(steps, &results[size_t(omp_get_thread_num()) * 16]);
        }
        best = std::max(best, flops / since(begin) * 1e-9);
    }
    return best;
}

}  // namespace bench
#endif

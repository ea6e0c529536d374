// bootstrap.h -- how much a metric would move with another sample of the same size: percentile intervals.
//
//     auto v = bootstrap(n, [&](Counts counts) { return std::vector{mean_of(each, counts)}; }, {.seed = 1});
//     v[0].low, v[0].high                                             an interval for each number that is returned
//
// A replicate draws n rows with replacement and tells how often each was drawn; whoever is asked returns its numbers
// for that, in a pass over what it prepared once.  Draws are Philox bits counted by replicate and row: the same seed
// gives the same intervals for any number of threads, and the same resamples to every statistic.
//
// A metric that adds absolute values (ECE, LCE) grows when rows repeat, so its value may lie below its own interval.
// The interval tells how much the value would move; how much of it is noise, the null distribution tells.
#pragma once
#include <functional>

#include "kernels/philox.h"
#include "kernels/progress.h"
#include "metrics/predictions.h"

namespace lc {

struct BootstrapOptions {
    int64_t replicates = 1000;
    double level = 0.95;  // of the interval: between its quantiles (1 - level) / 2 and (1 + level) / 2
    uint64_t seed = 0;
    Progress progress = {};
};

struct Interval {
    double low = 0, high = 0;
};

// Called by several threads at once, with all zeros never and a sum of n always.  The same number of finite doubles
// each time; what is thrown comes out of bootstrap().
using Statistic = std::function<std::vector<double>(Counts counts)>;
std::vector<Interval> bootstrap(int64_t n, const Statistic& statistic, const BootstrapOptions& options = {});

std::vector<uint16_t> draw_counts(int64_t n, RandomKey key);  // of n draws from n rows

// The q-quantile of values, interpolated between the two nearest (NumPy's rule); sorts them.
double quantile(std::vector<double>& values, double q);

}  // namespace lc

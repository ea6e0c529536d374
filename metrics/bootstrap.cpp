// bootstrap.cpp -- see bootstrap.h.
#include "metrics/bootstrap.h"

#include <algorithm>
#include <cmath>
#include <exception>

#include "kernels/check.h"
#include "kernels/parallel.h"

namespace lc {
namespace {

constexpr uint64_t kStream = uint64_t(4) << 32;  // the streams of random numbers that redraw rows, one per replicate
constexpr int64_t kBatch = 64;                   // replicates between two calls of progress

// Replicates [begin, end) into all[begin] ...; the first of them that throws decides what is thrown.
void run_batch(std::vector<std::vector<double>>& all, int64_t n, const Statistic& statistic, uint64_t seed,
               int64_t begin, int64_t end) {
    std::vector<std::exception_ptr> failures(size_t(end - begin));
    // Where a replicate takes microseconds, waking threads for it takes longer.
    const int64_t at_once = std::clamp<int64_t>((1 << 16) / n, 1, kBatch);
    cpu::for_each_chunk(end - begin, at_once, [&](int64_t k, int64_t last) {
        for (; k < last; ++k) {
            try {
                all[size_t(begin + k)] = statistic(draw_counts(n, {seed, kStream + uint64_t(begin + k)}));
            } catch (...) {
                failures[size_t(k)] = std::current_exception();
            }
        }
    });
    for (const std::exception_ptr& f : failures) {
        if (f) std::rethrow_exception(f);
    }
}

}  // namespace

std::vector<uint16_t> draw_counts(int64_t n, RandomKey key) {
    std::vector<uint16_t> counts(size_t(n), 0);
    const auto draw = [&](uint32_t high, uint32_t low) {  // floor(n x) for x = the 64 bits as a fraction
        const uint64_t bits = uint64_t(high) << 32 | low;
        ++counts[size_t((static_cast<unsigned __int128>(bits) * uint64_t(n)) >> 64)];
    };
    for (int64_t i = 0; i < n; i += 2) {
        const Philox4 r = random_bits4(key, uint64_t(i / 2));
        draw(r.v[0], r.v[1]);
        if (i + 1 < n) draw(r.v[2], r.v[3]);
    }
    return counts;
}

double quantile(std::vector<double>& values, double q) {
    LC_CHECK(!values.empty() && q >= 0 && q <= 1,
             "quantile: expected values and 0 <= q <= 1, found " << values.size() << " values, q = " << q);
    std::sort(values.begin(), values.end());
    const double at = q * double(values.size() - 1);
    const size_t below = std::min(size_t(at), values.size() - 1), above = std::min(below + 1, values.size() - 1);
    return values[below] + (at - double(below)) * (values[above] - values[below]);
}

std::vector<Interval> bootstrap(int64_t n, const Statistic& statistic, const BootstrapOptions& o) {
    LC_CHECK(n >= 1, "bootstrap: expected rows to draw from, found " << n);
    LC_CHECK(o.replicates >= 2, "bootstrap: expected at least 2 replicates, found " << o.replicates);
    LC_CHECK(o.level > 0 && o.level < 1, "bootstrap: expected a level between 0 and 1, found " << o.level);
    std::vector<std::vector<double>> all(size_t(o.replicates));  // (replicates, outputs)
    for (int64_t r = 0; r < o.replicates; r += kBatch) {
        if (o.progress) o.progress(double(r) / double(o.replicates), "bootstrap");
        run_batch(all, n, statistic, o.seed, r, std::min(o.replicates, r + kBatch));
    }
    if (o.progress) o.progress(1, "bootstrap");

    std::vector<Interval> intervals;
    std::vector<double> values(all.size());
    for (size_t k = 0; k < all[0].size(); ++k) {
        for (size_t r = 0; r < all.size(); ++r) {
            LC_CHECK(all[r].size() == all[0].size() && std::isfinite(all[r][k]),
                     "bootstrap: number " << k << " of replicate " << r << " is missing or not finite");
            values[r] = all[r][k];
        }
        intervals.push_back({quantile(values, (1 - o.level) / 2), quantile(values, (1 + o.level) / 2)});
    }
    return intervals;
}

}  // namespace lc

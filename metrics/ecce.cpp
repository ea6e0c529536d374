// ecce.cpp -- see ecce.h.
#include "metrics/ecce.h"

#include <cmath>
#include <limits>
#include <numeric>

#include "kernels/check.h"
#include "kernels/parallel.h"
#include "metrics/brownian.h"

namespace lc {

double ecce(const BinTable& t, std::span<const double> pi, EcceMode mode) {
    LC_CHECK(mode != EcceMode::range, "ecce: the range needs no bins; call cumulative_error_by_class");
    double result = 0;
    for (int64_t c = 0; c < t.C; ++c) {
        double cumulative = 0, sum = 0;
        int64_t bins = 0;
        for (int64_t b = 0; b < t.B; ++b) {
            if (t.rows[t.at(b, c)] == 0) continue;
            cumulative += (t.sum_p[t.at(b, c)] - t.sum_y[t.at(b, c)]) / t.n;
            sum += std::abs(cumulative);
            ++bins;
        }
        if (bins > 0) result += pi[size_t(c)] * (mode == EcceMode::authors ? sum / double(bins) : sum);
    }
    return result;
}

CumulativeWalk::CumulativeWalk(const Outcomes& o) {
    const size_t n = o.confidence.size();
    LC_CHECK(n >= 1 && n <= size_t(std::numeric_limits<int32_t>::max()),
             "ecce: expected at least one row, found " << n);
    order_.resize(n);
    std::iota(order_.begin(), order_.end(), 0);
    const auto p = [&](int32_t i) { return o.confidence[size_t(i)]; };
    std::stable_sort(order_.begin(), order_.end(), [&](int32_t i, int32_t j) { return p(i) < p(j); });
    for (size_t k = 0; k < n; ++k) {
        step_.push_back(o.happened[size_t(order_[k])] - p(order_[k]));
        ends_.push_back(k + 1 == n || p(order_[k]) < p(order_[k + 1]));
    }
}

CumulativeWalk::Extremes CumulativeWalk::operator()(Counts counts) const {
    double sum = 0, low = 0, high = 0, rows = 0;
    for (size_t k = 0; k < step_.size(); ++k) {
        const double times = count_of_row(counts, order_[k]);
        sum += times * step_[k];
        rows += times;
        if (!ends_[k]) continue;
        low = std::min(low, sum);
        high = std::max(high, sum);
    }
    return {(high - low) / rows, std::max(high, -low) / rows};
}

CumulativeError cumulative_error(const Outcomes& o) {
    const CumulativeWalk::Extremes e = CumulativeWalk(o)();
    double variance = 0;
    for (const double p : o.confidence) variance += p * (1 - p);
    CumulativeError r = {.range = e.range, .max_abs = e.max_abs, .sigma = std::sqrt(variance) / double(o.size())};
    if (r.sigma > 0) {
        r.p_range = brownian_range_tail(r.range / r.sigma);
        r.p_max_abs = brownian_max_abs_tail(r.max_abs / r.sigma);
    } else {
        r.p_range = r.p_max_abs = r.range > 0 ? 0 : 1;
    }
    return r;
}

ClasswiseCumulativeError cumulative_error_by_class(const Predictions& s, std::span<const double> pi) {
    check_weights(pi, s.C);
    ClasswiseCumulativeError r;
    r.by_class.resize(size_t(s.C));
    cpu::for_each_chunk(s.C, 1,
                        [&](int64_t c, int64_t) { r.by_class[size_t(c)] = cumulative_error(class_outcomes(s, c)); });
    for (int64_t c = 0; c < s.C; ++c) {
        const CumulativeError& e = r.by_class[size_t(c)];
        r.mean.range += pi[size_t(c)] * e.range;
        r.mean.max_abs += pi[size_t(c)] * e.max_abs;
        r.mean.sigma += pi[size_t(c)] * e.sigma;
        r.mean.p_range = std::min(r.mean.p_range, double(s.C) * e.p_range);
        r.mean.p_max_abs = std::min(r.mean.p_max_abs, double(s.C) * e.p_max_abs);
    }
    return r;
}

}  // namespace lc

// ece.cpp -- see ece.h.
#include "metrics/ece.h"

#include <algorithm>
#include <cmath>

namespace lc {
namespace {

double distance(double freq, double conf) { return std::abs(freq - conf); }

const std::vector<double> kOneClass = {1.0};

std::vector<double> weights_or_uniform(std::span<const double> pi, int64_t C) {
    if (pi.empty()) return uniform_weights(C);
    check_weights(pi, C);
    return {pi.begin(), pi.end()};
}

BinTable by_class(const Predictions& s, const Binning& binning) {
    return tabulate(s, assign_bins_by_class(s, binning), binning.bins);
}

BinTable of_list(const Outcomes& o, const Binning& binning) {
    return tabulate(o, assign_bins(o.confidence, binning), binning.bins);
}

}  // namespace

double ece(const BinTable& t, std::span<const double> pi) { return binned_metric(t, pi, distance); }

double mce(const BinTable& t, std::span<const double> pi) {
    double sum = 0;
    for (int64_t c = 0; c < t.C; ++c) {
        double most = 0;
        for (int64_t b = 0; b < t.B; ++b) {
            if (t.rows[t.at(b, c)] > 0) most = std::max(most, distance(t.freq(b, c), t.conf(b, c)));
        }
        sum += pi[size_t(c)] * most;
    }
    return sum;
}

double ece(const Predictions& s, const Binning& binning, std::span<const double> pi) {
    return ece(by_class(s, binning), weights_or_uniform(pi, s.C));
}

double mce(const Predictions& s, const Binning& binning, std::span<const double> pi) {
    return mce(by_class(s, binning), weights_or_uniform(pi, s.C));
}

double ece_top(const Predictions& s, const Binning& binning) { return ece(of_list(top_label(s), binning), kOneClass); }

double mce_top(const Predictions& s, const Binning& binning) { return mce(of_list(top_label(s), binning), kOneClass); }

double calibration_error(const Outcomes& o, const Binning& binning, Norm norm) {
    const BinTable t = of_list(o, binning);
    if (norm == Norm::l1) return ece(t, kOneClass);
    if (norm == Norm::max) return mce(t, kOneClass);
    return std::sqrt(binned_metric(t, kOneClass, [](double f, double p) { return (f - p) * (f - p); }));
}

Cells simplex_cells(const Predictions& s, int64_t B) {
    const std::vector<int32_t> bin = assign_bins_by_class(s, {.bins = B});
    const auto row = [&](int64_t i) { return bin.begin() + i * s.C; };
    return group_rows(s.n, [&](int64_t i, int64_t j) {
        return std::lexicographical_compare(row(i), row(i) + s.C, row(j), row(j) + s.C);
    });
}

double ece_multi(const Predictions& s, const Cells& cells, std::span<const double> pi, Counts counts) {
    return binned_metric(s, cells, weights_or_uniform(pi, s.C), distance, counts);
}

}  // namespace lc

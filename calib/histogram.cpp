// histogram.cpp -- see histogram.h.
#include "calib/histogram.h"

#include <algorithm>

namespace lc {
namespace {

constexpr int64_t kBins = 15;

size_t bin_of(std::span<const double> begins, double p) {
    const size_t above = size_t(std::upper_bound(begins.begin(), begins.end(), p) - begins.begin());
    return above == 0 ? 0 : above - 1;
}

// Parameters of a class: where its bins begin, then the share of the class in each.
ClassFit fit(const ClassRows& rows) {
    const std::vector<double> scores = rows.scores(), positive = rows.positives();
    std::vector<double> sorted = scores, begins;
    std::sort(sorted.begin(), sorted.end());
    for (int64_t b = 0; b < kBins; ++b) {
        const double first = sorted[size_t(b * rows.n / kBins)];
        if (begins.empty() || first > begins.back()) begins.push_back(first);
    }
    std::vector<double> yes(begins.size()), all(begins.size());
    for (size_t i = 0; i < scores.size(); ++i) {
        const size_t b = bin_of(begins, scores[i]);
        yes[b] += positive[i], all[b] += 1;
    }
    ClassFit result = {begins, true};
    for (size_t b = 0; b < begins.size(); ++b) result.parameters.push_back(yes[b] / all[b]);
    return result;
}

double apply(std::span<const double> v, const double* row, int64_t, int64_t c) {
    const size_t m = v.size() / 2;
    return v[m + bin_of(v.first(m), row[c])];
}

bool valid(std::span<const double> v, int64_t) {
    const size_t m = v.size() / 2;
    if (m < 1 || v.size() != 2 * m) return false;
    for (size_t b = 0; b < m; ++b) {
        if (!(v[b] >= 0 && v[b] <= 1 && v[m + b] >= 0 && v[m + b] <= 1)) return false;
        if (b > 0 && !(v[b] > v[b - 1])) return false;
    }
    return true;
}

}  // namespace

const ClassMethod kHistogram = {"hb", "auto", "15 equal-mass bins, floor", true, fit, apply, valid};

}  // namespace lc

// bins.cpp -- see bins.h.
#include "metrics/bins.h"

#include <algorithm>
#include <cmath>

#include "kernels/check.h"
#include "kernels/parallel.h"

namespace lc {
namespace {

constexpr int64_t kMostBins = 1 << 20;
constexpr int64_t kRows = 4096;  // that a thread takes at a time

void check_bins(int64_t B) {
    LC_CHECK(B >= 1 && B <= kMostBins, "bins: expected 1 to " << kMostBins << ", found " << B);
}

}  // namespace

std::vector<double> equal_width_edges(int64_t B) {
    check_bins(B);
    std::vector<double> edges;
    for (int64_t i = 0; i <= B; ++i) edges.push_back(double(i) / double(B));
    return edges;
}

std::vector<double> equal_mass_edges(std::span<const double> values, int64_t B) {
    check_bins(B);
    LC_CHECK(!values.empty(), "bins: expected values to divide, found none");
    std::vector<double> sorted(values.begin(), values.end());
    for (const double v : sorted) LC_CHECK(!std::isnan(v), "bins: expected numbers, found a NaN");
    std::sort(sorted.begin(), sorted.end());
    const int64_t n = int64_t(sorted.size());
    std::vector<double> edges = {sorted.front()};
    for (int64_t b = 1; b < B; ++b) {  // bin b begins with the value that has b shares of n below it
        const double first = sorted[size_t(b * n / B)];
        if (first > edges.back()) edges.push_back(first);
    }
    edges.push_back(sorted.back());  // may repeat the edge before it: the last bin is closed, and holds that one value
    return edges;
}

int64_t bin_of(double p, const std::vector<double>& edges) {
    const int64_t above = std::upper_bound(edges.begin(), edges.end(), p) - edges.begin();
    return std::clamp<int64_t>(above - 1, 0, int64_t(edges.size()) - 2);
}

std::vector<int32_t> assign_bins(std::span<const double> values, const Binning& binning) {
    const std::vector<double> edges =
        binning.equal_mass ? equal_mass_edges(values, binning.bins) : equal_width_edges(binning.bins);
    std::vector<int32_t> bin;
    for (const double v : values) bin.push_back(int32_t(bin_of(v, edges)));
    return bin;
}

std::vector<int32_t> assign_bins_by_class(const Predictions& s, const Binning& binning) {
    std::vector<int32_t> bin(size_t(s.n * s.C));
    if (!binning.equal_mass) {
        const std::vector<double> edges = equal_width_edges(binning.bins);
        cpu::for_each_chunk(s.n, kRows, [&](int64_t begin, int64_t end) {
            for (int64_t k = begin * s.C; k < end * s.C; ++k) bin[size_t(k)] = int32_t(bin_of(s.p[size_t(k)], edges));
        });
        return bin;
    }
    check_bins(binning.bins);
    cpu::for_each_chunk(s.C, 1, [&](int64_t c, int64_t) {
        std::vector<double> column;
        for (int64_t i = 0; i < s.n; ++i) column.push_back(s.row(i)[c]);
        const std::vector<double> edges = equal_mass_edges(column, binning.bins);
        for (int64_t i = 0; i < s.n; ++i) bin[size_t(i * s.C + c)] = int32_t(bin_of(column[size_t(i)], edges));
    });
    return bin;
}

}  // namespace lc

// proximity.cpp -- see proximity.h.
#include "metrics/proximity.h"

#include <algorithm>
#include <cmath>

#include "metrics/ece.h"

namespace lc {
namespace {

void check_distances(std::span<const double> distance, int64_t n) {
    LC_CHECK(int64_t(distance.size()) == n,
             "proximity: expected a distance for each of " << n << " rows, found " << distance.size());
}

}  // namespace

std::vector<double> neighbour_distance(const Tensor& Z, int64_t k) {
    const int64_t n = Z.rows();
    LC_CHECK(n >= 2, "proximity: expected at least 2 rows, found " << n << "; a single row has no neighbour");
    LC_CHECK(k >= 1, "proximity: expected at least one neighbour, found k = " << k);
    k = std::min(k, n - 1);
    const Backend& b = Z.backend();
    Tensor nearest(b, {n, k});
    b.knn(nearest.data(), Z.data(), Z.data(), {.n = n, .m = n, .d = Z.cols(), .k = k, .leave_one_out = true}, nullptr);
    const std::vector<float> all = nearest.to_host();
    std::vector<double> distance;
    for (int64_t i = 0; i < n; ++i) {
        double sum = 0;
        for (int64_t j = 0; j < k; ++j) sum += double(all[size_t(i * k + j)]);
        LC_CHECK(std::isfinite(sum), "proximity: expected finite features, found none that are near row " << i);
        distance.push_back(sum / double(k));
    }
    return distance;
}

std::vector<double> proximity(std::span<const double> distance) {
    std::vector<double> p;
    for (const double d : distance) p.push_back(std::exp(-d));
    return p;
}

std::vector<int32_t> proximity_cells(const Outcomes& o, std::span<const double> distance,
                                     const ProximityBinning& binning) {
    check_distances(distance, o.size());
    LC_CHECK(binning.proximity_bins >= 1 && binning.confidence.bins >= 1 && binning.cells() <= 1 << 24,
             "proximity: expected some bins of confidence and of proximity, found " << binning.confidence.bins << " x "
                                                                                    << binning.proximity_bins);
    std::vector<double> near;
    for (const double d : distance) near.push_back(-d);
    const std::vector<int32_t> inner = assign_bins(near, {.bins = binning.proximity_bins, .equal_mass = true});
    std::vector<int32_t> cell = assign_bins(o.confidence, binning.confidence);
    for (size_t i = 0; i < cell.size(); ++i) cell[i] = int32_t(cell[i] * binning.proximity_bins + inner[i]);
    return cell;
}

double piece(const Predictions& s, std::span<const double> distance, const ProximityBinning& binning) {
    const Outcomes o = top_label(s);
    return ece(tabulate(o, proximity_cells(o, distance, binning), binning.cells()), uniform_weights(1));
}

ProximityHalves proximity_halves(const Predictions& s, std::span<const double> distance, const Binning& binning) {
    check_distances(distance, s.n);
    const Cells bins = group_rows(assign_bins(top_label(s).confidence, binning));
    int64_t most = 0;
    const auto rows_of = [&](int64_t b) { return bins.begin[size_t(b) + 1] - bins.begin[size_t(b)]; };
    for (int64_t b = 1; b < bins.size(); ++b) {
        if (rows_of(b) > rows_of(most)) most = b;
    }
    std::vector<int64_t> rows(bins.order.begin() + bins.begin[size_t(most)],
                              bins.order.begin() + bins.begin[size_t(most) + 1]);
    std::stable_sort(rows.begin(), rows.end(),
                     [&](int64_t i, int64_t j) { return distance[size_t(i)] < distance[size_t(j)]; });
    const auto middle = rows.begin() + int64_t(rows.size()) / 2;
    return {{rows.begin(), middle}, {middle, rows.end()}};
}

}  // namespace lc

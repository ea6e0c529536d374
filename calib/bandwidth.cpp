// bandwidth.cpp -- see bandwidth.h.
#include "calib/bandwidth.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace lc {

BandwidthChoice choose_bandwidth(const Tensor& z, const Buffer<int32_t>& labels) {
    constexpr int64_t kSteps = 13;
    const Backend& b = z.backend();
    const int64_t n = z.rows(), k = z.cols();
    double square = 0;
    for (const float x : z.to_host()) square += double(x) * double(x);
    const double norm = std::sqrt(square / double(n));
    if (!(norm > 0)) throw Error("the features are the same in every row; there are no neighbourhoods to calibrate in");

    BandwidthChoice choice;
    std::vector<float> gammas;
    for (int64_t g = 0; g < kSteps; ++g) {
        choice.grid.push_back(norm * std::pow(2.0, -double(g) / 2));
        gammas.push_back(float(choice.grid.back()));
    }
    const Tensor grid = Tensor::from(b, {kSteps}, gammas);
    Tensor nll(b, {n, kSteps});
    b.nw_bandwidth(nll.data(), z.data(), labels.data(), grid.data(), n, k, kSteps, nullptr);

    choice.nll.assign(kSteps, 0.0);
    int64_t counted = 0;
    const std::vector<float> rows = nll.to_host();  // (n, kSteps)
    for (int64_t i = 0; i < n; ++i) {
        const float* row = rows.data() + i * kSteps;
        if (std::isinf(row[0])) continue;  // alone in its class, for every bandwidth
        ++counted;
        for (int64_t g = 0; g < kSteps; ++g) choice.nll[size_t(g)] += double(row[g]);
    }
    choice.rows_without_class = n - counted;
    if (counted == 0) throw Error("no class has two rows; calibration needs several rows of each class");
    for (double& v : choice.nll) v /= double(counted);
    const auto best = std::min_element(choice.nll.begin(), choice.nll.end());
    choice.gamma = choice.grid[size_t(best - choice.nll.begin())];
    return choice;
}

Tensor neighbour_bandwidth(const Tensor& queries, const Tensor& references, int64_t k, bool leave_one_out) {
    const Backend& b = queries.backend();
    const int64_t n = queries.rows(), m = references.rows();
    k = std::min(k, m - (leave_one_out ? 1 : 0));
    Tensor distances(b, {n, k});
    b.knn(distances.data(), queries.data(), references.data(),
          {.n = n, .m = m, .d = queries.cols(), .k = k, .leave_one_out = leave_one_out}, nullptr);
    const std::vector<float> all = distances.to_host();
    std::vector<float> gamma;
    for (int64_t i = 0; i < n; ++i) gamma.push_back(all[size_t(i * k + k - 1)]);
    const double mean = std::accumulate(gamma.begin(), gamma.end(), 0.0) / double(n);
    const float least = mean > 0 ? float(mean * 1e-3) : 1e-6f;
    for (float& g : gamma) g = std::max(g, least);
    return Tensor::from(b, {n}, gamma);
}

}  // namespace lc

// null.cpp -- see null.h.
#include "metrics/null.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "kernels/parallel.h"
#include "kernels/random.h"

namespace lc {
namespace {

constexpr uint64_t kLabelStream = 0x6c6162656c;  // apart from every other draw of a run

// sum over bins of |sum of p - number of hits| / n, for each class
double binned_error(const std::vector<double>& expected, const std::vector<int64_t>& hits, size_t first, size_t bins,
                    int64_t n) {
    double error = 0;
    for (size_t b = first; b < first + bins; ++b) error += std::abs(expected[b] - double(hits[b]));
    return error / double(n);
}

}  // namespace

NullScore against_null(double value, const std::vector<double>& null) {
    NullScore s;
    const double draws = double(null.size());
    s.mean = std::accumulate(null.begin(), null.end(), 0.0) / draws;
    double square = 0;
    for (const double x : null) square += (x - s.mean) * (x - s.mean);
    s.deviation = null.size() > 1 ? std::sqrt(square / (draws - 1)) : 0;
    s.excess = value - s.mean;
    s.z = s.deviation > 0 ? s.excess / s.deviation : 0;
    const auto above = std::count_if(null.begin(), null.end(), [&](double x) { return x >= value; });
    s.p = (1 + double(above)) / (1 + draws);
    return s;
}

std::vector<int32_t> draw_labels(const Predictions& s, int64_t draws, uint64_t seed) {
    std::vector<double> below(s.p.size());  // (n, C): sum of p up to and with class c
    for (int64_t i = 0; i < s.n; ++i) std::partial_sum(s.row(i), s.row(i) + s.C, below.begin() + i * s.C);
    std::vector<int32_t> labels(size_t(draws * s.n));
    cpu::for_each_chunk(draws, 1, [&](int64_t b, int64_t) {
        for (int64_t i = 0; i < s.n; ++i) {
            const auto first = below.begin() + i * s.C, last = first + s.C;
            const double u = random_unit({seed, kLabelStream + uint64_t(b)}, uint64_t(i)) * *(last - 1);
            labels[size_t(b * s.n + i)] = int32_t(std::min(std::upper_bound(first, last, u), last - 1) - first);
        }
    });
    return labels;
}

LocalNull local_null(const Tensor& z, const Predictions& s, const LocalErrors& e, const std::vector<double>& weights,
                     LceMode lce, MlceMode mlce, const std::vector<int32_t>& labels, const Progress& progress) {
    const Backend& b = z.backend();
    const int64_t C = s.C, B = int64_t(labels.size()) / s.n;
    const Tensor p = Tensor::from(b, {s.n, C}, std::vector<float>(s.p.begin(), s.p.end()));
    const Buffer<int32_t> bin = to_device(b, e.bin), drawn = to_device(b, labels);
    const std::vector<float> one = {float(e.options.gamma)};
    const Tensor gamma = Tensor::from(b, {1}, one);
    Tensor total(b, {B, C}), largest(b, {B, C}), row_most(b, {B});
    const LocalError in{.n = s.n,
                        .d = z.cols(),
                        .C = C,
                        .Z = z.data(),
                        .residual = p.data(),
                        .bin = bin.data(),
                        .gammas = gamma.data(),
                        .include_self = e.options.include_self};
    b.local_error_null({total.data(), largest.data(), row_most.data()}, in, drawn.data(), B, progress, nullptr);

    std::vector<double> rows(static_cast<size_t>(C));
    for (int64_t k = 0; k < s.n * C; ++k) rows[size_t(k % C)] += e.kept(k);
    const std::vector<float> sums = total.to_host(), most = largest.to_host(), row = row_most.to_host();
    LocalNull null;
    for (int64_t d = 0; d < B; ++d) {
        double mean = 0;
        for (int64_t c = 0; c < C; ++c) {
            const double n = lce == LceMode::all_rows ? double(s.n) : rows[size_t(c)];
            if (n > 0) mean += weights[size_t(c)] * double(sums[size_t(d * C + c)]) / n;
        }
        const std::vector<double> class_most(most.begin() + d * C, most.begin() + (d + 1) * C);
        null.lce.push_back(mean);
        null.mlce.push_back(mlce_of(class_most, double(row[size_t(d)]), weights, mlce));
    }
    return null;
}

BinnedNull binned_null(const Predictions& s, const std::vector<double>& weights, const Binning& binning,
                       const std::vector<int32_t>& labels) {
    const size_t B = size_t(binning.bins), C = size_t(s.C), n = size_t(s.n), draws = labels.size() / n;
    const Outcomes top = top_label(s);
    std::vector<int32_t> place = assign_bins_by_class(s, binning);  // (n, C): class and bin of an entry in one number
    const std::vector<int32_t> top_place = assign_bins(top.confidence, binning);
    std::vector<double> expected(C * B), top_expected(B);  // sums of p
    for (size_t k = 0; k < n * C; ++k) {
        place[k] += int32_t(k % C * B);
        expected[size_t(place[k])] += s.p[k];
    }
    std::vector<int32_t> top_of(n);
    for (size_t i = 0; i < n; ++i) {
        top_of[i] = top_class(s.row(int64_t(i)), s.C);
        top_expected[size_t(top_place[i])] += top.confidence[i];
    }
    BinnedNull null{std::vector<double>(draws), std::vector<double>(draws)};
    cpu::for_each_chunk(int64_t(draws), 1, [&](int64_t d, int64_t) {
        std::vector<int64_t> hits(C * B), top_hits(B);
        for (size_t i = 0; i < n; ++i) {
            const int32_t label = labels[size_t(d) * n + i];
            ++hits[size_t(place[i * C + size_t(label)])];
            top_hits[size_t(top_place[i])] += label == top_of[i];
        }
        for (size_t c = 0; c < C; ++c) {
            null.ece[size_t(d)] += weights[c] * binned_error(expected, hits, c * B, B, s.n);
        }
        null.ece_top[size_t(d)] = binned_error(top_expected, top_hits, 0, B, s.n);
    });
    return null;
}

}  // namespace lc

// local.cpp -- see local.h.
#include "metrics/local.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "metrics/bins.h"

namespace lc {
namespace {

void check_rows(const Tensor& z, const Predictions& s) {
    LC_CHECK(z.rows() == s.n, "features and probabilities need the same rows; found " << z.rows() << " and " << s.n);
}

double median_of(std::vector<float> values) {
    if (values.empty()) return 0;
    const size_t middle = values.size() / 2;
    std::nth_element(values.begin(), values.begin() + int64_t(middle), values.end());
    const double upper = double(values[middle]);
    if (values.size() % 2 == 1) return upper;
    return (upper + double(*std::max_element(values.begin(), values.begin() + int64_t(middle)))) / 2;
}

std::vector<float> residuals(const Predictions& s) {
    std::vector<float> r(s.p.begin(), s.p.end());
    for (int64_t i = 0; i < s.n; ++i) {
        const int64_t own = i * s.C + s.labels[size_t(i)];
        r[size_t(own)] = float(s.p[size_t(own)] - 1.0);
    }
    return r;
}

}  // namespace

std::vector<int32_t> class_bins(const Predictions& s, int64_t bins, int64_t min_bin) {
    LC_CHECK(bins >= 1 && bins <= kMostBins, "there are from 1 to " << kMostBins << " bins; found " << bins);
    LC_CHECK(min_bin >= 0, "a bin is kept where it has more rows than a number from 0; found " << min_bin);
    std::vector<int32_t> bin = assign_bins_by_class(s, {bins, false});
    std::vector<int64_t> count(size_t(bins * s.C));  // (bins, C)
    for (int64_t k = 0; k < s.n * s.C; ++k) ++count[size_t(bin[size_t(k)] * s.C + k % s.C)];
    for (int64_t k = 0; k < s.n * s.C; ++k) {
        if (count[size_t(bin[size_t(k)] * s.C + k % s.C)] <= min_bin) bin[size_t(k)] = -1;
    }
    return bin;
}

LocalMeans local_means(const Tensor& z, const std::vector<float>& x, const std::vector<int32_t>& bin,
                       const std::vector<double>& gammas, bool include_self, const Progress& progress,
                       const std::vector<float>* phi) {
    for (const double gamma : gammas) {
        LC_CHECK(std::isfinite(gamma) && gamma > 0, "gamma is a length above 0; found " << gamma);
    }
    const Backend& b = z.backend();
    const int64_t n = z.rows(), C = int64_t(x.size()) / n, G = int64_t(gammas.size());
    const Tensor values = Tensor::from(b, {n, C}, x);
    const Tensor lengths = Tensor::from(b, {G}, std::vector<float>(gammas.begin(), gammas.end()));
    const Buffer<int32_t> bins = to_device(b, bin);
    Tensor mean(b, {G, n, C}), weight(b, {G, n, C}), n_eff(b, {G, n, C});
    LocalError in{.n = n,
                  .d = z.cols(),
                  .C = C,
                  .G = G,
                  .Z = z.data(),
                  .residual = values.data(),
                  .bin = bins.data(),
                  .gammas = lengths.data(),
                  .include_self = include_self};
    Tensor around, spread;
    if (phi != nullptr) {
        in.m = int64_t(phi->size()) / n;
        around = Tensor::from(b, {n, in.m}, *phi);
        spread = Tensor(b, {G, n, C});
        in.phi = around.data();
    }
    b.local_error({mean.data(), weight.data(), n_eff.data(), phi == nullptr ? nullptr : spread.data()}, in, progress,
                  nullptr);
    return {mean.to_host(), weight.to_host(), n_eff.to_host(),
            phi == nullptr ? std::vector<float>() : spread.to_host()};
}

LocalErrors local_errors(const Tensor& z, const Predictions& s, const LocalOptions& o, const Progress& progress) {
    check_rows(z, s);
    LocalErrors e{.n = s.n, .C = s.C, .options = o, .bin = class_bins(s, o.bins, o.min_bin)};
    LocalMeans m = local_means(z, residuals(s), e.bin, {o.gamma}, o.include_self, progress);
    e.error = std::move(m.mean), e.weight = std::move(m.weight), e.n_eff = std::move(m.n_eff);
    return e;
}

LocalErrors local_errors_with_spread(const Tensor& z, const Predictions& s, const LocalOptions& o,
                                     const std::vector<float>& phi, std::vector<float>& spread,
                                     const Progress& progress) {
    check_rows(z, s);
    LocalErrors e{.n = s.n, .C = s.C, .options = o, .bin = class_bins(s, o.bins, o.min_bin)};
    LocalMeans m = local_means(z, residuals(s), e.bin, {o.gamma}, o.include_self, progress, &phi);
    e.error = std::move(m.mean), e.weight = std::move(m.weight), e.n_eff = std::move(m.n_eff);
    spread = std::move(m.spread);
    return e;
}

double lce_of(const LocalErrors& e, const std::vector<double>& weights, LceMode mode) {
    std::vector<double> sum(size_t(e.C)), rows(size_t(e.C));
    for (int64_t k = 0; k < e.n * e.C; ++k) {
        if (!e.kept(k)) continue;
        sum[size_t(k % e.C)] += std::abs(double(e.error[size_t(k)]));
        rows[size_t(k % e.C)] += 1;
    }
    double lce = 0;
    for (size_t c = 0; c < size_t(e.C); ++c) {
        const double n = mode == LceMode::all_rows ? double(e.n) : rows[c];
        if (n > 0) lce += weights[c] * sum[c] / n;  // a class without entries has no error to show
    }
    return lce;
}

double mlce_of(const LocalErrors& e, const std::vector<double>& weights, MlceMode mode) {
    std::vector<double> most(size_t(e.C));
    double row_most = 0;
    for (int64_t i = 0; i < e.n; ++i) {
        double row = 0;
        for (int64_t c = 0; c < e.C; ++c) {
            const double x = std::abs(double(e.error[size_t(i * e.C + c)]));
            most[size_t(c)] = std::max(most[size_t(c)], x);
            row += x;
        }
        row_most = std::max(row_most, row);
    }
    return mlce_of(most, row_most, weights, mode);
}

double mlce_of(const std::vector<double>& class_most, double row_most, const std::vector<double>& weights,
               MlceMode mode) {
    if (mode == MlceMode::row_l1) return row_most;
    if (mode == MlceMode::largest) return *std::max_element(class_most.begin(), class_most.end());
    return std::inner_product(class_most.begin(), class_most.end(), weights.begin(), 0.0);
}

LocalCounts counts_of(const LocalErrors& e) {
    LocalCounts count{.entries = e.n * e.C};
    std::vector<float> n_eff;
    for (int64_t k = 0; k < e.n * e.C; ++k) {
        if (e.bin[size_t(k)] < 0) {
            ++count.dropped;
        } else if (!e.kept(k)) {
            ++count.isolated;
        } else {
            n_eff.push_back(e.n_eff[size_t(k)]);
        }
    }
    count.median_n_eff = median_of(std::move(n_eff));
    return count;
}

std::vector<ProfileGroup> n_eff_profile(const LocalErrors& e, int64_t groups) {
    std::vector<std::pair<float, float>> entries;  // n_eff, |error|
    for (int64_t k = 0; k < e.n * e.C; ++k) {
        if (e.kept(k)) entries.emplace_back(e.n_eff[size_t(k)], std::abs(e.error[size_t(k)]));
    }
    std::sort(entries.begin(), entries.end());
    const int64_t n = int64_t(entries.size());
    std::vector<ProfileGroup> profile;
    for (int64_t g = 0; g < groups; ++g) {
        const int64_t begin = n * g / groups, end = n * (g + 1) / groups;
        if (begin == end) continue;
        ProfileGroup group{.n_eff_low = double(entries[size_t(begin)].first),
                           .n_eff_high = double(entries[size_t(end - 1)].first),
                           .entries = end - begin};
        for (int64_t k = begin; k < end; ++k)
            group.mean_error += double(entries[size_t(k)].second) / double(end - begin);
        profile.push_back(group);
    }
    return profile;
}

ScoringBandwidth scoring_bandwidth(const Tensor& z, const Predictions& s, LocalOptions o, const Progress& progress) {
    constexpr int kSteps = 13;
    constexpr double kEnough = 100;
    double square = 0;
    for (const float x : z.to_host()) square += double(x) * double(x);
    const double norm = std::sqrt(square / double(s.n));
    if (!(norm > 0)) throw Error("the features are the same in every row; there are no neighbourhoods to score");
    const auto at_step = [&](int step) {
        o.gamma = norm * std::pow(2.0, -double(step) / 2);
        return ScoringBandwidth{o.gamma, counts_of(local_errors(z, s, o, progress)).median_n_eff, true};
    };
    ScoringBandwidth best = at_step(0);
    if (best.median_n_eff < kEnough) {
        best.reached = false;
        return best;
    }
    int enough = 0,
        too_small = kSteps;  // step `enough` has a median of 100, step `too_small` has not or is off the grid
    while (too_small - enough > 1) {
        const int middle = (enough + too_small) / 2;
        const ScoringBandwidth tried = at_step(middle);
        if (tried.median_n_eff >= kEnough) {
            enough = middle, best = tried;
        } else {
            too_small = middle;
        }
    }
    return best;
}

std::vector<SweepLine> sweep(const Tensor& z, const Predictions& s, const LocalOptions& o,
                             const std::vector<double>& gammas, const std::vector<double>& weights, LceMode lce,
                             MlceMode mlce, const Progress& progress) {
    check_rows(z, s);
    LocalErrors e{.n = s.n, .C = s.C, .options = o, .bin = class_bins(s, o.bins, o.min_bin)};
    const LocalMeans m = local_means(z, residuals(s), e.bin, gammas, o.include_self, progress);
    const int64_t each = s.n * s.C;
    std::vector<SweepLine> lines;
    for (int64_t g = 0; g < int64_t(gammas.size()); ++g) {
        const auto part = [&](const std::vector<float>& all) {
            return std::vector<float>(all.begin() + g * each, all.begin() + (g + 1) * each);
        };
        e.error = part(m.mean), e.weight = part(m.weight), e.n_eff = part(m.n_eff);
        const LocalCounts count = counts_of(e);
        lines.push_back({gammas[size_t(g)], lce_of(e, weights, lce), mlce_of(e, weights, mlce), count.median_n_eff,
                         count.isolated});
    }
    return lines;
}

LocalCalibration local_calibration(const Tensor& z, const Predictions& s, double gamma) {
    check_rows(z, s);
    LC_CHECK(std::isfinite(gamma) && gamma > 0, "gamma is a length above 0; found " << gamma);
    LC_CHECK(s.n >= 2, "local calibration compares a row with the others; found one row");
    const Backend& b = z.backend();
    const Buffer<int32_t> labels = to_device(b, s.labels);
    const std::vector<float> one = {float(gamma)};
    const Tensor bandwidth = Tensor::from(b, {1}, one);
    Tensor theta(b, {s.n, s.C}), log_norm(b, {s.n});
    NwSmooth in{.n = s.n, .m = s.n, .d = z.cols(), .C = s.C, .Q = z.data(), .R = z.data(), .labels = labels.data()};
    in.gamma = bandwidth.data();
    in.leave_one_out = true;
    b.nw_smooth({theta.data(), log_norm.data(), nullptr}, in, nullptr);

    LocalCalibration r{.n = s.n, .C = s.C, .theta = theta.to_host()};
    for (int64_t i = 0; i < s.n; ++i) {
        double l1 = 0;
        for (int64_t c = 0; c < s.C; ++c) {
            const double x = std::abs(s.row(i)[c] - double(r.theta[size_t(i * s.C + c)]));
            l1 += x;
            r.largest = std::max(r.largest, x);
        }
        r.l1.push_back(l1);
    }
    std::vector<double> sorted = r.l1;
    std::sort(sorted.begin(), sorted.end());
    r.epsilon = sorted.back();
    for (const double q : {.5, .9, .95, .99}) {
        r.quantiles.push_back(sorted[size_t(std::llround(q * double(s.n - 1)))]);
    }
    return r;
}

}  // namespace lc

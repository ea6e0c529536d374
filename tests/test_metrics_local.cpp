// Local calibration error: published numbers, what must hold for any input, and noise.
#include <cmath>
#include <gtest/gtest.h>
#include <numeric>

#include "calib/methods.h"
#include "calib/temperature.h"
#include "metrics/ece.h"
#include "metrics/neighbourhoods.h"
#include "metrics/null.h"
#include "metrics/scorecard.h"
#include "nn/pca.h"
#include "tests/metrics_data.h"
#include "tests/real_data.h"

namespace {

using lc::LceMode;
using lc::LocalErrors;
using lc::LocalOptions;
using lc::MlceMode;
using lc::Predictions;
using lc::Tensor;

const lc::Backend& cpu() { return *lc::find_backend("cpu"); }

Tensor random_rows(int64_t n, int64_t d, uint64_t seed) {
    return Tensor::from(cpu(), {n, d}, lc::random_normal({seed, 9}, n * d));
}

Tensor reduced(const std::vector<float>& features, int64_t n, int64_t d, int64_t k) {
    const Tensor x = Tensor::from(cpu(), {n, d}, features);
    Tensor z(cpu(), {n, k});
    lc::PcaTransform(cpu(), lc::fit_pca(cpu(), x.data(), n, d, k))(z.data(), x.data(), n);
    return z;
}

double lce(const LocalErrors& e, LceMode mode = LceMode::kept_rows) {
    return lc::lce_of(e, lc::uniform_weights(e.C), mode);
}
double mlce(const LocalErrors& e, MlceMode mode) { return lc::mlce_of(e, lc::uniform_weights(e.C), mode); }

// ---- published numbers ----------------------------------------------------------------------------------------------

class MetricsLocalReference : public test::RealData {};

TEST_F(MetricsLocalReference, dumps_as_the_authors_function_prints_them) {
    struct Line {
        const char* name;
        double gamma, lce, mlce;
    };
    for (const Line& want : {Line{"cifar10_resnet20", 10, .0097918, .2188256},
                             {"cifar10_resnet20", 3, .0092729, .5102070},
                             {"cifar10_resnet20", 1, .0129759, .9995198},
                             {"cifar100_resnet56", 10, .0020878, .1191783}}) {
        const test::Dump d = dump(want.name);
        const Predictions s = lc::predictions_from_logits(d.logits.data(), d.labels.data(), d.n, d.C);
        const LocalErrors e = lc::local_errors(reduced(d.features, d.n, d.d, 50), s, {.gamma = want.gamma});
        EXPECT_NEAR(lce(e), want.lce, 5e-7) << want.name << " gamma " << want.gamma;
        EXPECT_NEAR(mlce(e, MlceMode::class_mean), want.mlce, 5e-6) << want.name << " gamma " << want.gamma;
    }
}

// The record's features are ln max(p, 1e-12) of the uncalibrated probabilities, whatever is scored.
struct RecordRows {
    int64_t n, C;
    std::vector<double> p;
    std::vector<int32_t> labels;
    Tensor z;
};

RecordRows test_half(const test::Record& r) {
    RecordRows rows{r.n - 5000, r.C, {}, {r.labels.begin() + 5000, r.labels.end()}, {}};
    std::vector<float> logs;
    for (int64_t k = 5000 * r.C; k < r.n * r.C; ++k) rows.p.push_back(double(r.probs[size_t(k)]));
    for (const double p : rows.p) logs.push_back(float(std::log(std::max(p, 1e-12))));
    rows.z = Tensor::from(cpu(), {rows.n, rows.C}, logs);
    return rows;
}

TEST_F(MetricsLocalReference, wideresnet_record) {
    const RecordRows r = test_half(record("wideresnet-16-4-cifar-10"));
    const Predictions s = lc::predictions_from_probs(r.p.data(), r.labels.data(), r.n, r.C);
    const auto expect = [&](const LocalOptions& o, double lce_want, double mlce_want, double max_want) {
        const LocalErrors e = lc::local_errors(r.z, s, o);
        EXPECT_NEAR(lce(e), lce_want, 2e-7) << o.gamma;
        EXPECT_NEAR(mlce(e, MlceMode::class_mean), mlce_want, 5e-6) << o.gamma;
        EXPECT_NEAR(mlce(e, MlceMode::largest), max_want, 5e-6) << o.gamma;
    };
    expect({.gamma = 10}, .00857101, .35865511, .70897433);
    expect({.gamma = 10, .include_self = false}, .00855079, .31794680, .69326762);
    expect({.gamma = 5}, .00877198, .68146509, .91842075);
    expect({.gamma = 1}, .01201052, .99998300, .99999916);

    std::vector<double> scaled;  // by the temperature of the other half
    for (int64_t i = 0; i < r.n; ++i) {
        double sum = 0;
        for (int64_t c = 0; c < r.C; ++c) {
            scaled.push_back(std::pow(std::max(r.p[size_t(i * r.C + c)], double(FLT_MIN)), 1 / 2.0592242160));
            sum += scaled.back();
        }
        for (auto x = scaled.end() - r.C; x != scaled.end(); ++x) *x /= sum;
    }
    const Predictions ts = lc::predictions_from_probs(scaled.data(), r.labels.data(), r.n, r.C);
    const LocalErrors e = lc::local_errors(r.z, ts, {.gamma = 10});
    EXPECT_NEAR(lce(e), .00724673, 2e-7);
    EXPECT_NEAR(mlce(e, MlceMode::class_mean), .35667787, 5e-6);
    EXPECT_NEAR(mlce(e, MlceMode::largest), .67700581, 5e-6);
}

// ---- what must hold -------------------------------------------------------------------------------------------------

// The definition, as loops in double.
std::vector<double> plain_errors(const Tensor& z, const Predictions& s, const LocalOptions& o) {
    const std::vector<float> x = z.to_host();
    const std::vector<int32_t> bin = lc::class_bins(s, o.bins, o.min_bin);
    std::vector<double> error(s.p.size());
    for (int64_t i = 0; i < s.n; ++i) {
        for (int64_t c = 0; c < s.C; ++c) {
            double sum = 0, weight = 0;
            for (int64_t j = 0; j < s.n; ++j) {
                if (bin[size_t(j * s.C + c)] != bin[size_t(i * s.C + c)] || (i == j && !o.include_self)) continue;
                double D = 0;
                for (int64_t k = 0; k < z.cols(); ++k) {
                    const double difference = double(x[size_t(i * z.cols() + k)]) - double(x[size_t(j * z.cols() + k)]);
                    D += difference * difference;
                }
                const double w = std::exp(-D / (2 * o.gamma * o.gamma));
                sum += w * (s.row(j)[c] - (s.labels[size_t(j)] == c ? 1 : 0));
                weight += w;
            }
            if (bin[size_t(i * s.C + c)] >= 0 && weight > 1e-6) error[size_t(i * s.C + c)] = sum / weight;
        }
    }
    return error;
}

TEST(MetricsLocal, is_its_definition) {
    for (const bool self : {true, false}) {
        for (const int64_t min_bin : {0, 5}) {
            const Predictions s = test::random_predictions(230, 4, 3, 0.6);
            const Tensor z = random_rows(s.n, 3, 4);
            const LocalOptions o = {.gamma = 0.7, .min_bin = min_bin, .include_self = self};
            const LocalErrors e = lc::local_errors(z, s, o);
            const std::vector<double> want = plain_errors(z, s, o);
            for (size_t k = 0; k < want.size(); ++k) ASSERT_NEAR(double(e.error[k]), want[k], 2e-6) << k;
        }
    }
}

TEST(MetricsLocal, a_wide_kernel_gives_the_class_wise_ece) {
    for (const uint64_t seed : {1, 2, 3}) {
        const Predictions s = test::random_predictions(500, 5, seed, 0.7);
        const LocalErrors e = lc::local_errors(random_rows(s.n, 4, seed), s, {.gamma = 1e6, .min_bin = 0});
        EXPECT_NEAR(lce(e), lc::ece(s), 1e-6);
        EXPECT_NEAR(lce(e, LceMode::all_rows), lc::ece(s), 1e-6);
    }
}

TEST(MetricsLocal, a_narrow_kernel_gives_the_mean_of_p_minus_y) {
    const Predictions s = test::random_predictions(400, 3, 5, 0.7);
    const LocalErrors e = lc::local_errors(random_rows(s.n, 4, 5), s, {.gamma = 1e-4, .min_bin = 0});
    double sum = 0;
    for (int64_t i = 0; i < s.n; ++i) {
        for (int64_t c = 0; c < s.C; ++c) sum += std::abs(s.row(i)[c] - (s.labels[size_t(i)] == c ? 1 : 0));
    }
    EXPECT_NEAR(lce(e), sum / double(s.n * s.C), 1e-6);
    EXPECT_EQ(lc::counts_of(e).median_n_eff, 1);
    // Without itself nobody has a neighbour: there is nothing to score, and nothing is not NaN.
    const LocalErrors alone =
        lc::local_errors(random_rows(s.n, 4, 5), s, {.gamma = 1e-4, .min_bin = 0, .include_self = false});
    EXPECT_EQ(lc::counts_of(alone).isolated, s.n * s.C);
    EXPECT_EQ(lce(alone), 0);
    EXPECT_EQ(mlce(alone, MlceMode::row_l1), 0);
}

TEST(MetricsLocal, order_of_rows_and_classes_does_not_matter) {
    const Predictions s = test::random_predictions(300, 6, 7, 0.8);
    const Tensor z = random_rows(s.n, 5, 7);
    const std::vector<int64_t> rows = lc::random_permutation({1, 1}, s.n),
                               classes = lc::random_permutation({1, 2}, s.C);
    const std::vector<float> x = z.to_host();
    std::vector<float> moved;
    for (const int64_t i : rows) moved.insert(moved.end(), x.begin() + i * 5, x.begin() + (i + 1) * 5);
    const LocalErrors a = lc::local_errors(z, s, {.gamma = 1.5});
    const LocalErrors b =
        lc::local_errors(Tensor::from(cpu(), {s.n, 5}, moved), test::permuted(s, rows, classes), {.gamma = 1.5});
    EXPECT_NEAR(lce(a), lce(b), 1e-7);
    for (const MlceMode m : {MlceMode::class_mean, MlceMode::row_l1, MlceMode::largest})
        EXPECT_NEAR(mlce(a, m), mlce(b, m), 1e-6);
}

TEST(MetricsLocal, a_sweep_is_its_single_runs) {
    const Predictions s = test::random_predictions(420, 4, 11, 0.7);
    const Tensor z = random_rows(s.n, 3, 11);
    const std::vector<double> gammas = {0.2, 1, 30};
    const auto lines =
        lc::sweep(z, s, {.min_bin = 3}, gammas, lc::uniform_weights(4), LceMode::kept_rows, MlceMode::largest);
    ASSERT_EQ(lines.size(), 3u);
    for (size_t g = 0; g < 3; ++g) {
        const LocalErrors e = lc::local_errors(z, s, {.gamma = gammas[g], .min_bin = 3});
        EXPECT_NEAR(lines[g].lce, lce(e), 1e-7);
        EXPECT_NEAR(lines[g].mlce, mlce(e, MlceMode::largest), 1e-6);
        EXPECT_NEAR(lines[g].median_n_eff, lc::counts_of(e).median_n_eff, 1e-3);
        EXPECT_GE(lines[g].median_n_eff, lines[g == 0 ? 0 : g - 1].median_n_eff);
    }
}

TEST(MetricsLocal, the_scoring_bandwidth_is_the_smallest_that_is_enough) {
    const Predictions s = test::random_predictions(3000, 3, 13, 1, 4);
    const Tensor z = random_rows(s.n, 3, 13);
    const lc::ScoringBandwidth g = lc::scoring_bandwidth(z, s, {});
    EXPECT_TRUE(g.reached);
    EXPECT_GE(g.median_n_eff, 100);
    const LocalErrors smaller = lc::local_errors(z, s, {.gamma = g.gamma / std::sqrt(2.0)});
    EXPECT_LT(lc::counts_of(smaller).median_n_eff, 100);
    EXPECT_FALSE(
        lc::scoring_bandwidth(random_rows(60, 3, 1), test::random_predictions(60, 3, 1), {.min_bin = 0}).reached);
    const std::vector<float> same(3000 * 3, 2.0f);
    EXPECT_NO_THROW(lc::scoring_bandwidth(Tensor::from(cpu(), {3000, 3}, same), s, {}));
}

TEST(MetricsLocal, classes_and_bins_that_are_too_small_are_left_out) {
    const Predictions s = test::random_predictions(15, 3, 17);  // fewer rows than any bin needs
    const LocalErrors e = lc::local_errors(random_rows(15, 2, 17), s, {.gamma = 1});
    EXPECT_EQ(lc::counts_of(e).dropped, 45);
    EXPECT_EQ(lce(e), 0);
    EXPECT_TRUE(lc::n_eff_profile(e).empty());
    const LocalErrors paper = lc::local_errors(random_rows(15, 2, 17), s, {.gamma = 1, .min_bin = 0});
    EXPECT_EQ(lc::counts_of(paper).dropped, 0);
    EXPECT_GT(lce(paper), 0);
}

TEST(MetricsLocal, profile_covers_every_entry_once) {
    const Predictions s = test::random_predictions(300, 4, 19);
    const LocalErrors e = lc::local_errors(random_rows(300, 3, 19), s, {.gamma = 0.5, .min_bin = 0});
    int64_t entries = 0;
    double last = 0, sum = 0;
    for (const lc::ProfileGroup& g : lc::n_eff_profile(e, 7)) {
        EXPECT_LE(last, g.n_eff_low);
        EXPECT_LE(g.n_eff_low, g.n_eff_high);
        last = g.n_eff_high;
        entries += g.entries;
        sum += g.mean_error * double(g.entries);
    }
    EXPECT_EQ(entries, 1200);
    EXPECT_NEAR(sum / 1200, lce(e, LceMode::all_rows), 1e-6);
}

TEST(MetricsLocal, local_calibration_by_hand) {
    // Two far clusters; in each the others' labels are what theta is.
    const std::vector<float> x = {0, 0, 0, 1000, 1000, 1000};
    const Predictions s =
        test::predictions({{.5, .5}, {.5, .5}, {.5, .5}, {.9, .1}, {.9, .1}, {.9, .1}}, {0, 0, 1, 0, 0, 0});
    const lc::LocalCalibration r = lc::local_calibration(Tensor::from(cpu(), {6, 1}, x), s, 1.0);
    const std::vector<double> want = {0, 0, 1, .2, .2, .2};  // row 2 sees two zeros, theta = (1, 0)
    for (size_t i = 0; i < 6; ++i) EXPECT_NEAR(r.l1[i], want[i], 1e-6) << i;
    EXPECT_NEAR(r.epsilon, 1, 1e-6);
    EXPECT_NEAR(r.largest, .5, 1e-6);
}

double js_distance(const double* p, const double* q, int64_t C) {
    double divergence = 0;
    for (int64_t c = 0; c < C; ++c) {
        const double m = (p[c] + q[c]) / 2;
        if (p[c] > 0) divergence += p[c] / 2 * std::log(p[c] / m);
        if (q[c] > 0) divergence += q[c] / 2 * std::log(q[c] / m);
    }
    return std::sqrt(std::max(divergence, 0.0));
}

// Theorem 4: as n grows, gamma shrinks and n gamma^d still grows, the mean JS distance of p to the kernel estimate theta
// becomes that to the true posterior.  Three unit Gaussians in the plane have one in closed form; the model is too sure.
TEST(MetricsLocal, the_estimate_finds_the_distance_to_the_true_posterior) {
    const double centre[3][2] = {{0, 0}, {2, 0}, {0, 2}};
    const auto gap = [&](int64_t n, uint64_t seed) {
        std::vector<float> x = lc::random_normal({seed, 1}, 2 * n);
        std::vector<double> eta, p;
        std::vector<int32_t> labels;
        for (int64_t i = 0; i < n; ++i) {
            labels.push_back(int32_t(lc::random_unit({seed, 2}, uint64_t(i)) * 3));
            for (int k = 0; k < 2; ++k) x[size_t(2 * i + k)] += float(centre[labels.back()][k]);
            double e[3], sure[3], sum = 0, sure_sum = 0;
            for (int c = 0; c < 3; ++c) {
                const double a = double(x[size_t(2 * i)]) - centre[c][0],
                             b = double(x[size_t(2 * i + 1)]) - centre[c][1];
                sum += e[c] = std::exp(-(a * a + b * b) / 2);
                sure_sum += sure[c] = std::exp(-(a * a + b * b));
            }
            for (int c = 0; c < 3; ++c) eta.push_back(e[c] / sum), p.push_back(sure[c] / sure_sum);
        }
        const Predictions s = lc::predictions_from_probs(p.data(), labels.data(), n, 3);
        const lc::LocalCalibration r =
            lc::local_calibration(Tensor::from(cpu(), {n, 2}, x), s, 0.9 * std::pow(double(n), -1.0 / 6));
        double to_theta = 0, to_eta = 0;
        for (int64_t i = 0; i < n; ++i) {
            const std::vector<double> theta(r.theta.begin() + 3 * i, r.theta.begin() + 3 * i + 3);
            to_theta += js_distance(s.row(i), theta.data(), 3) / double(n);
            to_eta += js_distance(s.row(i), eta.data() + 3 * i, 3) / double(n);
        }
        return std::abs(to_theta - to_eta) / to_eta;
    };
    double last = 1;
    for (const int64_t n : {300, 2400, 19200}) {
        const double mean = (gap(n, 1) + gap(n, 2) + gap(n, 3)) / 3;
        EXPECT_LT(mean, 0.8 * last) << n;
        last = mean;
    }
    EXPECT_LT(last, 0.06);
}

TEST(MetricsLocal, refusals) {
    const Predictions s = test::random_predictions(10, 3, 1);
    EXPECT_THROW(lc::local_errors(random_rows(9, 2, 1), s, {}), lc::Error);
    EXPECT_THROW(lc::local_errors(random_rows(10, 2, 1), s, {.gamma = 0}), lc::Error);
    EXPECT_THROW(lc::local_errors(random_rows(10, 2, 1), s, {.gamma = NAN}), lc::Error);
    EXPECT_THROW(lc::local_errors(random_rows(10, 2, 1), s, {.bins = 0}), lc::Error);
    EXPECT_THROW(lc::local_calibration(random_rows(1, 2, 1), test::random_predictions(1, 3, 1), 1), lc::Error);
}

// ---- noise ----------------------------------------------------------------------------------------------------------

TEST(MetricsLocal, drawn_labels_follow_p) {
    const Predictions s = test::predictions({{.5, .3, .2}, {0, 1, 0}, {0, 0, 1}}, {0, 1, 2});
    const std::vector<int32_t> labels = lc::draw_labels(s, 20000, 1);
    double count[3] = {};
    for (size_t b = 0; b < 20000; ++b) {
        count[labels[b * 3]] += 1.0 / 20000;
        EXPECT_EQ(labels[b * 3 + 1], 1);
        EXPECT_EQ(labels[b * 3 + 2], 2);
    }
    EXPECT_NEAR(count[0], .5, .015);
    EXPECT_NEAR(count[1], .3, .015);
    EXPECT_EQ(labels, lc::draw_labels(s, 20000, 1));
    EXPECT_NE(labels, lc::draw_labels(s, 20000, 2));
}

TEST(MetricsLocal, the_null_is_the_metric_of_drawn_labels) {
    const Predictions s = test::random_predictions(260, 4, 23, 0.5);
    const Tensor z = random_rows(s.n, 3, 23);
    const std::vector<double> pi = {.1, .2, .3, .4};
    const std::vector<int32_t> labels = lc::draw_labels(s, 3, 5);
    for (const bool self : {true, false}) {
        const LocalOptions o = {.gamma = 0.8, .min_bin = 4, .include_self = self};
        const LocalErrors e = lc::local_errors(z, s, o);
        for (const MlceMode mode : {MlceMode::class_mean, MlceMode::row_l1, MlceMode::largest}) {
            const lc::LocalNull null = lc::local_null(z, s, e, pi, LceMode::kept_rows, mode, labels);
            const lc::BinnedNull binned = lc::binned_null(s, pi, {}, labels);
            for (size_t b = 0; b < 3; ++b) {
                Predictions drawn = s;
                drawn.labels.assign(labels.begin() + int64_t(b) * s.n, labels.begin() + int64_t(b + 1) * s.n);
                const LocalErrors direct = lc::local_errors(z, drawn, o);
                EXPECT_NEAR(null.lce[b], lc::lce_of(direct, pi, LceMode::kept_rows), 1e-6);
                EXPECT_NEAR(null.mlce[b], lc::mlce_of(direct, pi, mode), 1e-5);
                EXPECT_NEAR(binned.ece[b], lc::ece(drawn, {}, pi), 1e-12);
                EXPECT_NEAR(binned.ece_top[b], lc::ece_top(drawn), 1e-12);
            }
        }
    }
}

// A calibrated model is an ordinary draw of its own null; one that is too sure of itself is not.
TEST(MetricsLocal, z_and_p_tell_calibrated_from_overconfident) {
    const auto null_of = [](const Predictions& s, uint64_t seed) {
        const Tensor z = random_rows(s.n, 3, seed);
        const LocalErrors e = lc::local_errors(z, s, {.gamma = 0.8});
        const auto null = lc::local_null(z, s, e, lc::uniform_weights(s.C), LceMode::kept_rows, MlceMode::class_mean,
                                         lc::draw_labels(s, 60, seed));
        return lc::against_null(lce(e), null.lce);
    };
    int rejected = 0;
    double sum = 0;
    constexpr int kRuns = 40;
    for (uint64_t seed = 100; seed < 100 + kRuns; ++seed) {
        const lc::NullScore n = null_of(test::random_predictions(400, 3, seed), seed);
        rejected += n.p < 0.05;
        sum += n.p;
    }
    EXPECT_LE(rejected, 7);  // 2 are expected; more than 7 of 40 has a probability of 0.001
    EXPECT_NEAR(sum / kRuns, 0.5, 0.16);
    const lc::NullScore wrong = null_of(test::random_predictions(400, 3, 7, 0.3), 7);
    EXPECT_GT(wrong.z, 5);
    EXPECT_LT(wrong.p, 0.02);
    EXPECT_GT(wrong.excess, 0.01);
}

TEST(MetricsLocal, null_scores_by_hand) {
    const lc::NullScore s = lc::against_null(5, {1, 2, 3, 6});
    EXPECT_NEAR(s.mean, 3, 1e-12);
    EXPECT_NEAR(s.deviation, std::sqrt(14.0 / 3), 1e-12);
    EXPECT_NEAR(s.excess, 2, 1e-12);
    EXPECT_NEAR(s.z, 2 / std::sqrt(14.0 / 3), 1e-12);
    EXPECT_NEAR(s.p, 2.0 / 5, 1e-12);
    EXPECT_EQ(lc::against_null(1, {1, 1}).z, 0);
}

// ---- neighbourhoods -------------------------------------------------------------------------------------------------

TEST(MetricsLocal, the_worst_neighbourhood_is_the_one_that_was_planted) {
    // Labels follow p everywhere but in a ball around (6, 6), where class 1 never happens though p says 0.7.
    const int64_t n = 900;
    std::vector<float> x = lc::random_normal({31, 1}, n * 2);
    std::vector<std::vector<double>> p;
    std::vector<int32_t> labels;
    for (int64_t i = 0; i < n; ++i) {
        const bool planted = i % 9 == 0;
        if (planted) x[size_t(2 * i)] += 6, x[size_t(2 * i + 1)] += 6;
        p.push_back({.3, .7});
        labels.push_back(planted ? 0 : lc::random_unit({31, 2}, uint64_t(i)) < .7 ? 1 : 0);
    }
    const Predictions s = test::predictions(p, labels);
    const Tensor z = Tensor::from(cpu(), {n, 2}, x);
    const LocalErrors e = lc::local_errors(z, s, {.gamma = 1});
    const auto worst = lc::worst_neighbourhoods(z, s, e, {.top = 3, .members = 5});
    ASSERT_EQ(worst.size(), 3u);
    EXPECT_EQ(worst[0].row % 9, 0);
    EXPECT_NEAR(worst[0].mean_p, worst[0].c == 1 ? .7 : .3, 1e-5);
    EXPECT_NEAR(worst[0].frequency, worst[0].c == 1 ? 0 : 1, 1e-3);
    EXPECT_GT(std::abs(worst[0].z), 5);
    ASSERT_EQ(worst[0].members.size(), 5u);
    EXPECT_EQ(worst[0].members[0].row, worst[0].row);
    EXPECT_NEAR(worst[0].members[0].weight, 1, 1e-9);
    for (const lc::Neighbour& m : worst[0].members) EXPECT_EQ(m.label, 0);
    for (size_t a = 1; a < 3; ++a) EXPECT_LE(std::abs(worst[a].z), std::abs(worst[a - 1].z));
    EXPECT_TRUE(lc::worst_neighbourhoods(z, s, e, {.least_n_eff = 1e6}).empty());
}

// ---- the card -------------------------------------------------------------------------------------------------------

TEST(MetricsLocal, a_card_has_every_metric_with_its_noise) {
    const Predictions s = test::random_predictions(300, 4, 41, 0.6);
    const Tensor z = random_rows(s.n, 3, 41), own = random_rows(s.n, 2, 42);
    lc::CardOptions o;
    o.local.gamma = 1;
    o.bootstrap = 50, o.null = 20, o.seed = 3;
    const lc::Scorecard card = lc::score_card(s, &z, &own, o);
    EXPECT_NEAR(card.find("lce")->value, lce(lc::local_errors(z, s, o.local)), 1e-12);
    EXPECT_NEAR(card.find("mlce_own")->value, mlce(lc::local_errors(own, s, o.local), MlceMode::class_mean), 1e-12);
    for (const char* name : {"acc", "nll", "brier", "ece", "mce", "ece_top", "mce_top", "ecce", "ecce_r", "ecce_mad",
                             "piece", "lce", "mlce", "lce_own", "mlce_own"}) {
        const lc::CardScore* const score = card.find(name);
        ASSERT_NE(score, nullptr) << name;
        EXPECT_TRUE(std::isfinite(score->value)) << name;
        ASSERT_TRUE(score->interval) << name;
        EXPECT_LE(score->interval->low, score->interval->high) << name;
    }
    for (const char* name : {"ece", "ece_top", "lce", "mlce", "lce_own", "mlce_own"}) {
        const lc::CardScore* const score = card.find(name);
        ASSERT_TRUE(score->null) << name;
        EXPECT_NEAR(score->null->excess, score->value - score->null->mean, 1e-12);
    }
    EXPECT_TRUE(card.find("ecce_r")->p);
    lc::CardOptions bare;
    bare.bootstrap = bare.null = 0;
    const lc::Scorecard plain = lc::score_card(s, nullptr, nullptr, bare);
    EXPECT_EQ(plain.find("lce"), nullptr);
    EXPECT_FALSE(plain.find("ece")->interval);
}

}  // namespace

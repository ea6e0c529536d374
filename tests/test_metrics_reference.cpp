// Global metrics of real classifiers against numbers computed elsewhere, in double: public records of predictions (rows
// 0 - 4999 calibrate, 5000 - 9999 are scored) and the outputs of two networks (all rows).
#include <cfloat>
#include <cmath>

#include "calib/temperature.h"
#include "metrics/ecce.h"
#include "metrics/ece.h"
#include "metrics/proper.h"
#include "tests/real_data.h"

namespace {

using lc::Predictions;

class MetricsReference : public test::RealData {};

constexpr int64_t kSplit = 5000;
constexpr double kHalfDigit = 5.01e-9;  // the numbers have eight

struct Row {
    double acc, nll, ece_top, ece, ecce, ecce_r;
};

void expect_row(const Predictions& s, const Row& want) {
    const lc::BinTable t = tabulate(s, assign_bins_by_class(s, {}), 15);
    const std::vector<double> pi = lc::uniform_weights(s.C);
    EXPECT_NEAR(acc(s), want.acc, 1e-12);
    EXPECT_NEAR(nll(s, lc::NllMode::authors).value, want.nll, kHalfDigit);
    EXPECT_NEAR(ece_top(s), want.ece_top, kHalfDigit);
    EXPECT_NEAR(ece(t, pi), want.ece, kHalfDigit);
    EXPECT_NEAR(ece(s), want.ece, kHalfDigit);
    EXPECT_NEAR(ecce(t, pi, lc::EcceMode::authors), want.ecce, kHalfDigit);
    EXPECT_NEAR(cumulative_error(top_label(s)).range, want.ecce_r, kHalfDigit);
}

Predictions uncalibrated(const test::Record& r) {
    return lc::predictions_from_probs(r.probs.data() + kSplit * r.C, r.labels.data() + kSplit, r.n - kSplit, r.C);
}

// p^beta, normalised, in double.
Predictions scaled(const test::Record& r, double beta) {
    std::vector<double> p;
    for (int64_t i = kSplit; i < r.n; ++i) {
        double sum = 0;
        for (int64_t c = 0; c < r.C; ++c) {
            p.push_back(std::pow(std::max(double(r.probs[size_t(i * r.C + c)]), double(FLT_MIN)), beta));
            sum += p.back();
        }
        for (auto x = p.end() - r.C; x != p.end(); ++x) *x /= sum;
    }
    return lc::predictions_from_probs(p.data(), r.labels.data() + kSplit, r.n - kSplit, r.C);
}

lc::Temperature temperature_of(const test::Record& r) {
    std::vector<float> z;
    for (int64_t k = 0; k < kSplit * r.C; ++k) z.push_back(std::log(std::max(r.probs[size_t(k)], FLT_MIN)));
    return lc::fit_temperature(z.data(), r.labels.data(), kSplit, r.C);
}

TEST_F(MetricsReference, wideresnet_record) {
    const test::Record r = record("wideresnet-16-4-cifar-10");
    expect_row(uncalibrated(r), {.9112, .37370871, .05517313, .01261470, .00554232, .05517313});
    EXPECT_NEAR(temperature_of(r).T, 2.0592242160, 1e-6);  // its logits are floats
    const Predictions s = scaled(r, 1 / 2.0592242160);
    expect_row(s, {.9112, .27042202, .00691790, .00973423, .00556504, .00438899});
}

TEST_F(MetricsReference, densenet_record) {
    const test::Record r = record("densenet-bc-100-cifar-100");
    expect_row(uncalibrated(r), {.7538, 1.21156347, .14472724, .00374711, .00128490, .14449940});
    EXPECT_NEAR(temperature_of(r).T, 2.1208989168, 1e-6);
    expect_row(scaled(r, 1 / 2.1208989168), {.7538, .86655200, .01373784, .00247894, .00074694, .00846210});
}

// The published function works in float32: seven digits, of which the last may be off by some.
void expect_dump(const test::Dump& d, double ecce_want, double ece_want, double mce_want, double brier_want,
                 double nll_want, double acc_want) {
    constexpr double kClose = 2e-7;
    const Predictions s = lc::predictions_from_logits(d.logits.data(), d.labels.data(), d.n, d.C);
    const lc::BinTable t = tabulate(s, assign_bins_by_class(s, {}), 15);
    EXPECT_NEAR(ecce(t, lc::uniform_weights(d.C), lc::EcceMode::authors), ecce_want, kClose);
    EXPECT_NEAR(ece(s), ece_want, kClose);
    EXPECT_NEAR(mce(s), mce_want, kClose);
    EXPECT_NEAR(brier(s), brier_want, kClose);
    EXPECT_NEAR(nll(s, lc::NllMode::authors).value, nll_want, kClose);
    EXPECT_NEAR(acc(s), acc_want, 1e-12);
}

TEST_F(MetricsReference, dumps) {
    expect_dump(dump("cifar10_resnet20"), .0044579, .0110302, .3762800, .1344146, .3726558, .9173);
    expect_dump(dump("cifar100_resnet56"), .0011926, .0034959, .6096373, .4181959, 1.2945926, .7263);
}

TEST_F(MetricsReference, log_loss_from_logits_is_that_of_the_fit) {
    const test::Dump d = dump("cifar100_resnet56");
    const Predictions s = lc::predictions_from_logits(d.logits.data(), d.labels.data(), d.n, d.C);
    EXPECT_NEAR(nll(s, lc::NllMode::logits).value, lc::nll_of_logits(d.logits.data(), d.labels.data(), d.n, d.C),
                1e-12);
}

}  // namespace

// LN on real embeddings against numbers that PyTorch gave: means and standard deviations over eight seeds (the networks, loss and
// solver of the paper and of its authors' code, run on the same rows).  Looks for dumps/ in the folder named by LOCALCAL_DATA;
// without it these tests skip.
//
// The published bandwidth, 10, belongs to 2048 features; on these 64 it does harm, in PyTorch as here.  That is part of what is
// checked.
#include <cmath>
#include <gtest/gtest.h>

#include "calib/methods.h"
#include "calib/temperature.h"
#include "metrics/ece.h"
#include "metrics/local.h"
#include "metrics/proper.h"
#include "tests/real_data.h"

namespace {

using test::Dump;

class Reference : public test::RealData {};

struct Scores {
    double acc = 0, nll = 0, ece = 0, ece_top = 0;
    double lce_own = 0, lce_common = 0;  // in LN's space and in the classifier's, with the gamma of the fit
};

double lce(const lc::Tensor& z, const lc::Predictions& s, double gamma) {
    return lc::lce_of(lc::local_errors(z, s, {.gamma = gamma}), lc::uniform_weights(s.C), lc::LceMode::kept_rows);
}

// Fits on rows 0 - 4999, scores rows 5000 - 9999.
Scores run(const Dump& dump, const std::string& method, const std::map<std::string, std::string>& options,
           uint64_t seed) {
    const lc::Context context = {.backend = lc::find_backend("cpu"), .seed = seed};
    const auto c = lc::make_calibrator(method, options);
    c->fit(dump.rows(0, 5000), context);
    const lc::Samples rest = dump.rows(5000, 10000);
    const lc::Prediction p = c->predict(rest, context);
    const lc::Predictions s = lc::predictions_from_logits(p.log_probs.data(), rest.labels, rest.n, rest.C);
    Scores scores = {lc::acc(s), lc::nll(s, lc::NllMode::logits).value, lc::ece(s), lc::ece_top(s)};
    if (options.contains("fit-gamma")) {
        const double gamma = std::stod(options.at("fit-gamma"));
        const lc::Backend& b = *context.backend;
        const lc::Tensor phi = lc::Tensor::from(b, {rest.n, rest.d}, {rest.features, size_t(rest.n * rest.d)});
        lc::Tensor z(b, {rest.n, p.k});
        lc::PcaTransform(b, *c->reduction())(z.data(), phi.data(), rest.n);
        scores.lce_own = lce(lc::Tensor::from(b, {rest.n, p.k}, p.features), s, gamma);
        scores.lce_common = lce(z, s, gamma);
    }
    return scores;
}

struct Expected {
    double mean = 0, deviation = 0;
};

// A run lies within three standard deviations of PyTorch's: any one of its eight could have given it.
void expect_table_row(const Dump& dump, const std::string& method, const std::map<std::string, std::string>& options,
                      Expected acc, Expected nll, Expected ece, Expected ece_top, Expected lce_own = {},
                      Expected lce_common = {}) {
    const Scores s = run(dump, method, options, 1);
    std::printf(
        "%-11s gamma %-4s  ACC %.4f  NLL %.4f  class-wise ECE %.5f  top-label ECE %.4f  LCE own %.5f common %.5f\n",
        method.c_str(), options.at("fit-gamma").c_str(), s.acc, s.nll, s.ece, s.ece_top, s.lce_own, s.lce_common);
    EXPECT_NEAR(s.acc, acc.mean, 3 * acc.deviation);
    EXPECT_NEAR(s.nll, nll.mean, 3 * nll.deviation);
    EXPECT_NEAR(s.ece, ece.mean, 3 * ece.deviation);
    EXPECT_NEAR(s.ece_top, ece_top.mean, 3 * ece_top.deviation);
    if (lce_own.mean == 0) return;  // not in the table
    EXPECT_NEAR(s.lce_own, lce_own.mean, 3 * lce_own.deviation);
    EXPECT_NEAR(s.lce_common, lce_common.mean, 3 * lce_common.deviation);
}

TEST_F(Reference, cifar10_resnet20) {
    const Dump d = dump("cifar10_resnet20");
    const std::map<std::string, std::string> published = {{"setting", "cifar10"}, {"fit-gamma", "10"}};
    const std::map<std::string, std::string> narrow = {{"setting", "cifar10"}, {"fit-gamma", "3"}};
    expect_table_row(d, "ln:authors", published, {.8264, .0095}, {.853, .049}, {.0305, .0022}, {.1124, .0067},
                     {.0213, .0017}, {.0229, .0019});
    expect_table_row(d, "ln:paper", published, {.8628, .0073}, {.606, .036}, {.0229, .0014}, {.0861, .0053},
                     {.0147, .0010}, {.0161, .0010});
    expect_table_row(d, "ln:authors", narrow, {.9161, .0009}, {.3136, .0024}, {.01078, .00018}, {.0474, .0009},
                     {.00685, .00031}, {.00696, .00025});
    expect_table_row(d, "ln:paper", narrow, {.9191, .0008}, {.3019, .0025}, {.01017, .00017}, {.0447, .0007},
                     {.00674, .00027}, {.00671, .00013});
}

TEST_F(Reference, cifar100_resnet56) {
    const Dump d = dump("cifar100_resnet56");
    const std::map<std::string, std::string> published = {{"setting", "cifar100"}, {"fit-gamma", "10"}};
    const std::map<std::string, std::string> narrow = {{"setting", "cifar100"}, {"fit-gamma", "3"}};
    expect_table_row(d, "ln:authors", published, {.6486, .0047}, {1.734, .040}, {.00500, .00012}, {.1491, .0034},
                     {.00287, .00009}, {.00248, .00011});
    expect_table_row(d, "ln:paper", published, {.6531, .0051}, {1.594, .033}, {.00462, .00014}, {.1244, .0046});
    expect_table_row(d, "ln:paper", narrow, {.7177, .0008}, {1.202, .004}, {.00348, .00003}, {.0990, .0009});
}

TEST_F(Reference, temperature_scaling) {
    const auto fitted = [](const Dump& d) { return lc::fit_temperature(d.logits.data(), d.labels.data(), 5000, d.C); };
    const auto nll = [](const Dump& d, double beta) {
        return lc::nll_of_logits(d.rows(5000, 10000).logits, d.rows(5000, 10000).labels, 5000, d.C, beta);
    };
    const Dump ten = dump("cifar10_resnet20"), hundred = dump("cifar100_resnet56");
    EXPECT_NEAR(fitted(ten).T, 2.3858945711, 1e-7);
    EXPECT_NEAR(nll(ten, fitted(ten).beta), .23591019, 1e-7);
    EXPECT_NEAR(nll(ten, 1), .34497533, 1e-7);
    EXPECT_NEAR(fitted(hundred).T, 1.7387417187, 1e-7);
    EXPECT_NEAR(nll(hundred, fitted(hundred).beta), 1.04620308, 1e-7);
    EXPECT_NEAR(nll(hundred, 1), 1.30110846, 1e-7);
}

TEST_F(Reference, auto_is_never_worse_than_temperature_scaling_beyond_noise) {
    const Scores ten = run(dump("cifar10_resnet20"), "ln", {}, 1);
    EXPECT_NEAR(ten.nll, .2365, .006);
    EXPECT_NEAR(ten.ece, .0055, .0015);
    const Scores hundred = run(dump("cifar100_resnet56"), "ln", {}, 1);
    EXPECT_NEAR(hundred.nll, 1.048, .03);
    EXPECT_NEAR(hundred.ece, .0025, .0004);
}

}  // namespace

// Calibrators without features on public records of predictions (rows 0 - 4999 calibrate, 5000 - 9999 are scored) against
// numbers computed elsewhere, in double.
#include "metrics/ecce.h"
#include "metrics/ece.h"
#include "metrics/local.h"
#include "metrics/proper.h"
#include "tests/baselines.h"
#include "tests/real_data.h"

namespace {

using lc::Predictions;
using lc::Samples;
using test::Calibrator;
using test::finding;
using test::fitted;
using test::Options;

constexpr int64_t kSplit = 5000;
constexpr double kHalfDigit = 5.01e-9;  // the numbers have eight; NC divides rows of float32 by their sums

class BaselinesReference : public test::RealData {
  protected:
    test::Rows rows(const std::string& name) const {
        const test::Record r = record(name);
        return test::rows_of_probs(r.C, {r.probs.begin(), r.probs.end()}, r.labels);
    }
};

struct Halves {
    Samples cal, test;
    explicit Halves(const test::Rows& r) : cal(r.samples().rows(0, kSplit)), test(r.samples().rows(kSplit, r.n)) {}
};

struct Row {
    double acc, nll, ece_top, ece, ecce, ecce_r;
};
void expect_row(const Predictions& s, const Row& want, const std::string& method, double tolerance) {
    const lc::BinTable t = tabulate(s, assign_bins_by_class(s, {}), 15);
    EXPECT_NEAR(acc(s), want.acc, 1e-12) << method;
    EXPECT_NEAR(nll(s, lc::NllMode::authors).value, want.nll, tolerance) << method;
    EXPECT_NEAR(ece_top(s), want.ece_top, tolerance) << method;
    EXPECT_NEAR(ece(s), want.ece, tolerance) << method;
    EXPECT_NEAR(ecce(t, lc::uniform_weights(s.C), lc::EcceMode::authors), want.ecce, tolerance) << method;
    EXPECT_NEAR(cumulative_error(top_label(s)).range, want.ecce_r, tolerance) << method;
}

// Fits, compares the scores, and hands the fit back.
Calibrator expect_fit(const Halves& h, const std::string& method, const Row& want, double tolerance = 1e-6,
                      const Options& options = {}) {
    Calibrator c = fitted(method, h.cal, options);
    expect_row(test::predictions(*c, h.test), want, method, tolerance);
    return c;
}

TEST_F(BaselinesReference, wideresnet_record) {
    const test::Rows r = rows("wideresnet-16-4-cifar-10");
    const Halves h(r);
    expect_fit(h, "nc", {.9112, .37370871, .05517313, .01261470, .00554232, .05517313}, 1e-7);
    const auto ts = expect_fit(h, "ts", {.9112, .27042202, .00691790, .00973423, .00556504, .00438899}, kHalfDigit);
    EXPECT_NEAR(finding(*ts, "temperature").number, 2.0592242160, 5e-11);
    const auto ir = expect_fit(h, "ir", {.9184, .28525177, .01291937, .00661337, .00181256, .00903534}, kHalfDigit);
    EXPECT_EQ(ir->impossible_labels(h.test), 9);
    expect_fit(h, "ps:plain", {.9194, .24526950, .00888594, .00615940, .00164369, .00411470});
    expect_fit(h, "ps:authors", {.9142, .35867031, .03612224, .00880633, .00227749, .03275510});
}

TEST_F(BaselinesReference, wideresnet_dc_with_given_penalties) {
    const test::Rows r = rows("wideresnet-16-4-cifar-10");
    const Halves h(r);
    const auto none =
        expect_fit(h, "dc", {.9226, .23136175, .00779363, .00435789, .00119038, .00388314}, 1e-6, {{"lambda", "0"}});
    EXPECT_NEAR(finding(*none, "objective").number, .2304232939, 1e-8);
    EXPECT_TRUE(finding(*none, "ended").text.starts_with("converged")) << finding(*none, "ended").text;
    // Plain sums with .01 are ours with .01 C (C - 1) and .01 C.
    const auto some = expect_fit(h, "dc", {.9244, .23089578, .01081903, .00470363, .00099655, .00498264}, 1e-6,
                                 {{"lambda", "0.9"}, {"mu", "0.1"}});
    EXPECT_NEAR(finding(*some, "objective").number, .2349659823, 1e-8);
}

TEST_F(BaselinesReference, wideresnet_solvers_of_the_authors_end_where_they_did) {
    const test::Rows r = rows("wideresnet-16-4-cifar-10");
    const Halves h(r);
    const auto loss = [&](const Calibrator& c) {
        return nll(test::predictions(*c, h.test), lc::NllMode::authors).value;
    };
    const Calibrator ts = fitted("ts:authors", h.cal), dc = fitted("dc:authors", h.cal);
    EXPECT_NEAR(finding(*ts, "temperature").number, 1.9559265, 1e-4);
    EXPECT_NEAR(loss(ts), .27087211, 1e-4);
    EXPECT_NEAR(loss(dc), .23144834, 1e-4);
}

// Local errors around ln max(p, 1e-12) of the classifier's own probabilities, whatever is scored.
TEST_F(BaselinesReference, wideresnet_local_errors) {
    const test::Rows r = rows("wideresnet-16-4-cifar-10");
    const Halves h(r);
    std::vector<float> z;
    for (int64_t k = 0; k < h.test.n * r.C; ++k) z.push_back(float(std::log(std::max(h.test.probs[k], 1e-12))));
    const lc::Tensor around = lc::Tensor::from(*lc::find_backend("cpu"), {h.test.n, r.C}, z);
    const std::vector<double> pi = lc::uniform_weights(r.C);
    const auto expect = [&](const char* method, double lce, double mlce, double largest) {
        const lc::LocalErrors e =
            lc::local_errors(around, test::predictions(*fitted(method, h.cal), h.test), {.gamma = 10});
        EXPECT_NEAR(lce_of(e, pi, lc::LceMode::kept_rows), lce, 2e-7) << method;
        EXPECT_NEAR(mlce_of(e, pi, lc::MlceMode::class_mean), mlce, 5e-6) << method;
        EXPECT_NEAR(mlce_of(e, pi, lc::MlceMode::largest), largest, 5e-6) << method;
    };
    expect("nc", .00857101, .35865511, .70897433);
    expect("ts", .00724673, .35667787, .67700581);
    expect("ir", .00448503, .25991417, .48455049);
}

TEST_F(BaselinesReference, densenet_record) {
    const test::Rows r = rows("densenet-bc-100-cifar-100");
    const Halves h(r);
    expect_fit(h, "nc", {.7538, 1.21156347, .14472724, .00374711, .00128490, .14449940}, 1e-7);
    const auto ts = expect_fit(h, "ts", {.7538, .86655200, .01373784, .00247894, .00074694, .00846210}, kHalfDigit);
    EXPECT_NEAR(finding(*ts, "temperature").number, 2.1208989168, 5e-11);
    const auto ir = expect_fit(h, "ir", {.7516, 1.32606340, .04903762, .00243379, .00066114, .04557301}, kHalfDigit);
    EXPECT_EQ(ir->impossible_labels(h.test), 102);
    expect_fit(h, "ps:plain", {.7550, .86948843, .03326097, .00233013, .00061736, .03094766});
    expect_fit(h, "ps:authors", {.7532, 1.38183932, .16371770, .00443258, .00158108, .16204123});
}

TEST_F(BaselinesReference, densenet_merging_float_scores_alone_changes_the_log_loss) {
    const test::Rows r = rows("densenet-bc-100-cifar-100");
    const Halves h(r);
    const Calibrator c = fitted("ir:authors", h.cal);
    const Predictions s = test::predictions(*c, h.test);
    EXPECT_EQ(c->impossible_labels(h.test), 93);
    EXPECT_NEAR(nll(s, lc::NllMode::authors).value, 1.30284, 5.1e-6);
    EXPECT_NEAR(ece_top(s), .0441, 5.1e-5);
}

TEST_F(BaselinesReference, temperatures_of_the_dumps) {
    const auto expect = [](const test::Dump& d, double T, double nll_nc, double nll_ts) {
        const auto loss = [&](const Calibrator& c) {
            return nll(test::predictions(*c, d.rows(kSplit, d.n)), lc::NllMode::floor).value;
        };
        const Calibrator ts = fitted("ts", d.rows(0, kSplit));
        EXPECT_NEAR(finding(*ts, "temperature").number, T, 1e-8);
        EXPECT_NEAR(loss(ts), nll_ts, 1e-7);
        EXPECT_NEAR(loss(fitted("nc", d.rows(0, kSplit))), nll_nc, 1e-7);
    };
    expect(dump("cifar10_resnet20"), 2.3858945711, .34497533, .23591019);
    expect(dump("cifar100_resnet56"), 1.7387417187, 1.30110846, 1.04620308);
}

TEST_F(BaselinesReference, a_search_beats_temperature_on_ten_classes) {
    const test::Rows r = rows("wideresnet-16-4-cifar-10");
    const Halves h(r);
    const auto loss = [&](const char* method) {
        return nll(test::predictions(*fitted(method, h.cal), h.test), lc::NllMode::authors).value;
    };
    const double ts = loss("ts");
    for (const char* method : {"vs", "ms", "dc"}) EXPECT_LT(loss(method), ts - .01) << method;
}

}  // namespace

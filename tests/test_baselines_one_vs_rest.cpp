// One-vs-rest calibrators as a user of the library meets them, and against numbers computed elsewhere.
#include <algorithm>
#include <cfloat>
#include <cmath>
#include <functional>
#include <numeric>
#include <omp.h>

#include "calib/methods.h"
#include "calib/one_vs_rest.h"
#include "metrics/ecce.h"
#include "metrics/ece.h"
#include "metrics/proper.h"
#include "tests/file_bytes.h"
#include "tests/golden/one_vs_rest.h"
#include "tests/metrics_data.h"
#include "tests/real_data.h"

namespace {

using lc::Prediction;
using lc::Predictions;
using lc::Samples;

const lc::Backend& cpu() { return *lc::find_backend("cpu"); }

// Probabilities in double with the logits that a file of probabilities gets.
struct Rows {
    int64_t n = 0, C = 0;
    std::vector<double> probs;
    std::vector<float> logits;
    std::vector<int32_t> labels;

    Rows(int64_t classes, std::vector<double> p, std::vector<int32_t> y)
        : n(int64_t(p.size()) / classes), C(classes), probs(std::move(p)), labels(std::move(y)) {
        for (const double x : probs) logits.push_back(float(std::log(std::max(x, double(FLT_MIN)))));
    }
    explicit Rows(const Predictions& s) : Rows(s.C, s.p, s.labels) {}
    Samples samples() const {
        return {n, 0, C, nullptr, logits.data(), labels.empty() ? nullptr : labels.data(), probs.data()};
    }
    Samples only_logits() const {
        Samples s = samples();
        s.probs = nullptr;
        return s;
    }
};

Rows random_rows(int64_t n, int64_t C, uint64_t seed) { return Rows(test::random_predictions(n, C, seed, .5)); }

std::unique_ptr<lc::OneVsRest> fitted(const std::string& method, const Samples& s) {
    auto c = std::unique_ptr<lc::OneVsRest>(dynamic_cast<lc::OneVsRest*>(lc::make_calibrator(method, {}).release()));
    c->fit(s, {.backend = &cpu()});
    return c;
}

Prediction predict(const lc::Calibrator& c, const Samples& s) { return c.predict(s, {.backend = &cpu()}); }

void expect_distributions(const Prediction& p) {
    ASSERT_EQ(p.probs.size(), size_t(p.n * p.C));
    ASSERT_EQ(p.log_probs.size(), p.probs.size());
    for (int64_t i = 0; i < p.n; ++i) {
        double sum = 0;
        for (int64_t c = 0; c < p.C; ++c) {
            const double v = p.probs[size_t(i * p.C + c)], l = p.log_probs[size_t(i * p.C + c)];
            ASSERT_TRUE(v >= 0 && v <= 1) << v;
            if (v > FLT_MIN) {
                ASSERT_NEAR(std::exp(double(l)), double(v), 1e-5 * double(v));
            }
            sum += double(v);
        }
        ASSERT_NEAR(sum, 1, 1e-5) << "row " << i;
    }
}

// ---- what holds for every method ------------------------------------------------------------------------------------

class EveryOneVsRest : public testing::TestWithParam<const char*> {};

TEST_P(EveryOneVsRest, outputs_are_distributions_and_better_than_before) {
    const Rows cal = random_rows(2000, 5, 1), test = random_rows(2000, 5, 2);
    const auto c = fitted(GetParam(), cal.samples());
    const Prediction p = predict(*c, test.samples());
    expect_distributions(p);
    const auto loss = [&](const Predictions& s) { return lc::nll(s, lc::NllMode::authors).value; };
    const Predictions before = lc::predictions_from_probs(test.probs.data(), test.labels.data(), test.n, test.C);
    EXPECT_LT(loss(lc::predictions_from_probs(p.probs.data(), test.labels.data(), test.n, test.C)), loss(before));
}

TEST_P(EveryOneVsRest, the_order_of_the_rows_does_not_matter) {
    const Rows cal = random_rows(300, 4, 1), test = random_rows(50, 4, 2);
    Rows turned = cal;
    for (int64_t i = 0; i < cal.n; ++i) {
        const int64_t from = (i * 7 + 3) % cal.n;
        std::copy_n(&cal.probs[size_t(from * 4)], 4, &turned.probs[size_t(i * 4)]);
        turned.labels[size_t(i)] = cal.labels[size_t(from)];
    }
    ASSERT_NE(turned.labels, cal.labels);
    EXPECT_EQ(fitted(GetParam(), turned.samples())->probabilities(test.samples()),
              fitted(GetParam(), cal.samples())->probabilities(test.samples()));
}

TEST_P(EveryOneVsRest, a_loaded_model_predicts_the_same_bits_and_so_do_pieces) {
    const Rows cal = random_rows(300, 4, 1), test = random_rows(70, 4, 2);
    const auto c = fitted(GetParam(), cal.samples());
    const std::string path = testing::TempDir() + "one_vs_rest.safetensors";
    lc::save_calibrator(path, *c);
    const auto loaded = lc::load_calibrator(path);
    EXPECT_EQ(loaded->method(), GetParam());
    EXPECT_EQ(loaded->options(), c->options());
    EXPECT_EQ(loaded->classes_expected(), 4);
    const Prediction a = predict(*c, test.samples()), b = predict(*loaded, test.samples());
    EXPECT_EQ(a.probs, b.probs);
    EXPECT_EQ(a.log_probs, b.log_probs);
    const Prediction part = predict(*c, test.samples().rows(10, 30));
    EXPECT_TRUE(std::equal(part.probs.begin(), part.probs.end(), a.probs.begin() + 40));
}

TEST_P(EveryOneVsRest, one_thread_or_two_give_the_same_bits) {
    const Rows cal = random_rows(400, 6, 1), test = random_rows(1000, 6, 2);
    const int before = omp_get_max_threads();
    std::vector<double> result[2];
    for (const int threads : {1, 2}) {
        omp_set_num_threads(threads);
        result[threads - 1] = fitted(GetParam(), cal.samples())->probabilities(test.samples());
    }
    omp_set_num_threads(before);
    EXPECT_EQ(result[0], result[1]);
}

TEST_P(EveryOneVsRest, saturated_rows) {  // a quarter is certain as float32 is: p = 1 and 0
    Rows cal = random_rows(400, 3, 1);
    for (int64_t i = 0; i < cal.n; i += 4) {
        for (int64_t c = 0; c < 3; ++c) {
            cal.probs[size_t(i * 3 + c)] = c == i % 3 ? 1 : 0;
            cal.logits[size_t(i * 3 + c)] = c == i % 3 ? 0.0f : -200.0f;
        }
        if (i % 40 != 0) cal.labels[size_t(i)] = int32_t(i % 3);
    }
    for (const Samples& s : {cal.samples(), cal.only_logits()}) {
        expect_distributions(predict(*fitted(GetParam(), s), s));
    }
}

TEST_P(EveryOneVsRest, a_class_without_rows) {
    Rows cal = random_rows(300, 4, 1);
    for (int32_t& y : cal.labels) y = y == 2 ? 3 : y;
    std::string said;
    const auto c = lc::make_calibrator(GetParam(), {});
    c->fit(cal.samples(), {.backend = &cpu(), .note = [&](const std::string& s) { said += s; }});
    const Prediction p = predict(*c, cal.samples());
    expect_distributions(p);
    for (int64_t i = 0; i < p.n; ++i) EXPECT_LT(p.probs[size_t(i * 4 + 2)], .02);
    EXPECT_NE(said.find("1 of 4 classes have no calibration row (the first: 2)"), std::string::npos) << said;
    EXPECT_EQ(c->findings().front().name, "absent_classes");
    EXPECT_EQ(c->findings().front().number, 1);
}

TEST_P(EveryOneVsRest, identical_logits_give_the_shares_of_the_classes) {
    Rows cal(3, std::vector<double>(300, 1.0 / 3), {});
    for (int64_t i = 0; i < cal.n; ++i) cal.labels.push_back(i < 50 ? 0 : i < 80 ? 1 : 2);
    const Prediction p = predict(*fitted(GetParam(), cal.samples()), cal.samples());
    expect_distributions(p);
    EXPECT_NEAR(p.probs[0], .5, .01);
    EXPECT_NEAR(p.probs[1], .3, .01);
    EXPECT_NEAR(p.probs[2], .2, .01);
}

TEST_P(EveryOneVsRest, separable_rows) {
    Rows cal(3, {}, {});
    for (int i = 0; i < 90; ++i) {
        const double top = .5 + i / 200.0, rest = (1 - top) / 2;
        for (int c = 0; c < 3; ++c) cal.probs.push_back(c == i % 3 ? top : rest);
        cal.labels.push_back(i % 3);
    }
    cal = Rows(3, cal.probs, cal.labels);
    const auto c = fitted(GetParam(), cal.samples());
    const Prediction p = predict(*c, cal.samples());
    expect_distributions(p);
    for (int64_t i = 0; i < p.n; ++i) EXPECT_GT(p.probs[size_t(i * 3 + cal.labels[size_t(i)])], .5) << i;
    const std::string method = GetParam();
    EXPECT_EQ(c->findings().back().text,
              method.ends_with(":plain") ? "3 of 3 classes without a finite optimum" : "converged");
}

TEST_P(EveryOneVsRest, two_classes_and_a_thousand) {
    const Rows two = random_rows(200, 2, 1);
    expect_distributions(predict(*fitted(GetParam(), two.samples()), two.samples()));
    const Rows many = random_rows(40, 1000, 1);
    expect_distributions(predict(*fitted(GetParam(), many.only_logits()), many.only_logits()));
}

INSTANTIATE_TEST_SUITE_P(Baselines, EveryOneVsRest,
                         testing::Values("ps", "ps:plain", "ps:authors", "ir", "ir:authors", "hb", "beta",
                                         "beta:plain"),
                         [](const auto& info) {
                             std::string name = info.param;
                             std::replace(name.begin(), name.end(), ':', '_');
                             return name;
                         });

// ---- particular to some ---------------------------------------------------------------------------------------------

// Scores up to .45 belong to other classes, from .55 to the class itself.
Rows halves() {
    return Rows(3, {.55, .45, 0, .55, 0, .45, .45, .55, 0, 0, .55, .45, .45, 0, .55, 0, .45, .55}, {0, 0, 1, 1, 2, 2});
}

TEST(OneVsRest, where_every_class_gives_0_the_row_is_uniform) {
    const Rows cal = halves(), test(3, {.4, .3, .3}, {});
    for (const char* method : {"ir", "ir:authors", "hb"}) {
        const Prediction p = predict(*fitted(method, cal.samples()), test.samples());
        for (const double v : p.probs) EXPECT_DOUBLE_EQ(v, 1.0 / 3) << method;
    }
}

TEST(OneVsRest, zero_probabilities_are_floored_or_not_and_labels_there_are_counted) {
    const Rows cal = halves(), test(3, {.6, .4, 0, .6, .4, 0, .6, .4, 0}, {0, 1, 2});
    const double floor = 1.0 / 18;  // 6 rows, 3 classes
    for (const char* method : {"ir", "hb"}) {
        const auto c = fitted(method, cal.samples());
        EXPECT_EQ(c->probabilities(test.samples()), (std::vector<double>{1, 0, 0, 1, 0, 0, 1, 0, 0}));
        EXPECT_EQ(c->impossible_labels(test.samples()), 2);
        EXPECT_EQ(c->findings().front().name, "floor");
        EXPECT_EQ(c->findings().front().number, floor);
        const Prediction p = predict(*c, test.samples());
        EXPECT_DOUBLE_EQ(p.probs[0], 1 / (1 + 2 * floor));
        EXPECT_DOUBLE_EQ(p.probs[1], floor / (1 + 2 * floor));
        EXPECT_DOUBLE_EQ(p.log_probs[1], std::log(floor / (1 + 2 * floor)));
    }
    const auto authors = fitted("ir:authors", cal.samples());
    EXPECT_EQ(authors->impossible_labels(test.samples()), 2);
    const Prediction p = predict(*authors, test.samples());
    EXPECT_EQ(p.probs[1], 0);
    EXPECT_EQ(p.log_probs[1], -INFINITY);
}

TEST(OneVsRest, probabilities_are_taken_in_double) {
    const double a = .3, b = .3 + 1e-12;  // the same float
    Rows cal(2, {a, 1 - a, b, 1 - b}, {1, 0});
    EXPECT_EQ(fitted("ir", cal.samples())->probabilities(cal.samples()), (std::vector<double>{0, 1, 1, 0}));
    EXPECT_EQ(fitted("ir", cal.only_logits())->probabilities(cal.only_logits())[0], .5);
}

TEST(OneVsRest, names_and_what_is_refused) {
    for (const char* name : {"platt", "isotonic", "histogram-binning", "beta-calibration"}) {
        EXPECT_NE(lc::make_calibrator(name, {}), nullptr);
    }
    EXPECT_EQ(lc::make_calibrator("isotonic:authors", {})->method(), "ir:authors");
    const auto expect = [](const std::function<void()>& f, const std::string& says) {
        const std::string found = lc::refusal(f);
        EXPECT_NE(found.find(says), std::string::npos) << found;
    };
    expect([] { lc::make_calibrator("ps:best", {}); }, "a variant of ps (auto, plain, authors), found 'best'");
    expect([] { lc::make_calibrator("ir", {{"hidden", "3"}}); }, "no option 'hidden' of ir");
    Rows bad = halves();
    bad.probs[4] = NAN;
    expect([&] { fitted("ir", bad.samples()); }, "probs: expected finite numbers");
    const Rows cal = halves(), other = random_rows(5, 4, 1);
    expect([&] { predict(*fitted("ps", cal.samples()), other.samples()); }, "3 classes");
}

TEST(OneVsRest, files_that_contradict_themselves_are_refused) {
    const std::string path = testing::TempDir() + "damaged.safetensors";
    const auto with = [&](const char* method, std::vector<double> parameters, std::vector<int64_t> offsets,
                          const char* floor = "0") {
        lc::SafetensorsWriter out;
        out.metadata = {{"schema", "localcal.calibrator/1"}, {"method", method}, {"classes", "2"}, {"floor", floor}};
        out.add("parameters", {int64_t(parameters.size())}, parameters.data());
        out.add("offsets", {int64_t(offsets.size())}, offsets.data());
        out.write(path);
        return lc::refusal([&] { lc::load_calibrator(path); });
    };
    EXPECT_EQ(with("ps", {1, 0, 1, 0}, {0, 2, 4}), "nothing was refused");
    for (const auto& offsets : {std::vector<int64_t>{0, 2, 5}, {0, 5, 4}, {1, 2, 4}, {0, 4}, {0, -2, 4}}) {
        EXPECT_NE(with("ps", {1, 0, 1, 0}, offsets).find("offset"), std::string::npos);
    }
    EXPECT_NE(with("ps", {1, 0, 1, 0}, {0, 1, 4}).find("class 0 are none of ps"), std::string::npos);
    EXPECT_NE(with("ps", {1, 0, NAN, 0}, {0, 2, 4}).find("class 1"), std::string::npos);
    EXPECT_NE(with("ir", {.5, .4, 0, 1, .5, 1}, {0, 4, 6}).find("class 0"), std::string::npos);
    EXPECT_NE(with("hb", {.5, 2, .5, 1}, {0, 2, 4}).find("class 0"), std::string::npos);
    EXPECT_NE(with("beta", {1, 1, 0, -1, 1, 0}, {0, 3, 6}).find("class 1"), std::string::npos);
    EXPECT_NE(with("ps", {1, 0, 1, 0}, {0, 2, 4}, "0.6").find("floor"), std::string::npos);
}

// ---- scikit-learn's numbers -----------------------------------------------------------------------------------------

TEST(OneVsRest, golden_rows_of_scikit_learn) {
    const auto in_32nds = [](std::vector<double> p) {
        for (double& x : p) x /= 32;
        return p;
    };
    const Rows cal(3, in_32nds(golden::kCal), golden::kLabels), test(3, in_32nds(golden::kTest), {});
    const auto expect = [&](const char* method, const std::vector<double>& want, double tolerance) {
        const std::vector<double> found = fitted(method, cal.samples())->probabilities(test.samples());
        ASSERT_EQ(found.size(), want.size());
        for (size_t i = 0; i < want.size(); ++i) EXPECT_NEAR(found[i], want[i], tolerance) << method << " " << i;
    };
    expect("ir", golden::kIr, 1e-14);
    expect("ps", golden::kPs, 1e-8);
    expect("ps:plain", golden::kPsPlain, 1e-8);
    expect("ps:authors", golden::kPsAuthors, 1e-8);
}

// ---- public records of predictions: rows 0 - 4999 calibrate, 5000 - 9999 are scored ---------------------------------

class OneVsRestReference : public test::RealData {
  protected:
    static constexpr int64_t kSplit = 5000;

    struct Result {
        Predictions s;
        int64_t impossible;
    };
    Result result(const std::string& name, const std::string& method) const {
        const test::Record r = record(name);
        const Rows rows(r.C, {r.probs.begin(), r.probs.end()}, r.labels);
        const auto c = fitted(method, rows.samples().rows(0, kSplit));
        const Samples test = rows.samples().rows(kSplit, r.n);
        const std::vector<double> p = c->probabilities(test);
        return {lc::predictions_from_probs(p.data(), test.labels, test.n, test.C), c->impossible_labels(test)};
    }
};

struct Row {
    double acc, nll, ece_top, ece, ecce, ecce_r;
};

void expect_row(const Predictions& s, const Row& want, double tolerance) {
    const lc::BinTable t = tabulate(s, assign_bins_by_class(s, {}), 15);
    EXPECT_NEAR(acc(s), want.acc, 1e-12);
    EXPECT_NEAR(nll(s, lc::NllMode::authors).value, want.nll, tolerance);
    EXPECT_NEAR(ece_top(s), want.ece_top, tolerance);
    EXPECT_NEAR(ece(s), want.ece, tolerance);
    EXPECT_NEAR(ecce(t, lc::uniform_weights(s.C), lc::EcceMode::authors), want.ecce, tolerance);
    EXPECT_NEAR(cumulative_error(top_label(s)).range, want.ecce_r, tolerance);
}

constexpr double kHalfDigit = 5.01e-9;  // the numbers have eight

TEST_F(OneVsRestReference, wideresnet_record) {
    const std::string name = "wideresnet-16-4-cifar-10";
    const Result ir = result(name, "ir");
    EXPECT_EQ(ir.impossible, 9);
    expect_row(ir.s, {.9184, .28525177, .01291937, .00661337, .00181256, .00903534}, kHalfDigit);
    expect_row(result(name, "ps:plain").s, {.9194, .24526950, .00888594, .00615940, .00164369, .00411470}, 1e-6);
    expect_row(result(name, "ps:authors").s, {.9142, .35867031, .03612224, .00880633, .00227749, .03275510}, 1e-6);
}

TEST_F(OneVsRestReference, densenet_record) {
    const std::string name = "densenet-bc-100-cifar-100";
    const Result ir = result(name, "ir");
    EXPECT_EQ(ir.impossible, 102);
    expect_row(ir.s, {.7516, 1.32606340, .04903762, .00243379, .00066114, .04557301}, kHalfDigit);
    expect_row(result(name, "ps:plain").s, {.7550, .86948843, .03326097, .00233013, .00061736, .03094766}, 1e-6);
    expect_row(result(name, "ps:authors").s, {.7532, 1.38183932, .16371770, .00443258, .00158108, .16204123}, 1e-6);
}

TEST_F(OneVsRestReference, merging_float_scores_alone_changes_the_log_loss) {
    const Result ir = result("densenet-bc-100-cifar-100", "ir:authors");
    EXPECT_EQ(ir.impossible, 93);
    EXPECT_NEAR(nll(ir.s, lc::NllMode::authors).value, 1.30284, 5.1e-6);
    EXPECT_NEAR(ece_top(ir.s), .0441, 5.1e-5);
}

}  // namespace

// One-vs-rest calibrators: what only they promise, their files, and scikit-learn's numbers.
#include <functional>

#include "tests/baselines.h"
#include "tests/file_bytes.h"
#include "tests/golden/one_vs_rest.h"

namespace {

using lc::Prediction;
using test::predict;
using test::Rows;
using test::rows_of_probs;

std::unique_ptr<lc::OneVsRest> fitted(const std::string& method, const lc::Samples& s) {
    return std::unique_ptr<lc::OneVsRest>(dynamic_cast<lc::OneVsRest*>(test::fitted(method, s).release()));
}

class EveryOneVsRest : public testing::TestWithParam<const char*> {};

TEST_P(EveryOneVsRest, a_class_without_rows_gets_next_to_no_probability) {
    Rows cal = test::drawn_rows(300, 4);
    for (int32_t& y : cal.labels) y = y == 2 ? 3 : y;
    const Prediction p = predict(*fitted(GetParam(), cal.samples()), cal.samples());
    for (int64_t i = 0; i < p.n; ++i) EXPECT_LT(p.probs[size_t(i * 4 + 2)], .02);
}

TEST_P(EveryOneVsRest, identical_logits_give_the_shares_of_the_classes) {
    Rows cal = rows_of_probs(3, std::vector<double>(300, 1.0 / 3));
    for (int64_t i = 0; i < cal.n; ++i) cal.labels.push_back(i < 50 ? 0 : i < 80 ? 1 : 2);
    const Prediction p = predict(*fitted(GetParam(), cal.samples()), cal.samples());
    EXPECT_NEAR(p.probs[0], .5, .01);
    EXPECT_NEAR(p.probs[1], .3, .01);
    EXPECT_NEAR(p.probs[2], .2, .01);
}

TEST_P(EveryOneVsRest, separable_rows_are_told_apart_and_reported) {
    std::vector<double> probs;
    std::vector<int32_t> labels;
    for (int i = 0; i < 90; ++i) {
        const double top = .5 + i / 200.0, rest = (1 - top) / 2;
        for (int c = 0; c < 3; ++c) probs.push_back(c == i % 3 ? top : rest);
        labels.push_back(i % 3);
    }
    const Rows cal = rows_of_probs(3, probs, labels);
    const auto c = fitted(GetParam(), cal.samples());
    const Prediction p = predict(*c, cal.samples());
    for (int64_t i = 0; i < p.n; ++i) EXPECT_GT(p.probs[size_t(i * 3 + cal.labels[size_t(i)])], .5) << i;
    const std::string method = GetParam();
    EXPECT_EQ(c->findings().back().text,
              method.ends_with(":plain") ? "3 of 3 classes without a finite optimum" : "converged");
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
    return rows_of_probs(3, {.55, .45, 0, .55, 0, .45, .45, .55, 0, 0, .55, .45, .45, 0, .55, 0, .45, .55},
                         {0, 0, 1, 1, 2, 2});
}

TEST(OneVsRest, where_every_class_gives_0_the_row_is_uniform) {
    const Rows cal = halves(), test = rows_of_probs(3, {.4, .3, .3});
    for (const char* method : {"ir", "ir:authors", "hb"}) {
        const Prediction p = predict(*fitted(method, cal.samples()), test.samples());
        for (const double v : p.probs) EXPECT_DOUBLE_EQ(v, 1.0 / 3) << method;
    }
}

TEST(OneVsRest, zero_probabilities_are_floored_or_not_and_labels_there_are_counted) {
    const Rows cal = halves(), test = rows_of_probs(3, {.6, .4, 0, .6, .4, 0, .6, .4, 0}, {0, 1, 2});
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
    const Rows cal = rows_of_probs(2, {a, 1 - a, b, 1 - b}, {1, 0});
    Rows logits = cal;
    logits.probs.clear();
    EXPECT_EQ(fitted("ir", cal.samples())->probabilities(cal.samples()), (std::vector<double>{0, 1, 1, 0}));
    EXPECT_EQ(fitted("ir", logits.samples())->probabilities(logits.samples())[0], .5);
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
    EXPECT_NE(with("ps", {1e308, -INFINITY, 1, 0}, {0, 2, 4}).find("class 0"), std::string::npos) << "inf - inf";
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
    const Rows cal = rows_of_probs(3, in_32nds(golden::kCal), golden::kLabels),
               test = rows_of_probs(3, in_32nds(golden::kTest));
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

}  // namespace

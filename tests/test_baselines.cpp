// Every calibrator without features: what must hold for any data, and data that break careless code.
#include <filesystem>
#include <omp.h>

#include "calib/linear_logits.h"
#include "metrics/proper.h"
#include "tests/baselines.h"
#include "tests/file_bytes.h"
#include "tests/long.h"

namespace {

using lc::Prediction;
using lc::Samples;
using test::Calibrator;
using test::drawn_rows;
using test::expect_distributions;
using test::fitted;
using test::predict;
using test::Rows;

constexpr const char* kEvery[] = {"nc", "ts",         "ts:authors", "vs",       "ms",
                                  "dc", "dc:authors", "ps",         "ps:plain", "ps:authors",
                                  "ir", "ir:authors", "hb",         "beta",     "beta:plain"};

// ln(p + 1e-12): isotonic maps without a floor say 0
double loss(const lc::Calibrator& c, const Samples& s) {
    const Prediction p = predict(c, s);
    return lc::nll(lc::predictions_from_probs(p.probs.data(), s.labels, s.n, s.C), lc::NllMode::authors).value;
}

class EveryBaseline : public testing::TestWithParam<const char*> {};

TEST_P(EveryBaseline, gives_distributions_that_are_no_worse_than_before) {
    const Rows cal = drawn_rows(1500, 4), test = drawn_rows(1000, 4, 2);
    const Calibrator c = fitted(GetParam(), cal.samples());
    EXPECT_EQ(c->method(), GetParam());
    EXPECT_EQ(c->features_expected(), 0);
    EXPECT_EQ(c->classes_expected(), 4);
    expect_distributions(predict(*c, test.samples()));
    const double before = loss(*fitted("nc", cal.samples()), test.samples());
    EXPECT_LE(loss(*c, test.samples()), before - (c->method() == "nc" ? 0 : .05));
}

TEST_P(EveryBaseline, does_not_see_the_order_of_the_rows) {
    const Rows cal = drawn_rows(200, 3), test = drawn_rows(50, 3, 2);
    Rows other = cal;
    const std::vector<int64_t> order = lc::random_permutation({7, 7}, cal.n);
    for (int64_t i = 0; i < cal.n; ++i) {
        const int64_t from = order[size_t(i)];
        std::copy_n(&cal.logits[size_t(from * 3)], 3, &other.logits[size_t(i * 3)]);
        other.labels[size_t(i)] = cal.labels[size_t(from)];
    }
    ASSERT_NE(cal.labels, other.labels);
    EXPECT_EQ(predict(*fitted(GetParam(), cal.samples()), test.samples()).log_probs,
              predict(*fitted(GetParam(), other.samples()), test.samples()).log_probs);
}

TEST_P(EveryBaseline, loads_what_it_saved_and_takes_pieces) {
    const Rows cal = drawn_rows(200, 3), test = drawn_rows(601, 3, 2);
    const Calibrator c = fitted(GetParam(), cal.samples());
    const std::string path = testing::TempDir() + "baseline.safetensors";
    lc::save_calibrator(path, *c);
    const Calibrator loaded = lc::load_calibrator(path);
    EXPECT_EQ(loaded->method(), c->method());
    EXPECT_EQ(loaded->options(), c->options());
    EXPECT_EQ(loaded->classes_expected(), 3);
    EXPECT_EQ(loaded->keeps_order(), c->keeps_order());
    const Prediction a = predict(*c, test.samples()), b = predict(*loaded, test.samples());
    EXPECT_EQ(a.probs, b.probs);
    EXPECT_EQ(a.log_probs, b.log_probs);
    const Prediction piece = predict(*loaded, test.samples().rows(255, 262));
    EXPECT_TRUE(std::equal(piece.log_probs.begin(), piece.log_probs.end(), a.log_probs.begin() + 255 * 3));
}

TEST_P(EveryBaseline, gives_the_same_bits_for_any_number_of_threads) {
    const Rows cal = drawn_rows(700, 13);
    const auto with = [&](int threads) {
        const int before = omp_get_max_threads();
        omp_set_num_threads(threads);
        const Prediction p = predict(*fitted(GetParam(), cal.samples()), cal.samples());
        omp_set_num_threads(before);
        return p.log_probs;
    };
    EXPECT_EQ(with(1), with(3));
}

TEST_P(EveryBaseline, takes_two_classes_and_few_rows) {
    for (int64_t n : {5, 40}) {
        Rows cal = drawn_rows(n, 2);
        cal.labels[0] = 0, cal.labels[1] = 1;
        expect_distributions(predict(*fitted(GetParam(), cal.samples()), cal.samples()));
    }
}

TEST_P(EveryBaseline, takes_labels_that_the_logits_separate) {
    Rows cal = drawn_rows(120, 3);
    for (int64_t i = 0; i < cal.n; ++i) {
        const float* const g = &cal.logits[size_t(i * 3)];
        cal.labels[size_t(i)] = int32_t(std::max_element(g, g + 3) - g);
    }
    const Calibrator c = fitted(GetParam(), cal.samples());
    expect_distributions(predict(*c, cal.samples()));
    EXPECT_GT(acc(test::predictions(*c, cal.samples())), .95);  // bins and normalising may cost a row
}

TEST_P(EveryBaseline, takes_a_class_without_rows) {
    Rows cal = drawn_rows(300, 4);
    for (int32_t& y : cal.labels) y = y == 2 ? 1 : y;
    std::string said;
    const Calibrator c = lc::make_calibrator(GetParam(), {});
    c->fit(cal.samples(), {.backend = test::kQuiet.backend, .note = [&](const std::string& s) { said += s; }});
    EXPECT_EQ(test::finding(*c, "absent").text, "class 2");
    EXPECT_NE(said.find("class 2: no calibration row"), std::string::npos) << said;
    expect_distributions(predict(*c, cal.samples()));
}

TEST_P(EveryBaseline, takes_equal_logits) {
    Rows cal = drawn_rows(60, 3);
    cal.logits.assign(cal.logits.size(), 1.5f);
    const Calibrator c = fitted(GetParam(), cal.samples());
    const Prediction p = predict(*c, cal.samples());
    expect_distributions(p);
    EXPECT_LE(loss(*c, cal.samples()), std::log(3.0) + 1e-6);
}

// A quarter of the rows at exactly 1 in float32, and so at exactly 0 for the other classes; some of them are wrong.
TEST_P(EveryBaseline, takes_saturated_probabilities) {
    Rows sure = test::as_probs(drawn_rows(400, 3));
    for (int64_t i = 0; i < sure.n; i += 4) {
        const float* const g = &sure.logits[size_t(i * 3)];
        const int64_t top = std::max_element(g, g + 3) - g;
        for (int64_t c = 0; c < 3; ++c) sure.probs[size_t(i * 3 + c)] = c == top ? 1 : 0;
    }
    const Rows given = test::rows_of_probs(3, sure.probs, sure.labels);
    Rows logits = given;
    logits.probs.clear();
    for (const Samples& s : {given.samples(), logits.samples()}) {
        const Calibrator c = fitted(GetParam(), s);
        expect_distributions(predict(*c, s));
        EXPECT_LE(loss(*c, s), loss(*fitted("nc", s), s) + 1e-9);
    }
}

TEST_P(EveryBaseline, takes_a_thousand_classes_or_says_what_they_cost) {
    LC_LONG_TEST();
    const std::string method = GetParam();
    if (method != "ms" && method != "dc" && method != "dc:authors") {
        const Rows cal = drawn_rows(50, 1000);
        return expect_distributions(predict(*fitted(method, cal.samples()), cal.samples()));
    }
    const Rows many = drawn_rows(2500, 1000);
    const std::string refused = lc::refusal([&] { fitted(method, many.samples()); });
    for (const char* says : {" GB", "use", "ts or vs"}) EXPECT_NE(refused.find(says), std::string::npos) << refused;
    EXPECT_TRUE(refused.find("hours") != std::string::npos || refused.find("minutes") != std::string::npos) << refused;
    if (method == "dc:authors") return;
    // One fit is not refused.  A thousand classes would take a minute; these take the same path.
    const Rows few = drawn_rows(20, lc::kBlockClasses + 14);
    const Calibrator c = fitted(method, few.samples(), {{"lambda", "1e6"}});
    expect_distributions(predict(*c, few.samples()));
    EXPECT_TRUE(test::finding(*c, "ended").text.starts_with("converged"));
}

TEST_P(EveryBaseline, keeps_the_order_of_the_classes_if_it_says_so) {
    const Rows cal = drawn_rows(300, 6);
    const Calibrator c = fitted(GetParam(), cal.samples());
    const Prediction p = predict(*c, cal.samples());
    int64_t swapped = 0;
    for (int64_t i = 0; i < cal.n; ++i) {
        const float* const g = &cal.logits[size_t(i * 6)];
        const double* const l = &p.log_probs[size_t(i * 6)];
        for (int a = 0; a < 6; ++a) {
            for (int b = 0; b < 6; ++b) swapped += g[a] < g[b] && l[a] > l[b];
        }
    }
    EXPECT_EQ(swapped == 0, c->keeps_order()) << swapped << " pairs";
}

INSTANTIATE_TEST_SUITE_P(Baselines, EveryBaseline, testing::ValuesIn(kEvery), [](const auto& i) {
    std::string name = i.param;
    std::replace(name.begin(), name.end(), ':', '_');
    return name;
});

TEST(Baselines, log_loss_of_the_fitted_rows_never_rises) {
    for (uint64_t seed : {1, 2, 3}) {
        const Rows cal = drawn_rows(150, 5, seed);
        const auto after = [&](const char* method) {
            return test::finding(*fitted(method, cal.samples()), "nll").number;
        };
        const double nc = after("nc"), ts = after("ts");
        EXPECT_LE(ts, nc);
        for (const char* method : {"vs", "ms", "dc"}) EXPECT_LE(after(method), ts + 1e-12) << method;
    }
}

// ---- names and refusals ---------------------------------------------------------------------------------------------

TEST(Baselines, are_known_by_their_usual_names) {
    const std::pair<const char*, const char*> names[] = {{"none", "nc"},
                                                         {"uncalibrated", "nc"},
                                                         {"temp-scaling", "ts"},
                                                         {"temperature:authors", "ts:authors"},
                                                         {"ts:auto", "ts"},
                                                         {"vector-scaling", "vs"},
                                                         {"matrix-scaling", "ms"},
                                                         {"dirichlet", "dc"},
                                                         {"platt", "ps"},
                                                         {"isotonic", "ir"},
                                                         {"histogram-binning", "hb"},
                                                         {"dirichlet:authors", "dc:authors"},
                                                         {"platt:plain", "ps:plain"},
                                                         {"beta-calibration", "beta"},
                                                         {"isotonic:authors", "ir:authors"}};
    for (const auto& [name, method] : names) EXPECT_EQ(lc::make_calibrator(name, {})->method(), method);
}

TEST(Baselines, bad_choices_are_refused) {
    const auto expect = [](const char* method, const test::Options& options, const char* says) {
        const std::string found = lc::refusal([&] { lc::make_calibrator(method, options); });
        EXPECT_NE(found.find(says), std::string::npos) << found;
    };
    expect("xx", {}, "nc, ts");
    expect("nc:authors", {}, "'authors'");
    expect("ps:best", {}, "a variant of ps (auto, plain, authors), found 'best'");
    expect("ts", {{"lambda", "1"}}, "'lambda' of ts");
    expect("ir", {{"hidden", "3"}}, "no option 'hidden' of ir");
    expect("dc", {{"lambda", "-1"}}, "--lambda");
    expect("dc", {{"mu", "1"}}, "--mu alone");
    expect("dc", {{"folds", "1"}}, "--folds");
    expect("dc", {{"folds", "2.5"}}, "whole number");
    expect("dc", {{"grid", "cube"}}, "line, square");
    expect("dc", {{"hidden", "3"}}, "'hidden' of dc");
    expect("dc:authors", {{"lambda", "1"}}, "no options");
}

TEST(Baselines, rows_that_do_not_fit_are_refused) {
    const Rows cal = drawn_rows(40, 3), other = drawn_rows(5, 4);
    Rows bad = test::as_probs(cal);
    bad.probs[4] = NAN;
    for (const char* method : kEvery) {
        const auto expect = [&](const std::function<void()>& f, const std::string& says) {
            const std::string found = lc::refusal(f);
            EXPECT_NE(found.find(says), std::string::npos) << method << ": " << found;
        };
        expect([&] { fitted(method, bad.samples()); }, "probs: expected finite numbers");
        expect([&] { predict(*fitted(method, cal.samples()), other.samples()); }, "3 classes");
        expect([&] { predict(*lc::make_calibrator(method, {}), cal.samples()); }, "fit");
    }
}

// ---- hostile models -------------------------------------------------------------------------------------------------

using Metadata = std::map<std::string, std::string>;

// What loading says of a model of two classes with one tensor, or what predicting says; "" where both go well.
std::string with_model(Metadata metadata, const std::string& tensor, const std::vector<int64_t>& shape,
                       const std::vector<double>& values) {
    const std::string path = testing::TempDir() + "hostile.safetensors";
    metadata.insert({{"schema", "localcal.calibrator/1"}, {"classes", "2"}});
    lc::SafetensorsWriter out;
    out.metadata = metadata;
    if (!tensor.empty()) out.add(tensor, shape, values.data());
    out.write(path);
    const Rows rows = drawn_rows(20, 2);
    std::string says = "fine";
    const std::string refused =
        lc::refusal([&] { expect_distributions(predict(*lc::load_calibrator(path), rows.samples())); });
    return refused == "nothing was refused" ? says : refused;
}

TEST(Baselines, hostile_models_are_refused_and_never_give_nan) {
    const auto expect = [](const std::string& found, const char* says) {
        EXPECT_NE(found.find(says), std::string::npos) << found;
    };
    expect(with_model({{"method", "ts"}, {"temperature", "2"}}, "", {}, {}), "fine");
    expect(with_model({{"method", "ts"}, {"temperature", "0"}}, "", {}, {}), "positive temperature");
    expect(with_model({{"method", "ts"}, {"temperature", "nan"}}, "", {}, {}), "temperature");
    expect(with_model({{"method", "ts"}, {"temperature", "1e-320"}}, "", {}, {}), "not finite");
    for (const char* classes : {"1", "-3", "9223372036854775807"}) {
        expect(with_model({{"method", "nc"}, {"classes", classes}}, "", {}, {}), "classes");
        expect(with_model({{"method", "vs"}, {"classes", classes}}, "wb", {2, 2}, {1, 1, 0, 0}), "classes");
        expect(with_model({{"method", "dc:authors"}, {"classes", classes}}, "wb", {2, 3}, {1, 0, 0, 0, 1, 0}),
               "classes");
        expect(with_model({{"method", "ps"}, {"classes", classes}, {"floor", "0"}}, "parameters", {0}, {}), "classes");
    }
    expect(with_model({{"method", "vs"}}, "wb", {2, 2}, {1, 1, 0, 0}), "fine");
    expect(with_model({{"method", "vs"}}, "wb", {4}, {1, 1, 0, 0}), "wb");
    expect(with_model({{"method", "vs"}}, "wb", {2, 2}, {1, NAN, 0, 0}), "finite");
    expect(with_model({{"method", "vs"}}, "wb", {2, 2}, {1e308, 1e308, 0, 0}), "not finite");
    expect(with_model({{"method", "dc:authors"}}, "wb", {2, 3}, {1e308, 1e308, 0, 0, 1, 0}), "not finite");
}

}  // namespace

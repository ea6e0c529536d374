// Metrics on inputs that can be worked out by hand, and on those that have no answer.
#include <cmath>
#include <gtest/gtest.h>
#include <limits>

#include "kernels/check.h"
#include "metrics/brownian.h"
#include "metrics/ecce.h"
#include "metrics/ece.h"
#include "metrics/proper.h"
#include "metrics/scores.h"
#include "tests/metrics_data.h"

namespace {

using lc::Norm;
using lc::Outcomes;
using lc::Predictions;
using test::predictions;

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

void expect_refused(const std::function<void()>& f, const std::string& says) {
    try {
        f();
        FAIL() << "expected an error with '" << says << "'";
    } catch (const lc::Error& e) {
        EXPECT_NE(std::string(e.what()).find(says), std::string::npos) << e.what();
    }
}

// ---- published constants -----------------------------------------------------------------------------------------

TEST(MetricsSmall, norms_of_a_binary_list) {
    const Outcomes o = {{.25, .25, .55, .75, .75}, {0, 0, 1, 1, 1}};
    EXPECT_NEAR(calibration_error(o, {.bins = 2}, Norm::l1), .2900, 5e-5);
    EXPECT_NEAR(calibration_error(o, {.bins = 2}, Norm::l2), .2918, 5e-5);
    EXPECT_NEAR(calibration_error(o, {.bins = 2}, Norm::max), .3167, 5e-5);
}

TEST(MetricsSmall, norms_of_the_top_label) {
    const Predictions s =
        predictions({{.25, .20, .55}, {.55, .05, .40}, {.10, .30, .60}, {.90, .05, .05}}, {0, 1, 2, 0});
    EXPECT_NEAR(ece_top(s, {.bins = 3}), .2000, 5e-5);
    EXPECT_NEAR(mce_top(s, {.bins = 3}), .2333, 5e-5);
    EXPECT_NEAR(calibration_error(top_label(s), {.bins = 3}, Norm::l2), .2082, 5e-5);
}

TEST(MetricsSmall, confidences_of_0_and_1) {
    EXPECT_NEAR(calibration_error({{1, 1, 1, 1, 0}, {0, 0, 1, 1, 1}}, {.bins = 2}, Norm::l1), .6, 1e-15);
    EXPECT_NEAR(calibration_error({{.95, 1}, {1, 0}}, {.bins = 10}, Norm::l1), .475, 1e-15);
}

TEST(MetricsSmall, binary_model_by_its_largest_probability) {
    std::vector<std::vector<double>> rows;
    for (const double p : {.91, .32, .66, .67, .57, .98, .41, .19}) rows.push_back({1 - p, p});
    EXPECT_NEAR(ece_top(predictions(rows, {1, 0, 1, 1, 0, 1, 0, 0}), {.bins = 30}), .18125, 1e-15);
}

TEST(MetricsSmall, equal_mass_and_equal_width) {
    const Outcomes o = {{.6, .7, .8, .9}, {0, 0, 1, 1}};
    EXPECT_NEAR(calibration_error(o, {.bins = 2, .equal_mass = true}, Norm::l1), .4, 1e-15);
    EXPECT_NEAR(calibration_error(o, {.bins = 2}, Norm::l1), .25, 1e-15);
}

TEST(MetricsSmall, cumulative_error) {
    const std::vector<double> p = {.6, .8, .2, .4};
    const auto check = [&](std::vector<double> y, double range, double ratio) {
        const lc::CumulativeError e = lc::cumulative_error({p, y});
        EXPECT_NEAR(e.range, range, 1e-15);
        EXPECT_NEAR(e.range / e.sigma, ratio, 5e-6);
        EXPECT_NEAR(e.p_range, 1 - lc::brownian_range_cdf(e.range / e.sigma), 1e-12);
        EXPECT_NEAR(e.p_max_abs, 1 - lc::brownian_max_abs_cdf(e.max_abs / e.sigma), 1e-12);
    };
    check({0, 1, 0, 1}, .15, .67082);
    check({1, 1, 1, 1}, .5, 2.23607);
    check({0, 1, 0, 0}, .3, 1.34164);
}

TEST(MetricsSmall, brownian_motion) {
    EXPECT_NEAR(lc::brownian_range_cdf(1), .0633645879, 5e-11);
    EXPECT_NEAR(lc::brownian_range_cdf(2), .8185056606, 5e-11);
    EXPECT_NEAR(lc::brownian_range_cdf(3), .9892008315, 5e-11);
    EXPECT_NEAR(lc::brownian_max_abs_cdf(1), .3707774298, 5e-11);
    EXPECT_NEAR(lc::brownian_max_abs_cdf(2), .9089994762, 5e-11);
    EXPECT_NEAR(lc::brownian_max_abs_cdf(3), .9946004079, 5e-11);
    EXPECT_EQ(lc::brownian_range_cdf(0), 0);
    EXPECT_EQ(lc::brownian_max_abs_tail(0), 1);
    EXPECT_THROW(lc::brownian_range_cdf(kNaN), lc::Error);
    EXPECT_THROW(lc::brownian_max_abs_tail(-1), lc::Error);
}

// Two series meet at 1.5; tails fall, stay in [0, 1], and keep their digits where 1 - cdf has none left.
TEST(MetricsSmall, brownian_tails) {
    EXPECT_NEAR(lc::brownian_range_cdf(1.5 - 1e-12), lc::brownian_range_cdf(1.5), 1e-11);
    EXPECT_NEAR(lc::brownian_max_abs_cdf(1.5 - 1e-12), lc::brownian_max_abs_cdf(1.5), 1e-11);
    double range = 1, max_abs = 1;
    for (double x = 0; x < 50; x += .01) {
        EXPECT_LE(lc::brownian_range_tail(x), range);
        EXPECT_LE(lc::brownian_max_abs_tail(x), max_abs);
        range = lc::brownian_range_tail(x), max_abs = lc::brownian_max_abs_tail(x);
        EXPECT_GE(range, max_abs);
        EXPECT_GE(max_abs, 0);
    }
    const double far = std::erfc(10 / std::sqrt(2.0));  // of both signs: 1.5e-23
    EXPECT_NEAR(lc::brownian_range_tail(10) / (4 * far), 1, 1e-12);
    EXPECT_NEAR(lc::brownian_max_abs_tail(10) / (2 * far), 1, 1e-12);
}

// ---- by hand -------------------------------------------------------------------------------------------------------

TEST(MetricsSmall, bins_are_closed_on_the_left) {
    const std::vector<double> edges = lc::equal_width_edges(15);
    for (int64_t b = 0; b < 15; ++b) {
        EXPECT_EQ(lc::bin_of(double(b) / 15, edges), b);
        EXPECT_EQ(lc::bin_of(std::nextafter(double(b + 1) / 15, 0.0), edges), b);
    }
    EXPECT_EQ(lc::bin_of(1, edges), 14);
    EXPECT_EQ(lc::bin_of(-1, edges), 0);
    EXPECT_EQ(lc::bin_of(2, edges), 14);
    EXPECT_THROW(lc::equal_width_edges(0), lc::Error);
}

TEST(MetricsSmall, equal_mass_edges) {
    EXPECT_EQ(lc::equal_mass_edges(std::vector<double>{4, 1, 3, 2}, 2), (std::vector<double>{1, 3, 4}));
    EXPECT_EQ(lc::equal_mass_edges(std::vector<double>{.5, .5, .5}, 15), (std::vector<double>{.5, .5}));  // one bin
    const std::vector<double> ties = {1, 2, 2, 2};
    EXPECT_EQ(lc::assign_bins(ties, {.bins = 2, .equal_mass = true}), (std::vector<int32_t>{0, 1, 1, 1}));
    const std::vector<double> few = {.3, .1, .2};
    EXPECT_EQ(lc::assign_bins(few, {.bins = 15, .equal_mass = true}), (std::vector<int32_t>{2, 0, 1}));
    EXPECT_THROW(lc::equal_mass_edges({}, 2), lc::Error);
    EXPECT_THROW(lc::equal_mass_edges(std::vector<double>{1, kNaN}, 2), lc::Error);
}

TEST(MetricsSmall, class_wise_errors_with_weights) {
    // Class 0, 2 bins: [0, .5) holds .2 (y 0) and .4 (y 1), [.5, 1] holds .7 (y 0) and .9 (y 1).  Class 1 mirrors it.
    const Predictions s = predictions({{.2, .8}, {.4, .6}, {.7, .3}, {.9, .1}}, {1, 0, 1, 0});
    const double low = std::abs(.5 - .3), high = std::abs(.5 - .8);
    EXPECT_NEAR(ece(s, {.bins = 2}), (low + high) / 2, 1e-15);
    EXPECT_NEAR(mce(s, {.bins = 2}), high, 1e-15);
    // Cumulative, class 0: -.1, then +.05; class 1: -.15 of [0, .5) with .1 and .3, then -.05.
    const lc::BinTable t = tabulate(s, assign_bins_by_class(s, {.bins = 2}), 2);
    const std::vector<double> first = {1, 0}, second = {0, 1}, mixed = {.25, .75};
    EXPECT_NEAR(ecce(t, first, lc::EcceMode::authors), (.1 + .05) / 2, 1e-15);
    EXPECT_NEAR(ecce(t, first, lc::EcceMode::paper), .15, 1e-15);
    EXPECT_NEAR(ecce(t, second, lc::EcceMode::paper), .15 + .05, 1e-15);
    EXPECT_NEAR(ecce(t, mixed, lc::EcceMode::paper), .25 * .15 + .75 * .2, 1e-15);
    EXPECT_THROW(ecce(t, first, lc::EcceMode::range), lc::Error);
    const lc::BinTable fine = tabulate(s, assign_bins_by_class(s, {.bins = 100}), 100);  // four of a hundred hold a row
    EXPECT_NEAR(ecce(fine, first, lc::EcceMode::authors), (.05 + .1 + .075 + .05) / 4, 1e-15);
}

TEST(MetricsSmall, general_metric_with_any_comparator_and_any_bins) {
    const Predictions s = predictions({{.2, .8}, {.4, .6}, {.7, .3}, {.9, .1}}, {1, 0, 1, 0});
    const std::vector<int32_t> region = {7, 3, 7, 3};  // rows 0 and 2 against rows 1 and 3
    const std::vector<double> pi = {.25, .75};
    const auto squared = [](double f, double p) { return (f - p) * (f - p); };
    // Region 7: conf .45, .55; freq 0, 1.  Region 3: conf .65, .35; freq 1, 0.
    EXPECT_NEAR(binned_metric(s, lc::group_rows(region), pi, squared), .5 * .45 * .45 + .5 * .35 * .35, 1e-15);
    const lc::BinTable t = tabulate(s, assign_bins_by_class(s, {.bins = 1}), 1);
    EXPECT_NEAR(binned_metric(t, pi, squared), .25 * .05 * .05 + .75 * .05 * .05, 1e-15);
    const std::vector<double> w = {2, 4};
    EXPECT_NEAR(binned_metric(t, pi, squared, w), 2 * .25 * .05 * .05 + 4 * .75 * .05 * .05, 1e-15);
}

TEST(MetricsSmall, entries_that_are_left_out) {
    const Predictions s = predictions({{.2, .8}, {.4, .6}}, {1, 0});
    const std::vector<int32_t> bin = {0, -1, 0, 0};
    const lc::BinTable t = tabulate(s, bin, 1);
    EXPECT_EQ(t.rows, (std::vector<double>{2, 1}));
    EXPECT_EQ(t.sum_y, (std::vector<double>{1, 0}));
    EXPECT_EQ(t.n, 2);
}

TEST(MetricsSmall, proper_scores) {
    const Predictions s = predictions({{.2, .8, 0}, {.5, .5, 0}, {.1, .2, .7}}, {1, 1, 0});
    EXPECT_NEAR(acc(s), 1. / 3, 1e-15);  // of two equal ones the first is predicted
    EXPECT_NEAR(brier(s), (.08 + .5 + .81 + .04 + .49) / 3, 1e-15);
    EXPECT_NEAR(nll(s, lc::NllMode::floor).value, -std::log(.8 * .5 * .1) / 3, 1e-15);
    EXPECT_NEAR(nll(s, lc::NllMode::authors).value, -std::log(.8 * .5 * .1) / 3, 1e-11);
    EXPECT_EQ(nll(s, lc::NllMode::floor).impossible, 0);
    expect_refused([&] { nll(s, lc::NllMode::logits); }, "no logits");
    expect_refused([&] { nll(s, lc::NllMode::floor, 0); }, "floor above 0");
}

TEST(MetricsSmall, labels_of_probability_0) {
    const Predictions s = predictions({{1, 0}, {1, 0}, {.5, .5}}, {0, 1, 1});
    const lc::Nll floored = nll(s, lc::NllMode::floor, 1e-6);
    EXPECT_NEAR(floored.value, -std::log(1e-6 * .5) / 3, 1e-14);
    EXPECT_EQ(floored.floor, 1e-6);
    EXPECT_EQ(floored.impossible, 1);
    EXPECT_NEAR(nll(s, lc::NllMode::authors).value, -std::log(1e-12 * .5) / 3, 1e-11);
    EXPECT_NEAR(nll(s, lc::NllMode::floor).value, -std::log(double(FLT_MIN) * .5) / 3, 1e-13);
}

TEST(MetricsSmall, logits_keep_what_probabilities_lose) {
    const float z[] = {0, 2000, 1, 0};
    const int32_t labels[] = {0, 0};
    const Predictions s = lc::predictions_from_logits(z, labels, 2, 2);
    EXPECT_EQ(s.p[0], 0);
    EXPECT_EQ(nll(s, lc::NllMode::logits).impossible, 1);
    EXPECT_NEAR(nll(s, lc::NllMode::logits).value, (2000 + std::log(1 + std::exp(-1.0))) / 2, 1e-10);
}

TEST(MetricsSmall, ties_are_one_step) {
    // In the order of the rows D would climb to .25 first; the four are one step, which ends at 0.
    const lc::CumulativeError e = lc::cumulative_error({{.5, .5, .5, .5}, {1, 1, 0, 0}});
    EXPECT_EQ(e.range, 0);
    EXPECT_EQ(e.max_abs, 0);
    EXPECT_EQ(e.p_range, 1);
    EXPECT_EQ(e.p_max_abs, 1);
}

TEST(MetricsSmall, cumulative_error_by_class_joins_p_values) {
    const Predictions s = test::random_predictions(400, 3, 5, .3);
    const std::vector<double> pi = {.5, .3, .2};
    const lc::ClasswiseCumulativeError e = cumulative_error_by_class(s, pi);
    double range = 0, least = 1;
    for (int64_t c = 0; c < 3; ++c) {
        const lc::CumulativeError one = cumulative_error(class_outcomes(s, c));
        EXPECT_EQ(e.by_class[size_t(c)].range, one.range);
        range += pi[size_t(c)] * one.range;
        least = std::min(least, one.p_range);
    }
    EXPECT_NEAR(e.mean.range, range, 1e-15);
    EXPECT_NEAR(e.mean.p_range, std::min(1.0, 3 * least), 1e-15);
    EXPECT_LT(e.mean.p_range, 1e-4);  // it is far too sure of itself
}

TEST(MetricsSmall, cells_of_the_simplex) {
    const Predictions s =
        predictions({{.1, .2, .7}, {.3, .4, .3}, {.2, .1, .7}, {.6, .1, .3}, {.1, .3, .6}}, {2, 1, 0, 0, 2});
    const lc::Cells cells = simplex_cells(s, 2);  // low low high (three rows), low low low, high low low
    ASSERT_EQ(cells.size(), 3);
    EXPECT_EQ(cells.begin, (std::vector<int64_t>{0, 1, 4, 5}));
    EXPECT_EQ(cells.order, (std::vector<int64_t>{1, 0, 2, 4, 3}));
    // Row 1 and row 3 alone, and the mean of rows 0, 2, 4: conf .4/3, .2, 2/3; freq 1/3, 0, 2/3.
    EXPECT_NEAR(ece_multi(s, cells), (1.2 + .8 + 3 * (.6 / 3 + .2 + 0)) / 5 / 3, 1e-15);
}

// ---- inputs at the edge --------------------------------------------------------------------------------------------

TEST(MetricsEdge, what_is_no_distribution_is_refused) {
    const std::vector<int32_t> y = {0};
    expect_refused([&] { predictions({{.5, .6}}, y); }, "sum to 1");
    expect_refused([&] { predictions({{.5, .4}}, y); }, "found 0.9 in row 0");
    expect_refused([&] { predictions({{1.5, -.5}}, y); }, "[0, 1]");
    expect_refused([&] { predictions({{kNaN, 1}}, y); }, "finite");
    expect_refused([&] { predictions({{INFINITY, 1}}, y); }, "finite");
    expect_refused([&] { predictions({{1}}, y); }, "2 classes");
    expect_refused([&] { predictions({{.5, .5}, {.5, .5}}, {0, 2}); }, "found 2 in row 1");
    expect_refused([&] { predictions({{.5, .5}}, {-1}); }, "found -1 in row 0");
    expect_refused([&] { lc::predictions_from_probs(std::vector<double>{}.data(), nullptr, 0, 2); }, "one row");
    const float z[] = {1, NAN};
    expect_refused([&] { lc::predictions_from_logits(z, y.data(), 1, 2); }, "row 0, column 1");
    EXPECT_EQ(predictions({{1 + 1e-7, -1e-7}}, y).p, (std::vector<double>{1, 0}));  // rounding is cut off
    EXPECT_EQ(predictions({{.5, .5005}}, y).p[1], .5005);                           // never renormalised
}

TEST(MetricsEdge, weights_that_are_no_weights_are_refused) {
    const Predictions s = predictions({{.5, .5}}, {0});
    expect_refused([&] { ece(s, {}, std::vector<double>{1}); }, "each of 2 classes");
    expect_refused([&] { ece(s, {}, std::vector<double>{.5, .6}); }, "sum of 1");
    expect_refused([&] { ece(s, {}, std::vector<double>{-.5, 1.5}); }, "from 0 on");
    expect_refused([&] { ece(s, {}, std::vector<double>{kNaN, 1}); }, "from 0 on");
    const int32_t labels[] = {0, 2, 2, 1};
    EXPECT_EQ(lc::prior_weights(labels, 4, 3), (std::vector<double>{.25, .25, .5}));
    EXPECT_EQ(lc::uniform_weights(4), (std::vector<double>{.25, .25, .25, .25}));
}

TEST(MetricsEdge, assignments_that_do_not_fit_are_refused) {
    const Predictions s = predictions({{.5, .5}}, {0});
    expect_refused([&] { tabulate(s, std::vector<int32_t>{0}, 1); }, "each of 2 entries");
    expect_refused([&] { tabulate(s, std::vector<int32_t>{0, 1}, 1); }, "from -1 to 0");
    expect_refused([&] { tabulate(s, std::vector<int32_t>{0, -2}, 1); }, "from -1 to 0");
    const std::vector<uint16_t> counts = {1, 1};
    expect_refused([&] { tabulate(s, std::vector<int32_t>{0, 0}, 1, counts); }, "each of 1 rows");
}

// Every number that a table could print is finite, whatever the input; only ln(p + 1e-12) of p = 1 is not quite >= 0.
void expect_all_finite(const Predictions& s) {
    for (const bool equal_mass : {false, true}) {
        for (const lc::EcceMode mode : {lc::EcceMode::authors, lc::EcceMode::paper, lc::EcceMode::range}) {
            lc::ScoreOptions o = {.binning = {15, equal_mass}, .ecce = mode};
            for (const lc::Score& m : score(s, o, {.replicates = 20})) {
                EXPECT_TRUE(std::isfinite(m.value) && m.value >= -2e-12) << m.name << " = " << m.value;
                EXPECT_TRUE(std::isfinite(m.interval->low) && m.interval->low <= m.interval->high) << m.name;
            }
        }
    }
    const lc::ClasswiseCumulativeError e = cumulative_error_by_class(s, lc::uniform_weights(s.C));
    for (const lc::CumulativeError& one : e.by_class) {
        EXPECT_TRUE(one.p_range >= 0 && one.p_range <= 1 && one.p_max_abs >= 0 && one.p_max_abs <= 1);
    }
}

TEST(MetricsEdge, one_row) {
    const Predictions s = predictions({{.3, .7}}, {0});
    expect_all_finite(s);
    EXPECT_NEAR(ece(s), .7, 1e-15);
    EXPECT_NEAR(ece_top(s), .7, 1e-15);
    EXPECT_NEAR(cumulative_error(top_label(s)).range, .7, 1e-15);
    expect_all_finite(predictions({{1, 0}}, {0}));
    expect_all_finite(predictions({{1, 0}}, {1}));
}

TEST(MetricsEdge, constant_predictions) {
    const Predictions s = predictions(std::vector<std::vector<double>>(40, {.25, .75}), std::vector<int32_t>(40, 1));
    expect_all_finite(s);
    EXPECT_NEAR(ece(s), .25, 1e-15);
    EXPECT_NEAR(ece(s, {.bins = 15, .equal_mass = true}), .25, 1e-15);  // one bin, not none
    EXPECT_NEAR(mce_top(s), .25, 1e-15);
    EXPECT_EQ(simplex_cells(s, 15).size(), 1);
}

TEST(MetricsEdge, certain_predictions) {
    const Predictions right = predictions({{1, 0, 0}, {0, 1, 0}, {0, 1, 0}}, {0, 1, 1});
    expect_all_finite(right);
    EXPECT_EQ(ece(right), 0);
    EXPECT_EQ(brier(right), 0);
    EXPECT_EQ(cumulative_error(top_label(right)).sigma, 0);
    EXPECT_EQ(cumulative_error(top_label(right)).p_range, 1);
    const Predictions wrong = predictions({{1, 0, 0}, {0, 1, 0}, {0, 1, 0}}, {1, 0, 0});
    expect_all_finite(wrong);
    EXPECT_EQ(ece_top(wrong), 1);
    EXPECT_EQ(cumulative_error(top_label(wrong)).p_range, 0);  // impossible if the model were right
    EXPECT_EQ(cumulative_error(top_label(wrong)).p_max_abs, 0);
}

TEST(MetricsEdge, fewer_rows_than_bins_and_a_class_that_nobody_predicts) {
    const Predictions s = predictions({{.6, .4, 0}, {.4, .6, 0}, {.9, .1, 0}}, {0, 1, 0});
    expect_all_finite(s);
    const std::vector<double> only_it = {0, 0, 1};
    EXPECT_EQ(ece(s, {}, only_it), 0);  // and it never happens
    EXPECT_NEAR(ece(s, {.bins = 1000}), (.4 + .4 + .1) * 2 / 3 / 3, 1e-15);
}

}  // namespace

// What must hold of metrics for any predictions, on random ones: many classes and two, honest models and boasters,
// ties, probabilities on the edges of bins, labels that are rare.
#include <cmath>
#include <gtest/gtest.h>
#include <map>
#include <numeric>
#include <omp.h>

#include "metrics/ecce.h"
#include "metrics/ece.h"
#include "metrics/scores.h"
#include "tests/metrics_data.h"

namespace {

using lc::Outcomes;
using lc::Predictions;

struct Input {
    std::string name;
    Predictions s;
};

// Probabilities in multiples of 1/30: half of them lie on an edge of 15 bins, and many are equal.
Predictions on_edges(int64_t n, int64_t C, uint64_t seed) {
    std::vector<double> p(size_t(n * C), 0.0);
    std::vector<int32_t> labels;
    for (int64_t i = 0; i < n; ++i) {
        for (int k = 0; k < 30; ++k)
            p[size_t(i * C) + lc::random_word({seed, 3}, uint64_t(i * 30 + k)) % size_t(C)] += 1;
        for (int64_t c = 0; c < C; ++c) p[size_t(i * C + c)] /= 30;
        labels.push_back(test::draw_label(p.data() + i * C, C, lc::random_unit({seed, 4}, uint64_t(i))));
    }
    return lc::predictions_from_probs(p.data(), labels.data(), n, C);
}

std::vector<Input> inputs() {
    std::vector<Input> all;
    for (uint64_t seed = 1; seed <= 4; ++seed) {
        const std::string tag = ", seed " + std::to_string(seed);
        all.push_back({"two classes" + tag, test::random_predictions(101, 2, seed)});
        all.push_back({"ten classes" + tag, test::random_predictions(517, 10, seed)});
        all.push_back({"boaster" + tag, test::random_predictions(400, 5, seed, .3)});
        all.push_back({"too shy" + tag, test::random_predictions(400, 5, seed, 2, .5)});
        all.push_back({"few rows" + tag, test::random_predictions(3, 7, seed)});
        all.push_back({"on edges" + tag, on_edges(301, 4, seed)});
    }
    all.push_back({"many rows", test::random_predictions(20011, 3, 5, .8)});  // several pieces of a table
    return all;
}

double mean(const std::vector<double>& v) { return std::accumulate(v.begin(), v.end(), 0.0) / double(v.size()); }

// Naive: for each class and bin, another pass over the rows.
double plain_ece(const Outcomes& o, int64_t B) {
    double sum = 0;
    for (int64_t b = 0; b < B; ++b) {
        const double low = double(b) / double(B), high = double(b + 1) / double(B);
        double gap = 0;
        for (size_t i = 0; i < o.confidence.size(); ++i) {
            const double p = o.confidence[i];
            if (p >= low && (p < high || b + 1 == B)) gap += p - o.happened[i];
        }
        sum += std::abs(gap);
    }
    return sum / double(o.size());
}

TEST(MetricsInvariants, ece_is_what_plain_loops_give) {
    for (const auto& [name, s] : inputs()) {
        SCOPED_TRACE(name);
        for (const int64_t B : {1, 2, 10, 15, 40}) {
            double by_class = 0;
            for (int64_t c = 0; c < s.C; ++c) by_class += plain_ece(class_outcomes(s, c), B) / double(s.C);
            EXPECT_NEAR(ece(s, {.bins = B}), by_class, 1e-13);
            EXPECT_NEAR(ece_top(s, {.bins = B}), plain_ece(top_label(s), B), 1e-13);
        }
    }
}

TEST(MetricsInvariants, no_ece_is_below_the_difference_of_means) {
    for (const auto& [name, s] : inputs()) {
        SCOPED_TRACE(name);
        for (int64_t c = -1; c < s.C; ++c) {  // the top label first
            const Outcomes o = c < 0 ? top_label(s) : class_outcomes(s, c);
            const double gap = std::abs(mean(o.confidence) - mean(o.happened));
            for (const int64_t B : {1, 3, 15, 100}) {
                for (const bool equal_mass : {false, true}) {
                    const double e = calibration_error(o, {B, equal_mass}, lc::Norm::l1);
                    EXPECT_GE(e, gap - 1e-14);
                    if (B == 1) {
                        EXPECT_NEAR(e, gap, 1e-14);
                    }
                    EXPECT_LE(e, calibration_error(o, {B, equal_mass}, lc::Norm::l2) + 1e-14);
                    EXPECT_LE(e, calibration_error(o, {B, equal_mass}, lc::Norm::max) + 1e-14);
                }
            }
        }
    }
}

TEST(MetricsInvariants, range_is_at_least_max_abs_is_at_least_the_difference_of_means) {
    for (const auto& [name, s] : inputs()) {
        SCOPED_TRACE(name);
        for (int64_t c = -1; c < s.C; ++c) {
            const Outcomes o = c < 0 ? top_label(s) : class_outcomes(s, c);
            const lc::CumulativeError e = cumulative_error(o);
            EXPECT_GE(e.range, e.max_abs);
            EXPECT_GE(e.max_abs, std::abs(mean(o.confidence) - mean(o.happened)) - 1e-14);
            EXPECT_LE(e.range, 2 * e.max_abs);
            // A cumulative sum at the end of a bin is one of those at the end of a row.
            const lc::BinTable t = tabulate(o, lc::assign_bins(o.confidence, {}), 15);
            EXPECT_LE(ecce(t, std::vector<double>{1}, lc::EcceMode::authors), e.max_abs + 1e-14);
        }
    }
}

TEST(MetricsInvariants, order_of_rows_and_classes_does_not_matter) {
    for (const auto& [name, s] : inputs()) {
        SCOPED_TRACE(name);
        std::vector<double> pi = lc::prior_weights(s.labels.data(), s.n, s.C), turned;
        const auto classes = lc::random_permutation({7, 8}, s.C);
        for (const int64_t c : classes) turned.push_back(pi[size_t(c)]);
        const Predictions t = test::permuted(s, lc::random_permutation({5, 6}, s.n), classes);
        for (const lc::EcceMode mode : {lc::EcceMode::authors, lc::EcceMode::paper, lc::EcceMode::range}) {
            const auto before = score(s, {.weights = pi, .ecce = mode}),
                       after = score(t, {.weights = turned, .ecce = mode});
            for (size_t k = 0; k < before.size(); ++k) {
                // Of equal probabilities the first is predicted, which turning the classes changes.
                const std::string& m = before[k].name;
                const bool top = m == "acc" || m == "ece_top" || m == "mce_top" || m == "ecce_r" || m == "ecce_mad";
                if (top && name.find("edges") != std::string::npos) continue;
                EXPECT_NEAR(before[k].value, after[k].value, 1e-12) << m;
            }
        }
    }
}

TEST(MetricsInvariants, ties_may_come_in_any_order) {
    for (uint64_t seed = 1; seed <= 10; ++seed) {
        const Predictions s = on_edges(200, 3, seed);
        const Predictions t = test::permuted(s, lc::random_permutation({seed, 6}, s.n), {0, 1, 2});
        EXPECT_NEAR(cumulative_error(top_label(s)).range, cumulative_error(top_label(t)).range, 1e-13);
        EXPECT_NEAR(cumulative_error(top_label(s)).max_abs, cumulative_error(top_label(t)).max_abs, 1e-13);
    }
}

// A temperature keeps the order of every row, and so the accuracy; whatever it does to the rest.
TEST(MetricsInvariants, temperature_keeps_the_order_of_every_row) {
    const int64_t n = 300, C = 6;
    const std::vector<float> z = lc::random_normal({3, 1}, n * C, 0, 3);
    std::vector<int32_t> labels;
    for (int64_t i = 0; i < n; ++i) labels.push_back(int32_t(lc::random_word({3, 2}, uint64_t(i)) % C));
    const Predictions s = lc::predictions_from_logits(z.data(), labels.data(), n, C);
    for (const float beta : {.1f, .7f, 3.0f}) {
        std::vector<float> scaled = z;
        for (float& x : scaled) x *= beta;
        const Predictions t = lc::predictions_from_logits(scaled.data(), labels.data(), n, C);
        EXPECT_EQ(acc(s), acc(t));
        for (int64_t i = 0; i < n; ++i) {
            for (int64_t c = 1; c < C; ++c) {
                EXPECT_EQ(s.row(i)[c] < s.row(i)[c - 1], t.row(i)[c] < t.row(i)[c - 1]);
            }
        }
    }
}

TEST(MetricsInvariants, multidimensional_error_between_its_extremes) {
    for (const auto& [name, s] : inputs()) {
        SCOPED_TRACE(name);
        double together = 0, alone = 0;  // everybody in one cell; everybody alone
        for (int64_t c = 0; c < s.C; ++c) {
            const Outcomes o = class_outcomes(s, c);
            together += std::abs(mean(o.confidence) - mean(o.happened)) / double(s.C);
            for (size_t i = 0; i < o.confidence.size(); ++i) {
                alone += std::abs(o.confidence[i] - o.happened[i]) / double(s.n * s.C);
            }
        }
        EXPECT_NEAR(ece_multi(s, simplex_cells(s, 1)), together, 1e-13);
        const double between = ece_multi(s, simplex_cells(s, 4));
        EXPECT_GE(between, together - 1e-13);
        EXPECT_LE(between, alone + 1e-13);
        EXPECT_GE(between, ece(s, {.bins = 4}) - 1e-13);  // a cell is part of one bin of every class
        if (name.find("edges") != std::string::npos) continue;
        const lc::Cells fine = simplex_cells(s, 1 << 20);
        EXPECT_EQ(fine.size(), s.n);
        EXPECT_NEAR(ece_multi(s, fine), alone, 1e-13);
    }
}

TEST(MetricsInvariants, equal_mass_bins_hold_about_as_many) {
    const Predictions s = test::random_predictions(1003, 4, 9);
    const std::vector<int32_t> bin = assign_bins_by_class(s, {.bins = 10, .equal_mass = true});
    const lc::BinTable t = tabulate(s, bin, 10);
    for (const double rows : t.rows) EXPECT_TRUE(rows == 100 || rows == 101) << rows;
}

TEST(MetricsInvariants, scores_are_the_metrics_of_their_names) {
    const Predictions s = test::random_predictions(500, 4, 3, .6);
    const std::vector<double> pi = lc::prior_weights(s.labels.data(), s.n, s.C);
    std::vector<double> distance;
    for (int64_t i = 0; i < s.n; ++i) distance.push_back(lc::random_unit({8, 8}, uint64_t(i)));
    const lc::BinTable t = tabulate(s, assign_bins_by_class(s, {.bins = 12}), 12);
    const lc::CumulativeError top = cumulative_error(top_label(s));
    const std::map<std::string, double> want = {{"acc", acc(s)},
                                                {"nll", nll(s, lc::NllMode::floor, 1e-3).value},
                                                {"brier", brier(s)},
                                                {"ece", ece(s, {.bins = 12}, pi)},
                                                {"mce", mce(s, {.bins = 12}, pi)},
                                                {"ece_top", ece_top(s, {.bins = 12})},
                                                {"mce_top", mce_top(s, {.bins = 12})},
                                                {"ecce", ecce(t, pi, lc::EcceMode::paper)},
                                                {"ecce_r", top.range},
                                                {"ecce_mad", top.max_abs},
                                                {"ece_multi", ece_multi(s, simplex_cells(s, 3), pi)},
                                                {"piece", piece(s, distance, {{.bins = 12}, 5})}};
    const auto got = score(s, {{.bins = 12}, pi, lc::NllMode::floor, 1e-3, lc::EcceMode::paper, 3, distance, 5});
    ASSERT_EQ(got.size(), want.size());
    for (const lc::Score& m : got) EXPECT_NEAR(m.value, want.at(m.name), 1e-15) << m.name;
    EXPECT_EQ(score(s, {.multi_bins = 0}).back().name, "ecce_mad");
    const auto range = score(s, {.weights = pi, .ecce = lc::EcceMode::range});
    EXPECT_NEAR(range[7].value, cumulative_error_by_class(s, pi).mean.range, 1e-15);
}

// A calibrated model has the P-values of chance: a tenth below .1, half below .5.  One that boasts has none above 1e-3.
TEST(MetricsInvariants, p_values_of_calibrated_models_are_uniform) {
    constexpr int kDraws = 400;
    double below[4] = {}, largest = 0;
    for (uint64_t seed = 1; seed <= kDraws; ++seed) {
        const lc::CumulativeError e = cumulative_error(top_label(test::random_predictions(1000, 3, seed)));
        below[0] += e.p_range < .1, below[1] += e.p_range < .5;
        below[2] += e.p_max_abs < .1, below[3] += e.p_max_abs < .5;
        if (seed > 20) continue;
        largest = std::max(largest, cumulative_error(top_label(test::random_predictions(1000, 3, seed, .5))).p_range);
    }
    const double error = 4 / std::sqrt(double(kDraws));  // four standard errors, times sqrt(q (1 - q))
    for (const int k : {0, 2}) EXPECT_NEAR(below[k] / kDraws, .1, .3 * error);
    for (const int k : {1, 3}) EXPECT_NEAR(below[k] / kDraws, .5, .5 * error);
    EXPECT_LT(largest, 1e-3);
}

TEST(MetricsInvariants, same_bits_for_any_number_of_threads) {
    const Predictions s = test::random_predictions(20011, 7, 3, .8);
    const int before = omp_get_max_threads();
    std::vector<std::vector<double>> values;
    for (const int threads : {1, 2, 5}) {
        omp_set_num_threads(threads);
        values.push_back(lc::Scorer(s, {.ecce = lc::EcceMode::range})());
        values.back().push_back(cumulative_error_by_class(s, lc::uniform_weights(7)).mean.p_range);
    }
    omp_set_num_threads(before);
    EXPECT_EQ(values[0], values[1]);
    EXPECT_EQ(values[0], values[2]);
}

}  // namespace

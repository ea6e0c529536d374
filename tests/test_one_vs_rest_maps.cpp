// The maps that one-vs-rest calibrators fit per class: isotonic, logistic, Platt, beta, histogram.
#include <cmath>
#include <gtest/gtest.h>
#include <numeric>

#include "calib/beta.h"
#include "calib/histogram.h"
#include "calib/isotonic.h"
#include "calib/logistic.h"
#include "calib/platt.h"
#include "kernels/random.h"
#include "tests/golden/one_vs_rest.h"

namespace {

using Vector = std::vector<double>;

Vector isotonic_at(const Vector& x, const Vector& y, const Vector& at, double merge = 0) {
    const lc::IsotonicMap map = lc::fit_isotonic(x, y, merge);
    Vector result;
    for (const double v : at) result.push_back(lc::apply_isotonic(map.x, map.y, v));
    return result;
}

Vector pava(const Vector& y) {
    Vector x(y.size());
    std::iota(x.begin(), x.end(), 0.0);
    return isotonic_at(x, y, x);
}

void expect_near(const Vector& found, const Vector& want, double tolerance) {
    ASSERT_EQ(found.size(), want.size());
    for (size_t i = 0; i < want.size(); ++i) EXPECT_NEAR(found[i], want[i], tolerance) << "at " << i;
}

// ---- isotonic -------------------------------------------------------------------------------------------------------

TEST(Isotonic, known_small_cases) {
    EXPECT_EQ(pava({3, 7, 5, 9, 8, 7, 10}), (Vector{3, 6, 6, 8, 8, 8, 10}));
    EXPECT_EQ(pava({10, 0, 2}), (Vector{4, 4, 4}));
    const double high = 44.0 / 6;
    EXPECT_EQ(pava({5, 3, 1, 2, 8, 10, 7, 9, 6, 4}),
              (Vector{2.75, 2.75, 2.75, 2.75, high, high, high, high, high, high}));
    const Vector x = {0, 1, 1, 2, 3, 4};
    EXPECT_EQ(isotonic_at(x, {0, 0, 1, 0, 0, 1}, x), (Vector{0, .25, .25, .25, .25, 1}));
}

TEST(Isotonic, linear_between_corners_and_level_outside) {
    const Vector x = {.2, .4, .6, .8}, y = {0, 0, 1, 1};
    EXPECT_EQ(isotonic_at(x, y, {0, .2, .3, .4, .6, .9}), (Vector{0, 0, 0, 0, 1, 1}));
    expect_near(isotonic_at(x, y, {.45, .5, .55}), {.25, .5, .75}, 1e-15);
    EXPECT_EQ(lc::fit_isotonic(x, y).x, x);  // two blocks, two corners each
}

TEST(Isotonic, neighbours_that_only_double_tells_apart) {
    const double a = 1e-300, b = 2e-300;
    EXPECT_EQ(isotonic_at(Vector{a, b}, Vector{0, 1}, {a, b}), (Vector{0, 1}));
    expect_near(isotonic_at(Vector{a, b}, Vector{0, 1}, {1.5e-300}), {.5}, 1e-12);
    const double tiny = 4.9406564584124654e-324;  // a slope here would be infinite
    EXPECT_EQ(isotonic_at(Vector{0, 2 * tiny}, Vector{0, 1}, {0, tiny, 2 * tiny}), (Vector{0, .5, 1}));
}

TEST(Isotonic, never_falls_and_keeps_the_mean) {
    for (const int64_t n : {1, 2, 7, 500}) {
        Vector x, y;
        for (int64_t i = 0; i < n; ++i) {
            x.push_back(std::round(lc::random_unit({3, 1}, uint64_t(i)) * 200) / 200);  // ties
            y.push_back(lc::random_unit({3, 2}, uint64_t(i)) < x.back() * x.back() ? 1 : 0);
        }
        const Vector q = isotonic_at(x, y, x);
        EXPECT_NEAR(std::accumulate(q.begin(), q.end(), 0.0), std::accumulate(y.begin(), y.end(), 0.0), 1e-9);
        const lc::IsotonicMap map = lc::fit_isotonic(x, y);
        double before = 0;
        for (int k = 0; k <= 3000; ++k) {
            const double now = lc::apply_isotonic(map.x, map.y, k / 3000.0);
            EXPECT_GE(now, before);
            before = now;
        }
        EXPECT_LE(before, 1);
    }
}

TEST(Isotonic, float_scores_as_scikit_learn_merges_them) {
    expect_near(isotonic_at(golden::kFloatX, golden::kFloatY, golden::kFloatAt, double(1e-6f)), golden::kFloatMap,
                2e-6);
    Vector apart = isotonic_at(golden::kFloatX, golden::kFloatY, golden::kFloatAt);
    double largest = 0;
    for (size_t i = 0; i < apart.size(); ++i) largest = std::max(largest, std::abs(apart[i] - golden::kFloatMap[i]));
    EXPECT_GT(largest, .05) << "the example does not show that merging matters";
}

// ---- logistic -------------------------------------------------------------------------------------------------------

TEST(Logistic, platt_as_libsvm_and_scikit_learn_have_it) {
    const Vector f = {5, -4, 1}, target = lc::platt_targets({1, 0, 0});
    EXPECT_EQ(target, (Vector{2.0 / 3, 1.0 / 4, 1.0 / 4}));
    const lc::LogisticFit fit = lc::fit_logistic({.n = 3, .k = 1, .x = f.data(), .target = target.data()});
    EXPECT_TRUE(fit.converged);
    EXPECT_LT(fit.iterations, 15);
    EXPECT_NEAR(fit.w[0], .202614, 5e-7);
    EXPECT_NEAR(fit.w[1], -.652367, 5e-7);
}

struct Regression {
    int64_t n = 300, k = 4;
    Vector x, target;
    Regression() {
        for (const float v : lc::random_normal({5, 1}, n * k)) x.push_back(double(v));
        for (int64_t i = 0; i < n; ++i) {
            const double z = 2 * x[size_t(i * k)] - x[size_t(i * k + 1)] - 1;
            target.push_back(lc::random_unit({5, 2}, uint64_t(i)) < lc::sigmoid(z) ? 1 : 0);
        }
    }
    lc::LogisticProblem problem(double ridge) const { return {n, k, x.data(), target.data(), ridge}; }
    double gradient(const Vector& w, double ridge, int64_t column) const {  // written out once more
        double sum = column < k ? ridge * w[size_t(column)] : 0;
        for (int64_t i = 0; i < n; ++i) {
            double z = w[size_t(k)];
            for (int64_t j = 0; j < k; ++j) z += w[size_t(j)] * x[size_t(i * k + j)];
            sum += (1 / (1 + std::exp(-z)) - target[size_t(i)]) * (column < k ? x[size_t(i * k + column)] : 1.0);
        }
        return sum;
    }
};

TEST(Logistic, ends_where_the_gradient_is_zero) {
    const Regression r;
    for (const double ridge : {0.0, 1.0, 1e4}) {
        const lc::LogisticFit fit = lc::fit_logistic(r.problem(ridge));
        EXPECT_TRUE(fit.converged);
        EXPECT_LT(fit.iterations, 15);
        for (int64_t j = 0; j <= r.k; ++j) EXPECT_NEAR(r.gradient(fit.w, ridge, j), 0, 1e-8) << ridge << " " << j;
    }
}

TEST(Logistic, the_intercept_is_not_penalised) {
    const Regression r;
    const lc::LogisticFit fit = lc::fit_logistic(r.problem(1e12));
    const double mean = std::accumulate(r.target.begin(), r.target.end(), 0.0) / double(r.n);
    EXPECT_NEAR(fit.w[size_t(r.k)], std::log(mean / (1 - mean)), 1e-6);
}

TEST(Logistic, separable_labels_are_reported_and_stay_finite) {
    const Vector x = {-2, -1, 1, 2}, y = {0, 0, 1, 1};
    const lc::LogisticFit fit = lc::fit_logistic({.n = 4, .k = 1, .x = x.data(), .target = y.data()});
    EXPECT_FALSE(fit.converged);
    EXPECT_TRUE(std::isfinite(fit.w[0]) && std::isfinite(fit.w[1]));
    EXPECT_LT(fit.loss, 1e-8);
}

TEST(Logistic, columns_that_say_nothing) {
    const Vector x = {3, 3, 3, 3}, zeros(4, 0.0), y = {0, 1, 0, 0};
    for (const Vector& column : {x, zeros}) {
        const lc::LogisticFit fit = lc::fit_logistic({.n = 4, .k = 1, .x = column.data(), .target = y.data()});
        EXPECT_TRUE(fit.converged);
        EXPECT_NEAR(lc::sigmoid(fit.w[0] * column[0] + fit.w[1]), .25, 1e-9);
    }
}

TEST(Logistic, sigmoid_at_both_ends) {
    EXPECT_EQ(lc::sigmoid(-INFINITY), 0);
    EXPECT_EQ(lc::sigmoid(INFINITY), 1);
    EXPECT_EQ(lc::sigmoid(0), .5);
    EXPECT_GT(lc::sigmoid(-700), 0);
}

// ---- one class of a method ------------------------------------------------------------------------------------------

// Scores of class 0 of two, labels drawn with the probability `truth` of them.
struct Scores {
    Vector p;  // (n, 2)
    std::vector<int32_t> labels;
    template <class Truth>
    Scores(int64_t n, const Truth& truth) {
        for (int64_t i = 0; i < n; ++i) {
            const double score = lc::random_unit({8, 1}, uint64_t(i));
            p.push_back(score);
            p.push_back(1 - score);
            labels.push_back(lc::random_unit({8, 2}, uint64_t(i)) < truth(score) ? 0 : 1);
        }
    }
    lc::ClassRows rows() const { return {int64_t(labels.size()), 2, 0, p.data(), labels.data()}; }
    double nll(const lc::ClassMethod& m, const Vector& w) const {
        double sum = 0;
        for (size_t i = 0; i < labels.size(); ++i) {
            const double q = m.apply(w, p.data() + 2 * i, 2, 0);
            sum -= std::log(labels[i] == 0 ? q : 1 - q);
        }
        return sum;
    }
};

double beta_truth(double p, double a, double b, double c) {
    return lc::sigmoid(a * std::log(p) - b * std::log1p(-p) + c);
}

TEST(Beta, finds_the_map_that_made_the_labels) {
    const Scores s(40000, [](double p) { return beta_truth(p, .5, 2, -.3); });
    const lc::ClassFit fit = lc::kBetaPlain.fit(s.rows());
    EXPECT_TRUE(fit.converged);
    expect_near(fit.parameters, {.5, 2, -.3}, .1);
}

// Wherever the bounds hold or not: no permitted step from the result makes the log-loss smaller.
TEST(Beta, is_the_best_within_its_bounds) {
    struct Case {
        double a, b;
        bool a_free, b_free;
    };
    for (const Case& k :
         {Case{1, 1, true, true}, {-.6, 1.5, false, true}, {1.5, -.6, true, false}, {-1, -1, false, false}}) {
        const Scores s(3000, [&](double p) { return beta_truth(p, k.a, k.b, .2); });
        const Vector w = lc::kBetaPlain.fit(s.rows()).parameters;
        EXPECT_EQ(w[0] > 0, k.a_free) << w[0];
        EXPECT_EQ(w[1] > 0, k.b_free) << w[1];
        const double least = s.nll(lc::kBetaPlain, w);
        for (int axis = 0; axis < 3; ++axis) {
            for (const double step : {-1e-3, 1e-3}) {
                Vector other = w;
                other[size_t(axis)] += step;
                if (axis < 2 && other[size_t(axis)] < 0) continue;
                EXPECT_GE(s.nll(lc::kBetaPlain, other), least);
            }
        }
    }
}

TEST(Platt, log_odds_of_certain_rows_are_finite) {
    EXPECT_NEAR(lc::log_odds(0), -std::log(1e12), 1e-9);
    EXPECT_NEAR(lc::log_odds(1), std::log(1e12), 1e-3);  // 1 - 1e-12 is rounded
    EXPECT_EQ(lc::log_odds(.5), 0);
}

TEST(Histogram, bins_of_equal_mass_hold_the_share_of_the_class) {
    Vector p;
    std::vector<int32_t> labels;
    for (int i = 0; i < 30; ++i) {  // scores 0, 1/30, ...: two per bin
        p.push_back(i / 30.0), p.push_back(1 - i / 30.0);
        labels.push_back(i >= 20 || i % 4 == 0 ? 0 : 1);
    }
    const lc::ClassFit fit = lc::kHistogram.fit({30, 2, 0, p.data(), labels.data()});
    ASSERT_EQ(fit.parameters.size(), 30u);
    const auto at = [&](double score) { return lc::kHistogram.apply(fit.parameters, &score, 2, 0); };
    EXPECT_EQ(at(0), .5);
    EXPECT_EQ(at(1 / 30.0), .5);
    EXPECT_EQ(at(2 / 30.0), 0);
    EXPECT_EQ(at(19.9 / 30.0), 0);
    EXPECT_EQ(at(20 / 30.0), 1);
    EXPECT_EQ(at(1), 1);
    EXPECT_EQ(at(-1), .5);
}

TEST(Histogram, equal_scores_share_a_bin) {
    const Vector p = {.5, .5, .5, .5, .5, .5};
    const std::vector<int32_t> labels = {0, 1, 1};
    const lc::ClassFit fit = lc::kHistogram.fit({3, 2, 0, p.data(), labels.data()});
    EXPECT_EQ(fit.parameters, (Vector{.5, 1.0 / 3}));
}

}  // namespace

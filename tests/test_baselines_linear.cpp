// What NC, TS, VS, MS and DC are made of: the temperature, the loss of linear logits, the search for its penalty.
#include "calib/linear_logits.h"
#include "calib/odir_search.h"
#include "tests/baselines.h"

namespace {

using test::finding;
using test::fitted;

TEST(TemperatureScaling, a_temperature_without_a_minimum_is_left_alone_and_said) {
    for (float margin : {0.01f, 1.0f, 3.0f, 20.0f}) {  // Newton alone would take a thousand small steps from some
        const std::vector<float> logits = {margin, 0, 0, margin};
        for (const std::vector<int32_t>& labels : {std::vector<int32_t>{0, 1}, {1, 0}}) {
            const auto c = fitted("ts", {2, 0, 2, nullptr, logits.data(), labels.data()});
            EXPECT_EQ(finding(*c, "temperature").number, 1) << margin;
            EXPECT_NE(finding(*c, "ended").text.find("at a bound"), std::string::npos) << margin;
        }
    }
}

// ---- the loss of MS and DC ------------------------------------------------------------------------------------------

lc::LinearRows linear_rows(int64_t n, int64_t C) {
    const test::Rows rows = test::drawn_rows(n, C);
    return lc::linear_rows(lc::scored_rows(rows.samples(), lc::Scores::logits));
}

TEST(LinearLoss, derivatives_agree_with_differences) {
    const lc::LinearRows rows = linear_rows(700, 3);
    const lc::LinearLoss loss(rows, {0.7, 0.3});
    const std::vector<float> noise = lc::random_normal({3, 3}, 12, 0, 0.3);
    std::vector<double> theta(noise.begin(), noise.end()), g(12), g2(12), hessian(144), low(12), high(12);
    EXPECT_NEAR(loss(theta, g), loss.second_order(theta, g2.data(), hessian.data()), 1e-15);
    const std::vector<double> diagonal = loss.curvature(theta);
    for (size_t k = 0; k < 12; ++k) {
        EXPECT_NEAR(g[k], g2[k], 1e-15);
        constexpr double h = 1e-5;
        std::vector<double> t = theta;
        t[k] += h;
        const double above = loss(t, high);
        t[k] -= 2 * h;
        const double below = loss(t, low);
        EXPECT_NEAR(g[k], (above - below) / (2 * h), 1e-8);
        for (size_t j = k; j < 12; ++j) EXPECT_NEAR(hessian[j * 12 + k], (high[j] - low[j]) / (2 * h), 1e-7);
        EXPECT_NEAR(diagonal[k], hessian[k * 13], 1e-12);
    }
}

TEST(LinearLoss, the_penalty_is_divided_by_the_number_of_its_terms) {
    const lc::LinearRows rows = linear_rows(50, 4);
    const std::vector<double> theta(20, 2.0);  // 12 off-diagonals and 4 intercepts of 2
    std::vector<double> unused(20);
    const double plain = lc::LinearLoss(rows, {}).nll(theta);
    EXPECT_NEAR(lc::LinearLoss(rows, {1, 0})(theta, unused), plain + 4, 1e-12);
    EXPECT_NEAR(lc::LinearLoss(rows, {0, 1})(theta, unused), plain + 4, 1e-12);
}

TEST(LinearLoss, newton_and_lbfgs_end_at_the_same_place) {
    const lc::LinearRows rows = linear_rows(500, 5);
    std::vector<double> a = lc::diagonal_theta(5, 1), b = a;
    const lc::LinearLoss loss(rows, {0.01, 0.01});
    const lc::Solved newton = lc::fit_linear(rows, {0.01, 0.01}, a);
    const lc::Solved lbfgs = lc::minimise_lbfgs([&](auto t, auto g) { return loss(t, g); }, b);
    EXPECT_EQ(newton.ended, lc::Ended::converged);
    EXPECT_EQ(lbfgs.ended, lc::Ended::converged) << lbfgs.text();
    EXPECT_NEAR(newton.value, lbfgs.value, 1e-12);
    for (size_t k = 0; k < a.size(); ++k) EXPECT_NEAR(a[k], b[k], 1e-4);
}

TEST(OdirSearch, walks_the_grid_and_takes_its_best) {
    const lc::LinearRows rows = linear_rows(300, 3);
    for (bool square : {false, true}) {
        const std::vector<lc::Odir> grid = lc::odir_grid(square);
        ASSERT_EQ(grid.size(), square ? 49u : 7u);
        EXPECT_NEAR(grid[0].lambda, 100, 1e-12);
        EXPECT_NEAR(grid.back().lambda, 1e-4, 1e-16);
        double last = -1;
        const lc::OdirSearch s =
            lc::search_odir(rows, grid, 5, lc::diagonal_theta(3, 1), [&](double f, std::string_view) {
                EXPECT_GT(f, last);
                last = f;
            });
        EXPECT_NEAR(last, 1, 1e-12);
        ASSERT_GE(s.curve.size(), grid.size());
        for (const lc::OdirPoint& p : s.curve) {
            if (p.penalty.lambda == s.best.lambda && p.penalty.mu == s.best.mu) {
                for (const lc::OdirPoint& q : s.curve) EXPECT_LE(p.nll, q.nll);
            }
        }
    }
}

// Labels that the logits know nothing of: the more a matrix may do, the worse.
TEST(OdirSearch, goes_on_where_the_strongest_penalty_of_the_grid_wins) {
    test::Rows rows = test::drawn_rows(60, 8);
    std::rotate(rows.labels.begin(), rows.labels.begin() + 7, rows.labels.end());
    const lc::LinearRows linear = lc::linear_rows(lc::scored_rows(rows.samples(), lc::Scores::logits));
    const lc::OdirSearch s = lc::search_odir(linear, lc::odir_grid(false), 5, lc::diagonal_theta(8, 1), {});
    ASSERT_GT(s.curve.size(), 7u);
    for (size_t k = 0; k + 1 < s.curve.size(); ++k) {
        EXPECT_NEAR(s.curve[k].penalty.lambda / s.curve[k + 1].penalty.lambda, 10, 1e-9);
    }
    EXPECT_GE(s.best.lambda, 100);
}

TEST(OdirSearch, the_curve_is_found_and_a_warm_start_changes_nothing) {
    const test::Rows cal = test::drawn_rows(300, 3);
    EXPECT_NE(finding(*fitted("dc", cal.samples()), "curve").text.find("1e-04: "), std::string::npos);
    const lc::LinearRows rows = linear_rows(300, 3);
    const auto alone = lc::search_odir(rows, {{1e-2, 1e-2}}, 5, lc::diagonal_theta(3, 1), {});
    const auto along = lc::search_odir(rows, lc::odir_grid(false), 5, lc::diagonal_theta(3, 1), {});
    EXPECT_NEAR(alone.curve.back().nll, along.curve[along.curve.size() - 3].nll, 1e-7);
}

}  // namespace

// Bounds by their formulas on small numbers, then by simulation: data whose posterior is known, many draws of the
// labels, violations counted against delta.  The published proximity bound must fail, all others must hold.
#include <bit>
#include <cmath>
#include <gtest/gtest.h>

#include "kernels/check.h"
#include "metrics/bounds.h"
#include "metrics/ecce.h"
#include "metrics/ece.h"
#include "tests/metrics_data.h"

namespace {

using lc::Bound;
using lc::Predictions;

// ---- formulas ------------------------------------------------------------------------------------------------------

const lc::Premise kKnown = {.epsilon = .03, .plug_in = false, .delta = .1};

TEST(MetricsBounds, binned_formulas) {
    lc::BinTable t = {2, 2, 10, {4, 10, 6, 0}, std::vector<double>(4), std::vector<double>(4)};  // (bin, class)
    const std::vector<double> pi = {.25, .75};
    const double log_k = std::log(2 * 2 * 2 / .1);
    const auto root = [&](double rows) { return std::sqrt(log_k / (2 * rows)); };

    const Bound b = theorem_2(.01, t, pi, kKnown, 3);
    const double noise = .4 * .25 * root(4) + .6 * .25 * root(6) + .75 * root(10);
    EXPECT_NEAR(b.bound, 3 * (.03 + noise), 1e-14);
    ASSERT_EQ(b.terms.size(), 2u);
    EXPECT_NEAR(b.terms[0].second, 3 * .03, 1e-14);
    EXPECT_NEAR(b.terms[1].second, 3 * noise, 1e-14);
    EXPECT_TRUE(b.holds() && b.proven && b.note.empty());
    EXPECT_FALSE(theorem_2(9, t, pi, kKnown).holds());

    const Bound e = ecce_bound(.01, t, pi, kKnown);  // class 0 has S = 4, 10 and at least 4 rows; class 1 has S = 10
    EXPECT_NEAR(e.bound, .25 * 1.4 * (.03 + root(4)) + .75 * (.03 + root(10)), 1e-14);
}

TEST(MetricsBounds, formulas_of_neighbourhoods) {
    const std::vector<int32_t> bin = {0, 0, 1, 0, 1, -1};  // (row, class): three rows, two classes
    const std::vector<float> n_eff = {4, 2, 5, 8, 3, 100}, spread = {.5f, .25f, 1, .75f, 0, 50};
    const lc::Neighbourhoods near = {3, 2, bin, n_eff, spread};
    const std::vector<double> pi = {.25, .75};
    const auto root = [](double k, double n) { return std::sqrt(std::log(2 * k / .1) / (2 * n)); };

    const double noise = .25 * (root(6, 4) + root(6, 5) + root(6, 3)) / 3 + .75 * (root(6, 2) + root(6, 8)) / 2;
    const Bound tight = theorem_3_tight(.1, near, pi, kKnown), loose = theorem_3(.1, near, pi, kKnown, 2);
    EXPECT_NEAR(tight.bound, .03 + noise, 1e-14);
    EXPECT_NEAR(loose.bound, .03 + 2 * noise + 2 * (.25 * .5 + .75 * .5), 1e-14);
    ASSERT_EQ(loose.terms.size(), 3u);
    EXPECT_EQ(loose.terms[2].first, "bias");

    lc::BinTable t = {2, 2, 3, {1, 2, 2, 0}, std::vector<double>(4), std::vector<double>(4)};
    const Bound finite = theorem_2_finite(.1, t, near, pi, kKnown);
    const double least = .25 / 3 * root(4, 4) + .75 * 2 / 3 * root(4, 2) + .25 * 2 / 3 * root(4, 3);
    EXPECT_NEAR(finite.bound, (.25 + .5) * .03 + 2 * least, 1e-14);
    EXPECT_NE(finite.note.find("gamma^2"), std::string::npos);
}

TEST(MetricsBounds, formulas_of_proximity) {
    const lc::GroupMeans a = {100, {.5, .3, .2}, {.4, .4, .2}}, b = {400, {.6, .3, .1}, {.5, .5, 0}};
    const Bound published = proximity_bias_published(a, b, kKnown), valid = proximity_bias(a, b, kKnown);
    EXPECT_NEAR(published.measured, .4, 1e-14);
    EXPECT_NEAR(published.bound, .06 + .2 + std::sqrt(2 * std::log(12 / .1) / 100), 1e-14);
    EXPECT_FALSE(published.proven);
    EXPECT_NE(published.note.find("false for more than 2 classes"), std::string::npos);
    const double root = std::sqrt(2 * std::log(2 / .1));
    EXPECT_NEAR(valid.bound, .06 + .2 + std::sqrt(3.0) * (.1 + .05) + root * (.1 + .05), 1e-14);
    EXPECT_TRUE(valid.proven);
    const lc::GroupMeans two = {10, {.5, .5}, {.5, .5}};
    EXPECT_NE(proximity_bias_published(two, two, kKnown).note.find("not proven"), std::string::npos);
}

TEST(MetricsBounds, plug_in_is_said_and_nonsense_refused) {
    const lc::GroupMeans g = {10, {.5, .5}, {.5, .5}}, none = {0, {0, 0}, {0, 0}};
    EXPECT_EQ(proximity_bias(g, g, {.epsilon = .1}).note.rfind("plug-in", 0), 0u);
    EXPECT_THROW(proximity_bias(g, none, kKnown), lc::Error);
    EXPECT_THROW(proximity_bias(g, g, {.epsilon = NAN}), lc::Error);
    EXPECT_THROW(proximity_bias(g, g, {.epsilon = 0, .delta = 0}), lc::Error);
    const std::vector<int32_t> bin = {0, 0};
    const std::vector<float> n_eff = {1, NAN}, zero = {0, 0};
    const std::vector<double> pi = {.5, .5};
    EXPECT_THROW(theorem_3_tight(0, {1, 2, bin, n_eff}, pi, kKnown), lc::Error);
    EXPECT_THROW(theorem_3(0, {1, 2, bin, zero}, pi, kKnown), lc::Error);  // no spread
    EXPECT_THROW(theorem_3_tight(0, {2, 2, bin, zero}, pi, kKnown), lc::Error);
    EXPECT_TRUE(std::isfinite(theorem_3_tight(0, {1, 2, bin, zero}, pi, kKnown).bound));  // no neighbours
    EXPECT_THROW(group_means(test::predictions({{.5, .5}}, {0}), std::vector<int64_t>{}), lc::Error);
    EXPECT_THROW(group_means(test::predictions({{.5, .5}}, {0}), std::vector<int64_t>{1}), lc::Error);
}

// ---- simulation ----------------------------------------------------------------------------------------------------

// Clouds of unit variance around C points of a circle, equally likely: eta is the softmax of x . mean (their norms are
// equal).  The model says softmax(beta x . mean): right for beta = 1, too sure of itself above.
struct Mixture {
    int64_t n, C;
    std::vector<float> x;       // (n, 2)
    std::vector<float> logits;  // (n, C)
    Predictions s;
    double epsilon = 0;  // max_i |p_i - eta_i|_1

    Mixture(int64_t rows, int64_t classes, double radius, double beta, uint64_t seed) : n(rows), C(classes) {
        std::vector<double> mean;  // (C, 2)
        for (int64_t c = 0; c < C; ++c) {
            const double angle = 2 * M_PI * double(c) / double(C);
            mean.insert(mean.end(), {radius * std::cos(angle), radius * std::sin(angle)});
        }
        x = lc::random_normal({seed, 1}, n * 2);
        std::vector<int32_t> labels;
        std::vector<float> honest;
        for (int64_t i = 0; i < n; ++i) {
            const int64_t y = int64_t(lc::random_unit({seed, 2}, uint64_t(i)) * double(C));
            for (int axis = 0; axis < 2; ++axis) x[size_t(2 * i + axis)] += float(mean[size_t(2 * y + axis)]);
            for (int64_t c = 0; c < C; ++c) {
                const double z = double(x[size_t(2 * i)]) * mean[size_t(2 * c)] +
                                 double(x[size_t(2 * i + 1)]) * mean[size_t(2 * c + 1)];
                honest.push_back(float(z));
                logits.push_back(float(beta * z));
            }
            labels.push_back(int32_t(y));
        }
        s = lc::predictions_from_logits(logits.data(), labels.data(), n, C);
        const Predictions eta = lc::predictions_from_logits(honest.data(), labels.data(), n, C);
        for (int64_t i = 0; i < n; ++i) {
            double off = 0;
            for (int64_t c = 0; c < C; ++c) off += std::abs(s.row(i)[c] - eta.row(i)[c]);
            epsilon = std::max(epsilon, off);
        }
    }
};

// Naive weights of every pair inside a bin, self included.
struct Local {
    std::vector<int32_t> bin;
    std::vector<float> n_eff, spread;
    double lce = 0;  // `paper`: mean over all rows and classes

    Local(const Mixture& m, double gamma, int64_t B) : bin(assign_bins_by_class(m.s, {.bins = B})) {
        for (int64_t i = 0; i < m.n; ++i) {
            for (int64_t c = 0; c < m.C; ++c) {
                double weight = 0, square = 0, error = 0, away = 0;
                for (int64_t j = 0; j < m.n; ++j) {
                    if (bin[size_t(j * m.C + c)] != bin[size_t(i * m.C + c)]) continue;
                    const double dx = m.x[size_t(2 * i)] - m.x[size_t(2 * j)],
                                 dy = m.x[size_t(2 * i + 1)] - m.x[size_t(2 * j + 1)];
                    const double w = std::exp(-(dx * dx + dy * dy) / (2 * gamma * gamma));
                    weight += w, square += w * w;
                    error += w * (m.s.row(j)[c] - (m.s.labels[size_t(j)] == c));
                    for (int64_t k = 0; k < m.C; ++k) {
                        away +=
                            w * std::abs(double(m.logits[size_t(i * m.C + k)]) - double(m.logits[size_t(j * m.C + k)]));
                    }
                }
                n_eff.push_back(float(weight * weight / square));
                spread.push_back(float(away / weight));
                lce += std::abs(error / weight) / double(m.n * m.C);
            }
        }
    }
    lc::Neighbourhoods near(const Mixture& m) const { return {m.n, m.C, bin, n_eff, spread}; }
};

struct Tally {
    std::string name;
    int draws = 0, violations = 0;
    double tightest = 1e9;  // smallest bound / measured
    void add(const Bound& b) {
        name = b.name;
        ++draws;
        violations += !b.holds();
        if (b.measured > 0) tightest = std::min(tightest, b.bound / b.measured);
    }
    void expect_valid(double delta) const {
        std::printf("%-30s %4d draws, %d violations, bound / measured at least %.2f\n", name.c_str(), draws, violations,
                    tightest);
        EXPECT_LE(violations, delta * draws) << name;
    }
};

constexpr double kDelta = .05;

TEST(MetricsBounds, binned_bounds_hold) {
    Tally plain, squared, cumulative;
    for (uint64_t seed = 1; seed <= 400; ++seed) {
        const Mixture m(400, 3, 1.5, seed % 2 ? 1 : 1.5, seed);
        const lc::Premise premise = {m.epsilon, false, kDelta};
        const std::vector<double> pi = {.2, .3, .5};
        const lc::BinTable t = tabulate(m.s, assign_bins_by_class(m.s, {}), 15);
        plain.add(theorem_2(ece(t, pi), t, pi, premise));
        const auto phi = [](double f, double p) { return (f - p) * (f - p); };
        squared.add(theorem_2(binned_metric(t, pi, phi), t, pi, premise, 2));  // its slope is at most 2
        cumulative.add(ecce_bound(ecce(t, pi, lc::EcceMode::paper), t, pi, premise));
    }
    for (const Tally& tally : {plain, squared, cumulative}) tally.expect_valid(kDelta);
    EXPECT_LT(plain.tightest, 8);  // the bound says something: it is no more than some times what is measured
}

TEST(MetricsBounds, local_bounds_hold) {
    Tally published, tight, finite;
    for (uint64_t seed = 1; seed <= 300; ++seed) {
        const Mixture m(80, 3, 1.5, seed % 2 ? 1 : 2, seed);
        const Local local(m, .7, 5);
        const lc::Premise premise = {m.epsilon, false, kDelta};
        const std::vector<double> pi = lc::uniform_weights(3);
        published.add(theorem_3(local.lce, local.near(m), pi, premise));
        tight.add(theorem_3_tight(local.lce, local.near(m), pi, premise));
        const lc::BinTable t = tabulate(m.s, local.bin, 5);
        finite.add(theorem_2_finite(ece(t, pi), t, local.near(m), pi, premise));
    }
    for (const Tally& tally : {published, tight, finite}) tally.expect_valid(kDelta);
    EXPECT_LT(tight.tightest, 12);
    EXPECT_LT(tight.tightest, published.tightest);
}

// The simulations can see a false bound: a boaster who claims epsilon = 0 breaks them.
TEST(MetricsBounds, a_false_premise_is_seen) {
    const Mixture wide(20000, 3, 1.5, 4, 1), narrow(1500, 3, 1.5, 8, 1);
    const std::vector<double> pi = lc::uniform_weights(3);
    const lc::BinTable t = tabulate(wide.s, assign_bins_by_class(wide.s, {}), 15);
    EXPECT_FALSE(theorem_2(ece(t, pi), t, pi, {0, false}).holds());
    EXPECT_TRUE(theorem_2(ece(t, pi), t, pi, {wide.epsilon, false}).holds());
    const lc::BinTable two = tabulate(wide.s, assign_bins_by_class(wide.s, {.bins = 2}), 2);
    EXPECT_FALSE(ecce_bound(ecce(two, pi, lc::EcceMode::paper), two, pi, {0, false}).holds());
    EXPECT_TRUE(ecce_bound(ecce(two, pi, lc::EcceMode::paper), two, pi, {wide.epsilon, false}).holds());
    const Local local(narrow, 20, 3);
    EXPECT_FALSE(theorem_3_tight(local.lce, local.near(narrow), pi, {0, false}).holds());
    EXPECT_TRUE(theorem_3_tight(local.lce, local.near(narrow), pi, {narrow.epsilon, false}).holds());
}

struct ProximityRun {
    Tally published, valid;
};

// Two groups of rows of the same mixture; with radius 0 every class is as likely everywhere, which is the hardest case.
ProximityRun proximity_draws(int draws, int64_t C, int64_t size, double radius) {
    ProximityRun run;
    std::vector<int64_t> first, second;
    for (int64_t i = 0; i < size; ++i) first.push_back(i), second.push_back(size + i);
    for (uint64_t seed = 1; seed <= uint64_t(draws); ++seed) {
        const Mixture m(2 * size, C, radius, 1, seed);
        const lc::GroupMeans a = group_means(m.s, first), b = group_means(m.s, second);
        const lc::Premise premise = {m.epsilon, false, kDelta};
        run.published.add(proximity_bias_published(a, b, premise));
        run.valid.add(proximity_bias(a, b, premise));
    }
    run.published.name += ", C = " + std::to_string(C);
    return run;
}

TEST(MetricsBounds, published_proximity_bound_fails_and_the_valid_one_holds) {
    const ProximityRun ten = proximity_draws(1000, 10, 500, 0);
    EXPECT_NEAR(double(ten.published.violations) / ten.published.draws, .38, .06);  // four standard errors
    const ProximityRun hundred = proximity_draws(20, 100, 1000, 0);
    EXPECT_EQ(hundred.published.violations, hundred.published.draws);
    const ProximityRun two = proximity_draws(300, 2, 500, 0), structured = proximity_draws(200, 10, 300, 1.5);
    two.published.expect_valid(kDelta);
    for (const ProximityRun* r : {&ten, &hundred, &two, &structured}) r->valid.expect_valid(kDelta);
    std::printf("published, C = 10: %d of %d draws violate it\n", ten.published.violations, ten.published.draws);
}

// With two classes the published bound happens to hold at delta = .05 (2.4 % of violations), because Hoeffding's
// inequality is generous; but it counts one of two classes, and below delta = .01 that shows.
TEST(MetricsBounds, published_proximity_bound_is_no_bound_for_two_classes_either) {
    constexpr int kDraws = 20000, kRows = 128;
    constexpr double kSmallDelta = 1e-4;
    const auto coins = [](uint64_t draw) {  // of a fair coin: the bits of four words
        int heads = 0;
        for (uint64_t k = 0; k < 4; ++k) heads += std::popcount(lc::random_word({5, 5}, 4 * draw + k));
        const double freq = heads / double(kRows);
        return lc::GroupMeans{kRows, {.5, .5}, {freq, 1 - freq}};
    };
    Tally published, valid;
    for (uint64_t draw = 0; draw < kDraws; ++draw) {
        const lc::GroupMeans a = coins(2 * draw), b = coins(2 * draw + 1);
        published.add(proximity_bias_published(a, b, {0, false, kSmallDelta}));
        valid.add(proximity_bias(a, b, {0, false, kSmallDelta}));
    }
    EXPECT_GT(published.violations, 3 * kSmallDelta * kDraws);  // about eight times as many as promised
    valid.expect_valid(kSmallDelta);
}

// ---- the toy example -----------------------------------------------------------------------------------------------

// Six regions: share of the rows, p, frequency.  B, C and D, E have the same p and the same density, and different
// truths.
struct Region {
    int rows;
    double p, freq;
};
constexpr Region kToy[] = {{1400, .9, .95}, {300, .6, .55}, {300, .6, .65},
                           {300, .4, .35},  {300, .4, .45}, {1400, .1, .05}};

struct Toy {
    Predictions s;
    std::vector<int32_t> region, density;  // of every row
};

Toy toy(const std::vector<double>& p) {
    std::vector<std::vector<double>> rows;
    std::vector<int32_t> labels;
    Toy t;
    for (int r = 0; r < 6; ++r) {
        for (int i = 0; i < kToy[r].rows; ++i) {
            rows.push_back({1 - p[size_t(r)], p[size_t(r)]});
            labels.push_back(double(i) + .5 < kToy[r].freq * kToy[r].rows);
            t.region.push_back(r);
            t.density.push_back(kToy[r].rows);
        }
    }
    t.s = test::predictions(rows, labels);
    return t;
}

TEST(MetricsBounds, toy_example) {
    std::vector<double> p;
    for (const Region& r : kToy) p.push_back(r.p);
    const Toy before = toy(p);
    const std::vector<double> pi = {.5, .5};
    const auto distance = [](double f, double c) { return std::abs(f - c); };
    EXPECT_NEAR(ece(before.s), .7 * .05, 1e-12);  // the errors of B and C cancel, and of D and E
    EXPECT_NEAR(binned_metric(before.s, lc::group_rows(before.region), pi, distance), .05, 1e-12);

    // Recalibrate by (p, density): the frequency of all rows that share both.
    std::vector<double> mended;
    for (const Region& r : kToy) {
        double rows = 0, positive = 0;
        for (const Region& other : kToy) {
            if (other.p == r.p && other.rows == r.rows) rows += other.rows, positive += other.rows * other.freq;
        }
        mended.push_back(positive / rows);
    }
    EXPECT_NEAR(mended[1], .60, 1e-12);  // B, truly .55
    EXPECT_NEAR(mended[2], .60, 1e-12);  // C, truly .65
    const Toy after = toy(mended);
    EXPECT_NEAR(ece(after.s), 0, 1e-12);
    EXPECT_NEAR(binned_metric(after.s, lc::group_rows(after.density), pi, distance), 0, 1e-12);
    EXPECT_NEAR(binned_metric(after.s, lc::group_rows(after.region), pi, distance), .3 * .05, 1e-12);
}

}  // namespace

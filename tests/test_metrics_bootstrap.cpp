// Resampling: fair draws, the same for any number of threads, and metrics that take a count for what it is.
#include <cmath>
#include <gtest/gtest.h>
#include <numeric>
#include <omp.h>

#include "kernels/check.h"
#include "metrics/ece.h"
#include "metrics/scores.h"
#include "tests/metrics_data.h"

namespace {

using lc::Counts;
using lc::Predictions;

TEST(MetricsBootstrap, draws_are_fair) {
    const int64_t n = 500, replicates = 2000;
    std::vector<double> total(size_t(n), 0.0);
    double square = 0, never = 0;
    for (int64_t r = 0; r < replicates; ++r) {
        const std::vector<uint16_t> counts = lc::draw_counts(n, {11, uint64_t(r)});
        EXPECT_EQ(std::accumulate(counts.begin(), counts.end(), int64_t(0)), n);
        for (int64_t i = 0; i < n; ++i) {
            const double k = counts[size_t(i)];
            total[size_t(i)] += k, square += (k - 1) * (k - 1), never += k == 0;
        }
    }
    const double rows = double(n * replicates);
    EXPECT_NEAR(square / rows, 1 - 1 / double(n), .01);               // binomial: variance 1 - 1/n
    EXPECT_NEAR(never / rows, std::pow(1 - 1 / double(n), n), .002);  // 1/e in the limit
    double chi2 = 0;
    for (const double t : total) chi2 += (t - double(replicates)) * (t - double(replicates)) / double(replicates);
    EXPECT_NEAR(chi2, double(n - 1), 5 * std::sqrt(2.0 * double(n)));
    EXPECT_EQ(lc::draw_counts(1, {1, 1}), (std::vector<uint16_t>{1}));
}

// A row that counts three times is a row that is there three times.
TEST(MetricsBootstrap, a_count_is_a_repetition) {
    for (uint64_t seed = 1; seed <= 6; ++seed) {
        const Predictions s = test::random_predictions(211, 4, seed, .6);
        const std::vector<uint16_t> counts = lc::draw_counts(s.n, {seed, 9});
        Predictions repeated = {s.n, s.C, {}, {}, {}};
        for (int64_t i = 0; i < s.n; ++i) {
            for (int k = 0; k < counts[size_t(i)]; ++k) {
                repeated.p.insert(repeated.p.end(), s.row(i), s.row(i) + s.C);
                repeated.log_p.insert(repeated.log_p.end(), &s.log_p[size_t(i * s.C)], &s.log_p[size_t(i * s.C)] + s.C);
                repeated.labels.push_back(s.labels[size_t(i)]);
            }
        }
        for (const lc::EcceMode mode : {lc::EcceMode::authors, lc::EcceMode::paper, lc::EcceMode::range}) {
            const lc::ScoreOptions o = {.nll = lc::NllMode::logits, .ecce = mode, .multi_bins = 3};
            const lc::Scorer once(s, o), again(repeated, o);
            const std::vector<double> a = once(counts), b = again();
            for (size_t k = 0; k < a.size(); ++k) EXPECT_NEAR(a[k], b[k], 1e-13) << once.names()[k];
        }
    }
}

TEST(MetricsBootstrap, counts_of_one_are_the_sample_itself) {
    const Predictions s = test::random_predictions(300, 5, 2);
    const std::vector<double> distance(300, 1.0);
    const lc::Scorer scorer(s, {.distance = distance});
    EXPECT_EQ(scorer(), scorer(std::vector<uint16_t>(300, 1)));
    EXPECT_EQ(scorer.names().size(), scorer().size());
    EXPECT_EQ(scorer().back(), lc::ece_top(s));  // all as near: proximity says nothing
}

TEST(MetricsBootstrap, interval_of_a_mean_is_that_of_theory) {
    const int64_t n = 1000;
    const std::vector<float> x = lc::random_normal({4, 4}, n, 3, 2);
    const std::vector<double> each(x.begin(), x.end());
    const double m = lc::mean_of(each);
    double variance = 0;
    for (const double v : each) variance += (v - m) * (v - m) / double(n);
    const double error = std::sqrt(variance / double(n));
    const auto interval =
        lc::bootstrap(n, [&](Counts c) { return std::vector{lc::mean_of(each, c)}; }, {.replicates = 4000});
    EXPECT_NEAR(interval[0].low, m - 1.96 * error, .15 * error);
    EXPECT_NEAR(interval[0].high, m + 1.96 * error, .15 * error);
    const auto half = lc::bootstrap(n, [&](Counts c) { return std::vector{lc::mean_of(each, c)}; },
                                    {.replicates = 4000, .level = .5});
    EXPECT_NEAR(half[0].high, m + .6745 * error, .15 * error);
}

TEST(MetricsBootstrap, same_intervals_for_any_number_of_threads) {
    const Predictions s = test::random_predictions(997, 6, 8);
    const int before = omp_get_max_threads();
    std::vector<std::vector<double>> ends;
    for (const int threads : {1, 2, 3}) {
        omp_set_num_threads(threads);
        ends.emplace_back();
        for (const lc::Score& m : score(s, {}, {.replicates = 50, .seed = 3})) {
            ends.back().insert(ends.back().end(), {m.interval->low, m.interval->high});
        }
    }
    omp_set_num_threads(before);
    EXPECT_EQ(ends[0], ends[1]);
    EXPECT_EQ(ends[0], ends[2]);
    EXPECT_NE(score(s, {}, {.replicates = 50, .seed = 4})[0].interval->low, ends[0][0]);
}

// Proper scores are means, so their intervals hold their values; 19 of 20 intervals of the accuracy hold the true one.
TEST(MetricsBootstrap, intervals_cover) {
    int covered = 0;
    constexpr int kDraws = 200;
    double truth = 0;
    for (uint64_t seed = 1; seed <= kDraws; ++seed) {
        const Predictions s = test::random_predictions(400, 3, seed);
        for (int64_t i = 0; i < s.n; ++i) truth += s.row(i)[lc::top_class(s.row(i), 3)] / double(400 * kDraws);
    }
    for (uint64_t seed = 1; seed <= kDraws; ++seed) {
        const Predictions s = test::random_predictions(400, 3, seed);
        const std::vector<double> hit = each_hit(s);
        const auto v =
            lc::bootstrap(s.n, [&](Counts c) { return std::vector{lc::mean_of(hit, c)}; }, {.replicates = 300});
        covered += v[0].low <= truth && truth <= v[0].high;
        EXPECT_LT(v[0].low, lc::mean_of(hit));
        EXPECT_GT(v[0].high, lc::mean_of(hit));
    }
    EXPECT_NEAR(covered / double(kDraws), .95, 4 * std::sqrt(.95 * .05 / kDraws));
}

TEST(MetricsBootstrap, failures_come_out) {
    const auto run = [](const lc::Statistic& f, lc::BootstrapOptions o = {.replicates = 10}) {
        lc::bootstrap(5, f, o);
    };
    EXPECT_THROW(run([](Counts) -> std::vector<double> { throw std::runtime_error("no"); }), std::runtime_error);
    EXPECT_THROW(run([](Counts) { return std::vector<double>{NAN}; }), lc::Error);
    EXPECT_THROW(run([](Counts c) { return std::vector<double>(c[0], 1.0); }), lc::Error);  // now one, now two numbers
    const auto one = [](Counts) { return std::vector{1.0}; };
    EXPECT_THROW(run(one, {.replicates = 1}), lc::Error);
    EXPECT_THROW(run(one, {.level = 1}), lc::Error);
    EXPECT_THROW(lc::bootstrap(0, one), lc::Error);
    std::vector<double> none;
    EXPECT_THROW(lc::quantile(none, .5), lc::Error);
}

TEST(MetricsBootstrap, quantiles_and_progress) {
    std::vector<double> v = {3, 1, 2, 4};
    EXPECT_EQ(lc::quantile(v, 0), 1);
    EXPECT_EQ(lc::quantile(v, 1), 4);
    EXPECT_NEAR(lc::quantile(v, .5), 2.5, 1e-15);
    EXPECT_NEAR(lc::quantile(v, .25), 1.75, 1e-15);
    std::vector<double> seen;
    lc::bootstrap(3, [](Counts) { return std::vector{1.0}; },
                  {.replicates = 200, .progress = [&](double f, std::string_view) { seen.push_back(f); }});
    EXPECT_EQ(seen.front(), 0);
    EXPECT_EQ(seen.back(), 1);
    EXPECT_TRUE(std::is_sorted(seen.begin(), seen.end()));
}

}  // namespace

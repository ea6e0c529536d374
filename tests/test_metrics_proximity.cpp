// Proximity and the calibration error that knows it, against plain loops and against data made to fool the plain error.
#include <algorithm>
#include <cmath>
#include <gtest/gtest.h>

#include "metrics/ece.h"
#include "metrics/proximity.h"
#include "tests/metrics_data.h"

namespace {

using lc::Predictions;
using lc::Tensor;

const lc::Backend& cpu() { return *lc::find_backend("cpu"); }

TEST(MetricsProximity, distances_are_means_over_the_nearest) {
    const int64_t n = 60, d = 5, k = 10;
    const std::vector<float> z = lc::random_normal({1, 1}, n * d);
    const std::vector<double> got = lc::neighbour_distance(Tensor::from(cpu(), {n, d}, z), k);
    for (int64_t i = 0; i < n; ++i) {
        std::vector<double> others;
        for (int64_t j = 0; j < n; ++j) {
            double square = 0;
            for (int64_t f = 0; f < d; ++f)
                square += std::pow(double(z[size_t(i * d + f)]) - double(z[size_t(j * d + f)]), 2);
            if (j != i) others.push_back(std::sqrt(square));
        }
        std::sort(others.begin(), others.end());
        double mean = 0;
        for (int64_t j = 0; j < k; ++j) mean += others[size_t(j)] / double(k);
        EXPECT_NEAR(got[size_t(i)], mean, 1e-6);
        EXPECT_NEAR(lc::proximity(got)[size_t(i)], std::exp(-mean), 1e-6);
    }
}

TEST(MetricsProximity, few_rows_and_bad_ones) {
    const std::vector<float> two = {0, 3};
    EXPECT_EQ(lc::neighbour_distance(Tensor::from(cpu(), {2, 1}, two)), (std::vector<double>{3, 3}));
    const std::vector<float> one = {0}, nan = {0, NAN, 1};
    EXPECT_THROW(lc::neighbour_distance(Tensor::from(cpu(), {1, 1}, one)), lc::Error);
    EXPECT_THROW(lc::neighbour_distance(Tensor::from(cpu(), {3, 1}, nan)), lc::Error);
    EXPECT_THROW(lc::neighbour_distance(Tensor::from(cpu(), {2, 1}, two), 0), lc::Error);
    const Predictions s = test::random_predictions(5, 3, 1);
    EXPECT_THROW(piece(s, std::vector<double>{1, 2}), lc::Error);
    EXPECT_THROW(piece(s, std::vector<double>(5, 1), {{}, 0}), lc::Error);
}

// Confidence .7 everywhere; right in 9 of 10 rows where they crowd, in 5 of 10 where they are alone.
TEST(MetricsProximity, sees_what_the_plain_error_does_not) {
    std::vector<std::vector<double>> rows;
    std::vector<int32_t> labels;
    std::vector<double> distance;
    for (int i = 0; i < 200; ++i) {
        const bool crowd = i < 100;
        rows.push_back({.7, .3});
        labels.push_back(i % 10 < (crowd ? 9 : 5) ? 0 : 1);
        distance.push_back(crowd ? 800 + i : 1600 + i);  // exp(-distance) is 0 for all of them: bins must not need it
    }
    const Predictions s = test::predictions(rows, labels);
    EXPECT_NEAR(ece_top(s), 0, 1e-15);
    EXPECT_NEAR(piece(s, distance, {{}, 2}), .2, 1e-14);
    EXPECT_NEAR(piece(s, distance), .2, 1e-14);  // bins of 20 rows have the same shares
    EXPECT_NEAR(piece(s, distance, {{}, 1}), 0, 1e-15);
}

TEST(MetricsProximity, is_at_least_the_plain_error) {
    for (uint64_t seed = 1; seed <= 5; ++seed) {
        const Predictions s = test::random_predictions(700, 4, seed, .7);
        const std::vector<float> z = lc::random_normal({seed, 5}, s.n * 3);
        const std::vector<double> distance = lc::neighbour_distance(Tensor::from(cpu(), {s.n, 3}, z));
        EXPECT_GE(piece(s, distance), ece_top(s) - 1e-14);
        const std::vector<double> constant(size_t(s.n), 1.0);
        EXPECT_NEAR(piece(s, constant), ece_top(s), 1e-14);
    }
}

TEST(MetricsProximity, halves_of_the_fullest_bin) {
    const Predictions s = test::predictions({{.9, .1}, {.55, .45}, {.91, .09}, {.92, .08}, {.9, .1}}, {0, 0, 0, 1, 0});
    const lc::ProximityHalves h = proximity_halves(s, std::vector<double>{4, 9, 2, 3, 1}, {.bins = 10});
    EXPECT_EQ(h.near, (std::vector<int64_t>{4, 2}));
    EXPECT_EQ(h.far, (std::vector<int64_t>{3, 0}));
}

}  // namespace

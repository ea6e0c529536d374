// Philox against the published vectors, and the host's draws against what their distribution must look like.
#include <algorithm>
#include <cmath>
#include <gtest/gtest.h>
#include <numeric>

#include "kernels/random.h"
#include "tests/oracle/eltwise.h"

namespace {

struct Vector {  // counter, key and output of Philox4x32-10 as published with Random123 (Salmon et al., 2011)
    uint32_t counter[4], key[2], out[4];
};
const Vector kPublished[] = {
    {{0, 0, 0, 0}, {0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
    {{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff},
     {0xffffffff, 0xffffffff},
     {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
    {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
     {0xa4093822, 0x299f31d0},
     {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
};

TEST(Philox, PublishedVectors) {
    for (const Vector& v : kPublished) {
        const lc::Philox4 got =
            lc::philox({{v.counter[0], v.counter[1], v.counter[2], v.counter[3]}}, v.key[0], v.key[1]);
        for (int i = 0; i < 4; ++i) EXPECT_EQ(got.v[i], v.out[i]);
    }
}

TEST(Philox, OracleAgreesWithThePublishedVectors) {  // the oracle of dropout is a second implementation: judge it too
    for (const Vector& v : kPublished) {
        const uint64_t seed = uint64_t(v.key[1]) << 32 | v.key[0];
        const uint64_t stream = uint64_t(v.counter[3]) << 32 | v.counter[2];
        const uint64_t group = uint64_t(v.counter[1]) << 32 | v.counter[0];
        for (int i = 0; i < 4; ++i) EXPECT_EQ(oracle::philox_word(seed, stream, group, i), v.out[i]);
    }
}

TEST(Random, WordsDoNotDependOnWhatWasDrawnBefore) {
    const lc::RandomKey key{42, 7};
    const auto many = lc::random_uniform(key, 1000, 0, 1);
    const auto few = lc::random_uniform(key, 10, 0, 1);
    EXPECT_TRUE(std::equal(few.begin(), few.end(), many.begin()));
    EXPECT_NE(lc::random_word(key, 0), lc::random_word({42, 8}, 0));
    EXPECT_NE(lc::random_word(key, 0), lc::random_word({43, 7}, 0));
}

TEST(Random, UniformFillsItsRange) {
    const auto v = lc::random_uniform({1, 2}, 100000, -3, 5);
    const double mean = std::accumulate(v.begin(), v.end(), 0.0) / double(v.size());
    EXPECT_NEAR(mean, 1.0, 5 * 8 / std::sqrt(12.0 * 1e5));  // five standard errors
    const auto [low, high] = std::minmax_element(v.begin(), v.end());
    EXPECT_GE(*low, -3);
    EXPECT_LE(*high, 5);
    EXPECT_LT(*low, -2.99);
    EXPECT_GT(*high, 4.99);
}

TEST(Random, NormalHasTheRightMoments) {
    const int64_t n = 200000;
    const auto v = lc::random_normal({5, 6}, n, 2, 3);
    double m1 = 0, m2 = 0, m3 = 0, m4 = 0;
    for (float x : v) {
        const double z = (double(x) - 2) / 3;
        ASSERT_TRUE(std::isfinite(z));
        m1 += z, m2 += z * z, m3 += z * z * z, m4 += z * z * z * z;
    }
    const double e = 5 / std::sqrt(double(n));  // five standard errors, times the deviation of each power
    EXPECT_NEAR(m1 / double(n), 0, e);
    EXPECT_NEAR(m2 / double(n), 1, e * std::sqrt(2.0));
    EXPECT_NEAR(m3 / double(n), 0, e * std::sqrt(15.0));
    EXPECT_NEAR(m4 / double(n), 3, e * std::sqrt(96.0));
}

TEST(Random, PermutationsAreEvenlySpread) {
    int count[6] = {};
    for (uint64_t s = 0; s < 6000; ++s) {
        const auto p = lc::random_permutation({s, 1}, 3);
        count[p[0] * 2 + (p[1] > p[2])]++;
    }
    double chi2 = 0;
    for (int c : count) chi2 += (c - 1000.0) * (c - 1000.0) / 1000.0;
    EXPECT_LT(chi2, 25.7);  // the 99.99 % quantile of chi-squared with 5 degrees of freedom
    auto p = lc::random_permutation({9, 9}, 1000);
    std::sort(p.begin(), p.end());
    for (int64_t i = 0; i < 1000; ++i) EXPECT_EQ(p[size_t(i)], i);
    EXPECT_TRUE(lc::random_permutation({9, 9}, 0).empty());
}

}  // namespace

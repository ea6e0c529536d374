// exp_lanes, log_lanes and log1p_lanes of kernels/simd_math.h against the functions of the C library in double, on every SIMD target
// that this machine has: the stated bounds over the whole range, and the special values bit for bit.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tests/test_simd_math.cpp"
#include <cstdint>
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/simd_math.h"

HWY_BEFORE_NAMESPACE();
namespace lc::cpu::HWY_NAMESPACE {
namespace {

// n is a multiple of 16, the lanes of the widest target.
void exp_array(float* out, const float* x, int64_t n) {
    const hn::ScalableTag<float> d;
    for (int64_t i = 0; i < n; i += int64_t(hn::Lanes(d))) hn::StoreU(exp_lanes(d, hn::LoadU(d, x + i)), d, out + i);
}
void exp_weight_array(float* out, const float* x, int64_t n) {
    const hn::ScalableTag<float> d;
    for (int64_t i = 0; i < n; i += int64_t(hn::Lanes(d))) {
        hn::StoreU(exp_weight_lanes(d, hn::LoadU(d, x + i)), d, out + i);
    }
}
void log_array(float* out, const float* x, int64_t n) {
    const hn::ScalableTag<float> d;
    for (int64_t i = 0; i < n; i += int64_t(hn::Lanes(d))) hn::StoreU(log_lanes(d, hn::LoadU(d, x + i)), d, out + i);
}
void log1p_array(float* out, const float* x, int64_t n) {
    const hn::ScalableTag<float> d;
    for (int64_t i = 0; i < n; i += int64_t(hn::Lanes(d))) hn::StoreU(log1p_lanes(d, hn::LoadU(d, x + i)), d, out + i);
}

}  // namespace
}  // namespace lc::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
    #include <algorithm>
    #include <cmath>
    #include <cstring>
    #include <functional>
    #include <gtest/gtest.h>
    #include <limits>
    #include <string>
    #include <vector>

namespace lc::cpu {
HWY_EXPORT(exp_array);
HWY_EXPORT(exp_weight_array);
HWY_EXPORT(log_array);
HWY_EXPORT(log1p_array);

namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

std::vector<float> exp_of(std::vector<float> x) {
    HWY_DYNAMIC_DISPATCH(exp_array)(x.data(), x.data(), int64_t(x.size()));
    return x;
}
std::vector<float> log_of(std::vector<float> x) {
    HWY_DYNAMIC_DISPATCH(log_array)(x.data(), x.data(), int64_t(x.size()));
    return x;
}
std::vector<float> log1p_of(std::vector<float> x) {
    HWY_DYNAMIC_DISPATCH(log1p_array)(x.data(), x.data(), int64_t(x.size()));
    return x;
}

// Runs the body once per target, with the target's name in every failure.
class SimdMath : public testing::Test {
  protected:
    static void on_every_target(const std::function<void()>& body) {
        for (int64_t rest = hwy::SupportedTargets() & HWY_TARGETS; rest != 0; rest &= rest - 1) {
            hwy::SetSupportedTargetsForTest(rest & -rest);
            hwy::GetChosenTarget().Update(hwy::SupportedTargets());
            SCOPED_TRACE(hwy::TargetName(rest & -rest));
            body();
            hwy::SetSupportedTargetsForTest(0);
        }
    }
    void TearDown() override {
        hwy::SetSupportedTargetsForTest(0);
        hwy::GetChosenTarget().Update(hwy::SupportedTargets());
    }
};

uint32_t bits_of(float x) {
    uint32_t u;
    std::memcpy(&u, &x, sizeof u);
    return u;
}
float from_bits(uint32_t u) {
    float x;
    std::memcpy(&x, &u, sizeof x);
    return x;
}

// |got - want| in units of the last place that float32 has at `want`; infinity where one is finite and the other not.
double ulps(float got, double want) {
    const float rounded = float(want);
    if (std::isnan(want)) return std::isnan(got) ? 0 : kInfinity;
    if (std::isinf(rounded)) return got == rounded ? 0 : kInfinity;
    const int exponent = want == 0 ? -126 : std::max(std::ilogb(want), -126);
    const double error = std::fabs(double(got) - want) / std::ldexp(1.0, exponent - 23);
    return std::isnan(error) ? kInfinity : error;
}

struct Worst {
    double error = 0;
    float at = 0;
};

// Every `stride`-th float32 there is, of both signs, infinities and NaN among them.
Worst sweep(const std::function<std::vector<float>(std::vector<float>)>& f, double (*want)(double), uint32_t stride) {
    constexpr size_t kBatch = 4096;
    Worst worst;
    std::vector<float> x;
    const auto judge = [&] {
        while (x.size() % 16 != 0) x.push_back(1.0f);
        const std::vector<float> got = f(x);
        for (size_t i = 0; i < x.size(); ++i) {
            const double error = ulps(got[i], want(double(x[i])));
            if (error > worst.error) worst = {error, x[i]};
        }
        x.clear();
    };
    for (uint64_t u = 0; u < (uint64_t(1) << 32); u += stride) {
        x.push_back(from_bits(uint32_t(u)));
        if (x.size() == kBatch) judge();
    }
    judge();
    return worst;
}

double exact_exp(double x) { return std::exp(x); }
double exact_log(double x) { return x == 0 ? -kInfinity : std::log(x); }
double exact_log1p(double x) { return x == -1 ? -kInfinity : std::log1p(x); }

constexpr double kBound = 1.0;  // what simd_math.h promises, in units of the last place
    #ifdef LC_SANITIZED
constexpr uint32_t kStride = (1 << 16) + 1;  // a sanitizer looks for other faults than wrong digits
    #else
constexpr uint32_t kStride = 512 + 1;  // eight million arguments; odd, to vary the low bits
    #endif

TEST_F(SimdMath, ExpIsWithinOneUlpOverTheWholeRange) {
    on_every_target([] {
        const Worst w = sweep(exp_of, exact_exp, kStride);
        EXPECT_LE(w.error, kBound) << "exp(" << w.at << ")";
    });
}

TEST_F(SimdMath, LogIsWithinOneUlpOverTheWholeRange) {
    on_every_target([] {
        const Worst w = sweep(log_of, exact_log, kStride);
        EXPECT_LE(w.error, kBound) << "log(" << w.at << ")";
    });
}

TEST_F(SimdMath, Log1pIsWithinTwoUlpsOverTheWholeRange) {
    on_every_target([] {
        const Worst w = sweep(log1p_of, exact_log1p, kStride);
        EXPECT_LE(w.error, 2.0) << "log1p(" << w.at << ")";
    });
}

// The arguments of softplus and of the Jensen-Shannon distance.
TEST_F(SimdMath, Log1pDenseBetweenMinusOneAndOne) {
    on_every_target([] {
        std::vector<float> x;
        for (int i = -159999; i < 160001; ++i) x.push_back(float(i) / 160000);
        const std::vector<float> y = log1p_of(x);
        for (size_t i = 0; i < x.size(); ++i) {
            ASSERT_LE(ulps(y[i], std::log1p(double(x[i]))), 2.0) << "log1p(" << x[i] << ")";
        }
    });
}

TEST_F(SimdMath, SpecialValuesOfLog1p) {
    on_every_target([] {
        std::vector<float> x = {-1.0f, kInfinity, kNaN, 0.0f, -1.5f, 1e-42f, -kInfinity, 1e-10f};
        x.resize(16, 1.0f);
        const std::vector<float> y = log1p_of(x);
        EXPECT_EQ(y[0], -kInfinity);
        EXPECT_EQ(y[1], kInfinity);
        EXPECT_TRUE(std::isnan(y[2]));
        EXPECT_EQ(bits_of(y[3]), 0u);
        EXPECT_TRUE(std::isnan(y[4]));
        EXPECT_EQ(y[5], 1e-42f);
        EXPECT_TRUE(std::isnan(y[6]));
        EXPECT_EQ(y[7], 1e-10f);
    });
}

// The arguments of softmax, and the sums of its rows.
TEST_F(SimdMath, DenseAroundTheWorkingRange) {
    on_every_target([] {
        std::vector<float> x, s;
        for (int i = 0; i < 160000; ++i) x.push_back(-float(i) * 0.00066f);
        for (int i = 0; i < 160000; ++i) s.push_back(1.0f + float(i) * 0.00625f);
        const std::vector<float> e = exp_of(x), l = log_of(s);
        for (size_t i = 0; i < x.size(); ++i) {
            ASSERT_LE(ulps(e[i], std::exp(double(x[i]))), kBound) << "exp(" << x[i] << ")";
            ASSERT_LE(ulps(l[i], std::log(double(s[i]))), kBound) << "log(" << s[i] << ")";
        }
    });
}

// Arguments at which one target or another form of the polynomial is worst: the last hundredths of an ulp show here,
// where a sparse sweep would pass by.
TEST_F(SimdMath, TheWorstArgumentsKnown) {
    on_every_target([] {
        std::vector<float> x = {0x1.2e3aa8p+5f, -0x1.b61052p+4f, -0x1.76ce2cp+2f, -0x1.7714d4p+2f, -0x1.4ca78p+2f};
        std::vector<float> s = {0x1.65dadap-1f, 0x1.669462p+0f, 0x1.670802p-1f, 0x1.66430cp+0f, 0x1.45e4p+0f};
        x.resize(16, 1.0f);
        s.resize(16, 1.0f);
        const std::vector<float> e = exp_of(x), l = log_of(s);
        for (size_t i = 0; i < x.size(); ++i) {
            EXPECT_LE(ulps(e[i], std::exp(double(x[i]))), kBound) << "exp(" << x[i] << ")";
            EXPECT_LE(ulps(l[i], std::log(double(s[i]))), kBound) << "log(" << s[i] << ")";
        }
    });
}

TEST_F(SimdMath, SpecialValuesOfExp) {
    on_every_target([] {
        const std::vector<float> y = exp_of({-kInfinity, kInfinity, kNaN, 0.0f, -0.0f, -104.0f, -1e30f, 1e30f,  //
                                             89.0f, 88.72283f, -103.0f, -87.5f, 1e-45f, -1e-45f, -kNaN, 88.72284f});
        const float limit = std::numeric_limits<float>::max();
        EXPECT_EQ(bits_of(y[0]), 0u) << "exp(-inf) is +0";
        EXPECT_EQ(y[1], kInfinity);
        EXPECT_TRUE(std::isnan(y[2]));
        EXPECT_EQ(y[3], 1.0f) << "exactly, so that the largest score of a row has weight one";
        EXPECT_EQ(y[4], 1.0f);
        EXPECT_EQ(bits_of(y[5]), 0u);
        EXPECT_EQ(bits_of(y[6]), 0u);
        EXPECT_EQ(y[7], kInfinity);
        EXPECT_EQ(y[8], kInfinity);
        EXPECT_TRUE(y[9] > 0.999f * limit && y[9] <= limit) << "the last argument with a finite result";
        EXPECT_EQ(bits_of(y[10]), bits_of(float(std::exp(-103.0)))) << "a denormal of one bit";
        EXPECT_NEAR(double(y[11]), std::exp(-87.5), 2e-45) << "a denormal";
        EXPECT_EQ(y[12], 1.0f);
        EXPECT_EQ(y[13], 1.0f);
        EXPECT_TRUE(std::isnan(y[14]));
        EXPECT_EQ(y[15], kInfinity) << "one float above the last with a finite result";
    });
}

// Between -86 and 88 the bits of exp_lanes, below it zero; a NaN with any payload stays a NaN.
TEST_F(SimdMath, WeightsAreExpWithoutDenormals) {
    on_every_target([] {
        std::vector<float> x;
        for (int i = 0; i < 16000; ++i) x.push_back(-86.0f + float(i) * 0.010875f);
        std::vector<float> y = x;
        HWY_DYNAMIC_DISPATCH(exp_weight_array)(y.data(), y.data(), int64_t(y.size()));
        const std::vector<float> e = exp_of(x);
        for (size_t i = 0; i < x.size(); ++i) ASSERT_EQ(bits_of(y[i]), bits_of(e[i])) << "exp(" << x[i] << ")";

        float payload;
        const uint32_t odd_nan = 0xffc0dea5u;
        std::memcpy(&payload, &odd_nan, 4);
        std::vector<float> z(16, 0.0f);
        z[0] = -86.00001f, z[1] = -1e30f, z[2] = -kInfinity, z[3] = kNaN, z[4] = payload;
        HWY_DYNAMIC_DISPATCH(exp_weight_array)(z.data(), z.data(), 16);
        for (int i = 0; i < 3; ++i) EXPECT_EQ(bits_of(z[size_t(i)]), 0u) << i;
        EXPECT_NE(z[3], z[3]);
        EXPECT_NE(z[4], z[4]);
        EXPECT_EQ(z[5], 1.0f);
    });
}

TEST_F(SimdMath, SpecialValuesOfLog) {
    on_every_target([] {
        const float smallest = std::numeric_limits<float>::denorm_min();
        const std::vector<float> y =
            log_of({0.0f, -0.0f, kInfinity, -kInfinity, kNaN, -1.0f, 1.0f, smallest,  //
                    -smallest, 2.0f, 0.5f, std::numeric_limits<float>::max(), 1e-40f, 4.0f, 1.0f, 1.0f});
        EXPECT_EQ(y[0], -kInfinity);
        EXPECT_EQ(y[1], -kInfinity);
        EXPECT_EQ(y[2], kInfinity);
        EXPECT_TRUE(std::isnan(y[3]));
        EXPECT_TRUE(std::isnan(y[4]));
        EXPECT_TRUE(std::isnan(y[5]));
        EXPECT_EQ(bits_of(y[6]), 0u) << "log(1) is +0";
        EXPECT_LE(ulps(y[7], std::log(double(smallest))), kBound);
        EXPECT_TRUE(std::isnan(y[8]));
        EXPECT_EQ(y[9], float(std::log(2.0)));
        EXPECT_EQ(y[10], float(std::log(0.5)));
        EXPECT_LE(ulps(y[11], std::log(double(std::numeric_limits<float>::max()))), kBound);
        EXPECT_LE(ulps(y[12], std::log(double(1e-40f))), kBound);
    });
}

}  // namespace
}  // namespace lc::cpu
#endif  // HWY_ONCE

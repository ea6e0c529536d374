// batchnorm, pool, add_relu, sgd and adam on the CPU against PyTorch (tests/golden/network_ops.py).
#include <algorithm>
#include <cmath>
#include <gtest/gtest.h>

#include "kernels/backend.h"
#include "tests/golden/network_ops.h"

namespace lc {
namespace {

using Floats = std::vector<float>;

const Backend& cpu() { return *find_backend("cpu"); }
Floats floats(const std::vector<double>& v) { return {v.begin(), v.end()}; }

void expect_near(const Floats& got, const std::vector<double>& want, const char* what) {
    ASSERT_EQ(got.size(), want.size()) << what;
    double largest = 1;
    for (double w : want) largest = std::max(largest, std::fabs(w));
    for (size_t i = 0; i < got.size(); ++i)
        EXPECT_NEAR(double(got[i]), want[i], 1e-6 * largest) << what << "[" << i << "]";
}

const BatchNorm kNorm{.N = 24, .C = 5, .eps = 1e-3f, .momentum = 0.25f};

TEST(NetworkOps, BatchnormOfABatch) {
    const Floats x = floats(golden::kNormX), dy = floats(golden::kNormDy);
    const Floats gamma = floats(golden::kNormGamma), beta = floats(golden::kNormBeta);
    Floats y(x.size()), mean(5), rstd(5), running_mean = floats(golden::kNormMean),
                                          running_var = floats(golden::kNormVar);
    const BatchStats batch{mean.data(), rstd.data()};
    cpu().batchnorm(y.data(), batch, {running_mean.data(), running_var.data()}, x.data(), gamma.data(), beta.data(),
                    kNorm, nullptr);
    expect_near(y, golden::kBatchY, "y");
    expect_near(running_mean, golden::kBatchRunningMean, "running mean");
    expect_near(running_var, golden::kBatchRunningVar, "running var");
    Floats dx(x.size()), dgamma(5), dbeta(5);
    cpu().batchnorm_bwd({dx.data(), dgamma.data(), dbeta.data()}, dy.data(), x.data(), batch, gamma.data(), false,
                        kNorm, nullptr);
    expect_near(dx, golden::kBatchDx, "dx");
    expect_near(dgamma, golden::kBatchDgamma, "dgamma");
    expect_near(dbeta, golden::kBatchDbeta, "dbeta");
}

TEST(NetworkOps, BatchnormWithRunningStatistics) {
    const Floats x = floats(golden::kNormX), dy = floats(golden::kNormDy);
    const Floats gamma = floats(golden::kNormGamma), beta = floats(golden::kNormBeta);
    Floats mean = floats(golden::kNormMean), rstd = floats(golden::kNormVar), y(x.size());
    cpu().batchnorm_infer(y.data(), x.data(), mean.data(), rstd.data(), gamma.data(), beta.data(), kNorm, nullptr);
    expect_near(y, golden::kFrozenY, "y");
    for (float& v : rstd) v = 1 / std::sqrt(v + kNorm.eps);
    Floats dx(x.size()), dgamma(5), dbeta(5);
    cpu().batchnorm_bwd({dx.data(), dgamma.data(), dbeta.data()}, dy.data(), x.data(), {mean.data(), rstd.data()},
                        gamma.data(), true, kNorm, nullptr);
    expect_near(dx, golden::kFrozenDx, "dx");
    expect_near(dgamma, golden::kFrozenDgamma, "dgamma");
    expect_near(dbeta, golden::kFrozenDbeta, "dbeta");
}

TEST(NetworkOps, MaxpoolWithTiesAndPadding) {
    const Pool s = {.N = 2, .H = 5, .W = 6, .C = 3, .window = 3, .stride = 2, .pad = 1};
    const Floats x = floats(golden::kPoolX), dy = floats(golden::kMaxDy);
    Floats y(dy.size()), at, dx(x.size());
    std::vector<int32_t> place(y.size());
    cpu().maxpool(y.data(), place.data(), x.data(), s, nullptr);
    expect_near(y, golden::kMaxY, "y");
    for (size_t i = 0; i < place.size(); ++i) {  // PyTorch counts pixels of the image
        const int64_t q = int64_t(i) / s.C % s.Q(), p = int64_t(i) / s.C / s.Q() % s.P();
        const int64_t h = p * s.stride - s.pad + place[i] / s.window, w = q * s.stride - s.pad + place[i] % s.window;
        at.push_back(float(h * s.W + w));
    }
    expect_near(at, golden::kMaxAt, "place");
    cpu().maxpool_bwd(dx.data(), dy.data(), place.data(), s, nullptr);
    expect_near(dx, golden::kMaxDx, "dx");
}

TEST(NetworkOps, Avgpool) {
    const Pool s = {.N = 2, .H = 5, .W = 6, .C = 3};
    const Floats x = floats(golden::kPoolX), dy = floats(golden::kAvgDy);
    Floats y(dy.size()), dx(x.size());
    cpu().avgpool(y.data(), x.data(), s, nullptr);
    cpu().avgpool_bwd(dx.data(), dy.data(), s, nullptr);
    expect_near(y, golden::kAvgY, "y");
    expect_near(dx, golden::kAvgDx, "dx");
}

TEST(NetworkOps, AddReluAndItsBackward) {
    const Floats x = floats(golden::kAddReluX), y = floats(golden::kAddReluY), dy = floats(golden::kAddReluDy);
    Floats out(x.size()), dx(x.size());
    cpu().add_relu(out.data(), x.data(), y.data(), int64_t(x.size()), nullptr);
    cpu().relu_bwd(dx.data(), dy.data(), out.data(), int64_t(x.size()), nullptr);
    expect_near(out, golden::kAddReluOut, "out");
    expect_near(dx, golden::kAddReluDx, "dx");
}

// Outputs of 16 MiB and more are written past the caches, but never in place: the bits must be the same.
TEST(NetworkOps, LargeOutputsPastTheCaches) {
    const BatchNorm norm{.N = (1 << 16) + 3, .C = 64};
    const size_t n = size_t(norm.N * norm.C);
    Floats x(n), out(n), mean(64), rstd(64), gamma(64, 0.75f), beta(64, 0.5f), dgamma(64), dbeta(64);
    for (size_t i = 0; i < n; ++i) x[i] = float(i * 2654435761u % 4093) / 512 - 4;
    const BatchStats batch{mean.data(), rstd.data()};
    const auto same = [&](const char* what, const auto& op) {
        Floats in_place = x;
        op(out.data(), x.data());
        op(in_place.data(), in_place.data());
        EXPECT_TRUE(out == in_place) << what;
    };
    same("batchnorm", [&](float* y, const float* from) {
        cpu().batchnorm(y, batch, {}, from, gamma.data(), beta.data(), norm, nullptr);
    });
    const Floats other = x;
    for (bool frozen : {false, true}) {
        same("batchnorm_bwd", [&](float* dx, const float* dy) {
            cpu().batchnorm_bwd({dx, dgamma.data(), dbeta.data()}, dy, other.data(), batch, gamma.data(), frozen, norm,
                                nullptr);
        });
    }
    same("add_relu", [&](float* y, const float* from) { cpu().add_relu(y, from, other.data(), int64_t(n), nullptr); });

    Pool pool = {.N = 3, .H = 150, .W = 147, .C = 64, .window = 3, .stride = 2, .pad = 1};
    const int64_t image = pool.H * pool.W * pool.C, windows = pool.P() * pool.Q() * pool.C;
    ASSERT_GE(3 * image, 1 << 22);
    std::vector<int32_t> place(static_cast<size_t>(3 * windows));
    Floats y(place.size()), dx(static_cast<size_t>(3 * image)), singly(dx);
    x.resize(dx.size());
    cpu().maxpool(y.data(), place.data(), x.data(), pool, nullptr);
    cpu().maxpool_bwd(dx.data(), y.data(), place.data(), pool, nullptr);
    for (pool.N = 1; int64_t k : {0, 1, 2}) {
        cpu().maxpool_bwd(singly.data() + k * image, y.data() + k * windows, place.data() + k * windows, pool, nullptr);
    }
    EXPECT_TRUE(dx == singly) << "maxpool_bwd";
}

// Calls step(t, x, g) for the three gradients, and gives x after each of them.
template <class Step>
Floats three_steps(const Step& step) {
    const Floats grads = floats(golden::kGrads);
    Floats x = floats(golden::kStart), all;
    for (int64_t t = 1; t <= 3; ++t) {
        step(t, x.data(), grads.data() + (t - 1) * 9);
        all.insert(all.end(), x.begin(), x.end());
    }
    return all;
}

TEST(NetworkOps, ThreeStepsOfSgd) {
    Floats v(9);
    const auto momentum = three_steps([&](int64_t t, float* x, const float* g) {
        cpu().sgd(x, v.data(), g, 9, {.lr = 0.125f, .momentum = 0.75f, .weight_decay = 0.0625f, .t = t}, nullptr);
    });
    expect_near(momentum, golden::kSgdSteps, "with momentum and weight decay");
    const auto plain = three_steps([&](int64_t t, float* x, const float* g) {
        cpu().sgd(x, v.data(), g, 9, {.lr = 0.125f, .momentum = 0, .t = t}, nullptr);
    });
    expect_near(plain, golden::kSgdPlainSteps, "plain");
}

TEST(NetworkOps, ThreeStepsOfAdamWithWeightDecay) {
    Floats m(9), v(9);
    const auto steps = three_steps([&](int64_t t, float* x, const float* g) {
        const AdamStep step{
            .lr = 0.125f, .beta1 = 0.75f, .beta2 = 0.875f, .eps = 0x1p-20f, .weight_decay = 0.0625f, .t = t};
        cpu().adam(x, m.data(), v.data(), g, 9, step, nullptr);
    });
    expect_near(steps, golden::kAdamSteps, "x");
}

}  // namespace
}  // namespace lc

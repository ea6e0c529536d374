// Oracle of batchnorm.h: the formulas as loops.  T = double is the judge, T = float the yardstick for rounding error.
#pragma once
#include <cmath>
#include <cstddef>
#include <vector>

#include "kernels/batchnorm.h"

namespace oracle {

using std::size_t;

template <class T>
struct BatchNormResult {                                          // y (N, C), the others (C)
    std::vector<T>&y, &mean, &rstd, &running_mean, &running_var;  // running_*: empty where not wanted
};

template <class T>
void batchnorm(const BatchNormResult<T>& out, const std::vector<T>& x, const std::vector<T>& gamma,
               const std::vector<T>& beta, const lc::BatchNorm& shape) {
    const size_t N = size_t(shape.N), C = size_t(shape.C);
    const T m = T(shape.momentum);
    for (size_t c = 0; c < C; ++c) {
        T mean = 0, var = 0;
        for (size_t r = 0; r < N; ++r) mean += x[r * C + c];
        mean /= T(N);
        for (size_t r = 0; r < N; ++r) var += (x[r * C + c] - mean) * (x[r * C + c] - mean);
        var /= T(N);
        if (std::isnan(var)) mean = var;
        const T rstd = 1 / std::sqrt(var + T(shape.eps));
        out.mean[c] = mean;
        out.rstd[c] = rstd;
        if (!out.running_mean.empty()) {
            out.running_mean[c] = (1 - m) * out.running_mean[c] + m * mean;
            out.running_var[c] = (1 - m) * out.running_var[c] + m * var * T(N) / T(N - 1);
        }
        for (size_t r = 0; r < N; ++r) out.y[r * C + c] = gamma[c] * (x[r * C + c] - mean) * rstd + beta[c];
    }
}

template <class T>
void batchnorm_infer(std::vector<T>& y, const std::vector<T>& x, const std::vector<T>& mean, const std::vector<T>& var,
                     const std::vector<T>& gamma, const std::vector<T>& beta, const lc::BatchNorm& shape) {
    for (size_t i = 0; i < y.size(); ++i) {
        const size_t c = i % size_t(shape.C);
        y[i] = gamma[c] * (x[i] - mean[c]) / std::sqrt(var[c] + T(shape.eps)) + beta[c];
    }
}

// dx, or dgamma and dbeta, are empty where not wanted.
template <class T>
void batchnorm_bwd(std::vector<T>& dx, std::vector<T>& dgamma, std::vector<T>& dbeta, const std::vector<T>& dy,
                   const std::vector<T>& x, const std::vector<T>& mean, const std::vector<T>& rstd,
                   const std::vector<T>& gamma, bool frozen, const lc::BatchNorm& shape) {
    const size_t N = size_t(shape.N), C = size_t(shape.C);
    for (size_t c = 0; c < C; ++c) {
        const auto xhat = [&](size_t r) { return (x[r * C + c] - mean[c]) * rstd[c]; };
        T sum = 0, product = 0;
        for (size_t r = 0; r < N; ++r) sum += dy[r * C + c], product += dy[r * C + c] * xhat(r);
        if (!dgamma.empty()) dgamma[c] = product, dbeta[c] = sum;
        for (size_t r = 0; r < N && !dx.empty(); ++r) {
            const T inner = frozen ? dy[r * C + c] : dy[r * C + c] - sum / T(N) - xhat(r) * product / T(N);
            dx[r * C + c] = gamma[c] * rstd[c] * inner;
        }
    }
}

}  // namespace oracle

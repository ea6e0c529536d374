// Oracle of the network and loss of LN (calib/local_net.h): the formulas as loops in double.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "kernels/eltwise.h"
#include "kernels/random.h"

namespace oracle {

using Matrix = std::vector<double>;

// x (n, d) W^T + b, W (m, d).
inline Matrix linear(const Matrix& x, const Matrix& W, const Matrix& b, int64_t n) {
    const int64_t d = int64_t(x.size()) / n, m = int64_t(b.size());
    Matrix y(size_t(n * m));
    for (int64_t i = 0; i < n; ++i) {
        for (int64_t j = 0; j < m; ++j) {
            double sum = b[size_t(j)];
            for (int64_t c = 0; c < d; ++c) sum += x[size_t(i * d + c)] * W[size_t(j * d + c)];
            y[size_t(i * m + j)] = sum;
        }
    }
    return y;
}

inline Matrix dropout(Matrix x, float p, lc::RandomKey key) {
    const lc::DropoutRule rule = lc::dropout_rule(p);
    for (size_t i = 0; i < x.size(); ++i)
        x[i] = lc::random_word(key, i) >= rule.threshold ? x[i] * double(rule.keep_scale) : 0;
    return x;
}

inline Matrix add_affine(Matrix a, const Matrix& x, const Matrix& w, const Matrix& b, int64_t n) {
    const size_t m = x.size() / size_t(n);
    for (size_t i = 0; i < a.size(); ++i) a[i] += w[i % m % w.size()] * x[i] + b[i % m % b.size()];
    return a;
}

// 1/2 KL(p | m) + 1/2 KL(q | m) over the entries of two vectors.
inline double js_divergence(const Matrix& p, const Matrix& q) {
    double sum = 0;
    for (size_t c = 0; c < p.size(); ++c) {
        const double m = (p[c] + q[c]) / 2;
        if (p[c] > 0) sum += p[c] * std::log(p[c] / m) / 2;
        if (q[c] > 0) sum += q[c] * std::log(q[c] / m) / 2;
    }
    return sum;
}

inline double js_distance(const Matrix& p, const Matrix& q, bool classwise) {
    if (!classwise) return std::sqrt(js_divergence(p, q));
    double sum = 0;
    for (size_t c = 0; c < p.size(); ++c) {
        const double a = std::clamp(p[c], 1e-4, 1 - 1e-4), b = std::clamp(q[c], 1e-4, 1 - 1e-4);
        sum += std::sqrt(std::max(js_divergence({a, 1 - a}, {b, 1 - b}), 1e-4));
    }
    return sum / double(p.size());
}

struct LocalNet {
    int64_t n, d, k, C, H;
    float dropout_rate;
    lc::RandomKey key;
    double gamma, lambda;
    Matrix phi = {}, z = {}, g = {};
    std::vector<int32_t> labels = {};
    bool authors = false, classwise = false;

    // theta of row i from features x (n, k), row i left out.
    Matrix theta(const Matrix& x, int64_t i, double width) const {
        Matrix weight(static_cast<size_t>(n)), t(static_cast<size_t>(C));
        double sum = 0;
        for (int64_t j = 0; j < n; ++j) {
            double square = 0;
            for (int64_t c = 0; c < k; ++c) square += std::pow(x[size_t(i * k + c)] - x[size_t(j * k + c)], 2);
            weight[size_t(j)] = i == j ? 0 : std::exp(-square / (2 * width * width));
            sum += weight[size_t(j)];
        }
        for (int64_t j = 0; j < n; ++j) {
            double w = authors ? std::clamp(weight[size_t(j)] / (sum + 1e-6), 1e-6, 1 - 1e-6) : weight[size_t(j)] / sum;
            t[size_t(labels[size_t(j)])] += w;
        }
        return t;
    }

    // Parameters in the order of lc::LocalNet: w1 b1 ws bs wg bg w_phi b_phi w_g b_g [wb bb].
    double loss(const std::vector<Matrix>& p) const {
        Matrix h = linear(phi, p[0], p[1], n);
        for (double& v : h) v = std::max(v, 0.0);
        h = dropout(h, dropout_rate, key);
        const Matrix x = add_affine(linear(h, p[2], p[3], n), z, p[6], p[7], n);
        const Matrix y = add_affine(linear(h, p[4], p[5], n), g, p[8], p[9], n);
        Matrix width(size_t(n), gamma);
        if (p.size() > 10) {
            width = linear(h, p[10], p[11], n);
            for (double& v : width) v = std::log1p(std::exp(v));
        }
        double total = 0;
        for (int64_t i = 0; i < n; ++i) {
            const Matrix q = theta(x, i, width[size_t(i)]);
            Matrix prob(y.begin() + i * C, y.begin() + (i + 1) * C);
            double sum = 0;
            for (double& v : prob) sum += v = std::exp(v);
            for (double& v : prob) v /= sum;
            const double ql = q[size_t(labels[size_t(i)])];
            total += js_distance(prob, q, classwise) - lambda * std::log(authors ? std::clamp(ql, 1e-8, 1 - 1e-8) : ql);
        }
        return total / double(n);
    }
};

}  // namespace oracle

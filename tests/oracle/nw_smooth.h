// Oracle of nw_smooth.h: the formulas as loops.  T = double is the judge, T = float the yardstick for rounding error.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

namespace oracle {

struct NwShape {
    int64_t n, m, d, C;
    bool leave_one_out = false, soft = false, gamma_per_row = false, authors = false;
};

template <class T>
struct NwInput {
    NwShape s;
    const std::vector<T>&Q, &R;    // (n, d), (m, d)
    const std::vector<T>& Y;       // (m) classes, or (m, C) soft
    const std::vector<T>& labels;  // (n) classes of the queries; empty: log_label is not asked for
    const std::vector<T>& gamma;   // (1) or (n)

    T g(int64_t i) const { return gamma[size_t(s.gamma_per_row ? i : 0)]; }
    T y(int64_t j, int64_t c) const { return s.soft ? Y[size_t(j * s.C + c)] : Y[size_t(j)] == T(c) ? T(1) : T(0); }
    T difference(int64_t i, int64_t j, int64_t k) const { return Q[size_t(i * s.d + k)] - R[size_t(j * s.d + k)]; }
    T distance2(int64_t i, int64_t j) const {
        T D = 0;
        for (int64_t k = 0; k < s.d; ++k) D += difference(i, j, k) * difference(i, j, k);
        return D;
    }
    bool left_out(int64_t i, int64_t j) const { return s.leave_one_out && i == j; }
    T score(int64_t i, int64_t j) const {
        return left_out(i, j) ? -std::numeric_limits<T>::infinity() : -distance2(i, j) / (2 * g(i) * g(i));
    }
};

constexpr double kNwFloor = 1e-6;

// ln sum_j exp(s_j) y_j
template <class T>
T log_sum(const std::vector<T>& s, const std::vector<T>& y) {
    T top = -std::numeric_limits<T>::infinity(), sum = 0;
    for (size_t j = 0; j < s.size(); ++j) {
        if (y[j] > 0 && s[j] > top) top = s[j];
    }
    if (std::isinf(top)) top = 0;
    for (size_t j = 0; j < s.size(); ++j) {
        if (y[j] != 0) sum += std::exp(s[j] - top) * y[j];
    }
    return top + std::log(sum);
}

template <class T>
void nw_smooth(std::vector<T>& theta, std::vector<T>& log_norm, std::vector<T>& log_label, const NwInput<T>& in) {
    const auto [n, m, d, C, leave_one_out, soft, gamma_per_row, authors] = in.s;
    for (int64_t i = 0; i < n; ++i) {
        std::vector<T> s(static_cast<size_t>(m)), ones(static_cast<size_t>(m), T(1)), y(static_cast<size_t>(m));
        for (int64_t j = 0; j < m; ++j) s[size_t(j)] = in.score(i, j);
        T norm = log_sum(s, ones);
        if (authors) {
            T sum = 0;
            for (T x : s) sum += std::exp(x);
            norm = std::log(sum + T(kNwFloor));
        }
        log_norm[size_t(i)] = norm;
        for (int64_t c = 0; c < C; ++c) {
            T sum = 0;
            for (int64_t j = 0; j < m; ++j) {
                T k = std::exp(s[size_t(j)] - norm);
                if (authors) k = k < T(kNwFloor) ? T(kNwFloor) : k > T(1 - kNwFloor) ? T(1 - kNwFloor) : k;
                if (in.s.soft || in.y(j, c) != 0) sum += k * in.y(j, c);
            }
            theta[size_t(i * C + c)] = std::isnan(norm) ? norm : sum;
        }
        if (in.labels.empty()) continue;
        const int64_t l = int64_t(in.labels[size_t(i)]);
        for (int64_t j = 0; j < m; ++j) y[size_t(j)] = in.y(j, l);
        log_label[size_t(i)] = authors ? std::log(theta[size_t(i * C + l)]) : log_sum(s, y) - norm;
    }
}

// dtheta (n, C), dlog_label (n), and what forward gave.  dgamma is (n) or (1).
template <class T>
struct NwUpstream {
    const std::vector<T>&dtheta, &dlog_label, &theta, &log_norm, &log_label;
};

// g_ij of the contract, for one query.
template <class T>
std::vector<T> nw_pulls(const NwUpstream<T>& up, const NwInput<T>& in, int64_t i) {
    const int64_t C = in.s.C, m = in.s.m;
    const bool label = !in.labels.empty() && !std::isinf(up.log_label[size_t(i)]);
    const int64_t l = label ? int64_t(in.labels[size_t(i)]) : 0;
    const T dlog = label ? up.dlog_label[size_t(i)] : T(0), log_label = label ? up.log_label[size_t(i)] : T(0);
    std::vector<T> g(static_cast<size_t>(m)), P(static_cast<size_t>(m));
    T sum = 0;
    for (int64_t j = 0; j < m; ++j) {
        const T s = in.score(i, j) - up.log_norm[size_t(i)];
        T& e = g[size_t(j)];
        P[size_t(j)] = std::exp(s);
        const T pull = dlog == 0 || in.y(j, l) == 0 ? T(0) : dlog * in.y(j, l) * std::exp(s - log_label);  // times P
        if (in.s.authors) {
            if (P[size_t(j)] < T(kNwFloor) || P[size_t(j)] > T(1 - kNwFloor)) continue;
            for (int64_t c = 0; c < C; ++c) e += up.dtheta[size_t(i * C + c)] * in.y(j, c);
            e = P[size_t(j)] * e + pull;
            sum += e;
        } else {
            for (int64_t c = 0; c < C; ++c)
                e += up.dtheta[size_t(i * C + c)] * (in.y(j, c) - up.theta[size_t(i * C + c)]);
            e = P[size_t(j)] * (e - dlog) + pull;
        }
    }
    for (int64_t j = 0; j < m; ++j) g[size_t(j)] -= P[size_t(j)] * sum;
    return g;
}

template <class T>
void nw_smooth_bwd(std::vector<T>& dQ, std::vector<T>& dR, std::vector<T>& dgamma, const NwUpstream<T>& up,
                   const NwInput<T>& in) {
    const int64_t d = in.s.d;
    for (int64_t i = 0; i < in.s.n; ++i) {
        const std::vector<T> g = nw_pulls(up, in, i);
        const T gamma = in.g(i);
        for (int64_t j = 0; j < in.s.m; ++j) {
            if (in.left_out(i, j)) continue;
            for (int64_t k = 0; k < d; ++k) {
                const T pull = g[size_t(j)] * in.difference(i, j, k) / (gamma * gamma);
                dQ[size_t(i * d + k)] -= pull;
                dR[size_t(j * d + k)] += pull;
            }
            if (dgamma.empty()) continue;
            dgamma[size_t(in.s.gamma_per_row ? i : 0)] += g[size_t(j)] * in.distance2(i, j) / (gamma * gamma * gamma);
        }
    }
}

// nll (n, G), by the loops of nw_smooth for one bandwidth after the other.
template <class T>
void nw_bandwidth(std::vector<T>& nll, const std::vector<T>& Z, const std::vector<T>& labels,
                  const std::vector<T>& gammas, int64_t n, int64_t d) {
    int64_t C = 1, G = int64_t(gammas.size());
    for (T y : labels) C = std::max(C, int64_t(y) + 1);
    for (int64_t g = 0; g < G; ++g) {
        const std::vector<T> gamma = {gammas[size_t(g)]};
        std::vector<T> theta(size_t(n * C)), log_norm(static_cast<size_t>(n)), log_label(static_cast<size_t>(n));
        nw_smooth(theta, log_norm, log_label, NwInput<T>{{n, n, d, C, true}, Z, Z, labels, labels, gamma});
        for (int64_t i = 0; i < n; ++i) nll[size_t(i * G + g)] = -log_label[size_t(i)];
    }
}

}  // namespace oracle

// Oracle of local_error.h: the formulas as loops.  T = double is the judge, T = float the yardstick for rounding error.
#pragma once
#include <cmath>
#include <cstdint>
#include <vector>

namespace oracle {

struct LocalShape {
    int64_t n, d, C, G = 1;
    bool include_self = true;
    int64_t m = 0;  // columns of phi; 0: there is none
};

template <class T>
struct LocalInput {
    LocalShape s;
    const std::vector<T>&Z, &residual, &bin, &gammas, &phi;  // (n, d), (n, C), (n, C), (G), (n, m)

    // exp(-|z_i - z_j|^2 / (2 gamma^2))
    T weight(int64_t i, int64_t j, int64_t g) const {
        T D = 0;
        for (int64_t k = 0; k < s.d; ++k) {
            const T difference = Z[size_t(i * s.d + k)] - Z[size_t(j * s.d + k)];
            D += difference * difference;
        }
        const T gammas_away = std::sqrt(D) / gammas[size_t(g)];
        return std::exp(-gammas_away * gammas_away / 2);
    }
    // |phi_i - phi_j|_1
    T apart(int64_t i, int64_t j) const {
        T sum = 0;
        for (int64_t k = 0; k < s.m; ++k) sum += std::abs(phi[size_t(i * s.m + k)] - phi[size_t(j * s.m + k)]);
        return sum;
    }
    bool neighbours(int64_t i, int64_t j, int64_t c) const {
        const T own = bin[size_t(i * s.C + c)];
        return own >= 0 && own == bin[size_t(j * s.C + c)] && (i != j || s.include_self);
    }
};

constexpr double kLeastWeight = 1e-6;

// Empty outputs are not asked for.
template <class T>
struct LocalOutput {
    std::vector<T>&error, &weight, &n_eff, &spread;  // (G, n, C)
};

template <class T>
void local_error(const LocalOutput<T>& out, const LocalInput<T>& in) {
    const auto [n, d, C, G, include_self, m] = in.s;
    for (int64_t g = 0; g < G; ++g) {
        for (int64_t i = 0; i < n; ++i) {
            std::vector<T> w(static_cast<size_t>(n)), apart(static_cast<size_t>(n));
            for (int64_t j = 0; j < n; ++j) {
                w[size_t(j)] = in.weight(i, j, g);
                apart[size_t(j)] = in.apart(i, j);
            }
            for (int64_t c = 0; c < C; ++c) {
                T weight = 0, residuals = 0, squares = 0, distances = 0;
                for (int64_t j = 0; j < n; ++j) {
                    if (!in.neighbours(i, j, c)) continue;
                    weight += w[size_t(j)];
                    residuals += w[size_t(j)] * in.residual[size_t(j * C + c)];
                    squares += w[size_t(j)] * w[size_t(j)];
                    distances += w[size_t(j)] * apart[size_t(j)];
                }
                const bool nobody = weight < T(kLeastWeight);
                const auto put = [&, at = size_t((g * n + i) * C + c)](std::vector<T>& x, T value) {
                    if (!x.empty()) x[at] = nobody ? T(0) : value;
                };
                put(out.error, residuals / weight);
                put(out.weight, weight);
                put(out.n_eff, weight * weight / squares);
                put(out.spread, distances / weight);
            }
        }
    }
}

template <class T>
T larger(T a, T b) {  // a NaN is larger than everything
    return a != a || a > b ? a : b;
}

template <class T>
struct LocalNull {
    std::vector<T>&total, &largest, &row_most;  // (B, C), (B, C), (B)
};

// By the loops of local_error, for the residuals of one set of labels (B, n) after the other.
template <class T>
void local_error_null(const LocalNull<T>& out, const LocalInput<T>& in, const std::vector<T>& labels) {
    const int64_t n = in.s.n, C = in.s.C, B = int64_t(labels.size()) / n;
    for (int64_t b = 0; b < B; ++b) {
        std::vector<T> residual = in.residual, error(size_t(n * C)), none;
        for (int64_t i = 0; i < n; ++i) {
            const T label = labels[size_t(b * n + i)];
            for (int64_t c = 0; c < C; ++c) residual[size_t(i * C + c)] -= label == T(c) ? T(1) : T(0);
        }
        local_error(LocalOutput<T>{error, none, none, none},
                    LocalInput<T>{in.s, in.Z, residual, in.bin, in.gammas, in.phi});
        for (int64_t i = 0; i < n; ++i) {
            T row = 0;
            for (int64_t c = 0; c < C; ++c) {
                const T e = std::abs(error[size_t(i * C + c)]);
                out.total[size_t(b * C + c)] += e;
                T& largest = out.largest[size_t(b * C + c)];
                largest = larger(largest, e);
                row += e;
            }
            out.row_most[size_t(b)] = larger(out.row_most[size_t(b)], row);
        }
    }
}

}  // namespace oracle

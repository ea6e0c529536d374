// Oracle of conv2d.h: the sums of the definition, and Winograd's algorithm written as matrices.  T = double is the judge,
// T = float the yardstick for rounding error.
#pragma once
#include <vector>

#include "kernels/conv2d.h"

namespace oracle {

// x outside of the image is 0.
template <class T>
T pixel(const std::vector<T>& x, const lc::Conv2d& s, int64_t n, int64_t h, int64_t w, int64_t c) {
    const bool inside = h >= 0 && h < s.H && w >= 0 && w < s.W;
    return inside ? x[size_t(((n * s.H + h) * s.W + w) * s.C + c)] : T(0);
}

// bias and residual may be empty: not wanted.
template <class T>
void conv2d_epilogue(std::vector<T>& y, const std::vector<T>& bias, const std::vector<T>& residual, bool relu) {
    for (size_t i = 0; i < y.size(); ++i) {
        if (!bias.empty()) y[i] += bias[i % bias.size()];
        if (!residual.empty()) y[i] += residual[i];
        if (relu && y[i] < 0) y[i] = 0;
    }
}

// The row of K numbers that belongs to an output pixel of y or dy, and to a tap and channel of w or dw.
template <class V>
auto* output_row(V& y, const lc::Conv2d& s, int64_t n, int64_t p, int64_t q) {
    return y.data() + ((n * s.P() + p) * s.Q() + q) * s.K;
}
template <class V>
auto* filter_row(V& w, const lc::Conv2d& s, int64_t r, int64_t t, int64_t c) {
    return w.data() + ((r * s.S + t) * s.C + c) * s.K;
}

// f(n, p, q, r, t) for every output pixel and every tap.
template <class F>
void for_each_tap(const lc::Conv2d& s, const F& f) {
    for (int64_t n = 0; n < s.N; ++n)
        for (int64_t p = 0; p < s.P(); ++p)
            for (int64_t q = 0; q < s.Q(); ++q)
                for (int64_t r = 0; r < s.R; ++r)
                    for (int64_t t = 0; t < s.S; ++t) f(n, p, q, r, t);
}

template <class T>
void conv2d(std::vector<T>& y, const std::vector<T>& x, const std::vector<T>& w, const lc::Conv2d& s) {
    for (T& v : y) v = 0;
    for_each_tap(s, [&](int64_t n, int64_t p, int64_t q, int64_t r, int64_t t) {
        T* const to = output_row(y, s, n, p, q);
        for (int64_t c = 0; c < s.C; ++c) {
            const T v = pixel(x, s, n, p * s.stride + r - s.pad, q * s.stride + t - s.pad, c);
            const T* const with = filter_row(w, s, r, t, c);
            for (int64_t k = 0; k < s.K; ++k) to[k] += v * with[k];
        }
    });
}

// Every product of the forward sums, sent back to where its x came from.
template <class T>
void conv2d_bwd_data(std::vector<T>& dx, const std::vector<T>& dy, const std::vector<T>& w, const lc::Conv2d& s) {
    for (T& v : dx) v = 0;
    for_each_tap(s, [&](int64_t n, int64_t p, int64_t q, int64_t r, int64_t t) {
        const int64_t h = p * s.stride + r - s.pad, v = q * s.stride + t - s.pad;
        if (h < 0 || h >= s.H || v < 0 || v >= s.W) return;
        const T* const from = output_row(dy, s, n, p, q);
        for (int64_t c = 0; c < s.C; ++c) {
            const T* const with = filter_row(w, s, r, t, c);
            T sum = dx[size_t(((n * s.H + h) * s.W + v) * s.C + c)];
            for (int64_t k = 0; k < s.K; ++k) sum += from[k] * with[k];
            dx[size_t(((n * s.H + h) * s.W + v) * s.C + c)] = sum;
        }
    });
}

template <class T>
void conv2d_bwd_filter(std::vector<T>& dw, const std::vector<T>& x, const std::vector<T>& dy, const lc::Conv2d& s) {
    for (T& v : dw) v = 0;
    for_each_tap(s, [&](int64_t n, int64_t p, int64_t q, int64_t r, int64_t t) {
        const T* const from = output_row(dy, s, n, p, q);
        for (int64_t c = 0; c < s.C; ++c) {
            const T v = pixel(x, s, n, p * s.stride + r - s.pad, q * s.stride + t - s.pad, c);
            T* const to = filter_row(dw, s, r, t, c);
            for (int64_t k = 0; k < s.K; ++k) to[k] += v * from[k];
        }
    });
}

// ---- Winograd: how much error is natural for it ---------------------------------------------------------------------

// y = A' [ (G g G') o (B' d B) ] A for an m x m tile of outputs; a = m + 2.  Toom-Cook at 0, 1, -1, (2, -2,) infinity.
struct Winograd {
    int64_t m, a;
    std::vector<double> At, G, Bt;  // (m, a), (a, 3), (a, a)
};
inline Winograd winograd(int64_t m) {
    if (m == 2) {
        return {2,
                4,
                {1, 1, 1, 0, 0, 1, -1, -1},
                {1, 0, 0, .5, .5, .5, .5, -.5, .5, 0, 0, 1},
                {1, 0, -1, 0, 0, 1, 1, 0, 0, -1, 1, 0, 0, 1, 0, -1}};
    }
    return {4,
            6,
            {1, 1, 1, 1, 1, 0, 0, 1, -1, 2, -2, 0, 0, 1, 1, 4, 4, 0, 0, 1, -1, 8, -8, 1},
            {1. / 4, 0, 0, -1. / 6, -1. / 6, -1. / 6, -1. / 6, 1. / 6, -1. / 6, 1. / 24, 1. / 12, 1. / 6, 1. / 24,
             -1. / 12, 1. / 6, 0, 0, 1},
            {4, 0,  -5, 0, 1, 0, 0, -4, -4, 1,  1, 0, 0, 4, -4, -1, 1, 0,
             0, -2, -1, 2, 1, 0, 0, 2,  -1, -2, 1, 0, 0, 4, 0,  -5, 0, 1}};
}

// left (n, k) m (k, k) left' -> (n, n); zeros of `left` are not multiplied.
template <class T>
std::vector<T> both_sides(const std::vector<double>& left, int64_t n, int64_t k, const std::vector<T>& m) {
    std::vector<T> half(size_t(n * k)), out(size_t(n * n));
    for (int64_t i = 0; i < n; ++i)
        for (int64_t l = 0; l < k; ++l)
            for (int64_t j = 0; left[size_t(i * k + l)] != 0 && j < k; ++j)
                half[size_t(i * k + j)] += T(left[size_t(i * k + l)]) * m[size_t(l * k + j)];
    for (int64_t i = 0; i < n; ++i)
        for (int64_t j = 0; j < n; ++j)
            for (int64_t l = 0; l < k; ++l)
                if (left[size_t(j * k + l)] != 0)
                    out[size_t(i * n + j)] += T(left[size_t(j * k + l)]) * half[size_t(i * k + l)];
    return out;
}

// The forward convolution of a 3 x 3 filter with stride 1 by tiles of m x m outputs.
template <class T>
void conv2d_winograd(std::vector<T>& y, const std::vector<T>& x, const std::vector<T>& w, const lc::Conv2d& s,
                     int64_t m) {
    const Winograd f = winograd(m);
    std::vector<std::vector<T>> U;  // (C K) matrices (a, a)
    for (int64_t i = 0; i < s.C * s.K; ++i) {
        std::vector<T> g(9);
        for (int64_t rs = 0; rs < 9; ++rs) g[size_t(rs)] = w[size_t(rs * s.C * s.K + i)];
        U.push_back(both_sides(f.G, f.a, 3, g));
    }
    for (int64_t n = 0; n < s.N; ++n)
        for (int64_t p = 0; p < s.P(); p += m)
            for (int64_t q = 0; q < s.Q(); q += m) {
                std::vector<std::vector<T>> V;
                for (int64_t c = 0; c < s.C; ++c) {
                    std::vector<T> d;
                    for (int64_t i = 0; i < f.a; ++i)
                        for (int64_t j = 0; j < f.a; ++j) d.push_back(pixel(x, s, n, p + i - s.pad, q + j - s.pad, c));
                    V.push_back(both_sides(f.Bt, f.a, f.a, d));
                }
                for (int64_t k = 0; k < s.K; ++k) {
                    std::vector<T> M(size_t(f.a * f.a));
                    for (int64_t c = 0; c < s.C; ++c)
                        for (size_t i = 0; i < M.size(); ++i) M[i] += U[size_t(c * s.K + k)][i] * V[size_t(c)][i];
                    const std::vector<T> tile = both_sides(f.At, m, f.a, M);
                    for (int64_t i = 0; i < m && p + i < s.P(); ++i)
                        for (int64_t j = 0; j < m && q + j < s.Q(); ++j)
                            y[size_t(((n * s.P() + p + i) * s.Q() + q + j) * s.K + k)] = tile[size_t(i * m + j)];
                }
            }
}

// The gradient of the input for stride 1 and 3 x 3: dy convolved with the filters turned round and transposed.
template <class T>
void conv2d_bwd_data_winograd(std::vector<T>& dx, const std::vector<T>& dy, const std::vector<T>& w,
                              const lc::Conv2d& s, int64_t m) {
    std::vector<T> turned(w.size());  // (3, 3, K, C)
    for (int64_t rs = 0; rs < 9; ++rs)
        for (int64_t c = 0; c < s.C; ++c)
            for (int64_t k = 0; k < s.K; ++k)
                turned[size_t((rs * s.K + k) * s.C + c)] = w[size_t(((8 - rs) * s.C + c) * s.K + k)];
    conv2d_winograd(dx, dy, turned,
                    {.N = s.N, .H = s.P(), .W = s.Q(), .C = s.K, .K = s.C, .R = 3, .S = 3, .pad = 2 - s.pad}, m);
}

}  // namespace oracle

// Oracle of softmax.h: the formulas as loops.  T = double is the judge, T = float the yardstick for rounding error.
#pragma once
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

namespace oracle {

template <class T>
void softmax_row(T* y, const T* x, int64_t C, bool log) {
    constexpr T kNaN = std::numeric_limits<T>::quiet_NaN();
    T top = x[0];
    bool broken = false;
    for (int64_t c = 0; c < C; ++c) {
        broken = broken || x[c] != x[c];
        if (x[c] > top) top = x[c];
    }
    if (broken || std::isinf(top)) {  // a NaN, +inf, or nothing but -inf
        for (int64_t c = 0; c < C; ++c) y[c] = kNaN;
        return;
    }
    T sum = 0;
    for (int64_t c = 0; c < C; ++c) sum += std::exp(x[c] - top);
    for (int64_t c = 0; c < C; ++c) y[c] = log ? (x[c] - top) - std::log(sum) : std::exp(x[c] - top) / sum;
}

template <class T>
void softmax(std::vector<T>& y, const std::vector<T>& x, int64_t N, int64_t C, bool log) {
    for (int64_t r = 0; r < N; ++r) softmax_row(y.data() + r * C, x.data() + r * C, C, log);
}

template <class T>
void softmax_bwd(std::vector<T>& dx, const std::vector<T>& dy, const std::vector<T>& y, int64_t N, int64_t C) {
    for (int64_t r = 0; r < N; ++r) {
        T dot = 0;
        for (int64_t c = r * C; c < (r + 1) * C; ++c) dot += dy[c] * y[c];
        for (int64_t c = r * C; c < (r + 1) * C; ++c) dx[c] = y[c] * (dy[c] - dot);
    }
}

template <class T>
void log_softmax_bwd(std::vector<T>& dx, const std::vector<T>& dy, const std::vector<T>& y, int64_t N, int64_t C) {
    for (int64_t r = 0; r < N; ++r) {
        T sum = 0;
        for (int64_t c = r * C; c < (r + 1) * C; ++c) sum += dy[c];
        for (int64_t c = r * C; c < (r + 1) * C; ++c) dx[c] = dy[c] - std::exp(y[c]) * sum;
    }
}

}  // namespace oracle

// Oracle of pool.h: the formulas as loops.  T = double is the judge, T = float the yardstick for rounding error.
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/pool.h"

namespace oracle {

using std::size_t;

// Index of pixel (h, w) of image n and channel c in an array (N, H, W, C).
inline size_t pixel(const lc::Pool& s, int64_t n, int64_t h, int64_t w, int64_t c) {
    return size_t(((n * s.H + h) * s.W + w) * s.C + c);
}

// Calls body(output, r, s, input) for every pixel of every window, in the order n, p, q, c, r, s.
template <class Body>
void for_windows(const lc::Pool& p, const Body& body) {
    size_t output = 0;
    for (int64_t n = 0; n < p.N; ++n)
        for (int64_t i = 0; i < p.P(); ++i)
            for (int64_t j = 0; j < p.Q(); ++j)
                for (int64_t c = 0; c < p.C; ++c, ++output)
                    for (int64_t r = 0; r < p.window; ++r)
                        for (int64_t s = 0; s < p.window; ++s) {
                            const int64_t h = i * p.stride + r - p.pad, w = j * p.stride + s - p.pad;
                            if (h < 0 || h >= p.H || w < 0 || w >= p.W) continue;
                            body(output, r, s, pixel(p, n, h, w, c));
                        }
}

template <class T>
void maxpool(std::vector<T>& y, std::vector<T>& place, const std::vector<T>& x, const lc::Pool& p) {
    std::vector<char> seen(y.size(), 0);
    for_windows(p, [&](size_t o, int64_t r, int64_t s, size_t i) {
        const bool nan = x[i] != x[i], has_nan = seen[o] && y[o] != y[o];
        if (seen[o] && (has_nan || !(nan || x[i] > y[o]))) return;
        seen[o] = 1;
        y[o] = x[i];
        place[o] = T(r * p.window + s);
    });
}

template <class T>
void maxpool_bwd(std::vector<T>& dx, const std::vector<T>& dy, const std::vector<T>& place, const lc::Pool& p) {
    for (T& v : dx) v = 0;
    for_windows(p, [&](size_t o, int64_t r, int64_t s, size_t i) {
        if (place[o] == T(r * p.window + s)) dx[i] += dy[o];
    });
}

template <class T>
void avgpool(std::vector<T>& y, const std::vector<T>& x, const lc::Pool& p) {
    for (T& v : y) v = 0;
    for (size_t i = 0; i < x.size(); ++i) y[i / size_t(p.H * p.W * p.C) * size_t(p.C) + i % size_t(p.C)] += x[i];
    for (T& v : y) v /= T(p.H * p.W);
}

template <class T>
void avgpool_bwd(std::vector<T>& dx, const std::vector<T>& dy, const lc::Pool& p) {
    for (size_t i = 0; i < dx.size(); ++i) {
        dx[i] = dy[i / size_t(p.H * p.W * p.C) * size_t(p.C) + i % size_t(p.C)] / T(p.H * p.W);
    }
}

}  // namespace oracle

// Oracle of eltwise.h: the formulas as loops.  T = double is the judge, T = float the yardstick for rounding error.
#pragma once
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace oracle {

using std::size_t;

template <class T>
void add(std::vector<T>& out, const std::vector<T>& x, const std::vector<T>& y) {
    for (size_t i = 0; i < out.size(); ++i) out[i] = x[i] + y[i];
}

template <class T>
void scale(std::vector<T>& out, const std::vector<T>& x, float a) {
    for (size_t i = 0; i < out.size(); ++i) out[i] = T(a) * x[i];
}

template <class T>
void bias(std::vector<T>& out, const std::vector<T>& x, const std::vector<T>& b) {
    for (size_t i = 0; i < out.size(); ++i) out[i] = x[i] + b[i % b.size()];
}

template <class T>
void relu(std::vector<T>& out, const std::vector<T>& x) {
    for (size_t i = 0; i < out.size(); ++i) out[i] = x[i] <= T(0) ? T(0) : x[i];
}

template <class T>
void add_relu(std::vector<T>& out, const std::vector<T>& x, const std::vector<T>& y) {
    for (size_t i = 0; i < out.size(); ++i) out[i] = x[i] + y[i] <= T(0) ? T(0) : x[i] + y[i];
}

template <class T>
void relu_bwd(std::vector<T>& dx, const std::vector<T>& dy, const std::vector<T>& y) {
    for (size_t i = 0; i < dx.size(); ++i) dx[i] = y[i] > T(0) ? dy[i] : T(0);
}

template <class T>
void softplus(std::vector<T>& out, const std::vector<T>& x) {
    for (size_t i = 0; i < out.size(); ++i) out[i] = (x[i] < 0 ? T(0) : x[i]) + std::log1p(std::exp(-std::fabs(x[i])));
}

template <class T>
void softplus_bwd(std::vector<T>& dx, const std::vector<T>& dy, const std::vector<T>& y) {
    for (size_t i = 0; i < dx.size(); ++i) dx[i] = dy[i] * -std::expm1(-y[i]);
}

// Philox4x32-10 written a second time, from the paper's description, with 64-bit arithmetic and arrays.
inline uint32_t philox_word(uint64_t seed, uint64_t stream, uint64_t group, int lane) {
    uint64_t c[4] = {group & 0xffffffff, group >> 32, stream & 0xffffffff, stream >> 32};
    uint64_t key[2] = {seed & 0xffffffff, seed >> 32};
    for (int round = 0; round < 10; ++round) {
        const uint64_t p0 = c[0] * 0xD2511F53ull, p1 = c[2] * 0xCD9E8D57ull;
        const uint64_t next[4] = {(p1 >> 32) ^ c[1] ^ key[0], p1 & 0xffffffff, (p0 >> 32) ^ c[3] ^ key[1],
                                  p0 & 0xffffffff};
        for (int i = 0; i < 4; ++i) c[i] = next[i];
        key[0] = (key[0] + 0x9E3779B9ull) & 0xffffffff;
        key[1] = (key[1] + 0xBB67AE85ull) & 0xffffffff;
    }
    return uint32_t(c[lane]);
}

template <class T>
void dropout(std::vector<T>& out, const std::vector<T>& x, float p, uint64_t seed, uint64_t stream) {
    const double threshold = double(uint64_t(double(p) * 4294967296.0 + 0.5));
    for (size_t i = 0; i < out.size(); ++i) {
        const bool kept = double(philox_word(seed, stream, i / 4, int(i % 4))) >= threshold;
        out[i] = kept ? x[i] * T(float(1.0 / (1.0 - double(p)))) : T(0);
    }
}

}  // namespace oracle

// conv2d.cpp -- CPU backend of conv2d (contract: conv2d.h): plain loops.
#include "kernels/conv2d.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "kernels/conv2d_common.h"
#include "kernels/parallel.h"

namespace lc::cpu {
namespace {

// The row of channels at (h, w) of image n, or null outside of the image.
const float* row_at(const float* x, const Conv2d& s, int64_t n, int64_t h, int64_t w) {
    return h < 0 || h >= s.H || w < 0 || w >= s.W ? nullptr : x + ((n * s.H + h) * s.W + w) * s.C;
}

void finish_row(float* y, int64_t at, const ConvEpilogue& e, int64_t K) {
    for (int64_t k = 0; k < K; ++k) {
        float v = y[k];
        if (e.bias) v += e.bias[k];
        if (e.residual) v += e.residual[at + k];
        y[k] = e.relu && v < 0 ? 0.0f : v;
    }
}

}  // namespace

void conv2d_prepare(float* prepared, const float* w, const Conv2d& s, ConvPass pass, Stream) {
    check_conv2d_prepare(prepared, w, s, pass);
    std::memcpy(prepared, w, size_t(s.R * s.S * s.C * s.K) * sizeof(float));
}

void conv2d(float* y, const float* x, const float* w, const ConvEpilogue& e, const Conv2d& s, Stream) {
    check_conv2d_forward(y, x, w, e, s);
    const int64_t P = s.P(), Q = s.Q();
    for_each_chunk(s.N * P * Q, 16, [&](int64_t begin, int64_t end) {
        std::vector<float> sum(static_cast<size_t>(s.K));
        for (int64_t i = begin; i < end; ++i) {
            const int64_t n = i / (P * Q), p = i / Q % P, q = i % Q;
            std::fill(sum.begin(), sum.end(), 0.0f);
            for (int64_t rs = 0; rs < s.R * s.S; ++rs) {
                const int64_t r = rs / s.S, t = rs % s.S;
                const float* row = row_at(x, s, n, p * s.stride + r - s.pad, q * s.stride + t - s.pad);
                for (int64_t c = 0; row != nullptr && c < s.C; ++c)
                    for (int64_t k = 0; k < s.K; ++k) sum[size_t(k)] += row[c] * w[(rs * s.C + c) * s.K + k];
            }
            finish_row(sum.data(), i * s.K, e, s.K);
            std::copy(sum.begin(), sum.end(), y + i * s.K);
        }
    });
}

void conv2d_bwd_data(float* dx, const float* dy, const float* w, const Conv2d& s, Stream) {
    check_conv2d_bwd_data(dx, dy, w, s);
    const int64_t P = s.P(), Q = s.Q();
    for_each_chunk(s.N * s.H * s.W, 16, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) {
            const int64_t n = i / (s.H * s.W), h = i / s.W % s.H, v = i % s.W;
            std::fill(dx + i * s.C, dx + (i + 1) * s.C, 0.0f);
            for (int64_t rs = 0; rs < s.R * s.S; ++rs) {
                const int64_t up = h + s.pad - rs / s.S, left = v + s.pad - rs % s.S;
                if (up < 0 || left < 0 || up % s.stride != 0 || left % s.stride != 0) continue;
                if (up / s.stride >= P || left / s.stride >= Q) continue;
                const float* const row = dy + ((n * P + up / s.stride) * Q + left / s.stride) * s.K;
                for (int64_t c = 0; c < s.C; ++c)
                    for (int64_t k = 0; k < s.K; ++k) dx[i * s.C + c] += row[k] * w[(rs * s.C + c) * s.K + k];
            }
        }
    });
}

void conv2d_bwd_filter(float* dw, const float* x, const float* dy, const Conv2d& s, Stream) {
    check_conv2d_bwd_filter(dw, x, dy, s);
    const int64_t P = s.P(), Q = s.Q();
    for_each_chunk(s.R * s.S * s.C, 1, [&](int64_t i, int64_t) {
        const int64_t r = i / (s.S * s.C), t = i / s.C % s.S, c = i % s.C;
        float* const sum = dw + i * s.K;
        std::fill(sum, sum + s.K, 0.0f);
        for (int64_t at = 0; at < s.N * P * Q; ++at) {
            const int64_t n = at / (P * Q), p = at / Q % P, q = at % Q;
            const float* row = row_at(x, s, n, p * s.stride + r - s.pad, q * s.stride + t - s.pad);
            for (int64_t k = 0; row != nullptr && k < s.K; ++k) sum[k] += row[c] * dy[at * s.K + k];
        }
    });
}

}  // namespace lc::cpu

// conv2d.cpp -- CPU backend of conv2d (contract: conv2d.h): which convolutions the passes consist of, and which piece
// computes them.
//
//     forward        one convolution by conv2d_gemm.cpp or conv2d_winograd.cpp
//     data gradient  stride 1: one too, of dy with filters turned round and transposed, by either piece.
//                    stride u: input pixels fall into u^2 classes by (h + pad) mod u and (w + pad) mod u.  A pixel of class
//                    (a, b) meets the taps a, a + u, ..., b, b + u, ... and no other, so each class is a convolution of dy
//                    with these taps and stride 1, whose outputs go to every u-th pixel; no product with a zero is made.
//
//                        u = 2, R = S = 3, pad = 1              input pixels        taps of class
//                                                               1 0 1 0 1           (0, 0): 2 x 2    (0, 1): 2 x 1
//                          number: 2 a + b                      3 2 3 2 3           (1, 0): 1 x 2    (1, 1): 1 x 1
//                                                               1 0 1 0 1           (here h + pad is odd in row 0)
//     filter gradient  conv2d_filter.cpp
#include "kernels/conv2d.h"

#include <cstring>

#include "kernels/conv2d_common.h"
#include "kernels/conv2d_cpu.h"
#include "kernels/conv2d_tiles.h"
#include "kernels/workspace.h"

namespace lc::cpu {
namespace {

int64_t winograd_tile(ConvEngine e) { return e == ConvEngine::winograd2 ? 2 : e == ConvEngine::winograd4 ? 4 : 0; }

// One axis of a class: pixels h = first, first + u, ..., `count` of them, meet the taps a, a + u, ..., `taps` of them.  In
// descending order, these taps lie over the rows of dy from begin + i on, i the number of the pixel.
struct Axis {
    int64_t first, count, taps, begin;
};
Axis axis_of_class(int64_t a, int64_t u, int64_t H, int64_t R, int64_t pad) {
    const int64_t first = ((a - pad) % u + u) % u, taps = a < R ? ceil_div(R - a, u) : 0;
    return {first, first < H ? ceil_div(H - first, u) : 0, taps, (first + pad - a) / u - (taps - 1)};
}

DenseConv class_conv(const Conv2d& s, Axis rows, Axis columns) {
    return {s.N,           s.P(),         s.Q(),      s.K,           rows.taps, columns.taps,    1,
            rows.begin,    columns.begin, rows.count, columns.count, s.C,       s.H * s.W * s.C, s.stride * s.W * s.C,
            s.stride * s.C};
}

// f(a, rows, b, columns) for every class that has pixels.
template <class F>
void for_each_class(const Conv2d& s, const F& f) {
    for (int64_t a = 0; a < s.stride; ++a) {
        for (int64_t b = 0; b < s.stride; ++b) {
            const Axis rows = axis_of_class(a, s.stride, s.H, s.R, s.pad);
            const Axis columns = axis_of_class(b, s.stride, s.W, s.S, s.pad);
            if (rows.count > 0 && columns.count > 0) f(a, rows, b, columns);
        }
    }
}

// turned[t, v, k, c] = w[a + u (rows.taps - 1 - t), b + u (columns.taps - 1 - v), c, k]
void turn_filters(float* turned, const float* w, const Conv2d& s, int64_t a, Axis rows, int64_t b, Axis columns) {
    constexpr int64_t kBlock = 16;  // a cache line of each side
    const int64_t strips = ceil_div(s.K, kBlock);
    for_each_chunk(rows.taps * columns.taps * strips, 8, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) {
            const int64_t tap = i / strips, k0 = i % strips * kBlock, k1 = std::min(s.K, k0 + kBlock);
            const int64_t r = a + s.stride * (rows.taps - 1 - tap / columns.taps);
            const int64_t v = b + s.stride * (columns.taps - 1 - tap % columns.taps);
            const float* const from = w + (r * s.S + v) * s.C * s.K;  // (C, K)
            float* const to = turned + tap * s.K * s.C;               // (K, C)
            for (int64_t c0 = 0; c0 < s.C; c0 += kBlock) {
                for (int64_t k = k0; k < k1; ++k) {
                    for (int64_t c = c0; c < std::min(s.C, c0 + kBlock); ++c) to[k * s.C + c] = from[c * s.K + k];
                }
            }
        }
    });
}

void zero_pixels(float* dx, const DenseConv& conv) {
    for (int64_t i = 0; i < conv.N * conv.P; ++i) {
        for (int64_t q = 0; q < conv.Q; ++q) {
            float* const at = dx + i / conv.P * conv.image + i % conv.P * conv.row + q * conv.pixel;
            std::memset(at, 0, size_t(conv.K) * sizeof(float));
        }
    }
}

}  // namespace

void conv2d_prepare(float* prepared, const float* w, const Conv2d& s, ConvPass pass, Stream) {
    check_conv2d_prepare(prepared, w, s, pass);
    const int64_t m = winograd_tile(conv2d_engine(s, pass));
    if (pass == ConvPass::forward) {
        m == 0 ? void(pack_gemm(prepared, w, s.R * s.S * s.C, s.K)) : pack_winograd(prepared, w, s.C, s.K, m);
        return;
    }
    static thread_local Workspace workspace;
    float* const turned = workspace.floats(s.R * s.S * s.C * s.K);
    for_each_class(s, [&](int64_t a, Axis rows, int64_t b, Axis columns) {
        if (rows.taps * columns.taps == 0) return;
        turn_filters(turned, w, s, a, rows, b, columns);
        if (m != 0) return pack_winograd(prepared, turned, s.K, s.C, m);
        prepared += pack_gemm(prepared, turned, rows.taps * columns.taps * s.K, s.C);
    });
}

void conv2d(float* y, const float* x, const float* prepared, const ConvEpilogue& epilogue, const Conv2d& s, Stream) {
    check_conv2d_forward(y, x, prepared, epilogue, s);
    const int64_t m = winograd_tile(conv2d_engine(s, ConvPass::forward));
    m == 0 ? run_gemm(y, x, prepared, epilogue, forward_conv(s))
           : run_winograd(y, x, prepared, epilogue, forward_conv(s), m);
}

void conv2d_bwd_data(float* dx, const float* dy, const float* prepared, const Conv2d& s, Stream) {
    check_conv2d_bwd_data(dx, dy, prepared, s);
    const int64_t m = winograd_tile(conv2d_engine(s, ConvPass::bwd_data));
    for_each_class(s, [&](int64_t, Axis rows, int64_t, Axis columns) {
        const DenseConv conv = class_conv(s, rows, columns);
        float* const first = dx + (rows.first * s.W + columns.first) * s.C;
        if (m != 0) return run_winograd(first, dy, prepared, {}, conv, m);
        if (conv.depth() == 0) return zero_pixels(first, conv);
        run_gemm(first, dy, prepared, {}, conv);
        prepared += packed_gemm_floats(conv.depth(), s.C);
    });
}

void conv2d_bwd_filter(float* dw, const float* x, const float* dy, const Conv2d& s, Stream) {
    check_conv2d_bwd_filter(dw, x, dy, s);
    run_filter(dw, x, dy, forward_conv(s));
}

}  // namespace lc::cpu

// conv2d_cpu.h -- the pieces of the CPU backend of conv2d: conv2d.cpp says which piece does what.
#pragma once
#include "kernels/conv2d.h"

namespace lc::cpu {

// One dense convolution.  The forward pass is one; so is every class of pixels of the data gradient.
//
//     output (n, p, q) reads the pixels (p stride + top + r, q stride + left + s), 0 <= r < R, 0 <= s < S; those outside
//     of the image are 0.  Its K channels go to y + n image + p row + q pixel.
struct DenseConv {
    int64_t N, H, W, C;         // images that are read
    int64_t R, S, stride;       // taps
    int64_t top, left;          // where the taps of output (0, 0) begin
    int64_t P, Q, K;            // outputs
    int64_t image, row, pixel;  // floats from one image, row, pixel of outputs to the next

    int64_t depth() const { return R * S * C; }
    int64_t pixels() const { return N * P * Q; }
    bool packed() const { return pixel == K && row == Q * K && image == P * Q * K; }  // (pixels, K) without gaps
    bool plain() const {  // the rows of patches are x itself
        return R == 1 && S == 1 && stride == 1 && top == 0 && left == 0 && P == H && Q == W;
    }
};

inline DenseConv forward_conv(const Conv2d& s) {
    return {s.N,         s.H, s.W, s.C, s.R, s.S, s.stride, -s.pad, -s.pad, s.P(), s.Q(), s.K, s.P() * s.Q() * s.K,
            s.Q() * s.K, s.K};
}

// conv2d_gemm.cpp: w (R S C, K) to panels, and the convolution by them.  Returns the floats that the panels take.
int64_t pack_gemm(float* prepared, const float* w, int64_t depth, int64_t K);
int64_t packed_gemm_floats(int64_t depth, int64_t K);
void run_gemm(float* y, const float* x, const float* prepared, const ConvEpilogue& epilogue, const DenseConv& conv);

// conv2d_winograd.cpp: w (3, 3, C, K) to transformed panels, and the convolution by tiles of m x m outputs, m = 2 or 4.
void pack_winograd(float* prepared, const float* w, int64_t C, int64_t K, int64_t m);
void run_winograd(float* y, const float* x, const float* prepared, const ConvEpilogue& epilogue, const DenseConv& conv,
                  int64_t m);

// conv2d_filter.cpp: dw (R S C, K) from the patches of x and from dy (pixels, K).
void run_filter(float* dw, const float* x, const float* dy, const DenseConv& conv);

}  // namespace lc::cpu

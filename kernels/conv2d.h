// conv2d -- images convolved with filters, channels last.
//
//     conv2d             y[n,p,q,k]  = sum_{r,s,c} x[n, p u + r - pad, q u + s - pad, c] w[r,s,c,k]       u = stride
//                        y = relu( (y + bias[k]) + residual[n,p,q,k] )         bias, residual, relu: each if wanted
//     conv2d_bwd_data    dx[n,h,w,c] = sum of dy[n,p,q,k] w[r,s,c,k]
//                                      over all (p,q,r,s,k) with p u + r - pad = h and q u + s - pad = w
//     conv2d_bwd_filter  dw[r,s,c,k] = sum_{n,p,q} x[n, p u + r - pad, q u + s - pad, c] dy[n,p,q,k]
//
//     x, dx (N, H, W, C)   w, dw (R, S, C, K)   y, dy, residual (N, P, Q, K)   bias (K)          row-major float32
//     P = (H + 2 pad - R) / u + 1,  Q = (W + 2 pad - S) / u + 1,  rounded down;  x is 0 outside of the image
//
// Why channels last: a 1 x 1 convolution is then one matrix product (N H W, C) (C, K) as it stands, every tap of a
// larger filter is a run of C neighbours, and sums per channel are sums of columns.  PyTorch stores filters
// (K, C, R, S); nn/ turns them round when it reads and writes files.
//
// Filters are given as a backend's kernels want them, made by conv2d_prepare from w: once where they are frozen, after
// every step where they are trained.  What `prepared` holds is the backend's business; it serves the pass and the shape
// it was made for, with any N.
//
//     Conv2d c = {.N = 8, .H = 56, .W = 56, .C = 64, .K = 64, .R = 3, .S = 3, .pad = 1};
//     Buffer<float> prepared(b, conv2d_prepared_floats(c, ConvPass::forward));
//     b.conv2d_prepare(prepared.data(), w, c, ConvPass::forward, nullptr);
//     b.conv2d(y, x, prepared.data(), {.bias = beta, .relu = true}, c, nullptr);
//
// Needs    N >= 0; H, W, C, K, R, S, stride >= 1; 0 <= pad < R, S; the filter fits: P, Q >= 1.  Outputs overlap no
//          input, except that residual may be the very same array as y.  prepared begins on 64 bytes, as every
//          allocation of a backend does; its size is a multiple of that, so several may share an allocation.
// Engines  gemm       implicit matrix product: rows are gathered as they are needed, never all at once     any filter
//          winograd2  F(2x2, 3x3) of Lavin and Gray (2015): 16 products instead of 36 for 4 outputs   3 x 3, stride 1
//          winograd4  F(4x4, 3x3): 36 products instead of 144 for 16 outputs                          3 x 3, stride 1
//          automatic  by the shape alone, so that it is the same on every backend (default; conv2d_engine says which).
//                     conv2d_bwd_filter is a matrix product always.
// Promises sums in an order that depends on the shape only (N aside for all but dw): bitwise repeatable for any number
//          of threads, and an image gives the same bits alone and in a batch.  winograd4 loses up to two decimal digits
//          of float32, winograd2 half a digit.
// Edges    N = 0: nothing to do, and dw = 0.  NaN and Inf of x and dy reach the outputs that read them; under winograd
//          they may reach all outputs of the tiles that read them, and Inf may become NaN.  What is not finite in w, or
//          in dy of conv2d_bwd_filter, may or may not survive a product with the zeros around the image.
//          relu(NaN) = NaN.
#pragma once
#include <string_view>

#include "kernels/op.h"

namespace lc {

enum class ConvEngine { automatic, gemm, winograd2, winograd4 };
enum class ConvPass { forward, bwd_data };

struct Conv2d {
    int64_t N = 0, H = 1, W = 1, C = 1;  // images
    int64_t K = 1, R = 1, S = 1;         // filters
    int64_t stride = 1, pad = 0;
    ConvEngine engine = ConvEngine::automatic;

    int64_t P() const { return (H + 2 * pad - R) / stride + 1; }
    int64_t Q() const { return (W + 2 * pad - S) / stride + 1; }
};
struct ConvEpilogue {                 // what happens to y before it is written
    const float* bias = nullptr;      // (K)
    const float* residual = nullptr;  // (N, P, Q, K)
    bool relu = false;
};

LC_OP(conv2d_prepare, float* prepared, const float* w, const Conv2d& shape, ConvPass pass, Stream s);
LC_OP(conv2d, float* y, const float* x, const float* prepared, const ConvEpilogue& epilogue, const Conv2d& shape,
      Stream s);
LC_OP(conv2d_bwd_data, float* dx, const float* dy, const float* prepared, const Conv2d& shape, Stream s);
LC_OP(conv2d_bwd_filter, float* dw, const float* x, const float* dy, const Conv2d& shape, Stream s);

// ---- shared by the backends: conv2d_common.cpp ----------------------------------------------------------------------

// Refuses a shape that cannot be, in one sentence, and an engine that does not fit it.
void check_conv2d(const char* op, const Conv2d& shape);

ConvEngine conv2d_engine(const Conv2d& shape, ConvPass pass);        // what runs: never `automatic`
int64_t conv2d_prepared_floats(const Conv2d& shape, ConvPass pass);  // enough for every backend
ConvEngine conv2d_engine_named(std::string_view name);               // refuses an unknown name, listing the known ones

inline double conv2d_flops(const Conv2d& s) {  // of the definition, whatever the engine saves
    return 2.0 * double(s.N * s.P() * s.Q()) * double(s.K) * double(s.R * s.S * s.C);
}

}  // namespace lc

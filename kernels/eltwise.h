// eltwise -- operations on each element by itself.
//
//     add        out_i  = x_i + y_i
//     scale      out_i  = a x_i
//     bias       out_rc = x_rc + b_c                             out, x (N, C)   b (C)
//     relu       out_i  = max(x_i, 0)
//     add_relu   out_i  = max(x_i + y_i, 0)                      where a shortcut joins its block
//     relu_bwd   dx_i   = dy_i if y_i > 0 else 0                 y = relu(x); the slope at 0 is 0
//     softplus   out_i  = ln(1 + exp(x_i))                       a positive number for any x_i; no overflow
//     softplus_bwd  dx_i = dy_i (1 - exp(-y_i))                  y = softplus(x); the slope is the sigmoid of x
//     dropout    out_i  = x_i / (1 - p) if kept, else 0          kept with probability 1 - p
//
// Arrays are float32 in backend memory, n elements (N * C, row-major, for bias).
//
// Needs    n, N, C >= 0 (zero is a no-op); 0 <= p < 1.  out may be the very same array as an input (in place); partial
//          overlap is not allowed.
// Promises exactly rounded results: add, scale, bias, relu and add_relu equal the scalar
//          formula bit for bit on every backend.
//          softplus and softplus_bwd are right to a few roundings of themselves, for very negative x too.  dropout keeps
//          element i iff word i of the random stream `key` (philox.h) is >= round(p 2^32): the same mask on every backend,
//          for any number of threads; nothing is stored.
// Edges    relu(NaN) = NaN and relu(-0) = +0, add_relu likewise, so that a broken input stays visible.  dropout with p = 0 copies bit for
//          bit.  A dropped element is 0 even where x is NaN.
// Backward add: dx = dy, both inputs.  scale: dx = a dy, this op again.  bias: dx = dy, db = column sum (reduce.h).
//          relu: relu_bwd.  add_relu: dx = dy of both inputs = relu_bwd with the output as y.  softplus: softplus_bwd.
//          dropout: dx = dropout(dy) with the same p and key, which draws the same mask again.
#pragma once
#include "kernels/op.h"
#include "kernels/philox.h"

namespace lc {

LC_OP(add, float* out, const float* x, const float* y, int64_t n, Stream s);
LC_OP(scale, float* out, const float* x, float a, int64_t n, Stream s);
LC_OP(bias, float* out, const float* x, const float* b, int64_t N, int64_t C, Stream s);
LC_OP(relu, float* out, const float* x, int64_t n, Stream s);
LC_OP(add_relu, float* out, const float* x, const float* y, int64_t n, Stream s);
LC_OP(relu_bwd, float* dx, const float* dy, const float* y, int64_t n, Stream s);
LC_OP(softplus, float* out, const float* x, int64_t n, Stream s);
LC_OP(softplus_bwd, float* dx, const float* dy, const float* y, int64_t n, Stream s);
LC_OP(dropout, float* out, const float* x, float p, RandomKey key, int64_t n, Stream s);

// The mask of dropout in one place: word >= threshold keeps; survivors are multiplied by 1 / (1 - p).
struct DropoutRule {
    uint32_t threshold;
    float keep_scale;
};
inline DropoutRule dropout_rule(float p) {
    const double t = double(p) * 4294967296.0 + 0.5;  // p < 1 in float32 means p 2^32 <= 2^32 - 2^8: no overflow
    return {uint32_t(t), float(1.0 / (1.0 - double(p)))};
}

}  // namespace lc

// softmax -- rows of scores to rows of probabilities, or of log-probabilities.
//
//     m_r = max_c x_rc      S_r = sum_c exp(x_rc - m_r)                        x, y, dy, dx (N, C) row-major float32
//     softmax          y_rc  = exp(x_rc - m_r) / S_r
//     log_softmax      y_rc  = (x_rc - m_r) - ln S_r
//     softmax_bwd      dx_rc = y_rc (dy_rc - sum_k dy_rk y_rk)                      y = softmax(x)
//     log_softmax_bwd  dx_rc = dy_rc - exp(y_rc) sum_k dy_rk                        y = log_softmax(x)
//
// Needs    N >= 0, C >= 1.  Output may be the same array as an input (in place); partial overlap is not allowed.
// Promises rows of softmax are in [0, 1] and sum to 1 within C rounding errors; log_softmax never takes the logarithm
//          of an underflowed probability: scores of +-1e4 keep full relative precision.  Bitwise repeatable.
// Edges    x_rc = -inf is a class with probability 0 (log: -inf) if some other score of its row is finite.  A row with
//          a NaN, with +inf, or of -inf only has no softmax: the whole row becomes NaN.
// Backward of log_softmax where y = -inf: exp(y) = 0, so dx = dy there.
#pragma once
#include "kernels/op.h"

namespace lc {

LC_OP(softmax, float* y, const float* x, int64_t N, int64_t C, Stream s);
LC_OP(log_softmax, float* y, const float* x, int64_t N, int64_t C, Stream s);
LC_OP(softmax_bwd, float* dx, const float* dy, const float* y, int64_t N, int64_t C, Stream s);
LC_OP(log_softmax_bwd, float* dx, const float* dy, const float* y, int64_t N, int64_t C, Stream s);

}  // namespace lc

// cross_entropy -- the loss of a classifier that learns from labels, and its gradient in the same walk.
//
//     loss_i    = ln sum_c exp z_ic - z_{i, y_i}                             z (N, C)   y (N) int32   loss (N)
//     dlogits_i = scale (softmax(z_i) - onehot(y_i))                         dlogits (N, C), or null: not wanted
//
// loss_i is -ln of the probability of the label; dlogits is the gradient of scale sum_i loss_i: scale = 1 / N for the mean.
//
// Needs    N >= 0, C >= 1, 0 <= y < C (the CPU backend refuses others, CUDA gives a loss and a row of dlogits of NaN).
//          Outputs overlap no input and not each other.
// Promises ln sum exp by the row's maximum: scores of +-1e4 are fine.  Bitwise repeatable.
// Edges    z_ic = -inf is a class with probability 0; where it is the label's, the loss is +inf and the gradient still as
//          above.  A row with a NaN, with +inf, or of -inf only: its loss and its row of dlogits are NaN.
#pragma once
#include "kernels/op.h"

namespace lc {

LC_OP(cross_entropy, float* loss, float* dlogits, const float* logits, const int32_t* labels, int64_t N, int64_t C,
      float scale, Stream s);

}  // namespace lc

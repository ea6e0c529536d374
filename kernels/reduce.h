// reduce -- sums, means, maxima and arg-maxima along the rows or columns of a matrix, always in the same order.
//
//     row_reduce   out_r = R_c x_rc        out (N)     x (N, C) row-major float32
//     col_reduce   out_c = R_r x_rc        out (C)     R = sum, mean or max
//     row_argmax   out_r = the lowest c with x_rc = max_c x_rc             out int32
//     col_argmax   out_c = the lowest r with x_rc = max_r x_rc
//
// Needs    N, C >= 0.  A mean, maximum or arg-maximum over nothing does not exist and is refused; a sum over nothing
//          is 0; an empty output is a no-op.  N, C < 2^31 for the arg-maxima.  out overlaps no input.
// Promises bitwise repeatable: the tree of additions depends on N and C only, never on the number of threads or blocks.
//          The error of a sum grows with log of its length (blocked sums), not with the length.
// Edges    a NaN is greater than everything: max gives NaN, arg-max the place of the first one.  Ties go to the lowest
//          index; -0 and +0 tie.  The maximum of a row of -inf is -inf.
// Backward sum: dx_rc = dout_r; mean: divided by the length; max and arg-max are used without gradients.
#pragma once
#include "kernels/op.h"

namespace lc {

enum class Reduction { sum, mean, max };

LC_OP(row_reduce, float* out, const float* x, int64_t N, int64_t C, Reduction how, Stream s);
LC_OP(col_reduce, float* out, const float* x, int64_t N, int64_t C, Reduction how, Stream s);
LC_OP(row_argmax, int32_t* out, const float* x, int64_t N, int64_t C, Stream s);
LC_OP(col_argmax, int32_t* out, const float* x, int64_t N, int64_t C, Stream s);

}  // namespace lc

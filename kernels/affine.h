// affine -- columns shifted and stretched, and rows picked out of a table.
//
//     affine        out_rc = a_rc + (w_c x_rc + b_c)     out, a, x (N, C); a may be null (0)   w, b (C), or (1): one for all
//     affine_bwd    dw_c = sum_r dy_rc x_rc              dw, db as w, b;  one for all: the sum over c too
//                   db_c = sum_r dy_rc                   (da = dy: nothing to compute; dx is not provided)
//     standardise   out_rc = (x_rc - mean_c) inverse_c   mean, inverse (C); inverse = 1 / deviation, 0 for a constant column
//     col_moment2   out_c  = mean_r (x_rc - mean_c)^2    the population variance where mean is the column's mean
//     gather_rows   out_rc = x_{index_r, c}              x (M, C)   index (N) int32, out (N, C)
//
// Needs    N, C, M >= 0; 0 <= index < M.  affine and standardise: out may be the very same array as a or x.  The others do
//          not work in place.  col_moment2 over no rows is refused; the sums of affine_bwd over no rows are 0.
// Promises affine is one multiply-add (fused where the machine can), then one addition; standardise keeps a constant column
//          exactly 0; gather_rows copies bits.  Sums in a fixed order (as reduce.h): bitwise repeatable.
// Edges    NaN passes through.  An index outside [0, M) is refused by the CPU backend; CUDA gives a row of NaN.
#pragma once
#include "kernels/op.h"

namespace lc {

struct Columns {       // how many entries w, b, dw, db have
    bool one = false;  // one for all columns, else one per column
};

LC_OP(affine, float* out, const float* a, const float* x, const float* w, const float* b, int64_t N, int64_t C,
      Columns columns, Stream s);
LC_OP(affine_bwd, float* dw, float* db, const float* dy, const float* x, int64_t N, int64_t C, Columns columns,
      Stream s);
LC_OP(standardise, float* out, const float* x, const float* mean, const float* inverse, int64_t N, int64_t C, Stream s);
LC_OP(col_moment2, float* out, const float* x, const float* mean, int64_t N, int64_t C, Stream s);
LC_OP(gather_rows, float* out, const float* x, const int32_t* index, int64_t N, int64_t M, int64_t C, Stream s);

}  // namespace lc

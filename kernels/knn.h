// knn -- how far the nearest neighbours are.
//
//     distance_i0 <= ... <= distance_i,k-1    the k smallest of |q_i - r_j|, j = 0 .. m-1     Q (n, d)   R (m, d)   distance (n, k)
//
// With leave_one_out Q and R are the same rows (n = m) and j = i is left out, by index.
//
// Needs    1 <= k <= 64, and k references at least (k + 1 with leave_one_out); 1 <= d <= 4096; n >= 0.  The output overlaps
//          no input.
// Promises the direct sum of (q - r)^2 in float32, then one square root: near duplicates are as exact as far points.  Equal
//          distances are equal numbers, so ties need no rule.  Never an n x m buffer.  Bitwise repeatable.
// Edges    a NaN distance is larger than everything; a row with fewer than k other distances ends in NaN.
#pragma once
#include "kernels/op.h"

namespace lc {

struct Knn {
    int64_t n = 0, m = 0, d = 0, k = 0;
    bool leave_one_out = false;
};
LC_OP(knn, float* distance, const float* Q, const float* R, const Knn& shape, Stream s);

}  // namespace lc

// knn -- how far the nearest neighbours are.
//
//     distance_i0 <= ... <= distance_i,k-1    the k smallest of |q_i - r_j|, j = 0 .. m-1
//                                             Q (n, d)   R (m, d)   distance (n, k)
//
// With leave_one_out Q and R are the same rows (n = m) and j = i is left out, by index.
//
// Needs    1 <= k <= 64, and k references at least (k + 1 with leave_one_out); 1 <= d <= 4096; n >= 0.  The output overlaps
//          no input.
// Promises the direct sum of (q - r)^2 in float32, then one square root: near duplicates are as exact as far points.  Equal
//          distances are equal numbers, so ties need no rule.  Never an n x m buffer.  Bitwise repeatable.
// Edges    a NaN distance is larger than everything; a row with fewer than k other distances ends in NaN.
#pragma once
#include "kernels/arguments.h"
#include "kernels/op.h"

namespace lc {

struct Knn {
    int64_t n = 0, m = 0, d = 0, k = 0;
    bool leave_one_out = false;
};
LC_OP(knn, float* distance, const float* Q, const float* R, const Knn& shape, Stream s);

constexpr int64_t kMostNeighbours = 64;

inline void check_knn(const float* distance, const float* Q, const float* R, const Knn& g) {
    check_shape("knn", g.n, g.d);
    check_shape("knn", g.m, g.d);
    LC_CHECK(g.d >= 1 && g.d <= 4096, "knn: 1 to 4096 features; found d = " << g.d);
    LC_CHECK(g.k >= 1 && g.k <= kMostNeighbours, "knn: 1 to 64 neighbours; found k = " << g.k);
    LC_CHECK(!g.leave_one_out || g.n == g.m,
             "knn: leave_one_out compares a set with itself; found n = " << g.n << ", m = " << g.m);
    LC_CHECK(g.n == 0 || g.m >= g.k + (g.leave_one_out ? 1 : 0),
             "knn: " << g.k << " neighbours need as many other rows; found m = " << g.m << "; lower k");
    check_disjoint("knn", {"distance", distance, g.n * g.k}, {"Q", Q, g.n * g.d});
    check_disjoint("knn", {"distance", distance, g.n * g.k}, {"R", R, g.m * g.d});
}

}  // namespace lc

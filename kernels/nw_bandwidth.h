// nw_bandwidth -- the leave-one-out log-loss of every row for a whole grid of bandwidths, in one walk over the pairs: how
// `gamma = auto` is found (theta and form exact: nw_smooth.h).
//
//     nll_ig = -ln theta_{i, label_i} with gamma_g, form exact, leave one out            Z (n, d)    nll (n, G)
//
// Needs    n >= 2, 1 <= d <= 4096, 1 <= G <= 64, gammas > 0; any labels will do, they are only compared.  nll overlaps
//          nothing.
// Edges    +inf where no other row has the class; a NaN anywhere in Z spoils every row.
#pragma once
#include "kernels/op.h"

namespace lc {

LC_OP(nw_bandwidth, float* nll, const float* Z, const int32_t* labels, const float* gammas, int64_t n, int64_t d,
      int64_t G, Stream s);

}  // namespace lc

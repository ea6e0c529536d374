// local_error_null -- local_error for labels that nobody observed: B sets of labels, drawn from p by whoever asks, show
// what chance alone gives (notation: local_error.h).  `residual` holds p here, not p - y.
//
//     e_bic       = sum_{j in N_ic} w_ij (p_jc - [label_bj = c]) / weight_ic         0 where there are no neighbours
//     total_bc    = sum_i |e_bic|                                                    (B, C)
//     largest_bc  = max_i |e_bic|                                                    (B, C)
//     row_most_b  = max_i sum_c |e_bic|                                              (B)
//
// Needs    what local_error needs, G = 1, B >= 1; labels (B, n), 0 <= label < C, any other is nobody's.  phi is not used.
// Promises one walk over the pairs: a pair costs one addition per set of labels, whatever C.  Memory beyond the arguments
//          is O(tile C B) for each thread or block at work, and O((n + C) B) beside.  Bitwise repeatable for any number
//          of threads.
// Numbers  the sums of drawn labels are float32, total is joined in double.
// Edges    a NaN in e shows in all three.
#pragma once
#include "kernels/local_error.h"

namespace lc {

struct LocalErrorNull {
    float* total = nullptr;     // (B, C)
    float* largest = nullptr;   // (B, C)
    float* row_most = nullptr;  // (B)
};

LC_OP(local_error_null, const LocalErrorNull& out, const LocalError& in, const int32_t* labels, int64_t B,
      const Progress& progress, Stream s);

}  // namespace lc

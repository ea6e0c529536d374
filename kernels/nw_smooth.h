// nw_smooth -- what the labels around a point say: the Gaussian Nadaraya-Watson estimate of the class probabilities.
//
//     s_ij     = -|q_i - r_j|^2 / (2 gamma_i^2)                                          Q (n, d)    R (m, d)
//     theta_ic = sum_j exp(s_ij) Y_jc / sum_j exp(s_ij)                                  Y (m, C)    theta (n, C)
//
// Y is one-hot (`labels`, a class per reference) or soft (`soft`, any non-negative rows).  With leave_one_out the two
// sets are the same (n = m) and j = i is left out: by index, never by value, so duplicates of a point still count.
//
//     form exact     log_norm_i  = ln sum_j exp(s_ij)                the normalisation is done in log space: no row
//                    log_label_i = ln theta_{i, query_label_i}       underflows, however far its neighbours are, and
//                                                                    log_label is right where theta itself is 0
//     form authors   log_norm_i  = ln( sum_j exp(s_ij) + 1e-6 )
//                    k_ij        = exp(s_ij - log_norm_i), 0 where left out, then clamped to [1e-6, 1 - 1e-6]
//                    theta_ic    = sum_j k_ij Y_jc                   over all j, i among them: rows need not sum to 1
//                    log_label_i = ln theta_{i, query_label_i}
//
// Backward: nw_smooth_bwd.h.
//
// Needs    n >= 0; m >= 1, and m >= 2 with leave_one_out; 1 <= d <= 4096; 1 <= C <= 1000; exactly one of labels and
//          soft; query_labels where log_label is asked for.  0 <= labels < C and gamma > 0 are the caller's to check
//          where they come from, once and not per batch; the CPU refuses a label outside all the same, CUDA leaves such
//          a reference out.  Outputs overlap nothing.
// Promises never an n x m buffer: memory beyond the arguments is O((n + m) (d + C)).  Tiles and their order depend on
//          the shape only: bitwise repeatable for any number of threads.
// Numbers  float32.  Distances are the direct sum of (q - r)^2 on every backend: nothing cancels where points lie close
//          together but far from the origin.  s has a relative error of a few 2^-24, weights hence one of
//          |s_ij - s_i,nearest| times that.
// Edges    a NaN in a query spoils its row, a NaN in a reference every row; log_label = -inf where no reference has the
//          class.
#pragma once
#include "kernels/op.h"

namespace lc {

enum class NwForm { exact, authors };

struct NwSmooth {
    int64_t n = 0, m = 0, d = 0, C = 0;
    const float* Q = nullptr;               // (n, d)
    const float* R = nullptr;               // (m, d); may be Q itself
    const int32_t* labels = nullptr;        // (m)    one of these two
    const float* soft = nullptr;            // (m, C)
    const int32_t* query_labels = nullptr;  // (n), for log_label
    const float* gamma = nullptr;           // (1) or (n): a length, the standard deviation of the kernel
    bool gamma_per_row = false;
    bool leave_one_out = false;
    NwForm form = NwForm::exact;
};

struct NwOutput {
    float* theta = nullptr;      // (n, C)
    float* log_norm = nullptr;   // (n); backward wants it
    float* log_label = nullptr;  // (n); may be null
};

LC_OP(nw_smooth, const NwOutput& out, const NwSmooth& in, Stream s);

}  // namespace lc

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
// Backward, from dtheta (n, C) and dlog_label (n): dQ (n, d), dR (m, d), dgamma (n or 1), through theta and log_label,
// anchors and references alike; clamped weights of `authors` have no gradient.  P_ij = exp(s_ij - log_norm_i), and
// l = query_label_i:
//
//     exact     g_ij = P_ij ( sum_c dtheta_ic (Y_jc - theta_ic) + dlog_label_i (Y_jl exp(-log_label_i) - 1) )
//     authors   e_ij = sum_c dtheta_ic Y_jc + dlog_label_i Y_jl exp(-log_label_i) where k_ij is not clamped, else 0
//               g_ij = P_ij ( e_ij - sum_k P_ik e_ik )
//
//     dQ_i     = sum_j g_ij (r_j - q_i) / gamma_i^2
//     dR_j     = sum_i g_ij (q_i - r_j) / gamma_i^2
//     dgamma_i = sum_j g_ij |q_i - r_j|^2 / gamma_i^3           summed over i where there is one gamma for all rows
//
// Where R is Q itself, its gradient is dQ + dR.
//
// Needs    n >= 0; m >= 1, and m >= 2 with leave_one_out; 1 <= d <= 4096; 1 <= C <= 1000; exactly one of labels and
//          soft; query_labels where log_label is asked for; forward's theta, log_norm and (with dlog_label) log_label
//          in backward.  0 <= labels < C and gamma > 0 are the caller's to check where they come from, once and not per
//          batch; the CPU refuses a label outside all the same, CUDA leaves such a reference out.  Outputs overlap
//          nothing.
// Promises never an n x m buffer: memory beyond the arguments is O((n + m) (d + C)).  Tiles and their order depend on
//          the shape only: bitwise repeatable for any number of threads.
// Numbers  float32.  Distances are the direct sum of (q - r)^2 on every backend, and gradients the sum of g (q - r):
//          nothing cancels where points lie close together but far from the origin.  s has a relative error of a few
//          2^-24, weights hence one of |s_ij - s_i,nearest| times that; backward has P from log_norm, so its P has
//          |log_norm| times that.
// Edges    a NaN in a query spoils its row, a NaN in a reference every row; log_label = -inf where no reference has the
//          class (its term in backward is then 0: no neighbour, no pull).
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

struct NwGradients {
    float* dQ = nullptr;      // (n, d)
    float* dR = nullptr;      // (m, d)
    float* dgamma = nullptr;  // (n) or (1); may be null
};

LC_OP(nw_smooth, const NwOutput& out, const NwSmooth& in, Stream s);
LC_OP(nw_smooth_bwd, const NwGradients& out, const float* dtheta, const float* dlog_label, const NwOutput& forward,
      const NwSmooth& in, Stream s);

// The leave-one-out log-loss of every row for a whole grid of bandwidths, in one walk over the pairs: how
// `gamma = auto` is found.
//
//     nll_ig = -ln theta_{i, label_i} with gamma_g, form exact, leave one out            Z (n, d)    nll (n, G)
//
// Needs    n >= 2, 1 <= d <= 4096, 1 <= G <= 64, gammas > 0; any labels will do, they are only compared.  nll overlaps
//          nothing.
// Edges    +inf where no other row has the class; a NaN anywhere in Z spoils every row.
LC_OP(nw_bandwidth, float* nll, const float* Z, const int32_t* labels, const float* gammas, int64_t n, int64_t d,
      int64_t G, Stream s);

}  // namespace lc

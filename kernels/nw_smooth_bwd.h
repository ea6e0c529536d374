// nw_smooth_bwd -- the gradients of nw_smooth (notation and forward: nw_smooth.h).
//
// From dtheta (n, C) and dlog_label (n): dQ (n, d), dR (m, d), dgamma (n or 1), through theta and log_label, anchors and
// references alike; clamped weights of `authors` have no gradient.  P_ij = exp(s_ij - log_norm_i), and
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
// Needs    what nw_smooth needs; its theta, log_norm and (with dlog_label) log_label.  dlog_label and dgamma may be null.
//          Outputs overlap nothing.
// Promises as nw_smooth: no n x m buffer, bitwise repeatable for any number of threads.
// Numbers  float32.  Gradients are the sum of g (q - r): nothing cancels where points lie close together but far from
//          the origin.  P comes from log_norm, so it has an error of |log_norm| times a few 2^-24.
// Edges    where log_label = -inf its term is 0: no neighbour, no pull.
#pragma once
#include "kernels/nw_smooth.h"

namespace lc {

struct NwGradients {
    float* dQ = nullptr;      // (n, d)
    float* dR = nullptr;      // (m, d)
    float* dgamma = nullptr;  // (n) or (1); may be null
};

LC_OP(nw_smooth_bwd, const NwGradients& out, const float* dtheta, const float* dlog_label, const NwOutput& forward,
      const NwSmooth& in, Stream s);

}  // namespace lc

// local_error -- where in feature space the probabilities are off, and how much: for every row and class the
// kernel-weighted mean of p - y over the rows whose probability of that class falls in the same bin.
//
//     w_ij      = exp(-|z_i - z_j|^2 / (2 gamma^2))                          Z (n, d)    gammas (G)
//     N_ic      = the rows j with bin_jc = bin_ic, and j != i unless include_self        bin (n, C)
//
//     weight_ic = sum_{j in N_ic} w_ij
//     error_ic  = sum_{j in N_ic} w_ij r_jc / weight_ic                      r (n, C): p - y
//     n_eff_ic  = weight_ic^2 / sum_{j in N_ic} w_ij^2                       how many neighbours the mean is worth
//     spread_ic = sum_{j in N_ic} w_ij |phi_i - phi_j|_1 / weight_ic         phi (n, m), where it is asked for
//
// each (G, n, C): distances do not depend on the class or on gamma, so one walk over the pairs serves them all.
//
// Needs    n >= 1, 1 <= d <= 4096, 1 <= C <= 1000, 1 <= G <= 64, gammas > 0; -1 <= bin < 4096, where -1 is an entry that
//          is left out: it has no value and is nobody's neighbour.  spread needs phi, 1 <= m <= 4096.  Outputs overlap
//          nothing; any of them but error may be null.
// Promises never an n x n buffer: memory beyond the arguments is O(n (d + C)).  Tiles and their order depend on the
//          shape only: bitwise repeatable for any number of threads.
// Numbers  distances are the direct sum of (z_i - z_j)^2, so neither near duplicates nor data far from the origin lose
//          digits; weights are float32, zero beyond 13 gammas; sums over many rows run in double.
// Edges    no neighbours: where weight_ic < kLeastWeight (everyone else in the bin is more than five gammas away, or
//          there is nobody) and in entries that are left out, all four are 0.  A NaN in Z or r spoils at least every
//          entry that would have used it.
#pragma once
#include "kernels/op.h"
#include "kernels/progress.h"

namespace lc {

constexpr float kLeastWeight = 1e-6f;
constexpr int32_t kMostBins = 4096;

struct LocalError {
    int64_t n = 0, d = 0, C = 0, G = 1;
    const float* Z = nullptr;         // (n, d)
    const float* residual = nullptr;  // (n, C)
    const int32_t* bin = nullptr;     // (n, C)
    const float* gammas = nullptr;    // (G)
    bool include_self = true;
    const float* phi = nullptr;  // (n, m), for spread
    int64_t m = 0;
};

struct LocalErrorOutput {
    float* error = nullptr;   // (G, n, C) each
    float* weight = nullptr;  // may be null, as the rest
    float* n_eff = nullptr;
    float* spread = nullptr;
};

LC_OP(local_error, const LocalErrorOutput& out, const LocalError& in, const Progress& progress, Stream s);

}  // namespace lc

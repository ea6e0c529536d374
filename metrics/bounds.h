// bounds.h -- what local calibration promises about global errors, evaluated on data: measured value, bound, every
// term.
//
// The premise is |p_i - eta(x_i)|_1 <= epsilon for every row, eta the true posterior.  On data eta is not known: the
// largest |p_i - theta_i|_1 of the leave-one-out kernel estimate stands in, and the note says `plug-in`.  Each bound
// then holds with probability 1 - delta over the labels, for bins and weights that do not look at them.
//
//     l(k) = ln(2 k / delta)      m = bins of a class, with or without rows      sums over bins that hold rows
//
//     theorem_2         L sum_bc w_bc pi_c (epsilon +   sqrt(l(C m) / (2 rows_bc)))    any binned metric, L of its phi
//     theorem_2_finite  L sum_bc w_bc pi_c (epsilon + 2 sqrt(l(C m) / (2 n_eff_bc)))   n_eff_bc the bin's smallest
//     ecce_bound        sum_bc pi_c (S_bc / n) (epsilon + sqrt(l(C m) / (2 min_b rows_bc)))
//                       of ECCE `paper`; S_bc = rows_0c + ... + rows_bc
//     theorem_3         epsilon + sum_c pi_c mean_i (2 sqrt(l(n C) / (2 n_eff_ic)) + L spread_ic)          of the LCE
//     theorem_3_tight   epsilon + sum_c pi_c mean_i    sqrt(l(n C) / (2 n_eff_ic))
//                       p and y are averaged with the same weights at the same points: there is no bias to bound
//     proximity_bias_published   2 epsilon + |conf(S1) - conf(S2)|_1 + sqrt(2 ln(4 C / delta) / min |S|)
//     proximity_bias             2 epsilon + |conf(S1) - conf(S2)|_1
//                                + sum_s (sqrt(C / |S_s|) + sqrt(2 ln(2 / delta) / |S_s|))
//                       both of |freq(S1) - freq(S2)|_1 of two groups of rows.  The published one bounds an l1 norm by
//                       one coordinate: it is false for C > 2, and for C = 2 where delta is below .01; it says so
#pragma once
#include <string>
#include <utility>

#include "metrics/bin_table.h"

namespace lc {

// How the note of every bound begins where epsilon is an estimate.
inline constexpr const char* kPlugInNote =
    "plug-in: epsilon is the leave-one-out estimate, the true posterior is not known";

struct Premise {
    double epsilon = 0;
    bool plug_in = true;  // epsilon is an estimate, not known
    double delta = 0.05;
};

struct Bound {
    std::string name;
    double measured = 0, bound = 0;
    std::vector<std::pair<std::string, double>> terms = {};  // they add up to the bound
    bool proven = true;
    std::string note = {};  // what a reader must know before believing it
    bool holds() const { return measured <= bound; }
};

// What a neighbourhood is worth, (n, C) each: bin -1 is an entry that is left out.  n_eff below 1 (a row without
// neighbours) counts as 1, where the bound says nothing: it is above 1.
struct Neighbourhoods {
    int64_t n = 0, C = 0;
    std::span<const int32_t> bin;
    std::span<const float> n_eff;
    std::span<const float> spread = {};  // sum_j w_ij |phi_j - phi_i|_1 / sum_j w_ij; for theorem_3
};

// Of a table only the numbers of rows matter.  pi (C) sums to 1.
Bound theorem_2(double measured, const BinTable& t, std::span<const double> pi, const Premise& premise,
                double lipschitz = 1);
Bound theorem_2_finite(double measured, const BinTable& t, const Neighbourhoods& near, std::span<const double> pi,
                       const Premise& premise, double lipschitz = 1);
Bound ecce_bound(double measured, const BinTable& t, std::span<const double> pi, const Premise& premise);

Bound theorem_3(double measured, const Neighbourhoods& near, std::span<const double> pi, const Premise& premise,
                double lipschitz = 1);
Bound theorem_3_tight(double measured, const Neighbourhoods& near, std::span<const double> pi, const Premise& premise);

struct GroupMeans {
    double rows = 0;
    std::vector<double> conf, freq;  // (C)
};
GroupMeans group_means(const Predictions& s, std::span<const int64_t> rows);  // at least one
Bound proximity_bias_published(const GroupMeans& s1, const GroupMeans& s2, const Premise& premise);
Bound proximity_bias(const GroupMeans& s1, const GroupMeans& s2, const Premise& premise);

}  // namespace lc

// platt.h -- Platt scaling: a logistic regression per class.
//
//     ps           q = sigmoid(a ln(p_c / (1 - p_c)) + b), p clipped to [1e-12, 1 - 1e-12], Platt's targets
//     ps:plain     the same with 0/1 targets, which separable classes send to infinity
//     ps:authors   q = sigmoid(w . p + b) of the whole row of probabilities, 0/1 targets, penalty |w|^2 / 2
//
// Platt's targets (n+ + 1) / (n+ + 2) and 1 / (n- + 2) instead of 1 and 0 are what one more row of either kind would
// suggest.  With them the optimum is finite for every class, also for one that the calibration rows lack.
#pragma once
#include "calib/one_vs_rest.h"

namespace lc {

extern const ClassMethod kPlatt, kPlattPlain, kPlattAuthors;

double log_odds(double p);                                               // ln(p / (1 - p)) of the clipped p
double clip_probability(double p);                                       // to [1e-12, 1 - 1e-12]
bool all_bounded(std::span<const double> w);                             // so that no sum of products overflows
std::vector<double> platt_targets(const std::vector<double>& positive);  // (n), from 0/1

}  // namespace lc

// proper.h -- accuracy and the proper scores: means over the rows of a number that each row has by itself.
//
//     acc     mean [argmax p = y]
//     nll     mean -ln p_y
//     brier   mean sum_c (p_c - [c = y])^2
//
// The numbers of the rows are to be had too (each_*): a bootstrap needs them, and so does whoever looks for the worst
// rows.
#pragma once
#include <cfloat>
#include <string>

#include "metrics/predictions.h"

namespace lc {

// How the logarithm of a probability is taken.  `logits`: by log-sum-exp, right where p underflows.  `floor`: ln max(p,
// floor), for methods that give probabilities alone.  `authors`: ln(p + 1e-12), which the published tables used.
enum class NllMode { logits, floor, authors };

struct Nll {
    double value = 0;
    double floor = 0;        // the floor in use; 0 where there is none
    int64_t impossible = 0;  // rows whose label has p = 0: each costs -ln floor, so they may decide the value
};

double acc(const Predictions& s);
Nll nll(const Predictions& s, NllMode mode, double floor = FLT_MIN);
double brier(const Predictions& s);

std::vector<double> each_hit(const Predictions& s);  // (n), 1 or 0
std::vector<double> each_nll(const Predictions& s, NllMode mode, double floor = FLT_MIN);
std::vector<double> each_brier(const Predictions& s);

double mean_of(std::span<const double> each, Counts counts = {});

}  // namespace lc

// temperature.h -- one number that makes logits softer or sharper: p = softmax(beta z), T = 1 / beta.
//
// The mean log-loss is convex in beta; its derivative, mean( sum_c z_c p_c - z_y ), is zero at the minimum.  Newton's
// steps inside a bracket of ln beta in [-16, 16] that only ever shrinks (minimise_1d of solvers.h), in double.  A
// minimum at the end of the bracket is no temperature: `at_bound` says that the logits separate the labels (beta ->
// infinity) or say nothing about them (beta -> 0, or rows of equal logits).
#pragma once
#include <cstdint>

#include "calib/solvers.h"

namespace lc {

struct Temperature {
    double T = 1, beta = 1;
    double nll = 0;  // at the minimum
    int iterations = 0;
    bool at_bound = false;
};
Temperature fit_temperature(const float* logits, const int32_t* labels, int64_t n, int64_t C);
Temperature fit_temperature(const double* logits, const int32_t* labels, int64_t n, int64_t C);

// As the authors' code has it: T itself, from 1.5, by 2000 short steps (torch_lbfgs), which end before the minimum.
struct AuthorsTemperature {
    double T = 1.5;
    Solved solved;
};
AuthorsTemperature fit_temperature_as_authors(const double* logits, const int32_t* labels, int64_t n, int64_t C);

// Mean of -ln softmax(beta z)_y, and where `each` is given, the value of every row.
double nll_of_logits(const float* logits, const int32_t* labels, int64_t n, int64_t C, double beta = 1,
                     double* each = nullptr);
double nll_of_logits(const double* logits, const int32_t* labels, int64_t n, int64_t C, double beta = 1);

}  // namespace lc

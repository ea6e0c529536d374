// logistic.h -- logistic regression with few parameters, to convergence: what Platt and beta calibration fit per class.
//
//     q_i = 1 / (1 + exp(-(w . x_i + b)))
//     minimise  sum_i -t_i ln q_i - (1 - t_i) ln(1 - q_i)  +  ridge / 2 |w|^2           the intercept b is not penalised
//
// In double, by Newton's method, and where the Hessian would be large by L-BFGS (solvers.h).
//
// Labels that the columns separate have no finite optimum: the objective falls to 0 and the weights grow.  The descent
// ends when nothing is left to gain, with `converged` false and weights that are large but finite.
#pragma once
#include <cstdint>
#include <vector>

namespace lc {

struct LogisticProblem {
    int64_t n = 0, k = 0;
    const double* x = nullptr;       // (n, k)
    const double* target = nullptr;  // (n), in [0, 1]
    double ridge = 0;
};

struct LogisticFit {
    std::vector<double> w;  // (k + 1): weights, then the intercept
    double loss = 0;        // the objective there
    int iterations = 0;
    bool converged = false;
};
LogisticFit fit_logistic(const LogisticProblem& problem);

double sigmoid(double z);  // 1 / (1 + exp(-z)), without overflow

}  // namespace lc

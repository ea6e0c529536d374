// linear_logits.h -- logits that are linear in a row's scores, softmax(W z + b), and the loss they are fitted by:
//
//     mean_i -ln softmax(W z_i + b)_{y_i}  +  lambda / (C (C - 1)) sum_{c != j} W_cj^2  +  mu / C sum_c b_c^2
//
// The penalty (ODIR: off-diagonal and intercept) leaves the diagonal alone, so that strong penalties lead to one
// factor per class and not to uniform probabilities.  Convex.  Newton for few classes, L-BFGS above kNewtonClasses,
// preconditioned by the Hessian's blocks of one class, and above kBlockClasses, where these would fill the memory, by its
// diagonal.
//
//     theta (C, C + 1): row c is W_c, then b_c.  A row of x is z, then 1: the bias is one more column.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "calib/scores.h"
#include "calib/solvers.h"
#include "kernels/multiply_double.h"
#include "kernels/progress.h"

namespace lc {

struct LinearRows {
    int64_t n = 0, C = 0;
    std::vector<double> x;        // (n, width())
    std::vector<int32_t> labels;  // (n)

    int64_t width() const { return cpu::padded(C + 1); }
    LinearRows where(const std::vector<int64_t>& index) const;
};
LinearRows linear_rows(const ScoredRows& rows);

struct Odir {
    double lambda = 0, mu = 0;
};

class LinearLoss {
  public:
    LinearLoss(const LinearRows& rows, Odir penalty) : rows_(rows), penalty_(penalty) {}
    double operator()(std::span<const double> theta, std::span<double> gradient) const;           // (C, C + 1) both
    double second_order(std::span<const double> theta, double* gradient, double* hessian) const;  // as SecondOrder
    double nll(std::span<const double> theta) const;                                              // without the penalty
    std::vector<double> curvature(std::span<const double> theta) const;  // the diagonal of the Hessian
    Precondition by_class(std::span<const double> theta) const;          // its blocks of one class: linear_blocks.cpp

  private:
    // What a pass over the rows leaves behind besides the mean loss, where it is asked for.
    struct Wanted {
        double* gradient = nullptr;   // (C, width)
        double* hessian = nullptr;    // (C (C + 1) / 2, width, width): blocks of class pairs c >= d
        double* curvature = nullptr;  // (C, width)
        double* probs = nullptr;      // (n, padded(C))
    };
    double pass(std::span<const double> theta, Wanted wanted) const;
    double add_penalty(double value, std::span<const double> theta, double* gradient) const;
    double weight_of(int64_t c, int64_t j) const;  // of theta_cj squared

    const LinearRows& rows_;
    Odir penalty_;
};

constexpr int64_t kNewtonClasses = 12, kBlockClasses = 256;

struct LinearEffort {
    int iterations = 2000;
    double gradient = 1e-9, change = 1e-9;  // of L-BFGS
    Progress progress = {};
};
Solved fit_linear(const LinearRows& rows, Odir penalty, std::span<double> theta, const LinearEffort& effort = {});

std::vector<double> diagonal_theta(int64_t C, double factor);  // W = factor I, b = 0

// out (rows, C) = W z + b
void apply_linear(double* out, const double* z, int64_t rows, int64_t C, std::span<const double> theta);

}  // namespace lc

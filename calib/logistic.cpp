// logistic.cpp -- see logistic.h.
#include "calib/logistic.h"

#include <algorithm>
#include <cmath>

#include "calib/solvers.h"

namespace lc {
namespace {

constexpr int64_t kNewtonColumns = 128;   // above, n k^2 multiplications for a Hessian are more than many gradients
constexpr double kLossOfNothing = 1e-10;  // per row: the labels are separated

// The objective over n, its gradient, and the lower triangle of its Hessian, at w (k + 1).
class LogisticLoss {
  public:
    explicit LogisticLoss(const LogisticProblem& p) : p_(p), ridge_(p.ridge / double(p.n)) {}

    double operator()(std::span<const double> w, double* gradient, double* hessian) const {
        const int64_t m = p_.k + 1;
        if (gradient) std::fill_n(gradient, m, 0.0);
        if (hessian) std::fill_n(hessian, m * m, 0.0);
        double sum = 0;
        std::vector<double> row(size_t(m), 1.0);  // x_i, then 1
        for (int64_t i = 0; i < p_.n; ++i) {
            std::copy_n(p_.x + i * p_.k, p_.k, row.begin());
            const double z = dot(w, row), t = p_.target[i];
            sum += std::max(z, 0.0) - t * z + std::log1p(std::exp(-std::abs(z)));
            if (gradient) add(gradient, (sigmoid(z) - t) / double(p_.n), row.data(), m);
            if (hessian) add_square(hessian, sigmoid(z) * sigmoid(-z) / double(p_.n), row.data(), m);
        }
        return sum / double(p_.n) + penalty(w, gradient, hessian);
    }

  private:
    static void add(double* to, double a, const double* x, int64_t m) {
        for (int64_t j = 0; j < m; ++j) to[j] += a * x[j];
    }
    static void add_square(double* to, double a, const double* x, int64_t m) {  // a x x^T
        for (int64_t j = 0; j < m; ++j) add(to + j * m, a * x[j], x, j + 1);
    }
    double penalty(std::span<const double> w, double* gradient, double* hessian) const {
        double sum = 0;
        for (int64_t j = 0; j < p_.k; ++j) {
            const double v = w[size_t(j)];
            sum += ridge_ / 2 * v * v;
            if (gradient) gradient[j] += ridge_ * v;
            if (hessian) hessian[j * (p_.k + 2)] += ridge_;
        }
        return sum;
    }

    const LogisticProblem& p_;
    double ridge_;
};

std::vector<double> best_constant(const LogisticProblem& p) {
    double sum = 0;
    for (int64_t i = 0; i < p.n; ++i) sum += p.target[i];
    const double edge = 1e-3, mean = std::clamp(sum, edge, double(p.n) - edge) / double(p.n);
    std::vector<double> w(size_t(p.k) + 1);
    w.back() = std::log(mean / (1 - mean));
    return w;
}

}  // namespace

double sigmoid(double z) {
    const double e = std::exp(-std::abs(z));
    return (z < 0 ? e : 1.0) / (1 + e);
}

LogisticFit fit_logistic(const LogisticProblem& p) {
    const LogisticLoss loss(p);
    LogisticFit fit;
    fit.w = best_constant(p);
    const auto first_order = [&](std::span<const double> w, std::span<double> g) { return loss(w, g.data(), nullptr); };
    const Solved s =
        p.k <= kNewtonColumns ? minimise_newton(loss, fit.w) : minimise_lbfgs(first_order, fit.w, {.gradient = 1e-10});
    fit.loss = s.value * double(p.n);
    fit.iterations = s.iterations;
    fit.converged = s.ended == Ended::converged && s.value > kLossOfNothing;
    return fit;
}

}  // namespace lc

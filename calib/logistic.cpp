// logistic.cpp -- see logistic.h.
#include "calib/logistic.h"

#include <algorithm>
#include <cmath>

#include "calib/solvers.h"
#include "kernels/multiply_double.h"

namespace lc {
namespace {

constexpr int64_t kNewtonColumns = 128;   // above, n k^2 multiplications for a Hessian are more than many gradients
constexpr double kLossOfNothing = 1e-10;  // per row: the labels are separated

// The objective over n, its gradient, and its Hessian, at w (k + 1).
class LogisticLoss {
  public:
    explicit LogisticLoss(const LogisticProblem& p) : p_(p) {}

    double operator()(std::span<const double> w, double* gradient, double* hessian) const {
        Sums sums(m_, wide_);
        for (int64_t begin = 0; begin < p_.n; begin += kBlock) {
            add_rows(sums, w, begin, std::min(p_.n, begin + kBlock), gradient != nullptr, hessian != nullptr);
        }
        double value = sums.loss / double(p_.n);
        for (int64_t j = 0; j < m_; ++j) {
            const double ridge = j < p_.k ? p_.ridge / double(p_.n) : 0, v = w[size_t(j)];
            value += ridge / 2 * v * v;
            if (gradient) gradient[j] = sums.gradient[size_t(j)] / double(p_.n) + ridge * v;
            for (int64_t i = 0; hessian && i < m_; ++i) {
                hessian[j * m_ + i] = sums.hessian[size_t(j * wide_ + i)] / double(p_.n) + (i == j ? ridge : 0);
            }
        }
        return value;
    }

  private:
    static constexpr int64_t kBlock = 128;  // rows that stay in the cache

    struct Sums {
        Sums(int64_t m, int64_t wide) : gradient(size_t(wide)), hessian(size_t(m * wide)) {}
        double loss = 0;
        std::vector<double> gradient, hessian;  // (wide), (m, wide)
    };

    void add_rows(Sums& sums, std::span<const double> w, int64_t begin, int64_t end, bool first, bool second) const {
        std::vector<double> x(size_t(kBlock * wide_)), weighted(second ? x.size() : 0);  // rows: x_i, 1, zeros
        for (int64_t i = begin; i < end; ++i) {
            double* const row = x.data() + (i - begin) * wide_;
            std::copy_n(p_.x + i * p_.k, p_.k, row);
            row[p_.k] = 1;
            const double z = dot(w, {row, size_t(m_)}), t = p_.target[i], e = std::exp(-std::abs(z));
            sums.loss += std::max(z, 0.0) - t * z + std::log1p(e);
            const double miss = (z < 0 ? e : 1) / (1 + e) - t, spread = e / ((1 + e) * (1 + e));
            for (int64_t j = 0; first && j < wide_; ++j) sums.gradient[size_t(j)] += miss * row[j];
            for (int64_t j = 0; second && j < wide_; ++j) weighted[size_t((i - begin) * wide_ + j)] = spread * row[j];
        }
        if (!second) return;  // else += sum_i spread_i x_i x_i^T
        cpu::multiply_double(sums.hessian.data(), wide_, {weighted.data(), 1, wide_}, x.data(), wide_, m_, wide_,
                             end - begin, true);
    }

    const LogisticProblem& p_;
    const int64_t m_ = p_.k + 1, wide_ = cpu::padded(m_);
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

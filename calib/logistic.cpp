// logistic.cpp -- see logistic.h.
#include "calib/logistic.h"

#include <algorithm>
#include <cfloat>
#include <cmath>

namespace lc {
namespace {

using Vector = std::vector<double>;

constexpr int kNewtonSteps = 100, kHalvings = 40, kGradientSteps = 500;
constexpr double kGainLeft = 1e-14;       // of the objective: less is rounding
constexpr double kLossOfNothing = 1e-10;  // per row: the labels are separated

double dot(const Vector& a, const Vector& b) {
    double sum = 0;
    for (size_t j = 0; j < a.size(); ++j) sum += a[j] * b[j];
    return sum;
}

// v . (x_i, 1)
double product(const LogisticProblem& p, int64_t i, const Vector& v) {
    const double* x = p.x + i * p.k;
    double sum = v[size_t(p.k)];
    for (int64_t j = 0; j < p.k; ++j) sum += v[size_t(j)] * x[j];
    return sum;
}

// to += a (x_i, 1)
void add_row(const LogisticProblem& p, int64_t i, double a, Vector& to) {
    const double* x = p.x + i * p.k;
    for (int64_t j = 0; j < p.k; ++j) to[size_t(j)] += a * x[j];
    to[size_t(p.k)] += a;
}

double objective(const LogisticProblem& p, const Vector& w) {
    double sum = 0;
    for (int64_t i = 0; i < p.n; ++i) {
        const double z = product(p, i, w);
        sum += std::max(z, 0.0) - p.target[i] * z + std::log1p(std::exp(-std::abs(z)));
    }
    for (int64_t j = 0; j < p.k; ++j) sum += p.ridge / 2 * w[size_t(j)] * w[size_t(j)];
    return sum;
}

// The objective's derivatives at one point.
struct Derivatives {
    Vector gradient;   // (k + 1)
    Vector curvature;  // (n): q (1 - q)
    Vector diagonal;   // (k + 1): of the Hessian
};

Derivatives derivatives(const LogisticProblem& p, const Vector& w) {
    const size_t k = size_t(p.k);
    Derivatives d = {Vector(k + 1), Vector(size_t(p.n)), Vector(k + 1, p.ridge)};
    d.diagonal[k] = 0;
    for (size_t j = 0; j < k; ++j) d.gradient[j] = p.ridge * w[j];
    for (int64_t i = 0; i < p.n; ++i) {
        const double z = product(p, i, w), q = sigmoid(z), curve = q * sigmoid(-z);
        d.curvature[size_t(i)] = curve;
        add_row(p, i, q - p.target[i], d.gradient);
        const double* x = p.x + i * p.k;
        for (size_t j = 0; j < k; ++j) d.diagonal[j] += curve * x[j] * x[j];
        d.diagonal[k] += curve;
    }
    for (double& h : d.diagonal) h = std::max(h, DBL_MIN);  // a column of zeros
    return d;
}

Vector hessian_times(const LogisticProblem& p, const Derivatives& d, const Vector& v) {
    Vector result(v.size());
    for (int64_t j = 0; j < p.k; ++j) result[size_t(j)] = p.ridge * v[size_t(j)];
    for (int64_t i = 0; i < p.n; ++i) add_row(p, i, d.curvature[size_t(i)] * product(p, i, v), result);
    return result;
}

// Solves H s = gradient by conjugate gradients with H's diagonal as preconditioner: roughly while far from the optimum,
// where the quadratic is a rough picture anyway, and ever more exactly near to it.
Vector newton_step(const LogisticProblem& p, const Derivatives& d, double loss) {
    const size_t m = d.gradient.size();
    Vector s(m), r = d.gradient, u(m), direction(m);
    const auto precondition = [&] {
        for (size_t j = 0; j < m; ++j) u[j] = r[j] / d.diagonal[j];
        return dot(r, u);
    };
    double rest = precondition();
    const double enough = rest * std::min(1e-2, rest / loss);
    direction = u;
    for (int step = 0; step < kGradientSteps && rest > 0; ++step) {
        const Vector h = hessian_times(p, d, direction);
        const double curve = dot(direction, h);
        if (!(curve > 0)) break;
        const double length = rest / curve;
        for (size_t j = 0; j < m; ++j) s[j] += length * direction[j], r[j] -= length * h[j];
        const double before = rest;
        rest = precondition();
        if (rest <= enough) break;
        for (size_t j = 0; j < m; ++j) direction[j] = u[j] + rest / before * direction[j];
    }
    return s;
}

Vector start(const LogisticProblem& p) {  // the best constant
    double sum = 0;
    for (int64_t i = 0; i < p.n; ++i) sum += p.target[i];
    const double edge = 1e-3, mean = std::clamp(sum, edge, double(p.n) - edge) / double(p.n);
    Vector w(size_t(p.k) + 1);
    w.back() = std::log(mean / (1 - mean));
    return w;
}

}  // namespace

double sigmoid(double z) {
    const double e = std::exp(-std::abs(z));
    return (z < 0 ? e : 1.0) / (1 + e);
}

LogisticFit fit_logistic(const LogisticProblem& p) {
    LogisticFit fit;
    fit.w = start(p);
    fit.loss = objective(p, fit.w);
    for (; fit.iterations < kNewtonSteps && !fit.converged; ++fit.iterations) {
        if (fit.loss <= kLossOfNothing * double(p.n)) break;
        const Derivatives d = derivatives(p, fit.w);
        const Vector step = newton_step(p, d, fit.loss);
        const double decrement = dot(d.gradient, step);
        fit.converged = decrement <= kGainLeft * fit.loss;  // the last step is taken all the same
        double length = 1, loss = 0;
        Vector next(step.size());
        for (int halving = 0;; ++halving, length /= 2) {
            for (size_t j = 0; j < step.size(); ++j) next[j] = fit.w[j] - length * step[j];
            loss = objective(p, next);
            if (loss <= fit.loss - 1e-4 * length * decrement || halving == kHalvings) break;
            if (decrement <= 1e-10 * fit.loss && loss <= fit.loss * (1 + 1e-12)) break;  // a gain that rounding hides
        }
        if (!(loss <= fit.loss * (1 + 1e-12))) break;  // no step goes down
        fit.w = next;
        fit.loss = loss;
    }
    return fit;
}

}  // namespace lc

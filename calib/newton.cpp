// newton.cpp -- minimise_newton of solvers.h.
//
// A step solves H d = -g.  Half of g H^-1 g, the Newton decrement squared, is what a quadratic function would still
// lose: the stop is on it and not on the gradient, which rounding may keep from ever being small.  Where H is
// singular (a direction that changes nothing) or not positive definite, a multiple of its largest diagonal element is
// added until it is.
#include <algorithm>
#include <cmath>

#include "calib/solvers.h"

namespace lc {

bool cholesky(std::span<double> a, int64_t p) {
    for (int64_t j = 0; j < p; ++j) {
        double* const row = a.data() + j * p;
        const double least = 1e-14 * row[j];  // a pivot that cancels to nothing is rounding
        for (int64_t k = 0; k < j; ++k) {
            const double* const other = a.data() + k * p;
            row[k] = (row[k] - dot({row, size_t(k)}, {other, size_t(k)})) / other[k];
        }
        const double pivot = row[j] - dot({row, size_t(j)}, {row, size_t(j)});
        if (!(pivot > least) || !std::isfinite(pivot)) return false;
        row[j] = std::sqrt(pivot);
    }
    return true;
}

void cholesky_solve(std::span<const double> factor, int64_t p, std::span<double> b) {
    for (int64_t i = 0; i < p; ++i) {
        const double* const row = factor.data() + i * p;
        b[size_t(i)] = (b[size_t(i)] - dot({row, size_t(i)}, b.first(size_t(i)))) / row[i];
    }
    for (int64_t i = p - 1; i >= 0; --i) {
        const double* const row = factor.data() + i * p;
        const double x = b[size_t(i)] /= row[i];
        for (int64_t k = 0; k < i; ++k) b[size_t(k)] -= x * row[k];
    }
}

namespace {

// -(H + shift)^-1 g with the smallest shift that works; empty where none does, because H is not finite.
std::vector<double> newton_direction(const std::vector<double>& hessian, const std::vector<double>& gradient) {
    const int64_t p = int64_t(gradient.size());
    double top = 0;
    for (int64_t i = 0; i < p; ++i) top = std::max(top, hessian[size_t(i * p + i)]);
    for (double shift = 0; shift <= 1e6; shift = shift == 0 ? 1e-12 : 10 * shift) {
        std::vector<double> factor = hessian;
        for (int64_t i = 0; i < p; ++i) factor[size_t(i * p + i)] += shift * top;
        if (!cholesky(factor, p)) continue;
        std::vector<double> d = gradient;
        cholesky_solve(factor, p, d);
        for (double& x : d) x = -x;
        return d;
    }
    return {};
}

}  // namespace

Solved minimise_newton(const SecondOrder& f, std::span<double> x, const NewtonOptions& o) {
    const size_t p = x.size();
    std::vector<double> gradient(p), hessian(p * p), trial(p);
    Solved s;
    for (; s.iterations < o.iterations; ++s.iterations) {
        s.value = f(x, gradient.data(), hessian.data());
        const std::vector<double> d = newton_direction(hessian, gradient);
        s.ended = largest(gradient) == 0 ? Ended::converged : Ended::stalled;
        if (d.empty() || s.ended == Ended::converged) return s;
        const double gain = -dot(gradient, d);  // the decrement, squared
        const bool last = gain / 2 <= o.tolerance;
        double step = 1, value = 0;
        for (int halvings = 0; halvings < 40; ++halvings, step /= 2) {
            for (size_t i = 0; i < p; ++i) trial[i] = x[i] + step * d[i];
            value = f(trial, nullptr, nullptr);
            // The last step gains less than rounding takes: it may look like a loss of as much.
            if (value <= s.value - (last ? -1e-14 * std::max(1.0, s.value) : 1e-4 * step * gain)) break;
            if (last || halvings == 39) {  // nothing to gain that double can see
                s.ended = last ? Ended::converged : Ended::stalled;
                return s;
            }
        }
        std::copy(trial.begin(), trial.end(), x.begin());
        s.value = value;
        if (last) {
            s.ended = Ended::converged;
            ++s.iterations;
            return s;
        }
    }
    s.ended = Ended::out_of_iterations;
    return s;
}

}  // namespace lc

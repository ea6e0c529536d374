// lbfgs.cpp -- minimise_lbfgs of solvers.h (Nocedal, Wright: Numerical Optimization, chapters 3 and 7).
#include <algorithm>
#include <cmath>

#include "calib/solvers.h"

namespace lc {

double dot(std::span<const double> a, std::span<const double> b) {
    double sum[4] = {};  // four sums: the machine need not wait for each addition
    const size_t n = a.size(), even = n / 4 * 4;
    for (size_t i = 0; i < even; i += 4) {
        for (size_t k = 0; k < 4; ++k) sum[k] += a[i + k] * b[i + k];
    }
    for (size_t i = even; i < n; ++i) sum[0] += a[i] * b[i];
    return (sum[0] + sum[1]) + (sum[2] + sum[3]);
}

double largest(std::span<const double> a) {
    double top = 0;
    for (double x : a) {
        if (std::isnan(x)) return x;
        top = std::max(top, std::abs(x));
    }
    return top;
}

Precondition by_diagonal(std::vector<double> diagonal) {
    const double least = std::max(1e-9 * largest(diagonal), 1e-12);
    for (double& x : diagonal) x = std::max(x, least);
    return [diagonal = std::move(diagonal)](std::span<double> b) {
        for (size_t i = 0; i < b.size(); ++i) b[i] /= diagonal[i];
    };
}

// ---- directions -----------------------------------------------------------------------------------------------------

void LbfgsMemory::push(std::vector<double> s, std::vector<double> y, double sy) {
    std::vector<double> solved = y;
    if (precondition_) precondition_(solved);
    scale_ = sy / dot(y, solved);
    if (int(pairs_.size()) == history_) pairs_.erase(pairs_.begin());
    pairs_.push_back({std::move(s), std::move(y), 1 / sy});
}

std::vector<double> LbfgsMemory::direction(std::span<const double> gradient) const {
    std::vector<double> q(gradient.size()), along(pairs_.size());
    for (size_t i = 0; i < q.size(); ++i) q[i] = -gradient[i];
    const auto add = [&](double a, const std::vector<double>& v) {
        for (size_t i = 0; i < q.size(); ++i) q[i] += a * v[i];
    };
    for (size_t k = pairs_.size(); k-- > 0;) {
        along[k] = pairs_[k].rho * dot(pairs_[k].s, q);
        add(-along[k], pairs_[k].y);
    }
    if (precondition_) precondition_(q);
    for (double& x : q) x *= pairs_.empty() ? 1 : scale_;
    for (size_t k = 0; k < pairs_.size(); ++k) add(along[k] - pairs_[k].rho * dot(pairs_[k].y, q), pairs_[k].s);
    return q;
}

// ---- line search ----------------------------------------------------------------------------------------------------

namespace {

constexpr double kEnough = 1e-4;  // of the slope must be gained,
constexpr double kFlat = 0.9;     // and the slope must have shrunk to this

struct Point {
    double t = 0, value = 0, slope = 0;
};

// Where the cubic through two points and their slopes is least, kept away from both ends; the middle if it is
// nowhere.
double between(const Point& a, const Point& b) {
    const double width = b.t - a.t;
    double share = 0.5;
    if (std::isfinite(b.value) && std::isfinite(b.slope)) {
        const double u = a.slope + b.slope - 3 * (b.value - a.value) / width;
        const double square = u * u - a.slope * b.slope;
        if (square >= 0) {
            const double root = std::copysign(std::sqrt(square), width);
            share = 1 - (b.slope + root - u) / (b.slope - a.slope + 2 * root);
        }
    }
    if (!(share > 0.1)) share = 0.1;  // NaN too
    return a.t + width * std::min(share, 0.9);
}

class Line {
  public:
    Line(const FirstOrder& f, std::span<const double> start, std::span<const double> d)
        : x(start.size()), gradient(start.size()), f_(f), start_(start), d_(d) {}

    std::vector<double> x, gradient;  // at the last point that was looked at

    Point at(double t) {
        for (size_t i = 0; i < x.size(); ++i) x[i] = start_[i] + t * d_[i];
        const double value = f_(x, gradient);
        return {t, value, dot(gradient, d_)};
    }

    // A step that gains enough and ends where the slope is small; t = 0 where there is none that double can see.
    Point search(const Point& origin, double first) {
        Point before = origin;
        double t = first;
        for (int i = 0; i < 25; ++i, t *= 4) {
            const Point p = at(t);
            if (!gains(p, origin) || (i > 0 && p.value >= before.value)) return zoom(origin, before, p);
            if (std::abs(p.slope) <= -kFlat * origin.slope) return p;
            if (p.slope >= 0) return zoom(origin, p, before);
            before = p;
        }
        return at(before.t);  // it falls without end
    }

  private:
    static bool gains(const Point& p, const Point& origin) {
        return std::isfinite(p.value) && std::isfinite(p.slope) &&
               p.value <= origin.value + kEnough * p.t * origin.slope;
    }
    Point zoom(const Point& origin, Point best, Point other) {
        for (int i = 0; i < 40; ++i) {
            const Point p = at(between(best, other));
            if (!gains(p, origin) || p.value >= best.value) {
                other = p;
                continue;
            }
            if (std::abs(p.slope) <= -kFlat * origin.slope) return p;
            if (p.slope * (other.t - best.t) >= 0) other = best;
            best = p;
        }
        return best.t == 0 ? origin : at(best.t);
    }

    const FirstOrder& f_;
    std::span<const double> start_, d_;
};

}  // namespace

Solved minimise_lbfgs(const FirstOrder& f, std::span<double> x, const LbfgsOptions& o) {
    std::vector<double> gradient(x.size());
    LbfgsMemory memory(o.history, o.precondition);
    Solved s;
    s.value = f(x, gradient);
    s.ended = Ended::out_of_iterations;
    for (int small = 0; s.iterations < o.iterations; ++s.iterations) {
        if (largest(gradient) <= o.gradient || small == 3) {
            s.ended = Ended::converged;
            break;
        }
        std::vector<double> d = memory.direction(gradient);
        if (!(dot(d, gradient) < 0)) {  // rounding has spoilt the memory
            memory.clear();
            d = memory.direction(gradient);
        }
        const Point origin = {0, s.value, dot(d, gradient)};
        const double first = memory.empty() && !o.precondition ? std::min(1.0, 1 / largest(gradient)) : 1.0;
        Line line(f, x, d);
        const Point p = line.search(origin, first);
        if (p.t == 0) {
            if (!memory.empty()) {  // once more, straight downhill
                memory.clear();
                continue;
            }
            s.ended = -origin.slope <= 1e-12 * std::max(1.0, std::abs(s.value)) ? Ended::converged : Ended::stalled;
            break;
        }
        std::vector<double> step(x.size()), change(x.size());
        for (size_t i = 0; i < x.size(); ++i) {
            step[i] = line.x[i] - x[i];
            change[i] = line.gradient[i] - gradient[i];
        }
        const double sy = dot(step, change);
        if (sy > 0) memory.push(std::move(step), std::move(change), sy);
        small = s.value - p.value <= o.change * std::abs(p.value) ? small + 1 : 0;
        std::copy(line.x.begin(), line.x.end(), x.begin());
        gradient = std::move(line.gradient);
        s.value = p.value;
    }
    return s;
}

}  // namespace lc

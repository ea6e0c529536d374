// newton_1d.cpp -- minimise_1d of solvers.h, and how an end is told.
#include <algorithm>
#include <cmath>

#include "calib/solvers.h"

namespace lc {

std::string to_text(Ended e) {
    switch (e) {
        case Ended::converged:
            return "converged";
        case Ended::at_bound:
            return "at a bound";
        case Ended::out_of_iterations:
            return "out of iterations";
        case Ended::stalled:
            return "stalled";
    }
    return "?";
}

std::string Solved::text() const {
    return to_text(ended) + " after " + std::to_string(iterations) + (iterations == 1 ? " iteration" : " iterations");
}

Solved1d minimise_1d(const std::function<Curve(double)>& f, double low, double high, double start) {
    const double first = low, last = high, near = 1e-4 * (high - low);
    double step = high - low, step_before = high - low;  // the last one, and the one before it
    Solved1d s;
    s.ended = Ended::out_of_iterations;
    s.x = start;
    for (; s.iterations < 100; ++s.iterations) {
        s.at = f(s.x);
        if (s.at.slope == 0) {
            s.ended = Ended::converged;
            break;
        }
        (s.at.slope < 0 ? low : high) = s.x;  // the bracket only ever shrinks
        double next = s.x - s.at.slope / s.at.curvature;
        // Newton's steps near a minimum shrink fast, down to rounding.  Where they do not, the function may fall for
        // ever: halve the bracket.
        const bool fast = std::abs(next - s.x) <= std::max(step_before / 2, 1e-8);
        if (!(s.at.curvature > 0 && next > low && next < high && fast)) next = low + (high - low) / 2;
        if (std::abs(next - s.x) <= 1e-15 * std::max(1.0, std::abs(s.x)) || high - low < 1e-14) {
            s.ended = Ended::converged;
            break;
        }
        step_before = step;
        step = std::abs(next - s.x);
        s.x = next;
    }
    if ((low == first && s.x - first < near) || (high == last && last - s.x < near)) s.ended = Ended::at_bound;
    s.value = s.at.value;
    return s;
}

}  // namespace lc

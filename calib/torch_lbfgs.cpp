// torch_lbfgs.cpp -- torch_lbfgs of solvers.h: L-BFGS with fixed steps, step by step as torch.optim.LBFGS takes them
// without a line search.  With a rate of 1e-3 it is far from any minimum when it stops; published temperatures are
// where it stopped.
#include <algorithm>
#include <cmath>

#include "calib/solvers.h"

namespace lc {

Solved torch_lbfgs(const FirstOrder& f, std::span<double> x, const TorchLbfgsOptions& o) {
    const size_t p = x.size();
    std::vector<double> gradient(p), before(p), step(p), change(p);
    LbfgsMemory memory(o.history);
    Solved s;
    s.value = f(x, gradient);
    if (largest(gradient) <= o.gradient) return s;
    while (s.iterations < o.iterations) {
        ++s.iterations;
        double rate = o.rate;
        if (s.iterations == 1) {
            double sum = 0;
            for (double g : gradient) sum += std::abs(g);
            rate *= std::min(1.0, 1 / sum);
        } else {
            for (size_t i = 0; i < p; ++i) change[i] = gradient[i] - before[i];
            const double sy = dot(step, change);
            if (sy > 1e-10) memory.push(step, change, sy);
        }
        const std::vector<double> d = memory.direction(gradient);
        if (dot(gradient, d) > -o.change) return s;
        for (size_t i = 0; i < p; ++i) {
            step[i] = rate * d[i];
            x[i] += step[i];
        }
        before = gradient;
        const double old = s.value;
        s.value = f(x, gradient);
        if (!std::isfinite(s.value)) {
            s.ended = Ended::stalled;
            return s;
        }
        if (largest(gradient) <= o.gradient || largest(step) <= o.change || std::abs(s.value - old) < o.change) {
            return s;
        }
    }
    s.ended = Ended::out_of_iterations;
    return s;
}

}  // namespace lc

// Oracle of adam.h: the formulas as loops.  T = double is the judge, T = float the yardstick for rounding error.
#pragma once
#include <cmath>
#include <cstddef>
#include <vector>

#include "kernels/adam.h"

namespace oracle {

using std::size_t;

template <class T>
void adam(std::vector<T>& x, std::vector<T>& m, std::vector<T>& v, const std::vector<T>& g, const lc::AdamStep& step) {
    const double t = double(step.t);
    const T beta1 = T(step.beta1), beta2 = T(step.beta2);
    const T first = T(1 - std::pow(double(step.beta1), t)), second = T(1 - std::pow(double(step.beta2), t));
    for (size_t i = 0; i < x.size(); ++i) {
        const T grad = step.weight_decay == 0 ? g[i] : g[i] + T(step.weight_decay) * x[i];
        m[i] = beta1 * m[i] + (1 - beta1) * grad;
        v[i] = beta2 * v[i] + (1 - beta2) * grad * grad;
        x[i] -= T(step.lr) * (m[i] / first) / (std::sqrt(v[i] / second) + T(step.eps));
    }
}

}  // namespace oracle

// Oracle of sgd.h: the formulas as loops.  T = double is the judge, T = float the yardstick for rounding error.
#pragma once
#include <cstddef>
#include <vector>

#include "kernels/sgd.h"

namespace oracle {

using std::size_t;

template <class T>
void sgd(std::vector<T>& x, std::vector<T>& v, const std::vector<T>& g, const lc::SgdStep& step) {
    for (size_t i = 0; i < x.size(); ++i) {
        const T slope = step.weight_decay == 0 ? g[i] : g[i] + T(step.weight_decay) * x[i];
        v[i] = step.t == 1 || step.momentum == 0 ? slope : T(step.momentum) * v[i] + slope;
        x[i] -= T(step.lr) * v[i];
    }
}

}  // namespace oracle

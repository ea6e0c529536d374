// adam -- one step of the optimiser of Kingma and Ba (2015), with bias correction.
//
//     g'_i = g_i + weight_decay x_i                             x, m, v, g (n) float32
//     m_i <- beta1 m_i + (1 - beta1) g'_i
//     v_i <- beta2 v_i + (1 - beta2) g'_i^2
//     x_i <- x_i - lr (m_i / (1 - beta1^t)) / ( sqrt(v_i / (1 - beta2^t)) + eps )
//
// Needs    n >= 0, t >= 1 (the number of this step), 0 <= beta < 1, lr > 0, eps > 0, weight_decay >= 0.  The
//          four arrays are disjoint.
// Promises 1 - beta^t in double on the host; the same order of operations everywhere: bitwise repeatable on one backend.
//          weight_decay is PyTorch's: a part of the gradient, not decoupled from it.  With 0 x is not looked at.
// Edges    a NaN in g spoils its element only, and stays visible.
#pragma once
#include <cmath>

#include "kernels/check.h"
#include "kernels/op.h"

namespace lc {

struct AdamStep {
    float lr = 1e-3f, beta1 = 0.9f, beta2 = 0.999f, eps = 1e-8f;
    float weight_decay = 0;
    int64_t t = 1;
};
LC_OP(adam, float* x, float* m, float* v, const float* g, int64_t n, const AdamStep& step, Stream s);

// What a step multiplies with: x <- x - rate m / (sqrt(v_scale v) + eps).
struct AdamNumbers {
    float beta1, rest1, beta2, rest2;  // rest = 1 - beta
    float rate, v_scale, eps, decay;
};
inline AdamNumbers adam_numbers(const AdamStep& s) {
    LC_CHECK(s.t >= 1, "adam: t counts the steps from 1; found t = " << s.t);
    LC_CHECK(s.beta1 >= 0 && s.beta1 < 1 && s.beta2 >= 0 && s.beta2 < 1,
             "adam: 0 <= beta < 1; found beta1 = " << s.beta1 << ", beta2 = " << s.beta2);
    LC_CHECK(s.lr > 0 && s.eps > 0, "adam: lr and eps are positive; found lr = " << s.lr << ", eps = " << s.eps);
    LC_CHECK(s.weight_decay >= 0, "adam: weight_decay is 0 or more; found weight_decay = " << s.weight_decay);
    const double beta1 = double(s.beta1), beta2 = double(s.beta2), t = double(s.t);
    return {.beta1 = s.beta1,
            .rest1 = float(1 - beta1),
            .beta2 = s.beta2,
            .rest2 = float(1 - beta2),
            .rate = float(double(s.lr) / (1 - std::pow(beta1, t))),
            .v_scale = float(1 / (1 - std::pow(beta2, t))),
            .eps = s.eps,
            .decay = s.weight_decay};
}

}  // namespace lc

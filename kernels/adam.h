// adam -- one step of the optimiser of Kingma and Ba (2015), with bias correction.
//
//     m_i <- beta1 m_i + (1 - beta1) g_i                        x, m, v, g (n) float32
//     v_i <- beta2 v_i + (1 - beta2) g_i^2
//     x_i <- x_i - lr (m_i / (1 - beta1^t)) / ( sqrt(v_i / (1 - beta2^t)) + eps )
//
// Needs    n >= 0, t >= 1 (the number of this step), 0 <= beta < 1, lr > 0, eps > 0.  The four arrays are disjoint.
// Promises 1 - beta^t in double on the host; the same order of operations everywhere: bitwise repeatable on one backend.
// Edges    a NaN in g spoils its element only, and stays visible.
#pragma once
#include "kernels/op.h"

namespace lc {

struct AdamStep {
    float lr = 1e-3f, beta1 = 0.9f, beta2 = 0.999f, eps = 1e-8f;
    int64_t t = 1;
};
LC_OP(adam, float* x, float* m, float* v, const float* g, int64_t n, const AdamStep& step, Stream s);

}  // namespace lc

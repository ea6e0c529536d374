// sgd -- one step of stochastic gradient descent with momentum and weight decay, as PyTorch defines it.
//
//     g'_i = g_i + weight_decay x_i                             x, v, g (n) float32
//     v_i <- momentum v_i + g'_i                                the first step, t = 1: v_i <- g'_i
//     x_i <- x_i - lr v_i
//
// Needs    n >= 0, t >= 1 (the number of this step), lr > 0, 0 <= momentum < 1, weight_decay >= 0.  The three
//          arrays are disjoint.
// Promises the same order of operations everywhere: bitwise repeatable on one backend.  The first step does not
//          read v.
// Edges    a NaN in g spoils its element only, and stays visible.  With weight_decay = 0 the gradient does not look at x.
#pragma once
#include "kernels/check.h"
#include "kernels/op.h"

namespace lc {

struct SgdStep {
    float lr = 0.1f, momentum = 0.9f, weight_decay = 0;
    int64_t t = 1;
};
LC_OP(sgd, float* x, float* v, const float* g, int64_t n, const SgdStep& step, Stream s);

// What a step multiplies with.
struct SgdNumbers {
    float lr, momentum, decay;
    bool fresh;  // there is no v to go on with
};
inline SgdNumbers sgd_numbers(const SgdStep& s) {
    LC_CHECK(s.t >= 1, "sgd: t counts the steps from 1; found t = " << s.t);
    LC_CHECK(s.lr > 0, "sgd: lr is positive; found lr = " << s.lr);
    LC_CHECK(s.momentum >= 0 && s.momentum < 1, "sgd: 0 <= momentum < 1; found momentum = " << s.momentum);
    LC_CHECK(s.weight_decay >= 0, "sgd: weight_decay is 0 or more; found weight_decay = " << s.weight_decay);
    return {.lr = s.lr, .momentum = s.momentum, .decay = s.weight_decay, .fresh = s.t == 1 || s.momentum == 0};
}

}  // namespace lc

// ops.h -- the differentiable operations: forward and backward in one breath.
#pragma once
#include "nn/tape.h"

namespace lc {

// y = x W^T + b                                                        x (n, d)   W (m, d)   b (m)   y (n, m)
Var linear(Tape& t, const Var& x, const Var& W, const Var& b);

Var relu(Tape& t, const Var& x);

// Rows of data by their index (m); no gradient.                        x (n, d)   -> (m, d)
Var gather(const Var& x, const int32_t* index, int64_t m);

// Each element is 0 with probability p, the others are divided by 1 - p; the identity where the tape is not training.
Var dropout(Tape& t, const Var& x, float p, RandomKey key);

// y = a + w x + b, x being data: a skip connection that is stretched and shifted.    a, x, y (n, m)   w, b (1) or (m)
Var add_affine(Tape& t, const Var& a, const Var& x, const Var& w, const Var& b);

// The mean over the rows of -ln softmax(logits) at the label.          logits (n, C)   labels (n) on the backend   -> (1)
Var cross_entropy(Tape& t, const Var& logits, const int32_t* labels);

// y = ln(1 + e^x): positive lengths from any numbers.
Var softplus(Tape& t, const Var& x);

// The Nadaraya-Watson estimate of z's own labels, each row left out of its own sum (nw_smooth.h).
struct Smoothed {
    Var theta;      // (n, C)
    Var log_label;  // (n): ln theta at the row's label
    Var log_norm;   // (n): ln of the sum of weights; no gradient
};
struct Smoothing {
    const int32_t* labels;  // (n) on the backend, alive until backward
    int64_t C;
    NwForm form = NwForm::exact;
};
Smoothed smooth(Tape& t, const Var& z, const Var& gamma, const Smoothing& how);  // gamma (1) or (n)

// mean_i ( js_weight js_i + ce_weight ce_i ) of js_ce_loss.h.  The value holds the two means, js and ce.   -> (2)
struct LossWeights {
    JsDistance distance = JsDistance::categorical;
    float js = 1, ce = 1;
    bool log_space = true;  // ce from log_label; false: from theta, clamped to [1e-8, 1 - 1e-8]
};
Var js_ce(Tape& t, const Var& logits, const Smoothed& q, const int32_t* labels, const LossWeights& how);

}  // namespace lc

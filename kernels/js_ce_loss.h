// js_ce_loss -- how far probabilities are from a local estimate, and how well that estimate predicts the labels: the loss
// of LoCal Net, value and gradients in one pass.
//
//     p_i  = softmax(logits_i)     q_i = theta_i                             logits, theta, dlogits, dtheta (n, C)
//     js_i = the distance of p_i and q_i                                     value (n, 2): js_i, ce_i
//     ce_i = -ln q_{i, label_i}
//     gradients of   scale sum_i ( js_weight js_i + ce_weight ce_i )         scale = 1 / n gives the mean
//
//     distance categorical   sqrt( 1/2 sum_c p ln(p/m) + 1/2 sum_c q ln(q/m) ),   m = (p + q) / 2, natural log
//                            in [0, sqrt(ln 2)] for rows that sum to 1
//              classwise     mean over c of the same for (p_c, 1 - p_c) and (q_c, 1 - q_c): all four clamped to
//                            [1e-4, 1 - 1e-4], the divergence floored at 1e-4 before the root; no gradient where clamped
//                            or floored
//     ce       log_label given   ce_i = -log_label_i, and dlog_label_i is written: nw_smooth gives a log_label that is
//                                right also where theta is 0.  Where it is -inf, ce_i = -ln FLT_MIN with gradient 0
//              log_label null    ce_i = -ln clamp(q_il, 1e-8, 1), its gradient goes into dtheta, 0 where clamped
//
// Numbers  with r = (p - q) / (p + q) the divergence is 1/2 sum_c m h(r), h(r) = (1 + r) ln(1 + r) + (1 - r) ln(1 - r),
//          which is r^2 + r^4/6 + r^6/15 + ... : no cancellation, so js is right to a few roundings of itself also where p
//          is almost q.  dJS/dp = ln(1 + r) / 2, dJS/dq = ln(1 - r) / 2, over 2 js for the root.
// Edges    p = q: the root has no derivative there, the gradient is 0.  q_c = 0 < p_c: ln(q/m) is taken at q = FLT_MIN, so
//          that dtheta is finite; p_c = 0: its share of dlogits is 0.  Logits of +-1e4 are fine.  A NaN among the logits
//          or theta of a row, or a logit of +inf, makes its js, dlogits and dtheta NaN; a NaN in log_label makes its ce
//          NaN.  theta need not sum to 1.
// Needs    n >= 0, C >= 1, theta >= 0, 0 <= labels < C (the CPU backend refuses others, CUDA gives a ce of NaN).
//          dlog_label goes with log_label.  Any of dlogits, dtheta, dlog_label may be null: not wanted.  Outputs overlap
//          no input and no other output.
// Promises bitwise repeatable.
#pragma once
#include "kernels/op.h"

namespace lc {

enum class JsDistance { categorical, classwise };

struct JsCeLoss {
    int64_t n = 0, C = 0;
    JsDistance distance = JsDistance::categorical;
    float js_weight = 1, ce_weight = 1, scale = 1;
    const float* logits = nullptr;     // (n, C)
    const float* theta = nullptr;      // (n, C)
    const int32_t* labels = nullptr;   // (n)
    const float* log_label = nullptr;  // (n) or null
};

struct JsCeGradients {
    float* dlogits = nullptr;     // (n, C)
    float* dtheta = nullptr;      // (n, C)
    float* dlog_label = nullptr;  // (n)
};

LC_OP(js_ce_loss, float* value, const JsCeGradients& gradients, const JsCeLoss& in, Stream s);

// The limits of the contract, for all backends.
constexpr float kJsClamp = 1e-4f;  // classwise: smallest probability
constexpr float kJsFloor = 1e-4f;  // classwise: smallest divergence
constexpr float kCeFloor = 1e-8f;  // smallest probability of a label

}  // namespace lc

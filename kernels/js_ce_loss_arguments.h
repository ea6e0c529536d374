// js_ce_loss_arguments.h -- the checks of js_ce_loss, the same on every backend (contract: js_ce_loss.h).
#pragma once
#include "kernels/arguments.h"
#include "kernels/js_ce_loss.h"

namespace lc {

inline void check_js_ce_loss(const float* value, const JsCeGradients& g, const JsCeLoss& in) {
    const char* const op = "js_ce_loss";
    check_shape(op, in.n, in.C);
    LC_CHECK(in.C >= 1, op << ": a row needs at least one class; found C = " << in.C);
    LC_CHECK(g.dlog_label == nullptr || in.log_label != nullptr,
             op << ": dlog_label is the gradient of log_label, which is null; pass both or neither");
    const int64_t all = in.n * in.C;
    const Array outputs[] = {{"value", value, 2 * in.n},
                             {"dlogits", g.dlogits, g.dlogits != nullptr ? all : 0},
                             {"dtheta", g.dtheta, g.dtheta != nullptr ? all : 0},
                             {"dlog_label", g.dlog_label, g.dlog_label != nullptr ? in.n : 0}};
    const Array inputs[] = {{"logits", in.logits, all},
                            {"theta", in.theta, all},
                            {"labels", in.labels, in.n},
                            {"log_label", in.log_label, in.log_label != nullptr ? in.n : 0}};
    for (const Array& out : outputs) {
        for (const Array& x : inputs) check_disjoint(op, out, x);
        for (const Array& other : outputs) {
            if (&other != &out) check_disjoint(op, out, other);
        }
    }
}

}  // namespace lc

// cross_entropy_arguments.h -- the checks of cross_entropy, the same on every backend (contract: cross_entropy.h).
#pragma once
#include "kernels/arguments.h"

namespace lc {

inline void check_cross_entropy(const float* loss, const float* dlogits, const float* logits, const int32_t* labels,
                                int64_t N, int64_t C) {
    const char* const op = "cross_entropy";
    check_shape(op, N, C);
    LC_CHECK(C >= 1, op << ": a row needs at least one class; found C = " << C);
    const Array values = {"loss", loss, N}, gradient = {"dlogits", dlogits, dlogits != nullptr ? N * C : 0};
    for (const Array& input : {Array{"logits", logits, N * C}, Array{"labels", labels, N}}) {
        check_disjoint(op, values, input);
        check_disjoint(op, gradient, input);
    }
    check_disjoint(op, values, gradient);
}

}  // namespace lc

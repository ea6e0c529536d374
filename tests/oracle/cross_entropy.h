// Oracle of cross_entropy.h: the formulas as loops.  T = double is the judge, T = float the yardstick for rounding error.
#pragma once
#include "tests/oracle/softmax.h"

namespace oracle {

template <class T>
void cross_entropy(std::vector<T>& loss, std::vector<T>& dlogits, const std::vector<T>& logits,
                   const std::vector<T>& labels, int64_t N, int64_t C, float scale) {
    std::vector<T> log_p(size_t(N * C), T(0));
    softmax(log_p, logits, N, C, true);
    softmax(dlogits, logits, N, C, false);
    for (int64_t i = 0; i < N; ++i) {
        const size_t at_label = size_t(i * C) + size_t(labels[size_t(i)]);
        loss[size_t(i)] = -log_p[at_label];
        dlogits[at_label] -= 1;
        for (int64_t c = i * C; c < (i + 1) * C; ++c) dlogits[size_t(c)] *= T(scale);
    }
}

}  // namespace oracle

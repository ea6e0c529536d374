// Oracle of knn.h: all distances, sorted.  T = double is the judge, T = float the yardstick for rounding error.
#pragma once
#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/knn.h"

namespace oracle {

template <class T>
void knn(std::vector<T>& distance, const std::vector<T>& Q, const std::vector<T>& R, const lc::Knn& g) {
    for (int64_t i = 0; i < g.n; ++i) {
        std::vector<T> all;
        for (int64_t j = 0; j < g.m; ++j) {
            if (g.leave_one_out && i == j) continue;
            T sum = 0;
            for (int64_t c = 0; c < g.d; ++c) {
                const T off = Q[std::size_t(i * g.d + c)] - R[std::size_t(j * g.d + c)];
                sum += off * off;
            }
            all.push_back(std::sqrt(sum));
        }
        std::sort(all.begin(), all.end(), [](T a, T b) { return a < b || (a == a && b != b); });
        std::copy(all.begin(), all.begin() + g.k, distance.begin() + i * g.k);
    }
}

}  // namespace oracle

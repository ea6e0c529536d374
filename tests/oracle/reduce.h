// Oracle of reduce.h: the formulas as loops.  T = double is the judge, T = float the yardstick for rounding error.
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/reduce.h"

namespace oracle {

// True where candidate b beats the best so far a: a NaN beats every number, nothing beats a NaN.
template <class T>
bool beats(T b, T a) {
    return a == a && (b != b || b > a);
}

// One line of `count` elements, `step` apart.
template <class T>
T reduce_line(const T* x, int64_t count, int64_t step, lc::Reduction how) {
    T acc = how == lc::Reduction::max ? x[0] : T(0);
    for (int64_t i = 0; i < count; ++i) {
        const T v = x[i * step];
        if (how != lc::Reduction::max)
            acc += v;
        else if (beats(v, acc))
            acc = v;
    }
    return how == lc::Reduction::mean ? acc / T(count) : acc;
}

template <class T>
T argmax_line(const T* x, int64_t count, int64_t step) {
    int64_t best = 0;
    for (int64_t i = 1; i < count; ++i) {
        if (beats(x[i * step], x[best * step])) best = i;
    }
    return T(best);
}

template <class T>
void row_reduce(std::vector<T>& out, const std::vector<T>& x, int64_t N, int64_t C, lc::Reduction how) {
    for (int64_t r = 0; r < N; ++r) out[r] = reduce_line(x.data() + r * C, C, 1, how);
}
template <class T>
void col_reduce(std::vector<T>& out, const std::vector<T>& x, int64_t N, int64_t C, lc::Reduction how) {
    for (int64_t c = 0; c < C; ++c) out[c] = reduce_line(x.data() + c, N, C, how);
}
template <class T>
void row_argmax(std::vector<T>& out, const std::vector<T>& x, int64_t N, int64_t C) {
    for (int64_t r = 0; r < N; ++r) out[r] = argmax_line(x.data() + r * C, C, 1);
}
template <class T>
void col_argmax(std::vector<T>& out, const std::vector<T>& x, int64_t N, int64_t C) {
    for (int64_t c = 0; c < C; ++c) out[c] = argmax_line(x.data() + c, N, C);
}

}  // namespace oracle

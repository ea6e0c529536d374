// pattern.h -- a short row repeated, so that vectors can walk along a matrix as along one array.
//
//     const int64_t rows = std::min(N, pattern_rows(C));
//     const std::vector<float> pattern = repeated(b, C, rows);      // (rows, C)
#pragma once
#include <cstdint>
#include <numeric>
#include <vector>

#include "kernels/parallel.h"

namespace lc::cpu {

// How many copies of a row make a pattern that vectors can walk along: at least 256 elements, and a multiple of 16 (the
// lanes of the widest target, one cache line), so that every copy starts at the same alignment.  A long odd row stays
// alone.
inline int64_t pattern_rows(int64_t C) {
    constexpr int64_t kLongest = 1 << 15;  // 128 KiB, a part of the second-level cache
    const int64_t line = 16 / std::gcd(C, int64_t(16));
    if (line * C > kLongest) return 1;
    return line * ceil_div(256, line * C);
}

inline std::vector<float> repeated(const float* row, int64_t C, int64_t rows) {
    std::vector<float> pattern;
    pattern.reserve(size_t(rows * C));
    for (int64_t r = 0; r < rows; ++r) pattern.insert(pattern.end(), row, row + C);
    return pattern;
}

}  // namespace lc::cpu

// pattern.h -- a short row repeated, so that vectors can walk along a matrix as along one array.
//
//     const int64_t rows = std::min(N, pattern_rows(C));
//     const std::vector<float> pattern = repeated(b, C, rows);      // (rows, C)
//
//     for_patterns(N, C, [=](int64_t i, int64_t n, int64_t period, const float* w, const float* b) { ... }, w, b);
#pragma once
#include <algorithm>
#include <array>
#include <cstdint>
#include <numeric>
#include <tuple>
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

// Calls body(first, count, period, patterns...): chunks of a matrix (N, C), each of which begins where the patterns do,
// and the patterns (period) of the rows (C) that go with its columns.
template <class Body, class... Row>
void for_patterns(int64_t N, int64_t C, const Body& body, const Row*... row) {
    constexpr int64_t kElements = 1 << 15;  // 128 KiB of each array
    if (N == 0 || C == 0) return;
    const int64_t rows = std::min(N, pattern_rows(C)), period = rows * C;
    const std::array<std::vector<float>, sizeof...(Row)> patterns = {repeated(row, C, rows)...};
    std::apply(
        [&](const auto&... pattern) {
            for_each_chunk(N * C, period * std::max<int64_t>(1, kElements / period),
                           [&](int64_t i, int64_t end) { body(i, end - i, period, pattern.data()...); });
        },
        patterns);
}

}  // namespace lc::cpu

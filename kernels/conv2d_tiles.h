// conv2d_tiles.h -- how a matrix of outputs is shared out among threads.  A cut decides who computes an element, never how.
#pragma once
#include <algorithm>
#include <cstdint>
#include <limits>
#include <omp.h>

#include "kernels/parallel.h"

namespace lc::cpu {

constexpr int64_t round_up(int64_t n, int64_t unit) { return ceil_div(n, unit) * unit; }

// The matrix (M, N) in tiles: number t is rows t / across * rows .., columns t % across * cols ..; the last ones are smaller.
struct Tiles {
    int64_t rows, cols, down, across;
    int64_t count() const { return down * across; }
};

// Rows in equal pieces of at most `most` rows.  Columns stay together, because rows are gathered anew for every piece of
// them, unless that leaves a thread without work while another still has a tile to do: `row_cost` is what gathering costs,
// in columns of products.
inline Tiles choose_tiles(int64_t M, int64_t N, int64_t most, int64_t threads, int64_t row_cost) {
    constexpr int64_t kUnitRows = 12, kUnitCols = 64;  // multiples of every register tile
    const int64_t rows = round_up(ceil_div(M, ceil_div(M, most)), kUnitRows), down = ceil_div(M, rows);
    Tiles best = {rows, N, down, 1};
    int64_t least = std::numeric_limits<int64_t>::max();
    for (int64_t pieces = 1; pieces <= ceil_div(N, kUnitCols); ++pieces) {
        const int64_t cols = round_up(ceil_div(N, pieces), kUnitCols), across = ceil_div(N, cols);
        const int64_t cost =
            ceil_div(down * across, threads) * (std::min(cols, N) + row_cost);  // of the busiest thread
        if (cost < least) least = cost, best.cols = cols, best.across = across;
        if (down >= 8 * threads) break;
    }
    return best;
}

// Threads for so many operations: one more for every 40 microseconds or so of a core's time.
inline int64_t threads_for(double flops) {
    constexpr double kThreadFlops = 4e6;
    const int64_t available = omp_in_parallel() ? 1 : omp_get_max_threads();
    return std::max<int64_t>(1, int64_t(std::min(flops / kThreadFlops, double(available))));
}

}  // namespace lc::cpu

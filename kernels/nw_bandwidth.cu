// nw_bandwidth.cu -- CUDA backend of nw_bandwidth (contract: nw_bandwidth.h; tiles and threads: nw_smooth.cuh).
//
// Idea     a block owns 64 rows and walks over all rows in tiles of 64.  The nearest neighbour so far, of the own class
//          and of the others, is the same for every bandwidth, so one walk serves the whole grid; a nearer one scales
//          down the sums so far.  At the end
//              nll_g = ln( 1 + e^(h_g (near_other - near_own)) sum_other / sum_own )
// Launch   grid = ceil(n / 64), block = 256.  Bandwidth g of column `lane` belongs to thread (lane, g mod 4).
// Shared   28 KiB: two slices of 16 features, the tile, a line for joining groups.
// Traffic  the sums, 2 n G floats of workspace, are read and written once per tile; per pair and bandwidth one expf and
//          some 20 instructions: bound by arithmetic.
// Numbers  float32, accurate expf; a tile is summed by itself before it is added.
// Profile  `make sim-profile OP=nw_bandwidth`
#include "kernels/nw_bandwidth.h"
#include "kernels/nw_smooth.cuh"
#include "kernels/nw_smooth_common.h"

namespace lc::LC_CUDA_NS {

struct NwGrid {
    const float* Z;         // (n, d)
    const int32_t* labels;  // (n)
    const float* gammas;    // (G)
    int64_t n, d, G;
    float* sums;  // (blocks, G, 2, kSide): of the own class and of the others
};

struct NwNearest {
    float own, other;  // squared distances
};

__device__ __forceinline__ NwNearest nearest_in(const NwGrid& grid, float* D, int64_t i, int own, int64_t first,
                                                NwNearest so_far) {
    const NwThread t = nw_thread();
    for (int r = t.group; r < tile_rows(grid.n, first); r += kGroups) {
        float& cell = D[r * kPitch + t.lane];
        if (first + r == i) cell = INFINITY;
        float& near = grid.labels[first + r] == own ? so_far.own : so_far.other;
        near = MinOf::join(near, cell);
    }
    return {join_groups<MinOf>(so_far.own), join_groups<MinOf>(so_far.other)};
}

// sums[g] becomes what it was, relative to the new nearest neighbours, and the tile.
__device__ __forceinline__ void add_tile(float* sums, const NwGrid& grid, const float* D, int own, int64_t first,
                                         NwNearest old, NwNearest now) {
    const NwThread t = nw_thread();
    const int rows = tile_rows(grid.n, first);
    for (int64_t g = t.group; g < grid.G; g += kGroups) {
        const float h = exponent_of(grid.gammas[g]);
        float of_own = 0.0f, of_other = 0.0f;
        for (int r = 0; r < rows; ++r) {
            const bool mine = grid.labels[first + r] == own;
            const float w = expf(h * (D[r * kPitch + t.lane] - (mine ? now.own : now.other)));
            of_own += mine ? w : 0.0f;
            of_other += mine ? 0.0f : w;
        }
        float* const sum = sums + g * 2 * kSide + t.lane;
        sum[0] = sum[0] * expf(h * (old.own - now.own)) + of_own;
        sum[kSide] = sum[kSide] * expf(h * (old.other - now.other)) + of_other;
    }
}

__device__ __forceinline__ float nll_of(float h, float own, float other, NwNearest near) {
    if (own == 0.0f) return INFINITY + other;  // nobody has the class; a NaN stays one
    if (other == 0.0f) return 0.0f * own;
    const float log_ratio = h * (near.other - near.own) + (logf(other) - logf(own));
    return log_ratio > 0.0f ? log_ratio + log1pf(expf(-log_ratio)) : log1pf(expf(log_ratio));
}

__global__ void __launch_bounds__(kNwBlock) nw_bandwidth_kernel(float* nll, NwGrid grid) {
    LC_NW_SHARED(s);
    const NwThread t = nw_thread();
    const NwRows rows = {grid.Z, grid.n};
    const int64_t first = int64_t(blockIdx.x) * kSide, i = first + t.lane;
    const int own = i < grid.n ? grid.labels[i] : -1;
    float* const sums = grid.sums + first * 2 * grid.G;
    for (int64_t g = t.group; g < grid.G; g += kGroups) {
        sums[g * 2 * kSide + t.lane] = sums[(g * 2 + 1) * kSide + t.lane] = 0.0f;
    }
    NwNearest near = {kNwFarthest, kNwFarthest};
    for (int64_t j = 0; j < grid.n; j += kSide) {
        distance_tile(s, rows, first, rows, j, grid.d);
        const NwNearest old = near;
        near = nearest_in(grid, s.D, i, own, j, old);
        add_tile(sums, grid, s.D, own, j, old, near);
    }
    if (i >= grid.n) return;
    for (int64_t g = t.group; g < grid.G; g += kGroups) {
        const float* sum = sums + g * 2 * kSide + t.lane;
        nll[i * grid.G + g] = nll_of(exponent_of(grid.gammas[g]), sum[0], sum[kSide], near);
    }
}

void nw_bandwidth(float* nll, const float* Z, const int32_t* labels, const float* gammas, int64_t n, int64_t d,
                  int64_t G, Stream s) {
    check_nw_bandwidth(nll, Z, labels, gammas, n, d, G);
    const int64_t blocks = ceil_div(n, kSide);
    const Workspace<float> sums(blocks * kSide * 2 * G, s);
    LC_LAUNCH(nw_bandwidth_kernel, grid_of(blocks), kNwBlock, 0, s, nll,
              NwGrid{Z, labels, gammas, n, d, G, sums.data()});
}

}  // namespace lc::LC_CUDA_NS

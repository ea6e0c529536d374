// local_error.cuh -- what the CUDA files of local_error.h share: weights of a tile, sums that run over all rows, and
// slices of queries that a bounded workspace can hold.  Tiles and threads are those of nw_smooth.cuh.
#pragma once
#include <cfloat>

#include "kernels/local_error.h"
#include "kernels/nw_smooth.cuh"
#include "kernels/progress.h"

namespace lc::LC_CUDA_NS {

constexpr int kNobody = -2;  // the bin of an entry that has no neighbours; no reference is in it

// ---- weights --------------------------------------------------------------------------------------------------------

// 1 / gamma, kept finite: a distance of 0 has the weight 1 whatever gamma is.
__device__ __forceinline__ float inverse_of(float gamma) { return fminf(1.0f / gamma, FLT_MAX); }

// exp(-D / (2 gamma^2)).  D is divided twice, because the square of a small gamma would underflow.
__device__ __forceinline__ float weight_of(float D, float inverse) { return expf(-0.5f * (D * inverse) * inverse); }

// tile (kSide, kPitch) = the weights of a tile of squared distances.  no_self: on the diagonal they are 0.
__device__ __forceinline__ void store_weights(float* tile, const NwCells& D, float inverse, bool no_self) {
    const int tx = int(threadIdx.x) % 16, ty = int(threadIdx.x) / 16;
    NwCells w;
#pragma unroll
    for (int u = 0; u < 4; ++u) {
#pragma unroll
        for (int v = 0; v < 4; ++v) {
            w.x[u][v] = no_self && 4 * tx + v == 4 * ty + u ? 0.0f : weight_of(D.x[u][v], inverse);
        }
    }
    store_cells(tile, w);
}

// ---- sums over all rows ---------------------------------------------------------------------------------------------

// A sum in two floats: `rest` is what `sum` has rounded off.  As good as double here, on GPUs that have hardly any.
// In memory the two are kSide floats apart, so that a warp reads and writes 32 neighbours.
struct LongSum {
    float sum, rest;

    __device__ __forceinline__ float value() const { return sum + rest; }
    __device__ __forceinline__ LongSum plus(float x) const {
        const float next = sum + x, added = next - sum;
        return {next, rest + ((sum - (next - added)) + (x - added))};
    }
};
__device__ __forceinline__ LongSum load_sum(const float* at) { return {at[0], at[kSide]}; }
__device__ __forceinline__ void store_sum(float* at, LongSum s) {
    at[0] = s.sum;
    at[kSide] = s.rest;
}

// What one walk over the rows leaves for a slice of queries.  Kinds, for every entry (i, c):
//     0  sum of w      1  sum of w r      2  sum of w^2      3  sum of w |phi_i - phi_j|_1
struct LocalSums {
    float* sums;  // (tiles, G, C, kinds, 2, kSide)
    int* own;     // (tiles, C, kSide): bins of the queries, turned round; kNobody where an entry is left out
};

struct LocalSlice {
    int64_t first, tiles;  // tiles of kSide queries
};

// Enqueues the walk of a slice.  kinds: 2, 3 or 4 (needs phi).
void local_error_sums(const LocalSums& out, const LocalError& in, int kinds, LocalSlice slice, Stream s);

// ---- slices ---------------------------------------------------------------------------------------------------------

constexpr int64_t kMostTiles = 2048;  // of a slice: enough blocks to fill any GPU, few enough to tell how far it is

inline int64_t tiles_of(int64_t n) { return ceil_div(n, kSide); }

// Tiles of a slice, where each needs so many bytes of workspace.
inline int64_t slice_tiles(int64_t n, int64_t bytes) {
    const int64_t most = tiles_of(n) < kMostTiles ? tiles_of(n) : kMostTiles, fit = kSliceBytes / bytes;
    return fit < 1 ? 1 : fit < most ? fit : most;
}

// Calls work(slice) for all tiles of queries, `tiles` at a time.  Whoever listens makes the host wait for each slice.
template <class Work>
void for_slices(int64_t n, int64_t tiles, const Progress& progress, Stream s, const Work& work) {
    const int64_t all = tiles_of(n);
    if (progress) progress(0, "local error");
    for (int64_t t = 0; t < all; t += tiles) {
        const LocalSlice slice = {t, all - t < tiles ? all - t : tiles};
        work(slice);
        if (!progress) continue;
        LC_CUDA_CHECK(cudaStreamSynchronize(static_cast<cudaStream_t>(s)));
        progress(double(slice.first + slice.tiles) / double(all), "local error");
    }
}

}  // namespace lc::LC_CUDA_NS

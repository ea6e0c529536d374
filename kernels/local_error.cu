// local_error.cu -- CUDA backend of local_error (contract: local_error.h; tiles and threads: nw_smooth.cuh).
//
// Idea     a block owns 64 queries and walks over all rows in tiles of 64.  A tile of squared distances stays in
//          registers, 4 x 4 per thread; for each bandwidth it becomes a tile of weights in shared memory, and then the
//          classes pass by, 16 at a time: residuals and bins of the 64 rows are staged, and thread (lane, group) adds
//          w, w r, ... of the rows that share the bin of its query, for 4 of the 16 classes.  A second kernel divides.
// All bins alike   the CPU treats the bin that holds almost everything as a matrix product and the others as
//          corrections.  Here a warp has one class and one row at a time, so that residual and bin are the same for all
//          lanes and the comparison is one instruction beside two: nothing to gain.
// Launch   walk: grid = tiles of a slice, block = 256.  finish: grid = (tiles, ceil(C / 64), G), block = 256.
//          Slices bound the workspace, see local_error.cuh; their borders do not show in the result.
// Edges    lanes past n are in no bin, and rows past n share none: neither is ever tested for.
// Shared   walk: 30 KiB: two slices of 16 features (one is lent to the residuals), the weights, bins of 64 rows and 16
//          classes; with spread 17 KiB more, |phi_i - phi_j|_1 of the tile.  finish: 16 KiB, rows of 64 classes, an odd
//          pitch apart, so that lanes write down columns without a conflict.
// Traffic  per tile, bandwidth and entry (i, c) 32 B or more of sums are read and written in L2, for 64 x 3 or more
//          instructions, and 64 x 3 d / C of distances: bound by arithmetic; by memory where C is many hundreds, as the
//          sums of the blocks at work no longer fit L2.
// Numbers  float32, accurate expf (no weight is cut off: it is 0 where expf is); a tile is summed by itself, tiles in
//          two floats.
// Profile  `make sim-profile OP=local_error`
#include "kernels/local_error.cuh"
#include "kernels/local_error_common.h"

namespace lc::LC_CUDA_NS {

constexpr int kEach = kStep / kGroups;  // classes of a chunk per thread: group, group + kGroups, ...

// The bins of a block's queries, turned round; thread (lane, group) writes the classes that it will read.
__device__ __forceinline__ void turn_own_bins(int* own, int* slice, const LocalError& in, int64_t first) {
    const NwThread t = nw_thread();
    for (int64_t c = 0; c < in.C; c += kStep) {
        __syncthreads();  // the slice may still be read
        stage(slice, RowsOf<int>{in.bin, in.n}, first, in.C, c, kNobody);
        __syncthreads();
        for (int f = t.group; f < kStep && c + f < in.C; f += kGroups) {
            const int bin = slice[f * kPitch + t.lane];
            own[(c + f) * kSide + t.lane] = bin < 0 ? kNobody : bin;
        }
    }
}

struct Chunk {              // of classes, in shared memory but for `own`
    const float* weights;   // (kSide, kPitch)
    const float* apart;     // (kSide, kPitch): |phi_i - phi_j|_1, with four kinds
    const float* residual;  // (kStep, kPitch)
    const int* bins;        // (kStep, kPitch)
    const int* own;         // (classes, kSide)
    int classes, rows;      // up to kStep and kSide
};

// sums (classes, kKinds, 2, kSide) += the tile, for the classes of this thread; `fresh`: nothing was summed before.
template <int kKinds>
__device__ __forceinline__ void add_classes(float* sums, const Chunk& chunk, bool fresh) {
    const NwThread t = nw_thread();
    float sum[kEach][kKinds] = {};
    int own[kEach] = {};
#pragma unroll
    for (int u = 0; u < kEach; ++u) {
        const int f = kGroups * u + t.group;
        if (f < chunk.classes) own[u] = chunk.own[f * kSide + t.lane];
    }
    for (int r = 0; r < chunk.rows; r += 4) {
        float w[4], apart[4] = {};
#pragma unroll
        for (int k = 0; k < 4; ++k) {
            w[k] = chunk.weights[(r + k) * kPitch + t.lane];
            if (kKinds > 3) apart[k] = chunk.apart[(r + k) * kPitch + t.lane];
        }
#pragma unroll
        for (int u = 0; u < kEach; ++u) {
            const int f = kGroups * u + t.group;
            if (f >= chunk.classes) break;
            const float4 r4 = ld4(chunk.residual + f * kPitch + r);
            const int4 b4 = ld4(chunk.bins + f * kPitch + r);
            const float residual[4] = {r4.x, r4.y, r4.z, r4.w};
            const int bin[4] = {b4.x, b4.y, b4.z, b4.w};
#pragma unroll
            for (int k = 0; k < 4; ++k) {
                if (bin[k] != own[u]) continue;
                sum[u][0] += w[k];
                sum[u][1] += w[k] * residual[k];
                if constexpr (kKinds > 2) sum[u][2] += w[k] * w[k];
                if constexpr (kKinds > 3) sum[u][3] += w[k] * apart[k];
            }
        }
    }
#pragma unroll
    for (int u = 0; u < kEach; ++u) {
        const int f = kGroups * u + t.group;
        if (f >= chunk.classes) continue;
#pragma unroll
        for (int kind = 0; kind < kKinds; ++kind) {
            float* const at = sums + (f * kKinds + kind) * 2 * kSide + t.lane;
            store_sum(at, fresh ? LongSum{sum[u][kind], 0.0f} : load_sum(at).plus(sum[u][kind]));
        }
    }
}

template <int kKinds>
__global__ void __launch_bounds__(kNwBlock, 3) local_error_kernel(LocalSums out, LocalError in, int64_t first_tile) {
    LC_NW_SHARED(s);
    LC_SHARED(int, bins, [kStep * kPitch]);
    LC_SHARED(float, apart, [kKinds > 3 ? kSide * kPitch : 1]);
    const int64_t first = (first_tile + blockIdx.x) * kSide;
    const NwRows Z = {in.Z, in.n}, phi = {in.phi, in.n}, residual = {in.residual, in.n};
    int* const own = out.own + blockIdx.x * in.C * kSide;
    float* const sums = out.sums + blockIdx.x * in.G * in.C * (kKinds * 2 * kSide);
    turn_own_bins(own, bins, in, first);
    for (int64_t j = 0; j < in.n; j += kSide) {
        if constexpr (kKinds > 3) store_cells(apart, distances<MagnitudeOf>(s, phi, first, phi, j, in.m));
        const NwCells D = distances<SquareOf>(s, Z, first, Z, j, in.d);
        for (int64_t g = 0; g < in.G; ++g) {
            for (int64_t c = 0; c < in.C; c += kStep) {
                __syncthreads();  // the weights and the chunk before may still be read
                if (c == 0) store_weights(s.D, D, inverse_of(in.gammas[g]), !in.include_self && j == first);
                stage(s.walked, residual, j, in.C, c);
                stage(bins, RowsOf<int>{in.bin, in.n}, j, in.C, c, -1);
                __syncthreads();
                const int classes = in.C - c < kStep ? int(in.C - c) : kStep;
                const Chunk chunk = {s.D, apart, s.walked, bins, own + c * kSide, classes, tile_rows(in.n, j)};
                add_classes<kKinds>(sums + (g * in.C + c) * (kKinds * 2 * kSide), chunk, j == 0);
            }
        }
    }
}

// ---- from sums to results -------------------------------------------------------------------------------------------

enum class Result { error, weight, n_eff, spread };

template <Result kResult>
__device__ __forceinline__ float result_of(const float* sums) {
    constexpr int kKind[] = {1, 0, 2, 3};  // beside the weight
    const float weight = load_sum(sums).value();
    const float sum = load_sum(sums + kKind[int(kResult)] * 2 * kSide).value();
    const float result = kResult == Result::weight  ? weight
                         : kResult == Result::n_eff ? weight / sum * weight
                                                    : sum / weight;
    return weight < kLeastWeight ? 0.0f : result;  // a NaN stays
}

// The rows of one result, classes c .. c + kSide, through shared memory.
template <Result kResult>
__device__ __forceinline__ void store_result(float* out, float* turned, const float* sums, const LocalError& in,
                                             int kinds, int64_t first, int64_t c) {
    if (out == nullptr) return;
    const NwThread t = nw_thread();
    const int classes = tile_rows(in.C, c), pitch = classes | 1;
    __syncthreads();  // the rows of the result before may still be read
    for (int f = t.group; f < classes; f += kGroups) {
        turned[t.lane * pitch + f] = result_of<kResult>(sums + f * kinds * 2 * kSide + t.lane);
    }
    __syncthreads();
    float* const rows = out + (blockIdx.z * in.n + first) * in.C + c;
    for (int e = int(threadIdx.x); e < tile_rows(in.n, first) * classes; e += kNwBlock) {
        rows[e / classes * in.C + e % classes] = turned[e / classes * pitch + e % classes];
    }
}

__global__ void __launch_bounds__(kNwBlock)
    local_error_finish_kernel(LocalErrorOutput out, LocalError in, const float* sums, int kinds, int64_t first_tile) {
    LC_SHARED(float, turned, [kSide * (kSide + 1)]);
    const int64_t first = (first_tile + blockIdx.x) * kSide, c = int64_t(blockIdx.y) * kSide;
    const float* const mine = sums + ((blockIdx.x * in.G + blockIdx.z) * in.C + c) * (kinds * 2 * kSide);
    store_result<Result::error>(out.error, turned, mine, in, kinds, first, c);
    store_result<Result::weight>(out.weight, turned, mine, in, kinds, first, c);
    store_result<Result::n_eff>(out.n_eff, turned, mine, in, kinds, first, c);
    store_result<Result::spread>(out.spread, turned, mine, in, kinds, first, c);
}

// ---- host -----------------------------------------------------------------------------------------------------------

void local_error_sums(const LocalSums& out, const LocalError& in, int kinds, LocalSlice slice, Stream s) {
    const dim3 grid = grid_of(slice.tiles);
    if (kinds == 2) LC_LAUNCH(local_error_kernel<2>, grid, kNwBlock, 0, s, out, in, slice.first);
    if (kinds == 3) LC_LAUNCH(local_error_kernel<3>, grid, kNwBlock, 0, s, out, in, slice.first);
    if (kinds == 4) LC_LAUNCH(local_error_kernel<4>, grid, kNwBlock, 0, s, out, in, slice.first);
}

void local_error(const LocalErrorOutput& out, const LocalError& in, const Progress& progress, Stream s) {
    check_local_error(out, in);
    const int kinds = out.spread != nullptr ? 4 : out.n_eff != nullptr ? 3 : 2;
    const int64_t own = in.C * kSide, sums = in.G * in.C * kinds * 2 * kSide;  // of a tile
    const int64_t tiles = slice_tiles(in.n, (own + sums) * int64_t(sizeof(float)));
    const Workspace<float> of_slice(tiles * sums, s);
    const Workspace<int> own_bins(tiles * own, s);
    for_slices(in.n, tiles, progress, s, [&](LocalSlice slice) {
        local_error_sums({of_slice.data(), own_bins.data()}, in, kinds, slice, s);
        const dim3 grid(unsigned(slice.tiles), unsigned(ceil_div(in.C, kSide)), unsigned(in.G));
        LC_LAUNCH(local_error_finish_kernel, grid, kNwBlock, 0, s, out, in, of_slice.data(), kinds, slice.first);
    });
}

}  // namespace lc::LC_CUDA_NS

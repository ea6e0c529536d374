// nw_smooth.cuh -- what the CUDA files of nw_smooth.h share: a tile of squared distances in shared memory.
//
//     a block owns kSide rows of one set (the owner: lanes) and walks over the other set in tiles of kSide rows
//
//                        owner   0 ............ 63
//        walked  j = 0   [ D_0,0  ....... D_0,63 ]      256 threads, twice:
//                j = 1   [ D_1,0  ....... D_1,63 ]        distances   thread (tx, ty) of 16 x 16 computes 4 x 4 of D
//                  :     [   :              :    ]                    in registers, from slices of kStep features
//                j = 63  [                       ]        all else    thread (lane, group) of 64 x 4 owns a column;
//                                                                     groups share out its rows j, classes c or
//                                                                     bandwidths g
//
// The sum of (q - r)^2 as it stands: no norms, nothing cancels.  Rows are kPitch floats apart: 16-byte aligned for
// float4, and a warp that reads or writes along a row touches 32 different banks.
#pragma once
#include "kernels/device.cuh"
#include "kernels/nw_smooth.h"

namespace lc::LC_CUDA_NS {

constexpr int kNwBlock = 256;
constexpr int kSide = 64;                       // rows of either set in a tile
constexpr int kGroups = kNwBlock / kSide;       // threads per owner row
constexpr int kStep = 16;                       // features staged at a time
constexpr int kPitch = kSide + 4;               // floats from row to row in shared memory
constexpr float kNwFloor = 1e-6f;               // form authors: added to the sum, and the least weight
constexpr float kNwFarthest = 3.402823466e38f;  // nobody seen yet; finite, so that exp(h (inf - it)) is 0
constexpr float kTrustedLog = -60.0f;  // below it, ln theta of soft labels may have lost neighbours to underflow

template <class T>
struct RowsOf {
    const T* x;  // (count, d)
    int64_t count;
};
using NwRows = RowsOf<float>;  // one of the two sets

// The columns k .. k + kStep of rows first .. first + kSide, turned round: slice[column][row].  Columns f and f + 8 lie
// in the same banks, so a store takes two passes: one pass in twenty of all, and cheaper than the registers for more.
template <class T>
__device__ __forceinline__ void stage(T* slice, RowsOf<T> rows, int64_t first, int64_t d, int64_t k, T outside = T(0)) {
    for (int e = int(threadIdx.x); e < kSide * kStep; e += kNwBlock) {
        const int r = e / kStep, f = e % kStep;
        const bool inside = first + r < rows.count && k + f < d;
        slice[f * kPitch + r] = inside ? rows.x[(first + r) * d + k + f] : outside;
    }
}

struct SquareOf {
    __device__ static float term(float difference) { return difference * difference; }
};
struct MagnitudeOf {
    __device__ static float term(float difference) { return fabsf(difference); }
};

// acc += the terms of four owners and four walked rows.
template <class Term>
__device__ __forceinline__ void add_terms(float (&acc)[4][4], float4 own, float4 walked) {
    const float a[4] = {own.x, own.y, own.z, own.w}, b[4] = {walked.x, walked.y, walked.z, walked.w};
#pragma unroll
    for (int u = 0; u < 4; ++u) {
#pragma unroll
        for (int v = 0; v < 4; ++v) acc[u][v] += Term::term(a[v] - b[u]);
    }
}

struct NwShared {   // of a block
    float* owner;   // (kStep, kPitch)
    float* walked;  // (kStep, kPitch)
    float* D;       // (kSide, kPitch): D[walked row][owner row]
};
#define LC_NW_SHARED(name)                             \
    LC_SHARED(float, name##_owner, [kStep * kPitch]);  \
    LC_SHARED(float, name##_walked, [kStep * kPitch]); \
    LC_SHARED(float, name##_D, [kSide * kPitch]);      \
    const NwShared name = {name##_owner, name##_walked, name##_D}

// The 4 x 4 cells of a tile that thread (tx, ty) has in registers: owner rows 4 tx .., walked rows 4 ty ...
struct NwCells {
    float x[4][4];
};

// Sums of terms over all features, in registers.  All threads of the block call.
template <class Term>
__device__ __forceinline__ NwCells distances(const NwShared& s, NwRows owner, int64_t o, NwRows walked, int64_t w,
                                             int64_t d) {
    const int tx = int(threadIdx.x) % 16, ty = int(threadIdx.x) / 16;
    NwCells acc = {};
    for (int64_t k = 0; k < d; k += kStep) {
        __syncthreads();  // the slices and D may still be read
        stage(s.owner, owner, o, d, k);
        stage(s.walked, walked, w, d, k);
        __syncthreads();
#pragma unroll
        for (int f = 0; f < kStep; ++f) {
            add_terms<Term>(acc.x, ld4(s.owner + f * kPitch + 4 * tx), ld4(s.walked + f * kPitch + 4 * ty));
        }
    }
    return acc;
}

__device__ __forceinline__ void store_cells(float* tile, const NwCells& cells) {
    const int tx = int(threadIdx.x) % 16, ty = int(threadIdx.x) / 16;
#pragma unroll
    for (int u = 0; u < 4; ++u) {
        const float(&x)[4] = cells.x[u];
        st4(tile + (4 * ty + u) * kPitch + 4 * tx, make_float4(x[0], x[1], x[2], x[3]));
    }
}

// Fills D.  All threads of the block call; afterwards D may be read by all.
__device__ __forceinline__ void distance_tile(const NwShared& s, NwRows owner, int64_t o, NwRows walked, int64_t w,
                                              int64_t d) {
    store_cells(s.D, distances<SquareOf>(s, owner, o, walked, w, d));
    __syncthreads();
}

// The column of this thread and its share of everything that is shared out.
struct NwThread {
    int lane, group;
};
__device__ __forceinline__ NwThread nw_thread() { return {int(threadIdx.x) % kSide, int(threadIdx.x) / kSide}; }

__device__ __forceinline__ int tile_rows(int64_t count, int64_t first) {
    return count - first < kSide ? int(count - first) : kSide;
}

// Joins the values of the kGroups threads of a column, in their order; all of them get the result.  All threads call.
template <class Op>
__device__ __forceinline__ float join_groups(float v) {
    LC_SHARED(float, of_group, [kGroups][kSide]);
    const NwThread t = nw_thread();
    __syncthreads();  // an earlier join may still be reading
    of_group[t.group][t.lane] = v;
    __syncthreads();
    v = of_group[0][t.lane];
    for (int g = 1; g < kGroups; ++g) v = Op::join(v, of_group[g][t.lane]);
    return v;
}
struct MinOf {
    __device__ static float join(float a, float b) { return b < a ? b : a; }
};

__device__ __forceinline__ float gamma_of(const NwSmooth& in, int64_t i) { return in.gamma[in.gamma_per_row ? i : 0]; }
__device__ __forceinline__ float exponent_of(float gamma) { return -0.5f / (gamma * gamma); }  // h: s = h D

}  // namespace lc::LC_CUDA_NS

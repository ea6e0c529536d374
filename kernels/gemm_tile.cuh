// gemm_tile.cuh -- the product of two tiles in shared memory, as the matrix product and the convolution share it (picture and
// bank conflicts: gemm.cu).
//
//     a_s (kStep, kTile)  b_s (kStep, kTile), rows padded by kPad      sum += a_s^T b_s, each thread its 4 x 4 cells of the tile
#pragma once
#include "kernels/device.cuh"

namespace lc::LC_CUDA_NS {

constexpr int kStep = 8;  // k per pair of tiles
constexpr int kPad = 4;   // floats behind each row of a shared tile
constexpr int kCell = 4;  // the tile is owned in cells of 4 x 4

// Which elements of the tile of C a thread owns: cells at row + i * kRowHop, column + j * kColHop.
template <int kTile>
struct GemmPlace {
    static constexpr int kRowHop = 64, kColHop = kTile / 2;
    static constexpr int kRowCells = kTile / kRowHop, kColCells = 2;
    static constexpr int kRows = kRowCells * kCell, kCols = kColCells * kCell;  // elements per thread
    int row, column;
    __device__ GemmPlace() {
        constexpr int kWarpsWide = kTile / 64;
        const int warp = int(threadIdx.x) / kWarp, lane = int(threadIdx.x) % kWarp;
        row = (warp / kWarpsWide * 4 + lane / 8) * kCell;
        column = (warp % kWarpsWide * 8 + lane % 8) * kCell;
    }
};

template <int kCells>
__device__ __forceinline__ void load_cells(float (&v)[kCells * kCell], const float* from, int hop) {
#pragma unroll
    for (int i = 0; i < kCells; ++i) {
        const float4 q = ld4(from + i * hop);
        v[i * 4] = q.x, v[i * 4 + 1] = q.y, v[i * 4 + 2] = q.z, v[i * 4 + 3] = q.w;
    }
}

template <int kTile, class P = GemmPlace<kTile>>
__device__ __forceinline__ void multiply_tiles(float (&sum)[P::kRows][P::kCols],
                                               const float (&a_s)[kStep][kTile + kPad],
                                               const float (&b_s)[kStep][kTile + kPad], P at) {
#pragma unroll
    for (int k = 0; k < kStep; ++k) {
        float a[P::kRows], b[P::kCols];
        load_cells<P::kRowCells>(a, &a_s[k][at.row], P::kRowHop);
        load_cells<P::kColCells>(b, &b_s[k][at.column], P::kColHop);
#pragma unroll
        for (int i = 0; i < P::kRows; ++i) {
#pragma unroll
            for (int j = 0; j < P::kCols; ++j) sum[i][j] += a[i] * b[j];  // nvcc fuses the two
        }
    }
}

}  // namespace lc::LC_CUDA_NS

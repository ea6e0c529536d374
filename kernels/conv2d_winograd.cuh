// conv2d_winograd.cuh -- engines winograd2 and winograd4 of conv2d.cu: F(m x m, 3 x 3) for m = 2, 4 (contract: conv2d.h).
//
// Idea     m x m outputs of a 3 x 3 filter need (m + 2)^2 products instead of 9 m^2, once inputs and filters are
//          transformed (Lavin and Gray 2015).  Products of one position of all tiles and all channels are a matrix product,
//          so the whole is three steps per slice of tiles:
//
//             x  +-----+   B^T d B     V (positions, tiles, C)                M (positions, tiles, K)    A^T M A   y +---+
//                | m+2 |  --------->   ---------------------  x U (.., C, K) = ----------------------   -------->    | m |
//                +-----+               one matrix per position     gemm.cu                               + epilogue  +---+
//
//          Tiles overlap by 2 pixels of x.  bwd_data is the same with C and K exchanged and filters turned round.
// Launch   a thread per tile and channel, block = 256; neighbouring threads have neighbouring channels.
// Traffic  per slice, from x and back to y: V and M once each way, 8 (m + 2)^2 / m^2 B per pixel and channel of x and of y:
//          32 B (m = 2), 18 B (m = 4).  x is read (m + 2)^2 / m^2 times, from L2 but for the first.
// Memory   V and M of a slice: kSliceBytes at most, but 64 tiles at least, or the blocks of gemm.cu would be half empty.
// Numbers  float32.  Sums over c as in gemm.cu, so slices and N change no bit.  The constants of m = 4 reach 8 and 1/24,
//          which costs the digits that the contract names.
#pragma once
#include <algorithm>

#include "kernels/conv2d.cuh"
#include "kernels/gemm.h"

namespace lc::LC_CUDA_NS {

constexpr int kWinogradBlock = 256;

// ---- one axis of the transforms -------------------------------------------------------------------------------------

template <int m>
struct Winograd;

template <>
struct Winograd<2> {  // points 0, 1, -1, infinity
    __device__ static void input(float (&d)[4]) {
        const float d1 = d[1];
        d[0] -= d[2], d[1] += d[2], d[2] -= d1, d[3] = d1 - d[3];
    }
    __device__ static void filter(float (&u)[4], const float (&g)[3]) {
        const float even = 0.5f * (g[0] + g[2]), odd = 0.5f * g[1];
        u[0] = g[0], u[1] = even + odd, u[2] = even - odd, u[3] = g[2];
    }
    __device__ static void output(float (&y)[2], const float (&v)[4]) {
        y[0] = v[0] + v[1] + v[2], y[1] = v[1] - v[2] - v[3];
    }
};

template <>
struct Winograd<4> {  // points 0, 1, -1, 2, -2, infinity
    __device__ static void input(float (&d)[6]) {
        const float near_even = d[4] - 4.0f * d[2], near_odd = d[3] - 4.0f * d[1];
        const float far_even = d[4] - d[2], far_odd = 2.0f * (d[3] - d[1]);
        d[0] = 4.0f * d[0] - 5.0f * d[2] + d[4];
        d[5] = 4.0f * d[1] - 5.0f * d[3] + d[5];
        d[1] = near_even + near_odd, d[2] = near_even - near_odd;
        d[3] = far_even + far_odd, d[4] = far_even - far_odd;
    }
    __device__ static void filter(float (&u)[6], const float (&g)[3]) {
        const float near_even = -(g[0] + g[2]) / 6.0f, near_odd = -g[1] / 6.0f;
        const float far_even = (g[0] + 4.0f * g[2]) / 24.0f, far_odd = g[1] / 12.0f;
        u[0] = 0.25f * g[0], u[5] = g[2];
        u[1] = near_even + near_odd, u[2] = near_even - near_odd;
        u[3] = far_even + far_odd, u[4] = far_even - far_odd;
    }
    __device__ static void output(float (&y)[4], const float (&v)[6]) {
        const float near_even = v[1] + v[2], near_odd = v[1] - v[2];
        const float far_even = v[3] + v[4], far_odd = v[3] - v[4];
        y[0] = v[0] + near_even + far_even, y[1] = near_odd + 2.0f * far_odd;
        y[2] = near_even + 4.0f * far_even, y[3] = near_odd + 8.0f * far_odd + v[5];
    }
};

// ---- kernels --------------------------------------------------------------------------------------------------------

struct WinogradTask {
    const float* x;  // (N, H, W, C)
    ConvOutput y;    // (N, P, Q, K)
    int64_t N;
    int H, W, C, P, Q, pad;
    int tile_rows = 0, tile_columns = 0;  // of an image
    // The slice of tiles in work: its first tile is the tile `skip` of image `image`.
    int64_t image = 0;
    int skip = 0, tiles = 0;
};

// A thread's tile and channel, of `channels`.
struct WinogradPlace {
    int64_t n;
    int row, column, channel;  // row, column: of tiles
    int64_t element, elements;
    __device__ WinogradPlace(const WinogradTask& g, int channels) {
        element = int64_t(blockIdx.x) * kWinogradBlock + threadIdx.x;
        elements = int64_t(g.tiles) * channels;
        channel = int(unsigned(element) % unsigned(channels));
        const unsigned tile = g.skip + unsigned(element) / unsigned(channels), in_row = g.tile_columns;
        const unsigned in_image = g.tile_rows * in_row;
        n = g.image + tile / in_image;
        row = int(tile % in_image / in_row), column = int(tile % in_image % in_row);
    }
    __device__ bool exists() const { return element < elements; }
};

// U (positions, elements) = G g G^T of the filters w (3, 3, elements).
template <int m>
__global__ void __launch_bounds__(kWinogradBlock) winograd_filter_kernel(float* U, const float* w, int64_t elements) {
    constexpr int kSide = m + 2;
    const int64_t e = int64_t(blockIdx.x) * kWinogradBlock + threadIdx.x;
    if (e >= elements) return;
    float half[3][kSide];  // transposed
#pragma unroll
    for (int j = 0; j < 3; ++j) {
        const float g[3] = {w[j * elements + e], w[(3 + j) * elements + e], w[(6 + j) * elements + e]};
        Winograd<m>::filter(half[j], g);
    }
#pragma unroll
    for (int i = 0; i < kSide; ++i) {
        const float g[3] = {half[0][i], half[1][i], half[2][i]};
        float u[kSide];
        Winograd<m>::filter(u, g);
#pragma unroll
        for (int j = 0; j < kSide; ++j) U[(i * kSide + j) * elements + e] = u[j];
    }
}

// V (positions, tiles, C) = B^T d B.
template <int m>
__global__ void __launch_bounds__(kWinogradBlock) winograd_input_kernel(float* V, WinogradTask g) {
    constexpr int kSide = m + 2;
    const WinogradPlace at(g, g.C);
    if (!at.exists()) return;
    const int h = at.row * m - g.pad, w = at.column * m - g.pad;
    const float* const x = g.x + ((at.n * g.H + h) * g.W + w) * g.C + at.channel;
    float d[kSide][kSide];  // transposed
#pragma unroll
    for (int j = 0; j < kSide; ++j) {
        const bool in_row = unsigned(w + j) < unsigned(g.W);
#pragma unroll
        for (int i = 0; i < kSide; ++i) {
            const bool inside = in_row && unsigned(h + i) < unsigned(g.H);
            d[j][i] = inside ? x[(int64_t(i) * g.W + j) * g.C] : 0.0f;
        }
        Winograd<m>::input(d[j]);
    }
#pragma unroll
    for (int i = 0; i < kSide; ++i) {
        float v[kSide];
#pragma unroll
        for (int j = 0; j < kSide; ++j) v[j] = d[j][i];
        Winograd<m>::input(v);
#pragma unroll
        for (int j = 0; j < kSide; ++j) V[(i * kSide + j) * at.elements + at.element] = v[j];
    }
}

// y = A^T M A, and the epilogue.  M (positions, tiles, K)
template <int m>
__global__ void __launch_bounds__(kWinogradBlock) winograd_output_kernel(const float* M, WinogradTask g) {
    constexpr int kSide = m + 2;
    const WinogradPlace at(g, g.y.columns);
    if (!at.exists()) return;
    float half[kSide][m];  // half[j] = A^T of column j
#pragma unroll
    for (int j = 0; j < kSide; ++j) {
        float v[kSide];
#pragma unroll
        for (int i = 0; i < kSide; ++i) v[i] = M[(i * kSide + j) * at.elements + at.element];
        Winograd<m>::output(half[j], v);
    }
    const float bias = g.y.bias != nullptr ? g.y.bias[at.channel] : 0.0f;
    const int p = at.row * m, q = at.column * m;
    const int64_t first = ((at.n * g.P + p) * g.Q + q) * g.y.columns + at.channel;
#pragma unroll
    for (int i = 0; i < m; ++i) {
        if (p + i >= g.P) break;
        float v[kSide], y[m];
#pragma unroll
        for (int j = 0; j < kSide; ++j) v[j] = half[j][i];
        Winograd<m>::output(y, v);
#pragma unroll
        for (int j = 0; j < m; ++j) {
            if (q + j < g.Q) store_one(g.y, first + (int64_t(i) * g.Q + j) * g.y.columns, y[j] + bias);
        }
    }
}

// ---- launchers ------------------------------------------------------------------------------------------------------

template <int m>
void winograd_prepare(float* U, const float* w, int64_t count, Stream s) {
    LC_LAUNCH(winograd_filter_kernel<m>, grid_of(ceil_div(count, kWinogradBlock)), kWinogradBlock, 0, s, U, w, count);
}

template <int m>
void winograd(WinogradTask g, const float* U, Stream s) {
    constexpr int64_t kPositions = (m + 2) * (m + 2);
    const int64_t C = g.C, K = g.y.columns;
    g.tile_rows = int(ceil_div(g.P, m)), g.tile_columns = int(ceil_div(g.Q, m));
    const int64_t in_image = int64_t(g.tile_rows) * g.tile_columns, all = g.N * in_image;
    const int64_t most = std::max<int64_t>(64, kSliceBytes / (4 * kPositions * (C + K)));
    const int64_t slice = ceil_div(all, ceil_div(all, most));  // all slices alike, but for the last
    Workspace<float> V(kPositions * slice * C, s), M(kPositions * slice * K, s);
    for (int64_t first = 0; first < all; first += slice) {
        g.image = first / in_image, g.skip = int(first % in_image), g.tiles = int(std::min(slice, all - first));
        const dim3 in_grid = grid_of(ceil_div(g.tiles * C, kWinogradBlock));
        const dim3 out_grid = grid_of(ceil_div(g.tiles * K, kWinogradBlock));
        LC_LAUNCH(winograd_input_kernel<m>, in_grid, kWinogradBlock, 0, s, V.data(), g);
        gemm(M.data(), V.data(), U,
             {.M = g.tiles,
              .N = K,
              .K = C,
              .batch = kPositions,
              .stride_a = g.tiles * C,
              .stride_b = C * K,
              .stride_c = g.tiles * K},
             s);
        LC_LAUNCH(winograd_output_kernel<m>, out_grid, kWinogradBlock, 0, s, M.data(), g);
    }
}

}  // namespace lc::LC_CUDA_NS

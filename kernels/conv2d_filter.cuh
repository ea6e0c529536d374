// conv2d_filter.cuh -- bwd_filter of conv2d.cu: the way from global to shared memory.  Rows (r, s, c) of dw stay, and
// pixels (n, p, q) go by, eight a step: a thread keeps its tap, and counts q, p and the image on without a division.
#pragma once
#include "kernels/conv2d.cuh"
#include "kernels/gemm_tile.cuh"

namespace lc::LC_CUDA_NS {

struct ConvFilterTask {
    const float* x;   // (N, H, W, C)
    const float* dy;  // (N, P, Q, K)
    ConvOutput out;   // (slices, R, S, C, K), or dw where there is one slice
    int64_t pixels;   // N P Q
    int H, W, C, P, Q, S, stride, pad;
    int rows;  // R S C
    // From load to load: how far q u and p u move, and x; what x adds where a row of pixels or an image ends.
    int q_hop = 0, p_hop = 0;
    int64_t x_hop = 0, x_row = 0, x_image = 0;
    unsigned column_tiles = 0;
    int slice = 0;  // pixels of a slice
};

// Where a block of it works.
struct ConvFilterPlace {
    int row, column;
    int64_t first;  // pixel of the slice
    int pixels;
    __device__ ConvFilterPlace(const ConvFilterTask& g, int tile) {
        row = int(blockIdx.x / g.column_tiles) * tile, column = int(blockIdx.x % g.column_tiles) * tile;
        first = int64_t(blockIdx.y) * g.slice;
        pixels = int(min(g.pixels - first, int64_t(g.slice)));
    }
};

// Row and column of a thread are four neighbours at one pixel of the step, or (unaligned) one at four pixels.
template <int kTile, bool kFour>
struct FilterLoader {
    static constexpr int kPitch = kTile + kPad;
    static constexpr int kWide = kFour ? kTile / 4 : kTile;  // threads side by side
    static constexpr int kHop = 2 * kTile / kWide;           // pixels from load to load
    const float* x;                                          // this thread's first element at its next pixel
    const float* dy;
    int p, q;             // the pixel, times the stride
    int r, s;             // the tap of this thread's row, less pad
    int x_left, dy_left;  // pixels of the slice from this thread's next one on; none where rows or columns end
    float a[4], b[4];

    __device__ FilterLoader(const ConvFilterTask& g, const ConvFilterPlace& at) {
        const int row = at.row + outer(), column = at.column + outer(), tap = row / g.C;
        r = tap / g.S - g.pad, s = tap % g.S - g.pad;
        const ConvPixel pixel(at.first, k(), g.P, g.Q);
        p = pixel.i * g.stride, q = pixel.j * g.stride;
        x = g.x + ((pixel.n * g.H + p + r) * g.W + q + s) * g.C + row % g.C;
        dy = g.dy + (at.first + k()) * g.out.columns + column;
        x_left = row < g.rows ? at.pixels - k() : 0;
        dy_left = column < g.out.columns ? at.pixels - k() : 0;
    }
    __device__ static int outer() { return int(threadIdx.x) % kWide * (kFour ? 4 : 1); }
    __device__ static int k() { return int(threadIdx.x) / kWide; }

    __device__ __forceinline__ void load(const ConvFilterTask& g, const ConvFilterPlace&) {
        if (kFour) {
            float4 u = make_float4(0.0f, 0.0f, 0.0f, 0.0f), v = u;
            if (reads_x(g)) u = ld4(x);
            if (dy_left > 0) v = ld4(dy);
            a[0] = u.x, a[1] = u.y, a[2] = u.z, a[3] = u.w;
            b[0] = v.x, b[1] = v.y, b[2] = v.z, b[3] = v.w;
            next_pixel(g);
        } else {
#pragma unroll
            for (int e = 0; e < 4; ++e) {
                a[e] = reads_x(g) ? *x : 0.0f;
                b[e] = dy_left > 0 ? *dy : 0.0f;
                next_pixel(g);
            }
        }
    }
    __device__ __forceinline__ bool reads_x(const ConvFilterTask& g) const {
        return x_left > 0 && unsigned(p + r) < unsigned(g.H) && unsigned(q + s) < unsigned(g.W);
    }

    __device__ __forceinline__ void next_pixel(const ConvFilterTask& g) {
        dy += int64_t(kHop) * g.out.columns;
        x_left -= kHop, dy_left -= kHop;
        x += g.x_hop, q += g.q_hop, p += g.p_hop;
        if (q >= g.Q * g.stride) q -= g.Q * g.stride, p += g.stride, x += g.x_row;
        if (p >= g.P * g.stride) p -= g.P * g.stride, x += g.x_image;
    }

    __device__ __forceinline__ void store(float (&a_s)[kStep][kPitch], float (&b_s)[kStep][kPitch]) const {
        if (kFour) {
            st4(&a_s[k()][outer()], make_float4(a[0], a[1], a[2], a[3]));
            st4(&b_s[k()][outer()], make_float4(b[0], b[1], b[2], b[3]));
        } else {
#pragma unroll
            for (int e = 0; e < 4; ++e) {
                a_s[k() + e * kHop][outer()] = a[e];
                b_s[k() + e * kHop][outer()] = b[e];
            }
        }
    }
};

}  // namespace lc::LC_CUDA_NS

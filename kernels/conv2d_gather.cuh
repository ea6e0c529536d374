// conv2d_gather.cuh -- forward and bwd_data of conv2d.cu: where pixels and taps lie, and the way from global to shared
// memory.  Both gather a row of the left operand from an image, pixel by pixel under the taps of a filter.
//
//     bwd_data, stride 2, filter 3 x 3, pad 1, one axis:        forward, 3 x 3, pad 1: a row and its walk
//       h  0 1 2 3 4 5      a = 0: h = 0 2 4 from r = 1          x  0 0 0 . . .     tap (0,0)    c 0..7, 8..15, ...
//       r  1 2 1 2 1 2      a = 1: h = 1 3 5 from r = 0, 2          0[a b]c . .         (0,1)    c 0..7, 8..15, ...
//            0   0   0                                              0[d e]f . .          ...     taps past an edge
//       (h - r + pad is even)                                                           (2,2)    of x stage zeros
//
// Pixels of dx whose places agree modulo the stride are a class: they read the same taps, so they share the filters' rows
// of a tile.  bwd_data is a convolution of stride 1 per class, on taps that conv2d_prepare put in its order.
#pragma once
#include "kernels/conv2d.cuh"
#include "kernels/gemm_tile.cuh"

namespace lc::LC_CUDA_NS {

// ---- geometry -------------------------------------------------------------------------------------------------------

// The taps rest, rest + hop, rest + 2 hop ... of `all` taps along an axis.
struct TapClass {
    int taps;
    int before;  // taps of the classes before this one
};
__device__ __forceinline__ TapClass tap_class(int all, int hop, int rest) {
    return {(all - rest + hop - 1) / hop, all / hop * rest + min(all % hop, rest)};
}

// One axis of a convolution that writes images of `out` pixels from images of `in`.  forward: hop = 1, shift =
// taps - 1 - pad.  bwd_data: hop = the stride, shift = pad.
struct ConvAxis {
    int out, in, taps, shift;
};
// The pixels a, a + hop, a + 2 hop ... of an axis.  Pixel i of them reads the places i step + origin and the following
// ones of the input, one for each tap r with r % hop = (a + shift) % hop.
struct ConvClass {
    int pixels, taps, origin;
    int before;  // taps of the classes that stand before this one in prepared filters
};
__device__ __forceinline__ ConvClass conv_class(const ConvAxis& x, int hop, int a) {
    const TapClass t = tap_class(x.taps, hop, (a + x.shift) % hop);
    return {(x.out - a + hop - 1) / hop, t.taps, (a + x.shift) / hop - (t.taps - 1), t.before};
}

struct ConvTask {
    const float* in;       // (N, y.in, x.in, depth)
    const float* filters;  // (taps, depth, columns) of every class
    ConvOutput out;        // (N, y.out, x.out, columns)
    int64_t N;
    ConvAxis y, x;
    int hop, step, depth;
    unsigned row_tiles = 0, column_tiles = 0, x_classes = 0;
};

// Where a block of a ConvTask works.
struct ConvPlace {
    int64_t first;  // the tile's first row, among those of its class
    ConvClass y, x;
    int a, b;           // the class
    int column;         // the tile's first column
    int rows, columns;  // of the tile that exist
    __device__ ConvPixel pixel(int row) const { return {first, row, y.pixels, x.pixels}; }
    __device__ const float* filters(const ConvTask& g) const {
        const int64_t taps = int64_t(y.before) * g.x.taps + int64_t(y.taps) * x.before;
        return g.filters + taps * g.depth * g.out.columns;
    }
};
__device__ __forceinline__ ConvPlace conv_place(const ConvTask& g, int tile) {
    const unsigned row_tile = blockIdx.x / g.column_tiles, of_class = row_tile / g.row_tiles;
    ConvPlace p;
    p.first = int64_t(row_tile % g.row_tiles) * tile;
    p.a = int(of_class / g.x_classes), p.b = int(of_class % g.x_classes);
    p.y = conv_class(g.y, g.hop, p.a), p.x = conv_class(g.x, g.hop, p.b);
    p.column = int(blockIdx.x % g.column_tiles) * tile;
    p.rows = int(min(g.N * p.y.pixels * p.x.pixels - p.first, int64_t(tile)));
    p.columns = min(g.out.columns - p.column, tile);
    return p;
}

// ---- from global to shared memory -----------------------------------------------------------------------------------

// A thread's share of the tiles of both operands: four elements of each per step, which wait in registers between
// load() and store().  Rows are two threads wide as in gemm.cu; the walk over taps and channels is the same for all
// threads, so that it costs few registers, and a tap ends with a step of its own.
template <int kTile>
struct GatherFour {
    static constexpr int kPitch = kTile + kPad;
    static constexpr int kNever = 1 << 30;  // a k that no step reaches
    const float* in;                        // this thread's first element to be loaded next
    const float* filters;
    int h, w;          // the place in the image that the tap reads, for this thread's row
    int b_k, b_slot;   // this thread's filters: place along the depth, and in a shared tile
    int s, rows_left;  // taps that were walked in this row of the filter, and rows that are left
    int left;          // channels of the tap that are left; 0 at the end
    float a[4], b[4];

    __device__ GatherFour(const ConvTask& g, const ConvPlace& at) {
        const int row = a_row();
        const ConvPixel p = at.pixel(row);
        h = p.i * g.step + at.y.origin, w = p.j * g.step + at.x.origin;
        in = g.in + ((p.n * g.y.in + h) * g.x.in + w) * g.depth + a_k();
        if (row >= at.rows) h = kOutside;
        const int column = int(threadIdx.x) % (kTile / 4) * 4;
        b_k = int(threadIdx.x) / (kTile / 4), b_slot = b_k * kPitch + column;
        filters = at.filters(g) + int64_t(b_k) * g.out.columns + at.column + column;
        if (column >= at.columns) b_k = kNever;
        s = 0, rows_left = at.y.taps;
        left = at.y.taps * at.x.taps > 0 ? g.depth : 0;
    }
    __device__ static int a_row() { return int(threadIdx.x) / 2; }
    __device__ static int a_k() { return int(threadIdx.x) % 2 * 4; }

    __device__ static int steps(const ConvTask& g, const ConvPlace& at) {
        return at.y.taps * at.x.taps * ((g.depth + kStep - 1) / kStep);
    }

    __device__ __forceinline__ void load(const ConvTask& g, const ConvPlace& at) {
        const bool inside = unsigned(h) < unsigned(g.y.in) && unsigned(w) < unsigned(g.x.in);
        float4 q = make_float4(0.0f, 0.0f, 0.0f, 0.0f), f = q;
        if (inside && a_k() < left) q = ld4(in);
        if (b_k < left) f = ld4(filters);
        a[0] = q.x, a[1] = q.y, a[2] = q.z, a[3] = q.w;
        b[0] = f.x, b[1] = f.y, b[2] = f.z, b[3] = f.w;
        in += kStep, filters += int64_t(kStep) * g.out.columns, left -= kStep;
        if (left <= 0) next_tap(g, at);
    }

    __device__ __forceinline__ void next_tap(const ConvTask& g, const ConvPlace& at) {
        in += left, filters += int64_t(left) * g.out.columns;  // back to where the tap ended
        left = g.depth, ++s, ++w;
        if (s == at.x.taps) {
            in += int64_t(g.x.in - s) * g.depth;
            w -= s, s = 0, ++h, --rows_left;
            if (rows_left == 0) left = 0;
        }
    }

    __device__ __forceinline__ void store(float (&a_s)[kStep][kPitch], float (&b_s)[kStep][kPitch]) const {
#pragma unroll
        for (int e = 0; e < 4; ++e) a_s[a_k() + e][a_row()] = a[e];
        st4(&b_s[0][0] + b_slot, make_float4(b[0], b[1], b[2], b[3]));
    }
};

// Any number of channels and any alignment, float by float: the depth is one sequence of (r, s, c), of which a thread
// owns every eighth element, in four rows.
template <int kTile>
struct GatherAny {
    static constexpr int kPitch = kTile + kPad, kThreads = 2 * kTile;
    static constexpr int kRowHop = kThreads / kStep, kDepthHop = kThreads / kTile;
    const float* in[4];  // first channel of the pixel under the first tap, of four rows
    const float* filters;
    int h[4], w[4];           // the place in the image under the first tap
    int r, s, c;              // tap and channel of this thread
    int r_hop, s_hop, c_hop;  // what kStep elements further means
    int left;                 // of the depth, for the filters; less than 1 at the end
    float a[4], b[4];

    __device__ GatherAny(const ConvTask& g, const ConvPlace& at) {
#pragma unroll
        for (int e = 0; e < 4; ++e) {
            const int row = a_row() + e * kRowHop;
            const ConvPixel p = at.pixel(row);
            h[e] = p.i * g.step + at.y.origin, w[e] = p.j * g.step + at.x.origin;
            in[e] = g.in + ((p.n * g.y.in + h[e]) * g.x.in + w[e]) * g.depth;
            if (row >= at.rows) h[e] = kOutside;
        }
        const int wide = max(at.x.taps, 1);  // no taps, no steps: but nobody divides by 0
        c = a_k() % g.depth, s = a_k() / g.depth % wide, r = a_k() / g.depth / wide;
        c_hop = kStep % g.depth, s_hop = kStep / g.depth % wide, r_hop = kStep / g.depth / wide;
        filters = at.filters(g) + int64_t(b_k()) * g.out.columns + at.column + b_column();
        left = b_column() < at.columns ? at.y.taps * at.x.taps * g.depth - b_k() : 0;
    }
    __device__ static int a_row() { return int(threadIdx.x) / kStep; }
    __device__ static int a_k() { return int(threadIdx.x) % kStep; }
    __device__ static int b_column() { return int(threadIdx.x) % kTile; }
    __device__ static int b_k() { return int(threadIdx.x) / kTile; }

    __device__ static int steps(const ConvTask& g, const ConvPlace& at) {
        return (at.y.taps * at.x.taps * g.depth + kStep - 1) / kStep;
    }

    __device__ __forceinline__ void load(const ConvTask& g, const ConvPlace& at) {
        const int64_t tap = (int64_t(r) * g.x.in + s) * g.depth + c;
#pragma unroll
        for (int e = 0; e < 4; ++e) {
            const bool inside = unsigned(h[e] + r) < unsigned(g.y.in) && unsigned(w[e] + s) < unsigned(g.x.in);
            a[e] = inside && r < at.y.taps ? in[e][tap] : 0.0f;
            b[e] = e * kDepthHop < left ? filters[int64_t(e * kDepthHop) * g.out.columns] : 0.0f;
        }
        filters += int64_t(kStep) * g.out.columns, left -= kStep;
        c += c_hop, s += s_hop, r += r_hop;
        if (c >= g.depth) c -= g.depth, ++s;
        if (s >= at.x.taps) s -= at.x.taps, ++r;
    }

    __device__ __forceinline__ void store(float (&a_s)[kStep][kPitch], float (&b_s)[kStep][kPitch]) const {
#pragma unroll
        for (int e = 0; e < 4; ++e) {
            a_s[a_k()][a_row() + e * kRowHop] = a[e];
            b_s[b_k() + e * kDepthHop][b_column()] = b[e];
        }
    }
};

}  // namespace lc::LC_CUDA_NS

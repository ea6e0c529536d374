// conv2d.cu -- CUDA backend of conv2d (contract and formulas: conv2d.h; engines winograd: conv2d_winograd.cuh).
//
// Idea     an implicit matrix product on the tiles of gemm.cu (gemm_tile.cuh): a block owns a square tile of the result,
//          a thread 8 x 8 (4 x 8) elements of it, and walks along the depth in steps of 8 with two halves of shared
//          memory.  The left operand exists only as addresses: a pixel and a tap of the filter name a run of channels.
//
//            pass        rows of the tile            depth                          columns     right operand
//            forward     pixels (n, p, q) of y       taps (r, s), channels c of x   k           prepared (r, s, c, k)
//            bwd_data    pixels of one class of dx   taps of the class, k of dy     c           prepared (taps, k, c)
//            bwd_filter  (r, s, c) of dw             pixels (n, p, q)               k           dy (n, p, q, k)
//
//              a class: stride 2, filter 3 x 3, pad 1           a row and its walk: 3 x 3, pad 1, 8 channels a step
//              h  0 1 2 3 4 5      a = 0: dx rows 0 2 4          x  0 0 0 . . .       tap (0,0)    c 0..7, 8..15, ...
//              r  1 2 1 2 1 2             from tap r = 1            0[a b]c . .            (0,1)    c 0..7, 8..15, ...
//                   0   0   0      a = 1: dx rows 1 3 5             0[d e]f . .             ...     steps past an edge
//              (h - r + pad even)         from taps r = 0, 2                               (2,2)    of x stage zeros
//
//          Pixels of dx whose place agrees modulo the stride read the same taps, so they share the filters' rows of a
//          tile: bwd_data is a forward convolution of stride 1 per class, on taps that conv2d_prepare put in its order.
// Launch   tile 128: 256 threads; tile 64, for small results and for what is not aligned: 128 threads.  grid.x = tiles
//          (columns fastest: neighbours share their rows in L2) times classes; bwd_filter: grid.y = slices of the
//          pixels.  Threads past an edge stage zeros and reach every barrier.
// Shared   2 halves x 2 operands x 8 x (tile + 4) floats: 16.5 KiB (tile 128), 8.5 KiB (tile 64); barriers and banks as in
//          gemm.cu.  prepare: a transposed tile, 4.1 KiB.
// Traffic  compulsory 4 (|x| + |w| + |y|) B.  Scheduled as in gemm.cu: 32 flop per byte (tile 128) or 16 from L2, where
//          the R S taps of a pixel meet; x comes from memory about once.  float4 where channels are a multiple of 4 and
//          the arrays aligned, else floats: 8 neighbours along the depth (forward), 32 along a row (bwd_filter).
//          bwd_filter adds 8 B per slice and element of dw.
// Numbers  float32, one chain of fused multiply-adds per element in the order of the depth: bitwise the same for both
//          tiles, any alignment and any N.  bwd_filter: one chain per slice, slices added in their order; how many there
//          are depends on the shape alone.
// Profile  `make sim-profile OP=conv2d` (or conv2d_bwd_data, conv2d_bwd_filter, conv2d_prepare)
#include <algorithm>

#include "kernels/conv2d.h"
#include "kernels/conv2d_common.h"
#include "kernels/conv2d_winograd.cuh"
#include "kernels/gemm_tile.cuh"

namespace lc::LC_CUDA_NS {

constexpr int kConvBlock = 256;       // threads of a block where there are no tiles
constexpr int kOutside = -(1 << 30);  // a place that no tap brings back into an image

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
    __device__ ConvClass(const ConvAxis& x, int hop, int a) {
        const TapClass t = tap_class(x.taps, hop, (a + x.shift) % hop);
        pixels = (x.out - a + hop - 1) / hop;
        taps = t.taps, before = t.before, origin = (a + x.shift) / hop - (t.taps - 1);
    }
};

struct ConvTask {
    const float* in;       // (N, y.in, x.in, depth)
    const float* filters;  // (taps, depth, columns) of every class
    ConvOutput out;        // (N, y.out, x.out, columns)
    int64_t N;
    ConvAxis y, x;
    int hop, step, depth;
    unsigned row_tiles = 0, column_tiles = 0, x_classes = 0;
};

// Pixel `first` + offset of images of height x width pixels that follow each other.
struct ConvPixel {
    int64_t n;
    int i, j;
    __device__ ConvPixel(int64_t first, int offset, int height, int width) {
        const int area = height * width;
        n = first / area;
        const int within = int(first - n * area) + offset;
        n += within / area;
        i = within % area / width, j = within % area % width;
    }
};

// Where a block of a ConvTask works.
struct ConvPlace {
    int64_t first;  // the tile's first row, among those of its class
    int a, b;       // the class
    ConvClass y, x;
    int column;         // the tile's first column
    int rows, columns;  // of the tile that exist
    __device__ ConvPlace(const ConvTask& g, int tile)
        : first(int64_t(blockIdx.x / g.column_tiles % g.row_tiles) * tile),
          a(int(blockIdx.x / g.column_tiles / g.row_tiles / g.x_classes)),
          b(int(blockIdx.x / g.column_tiles / g.row_tiles % g.x_classes)),
          y(g.y, g.hop, a),
          x(g.x, g.hop, b),
          column(int(blockIdx.x % g.column_tiles) * tile),
          rows(int(min(g.N * y.pixels * x.pixels - first, int64_t(tile)))),
          columns(min(g.out.columns - column, tile)) {}
    __device__ ConvPixel pixel(int row) const { return {first, row, y.pixels, x.pixels}; }
    __device__ const float* filters(const ConvTask& g) const {
        const int64_t taps = int64_t(y.before) * g.x.taps + int64_t(y.taps) * x.before;
        return g.filters + taps * g.depth * g.out.columns;
    }
};

// ---- from global to shared memory: forward and bwd_data -------------------------------------------------------------

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
        left = rows_left > 0 && at.x.taps > 0 ? g.depth : 0;
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

// ---- from global to shared memory: bwd_filter -----------------------------------------------------------------------

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

// ---- from registers to the result -----------------------------------------------------------------------------------

template <int kTile, class P = GemmPlace<kTile>>
__device__ __forceinline__ void add_bias(float (&sum)[P::kRows][P::kCols], const ConvOutput& out, int column) {
    if (out.bias == nullptr) return;
#pragma unroll
    for (int j = 0; j < P::kCols; ++j) {
        const int place = column + j / kCell * P::kColHop + j % kCell;
        const float bias = place < out.columns ? out.bias[place] : 0.0f;
#pragma unroll
        for (int i = 0; i < P::kRows; ++i) sum[i][j] += bias;
    }
}

// Four neighbours of a row from `at` on, of which `left` exist.
__device__ __forceinline__ void store_four(const ConvOutput& out, int64_t at, int left, const float* v) {
    if (out.four && left >= 4) {
        float4 q = make_float4(v[0], v[1], v[2], v[3]);
        if (out.residual != nullptr) {
            const float4 add = ld4(out.residual + at);
            q = make_float4(q.x + add.x, q.y + add.y, q.z + add.z, q.w + add.w);
        }
        const bool relu = out.relu;
        st4(out.data + at, make_float4(relu_if(relu, q.x), relu_if(relu, q.y), relu_if(relu, q.z), relu_if(relu, q.w)));
        return;
    }
#pragma unroll
    for (int e = 0; e < 4; ++e) {
        if (e < left) store_one(out, at + e, v[e]);
    }
}

// row_at(row): where the row `row` below this thread's first one begins; negative where there is none.
template <int kTile, class RowAt, class P = GemmPlace<kTile>>
__device__ __forceinline__ void store_tile(const float (&sum)[P::kRows][P::kCols], const ConvOutput& out, int column,
                                           RowAt row_at) {
#pragma unroll
    for (int i = 0; i < P::kRows; ++i) {
        const int64_t at = row_at(i / kCell * P::kRowHop + i % kCell);
        if (at < 0) break;
#pragma unroll
        for (int j = 0; j < P::kColCells; ++j) {
            const int place = column + j * P::kColHop;
            store_four(out, at + place, out.columns - place, &sum[i][j * kCell]);
        }
    }
}

// ---- the kernels ----------------------------------------------------------------------------------------------------

// The walk along the depth that all passes share.
template <int kTile, class Loader, class Task, class Place, class P = GemmPlace<kTile>>
__device__ __forceinline__ void walk(float (&sum)[P::kRows][P::kCols], Loader& loader, const Task& g,
                                     const Place& where, int steps, P at) {
    LC_SHARED(float, a_s, [2][kStep][kTile + kPad]);
    LC_SHARED(float, b_s, [2][kStep][kTile + kPad]);
    loader.load(g, where);
    int half = 0;
    for (; steps > 0; --steps) {
        loader.store(a_s[half], b_s[half]);
        __syncthreads();        // this half is complete, and everybody is done with the other one
        loader.load(g, where);  // in the last step nothing is left to read
        multiply_tiles<kTile>(sum, a_s[half], b_s[half], at);
        half ^= 1;
    }
}

template <int kTile, bool kFour>
__global__ void __launch_bounds__(2 * kTile, kTile == 128 ? 2 : 4) conv2d_kernel(ConvTask g) {
    const ConvPlace where(g, kTile);
    if (where.rows <= 0) return;          // the whole block: this class has fewer tiles than the first
    LC_SHARED(int64_t, row_at, [kTile]);  // where the rows of the tile begin, or -1: they wait here during the walk
    if (const int row = int(threadIdx.x); row < kTile) {
        const ConvPixel p = where.pixel(row);
        const int64_t y = p.n * g.y.out + p.i * g.hop + where.a, x = p.j * g.hop + where.b;
        row_at[row] = row < where.rows ? (y * g.x.out + x) * g.out.columns : -1;
    }
    __syncthreads();  // where there are no taps, no other barrier comes before the end

    using Place = GemmPlace<kTile>;
    const Place at;
    float sum[Place::kRows][Place::kCols] = {};
    using Loader = std::conditional_t<kFour, GatherFour<kTile>, GatherAny<kTile>>;
    Loader loader(g, where);
    walk<kTile>(sum, loader, g, where, Loader::steps(g, where), at);
    const int column = where.column + at.column;
    add_bias<kTile>(sum, g.out, column);
    store_tile<kTile>(sum, g.out, column, [&](int row) { return row_at[at.row + row]; });
}

template <int kTile, bool kFour>
__global__ void __launch_bounds__(2 * kTile, kTile == 128 ? 2 : 4) conv2d_bwd_filter_kernel(ConvFilterTask g) {
    const ConvFilterPlace where(g, kTile);
    using Place = GemmPlace<kTile>;
    const Place at;
    float sum[Place::kRows][Place::kCols] = {};
    FilterLoader<kTile, kFour> loader(g, where);
    walk<kTile>(sum, loader, g, where, (where.pixels + kStep - 1) / kStep, at);

    const int first = where.row + at.row;
    const int64_t slice = int64_t(blockIdx.y) * g.rows;
    store_tile<kTile>(sum, g.out, where.column + at.column,
                      [&](int row) { return first + row < g.rows ? (slice + first + row) * g.out.columns : -1; });
}

// dw = the parts of all slices, in their order.
__global__ void __launch_bounds__(kConvBlock)
    conv2d_add_slices_kernel(float* dw, const float* parts, int64_t count, int slices) {
    const int64_t e = int64_t(blockIdx.x) * kConvBlock + threadIdx.x;
    if (e >= count) return;
    float sum = parts[e];
#pragma unroll 4
    for (int z = 1; z < slices; ++z) sum += parts[z * count + e];
    dw[e] = sum;
}

// Filters for bwd_data: every tap (C, K) transposed to (K, C); taps by class, and backwards within it, so that a class
// walks forward over its input.  A block has a tile of one tap.
__global__ void __launch_bounds__(kConvBlock)
    conv2d_turn_kernel(float* out, const float* w, int R, int S, int C, int K, int hop) {
    constexpr int kRowsAtOnce = kConvBlock / kWarp;
    LC_SHARED(float, tile, [kWarp][kWarp + 1]);
    const unsigned k_tiles = unsigned(ceil_div(K, kWarp)), c_tiles = unsigned(ceil_div(C, kWarp));
    const int k0 = int(blockIdx.x % k_tiles) * kWarp, c0 = int(blockIdx.x / k_tiles % c_tiles) * kWarp;
    const int tap = int(blockIdx.x / k_tiles / c_tiles), r = tap / S, s = tap % S;
    const int lane = int(threadIdx.x) % kWarp, first = int(threadIdx.x) / kWarp;
    for (int c = first; c < kWarp; c += kRowsAtOnce) {
        if (c0 + c < C && k0 + lane < K) tile[c][lane] = w[(int64_t(tap) * C + c0 + c) * K + k0 + lane];
    }
    __syncthreads();
    const TapClass y = tap_class(R, hop, r % hop), x = tap_class(S, hop, s % hop);
    const int64_t before = int64_t(y.before) * S + int64_t(y.taps) * x.before;
    const int64_t to = before + int64_t(y.taps - 1 - r / hop) * x.taps + (x.taps - 1 - s / hop);
    for (int k = first; k < kWarp; k += kRowsAtOnce) {
        if (k0 + k < K && c0 + lane < C) out[(to * K + k0 + k) * C + c0 + lane] = tile[lane][k];
    }
}

// ---- launchers ------------------------------------------------------------------------------------------------------

// Within an image and a filter kernels count in 32 bits, with room for twice the padding and a tile.
static void check_counts(const char* op, const Conv2d& c) {
    constexpr int64_t kMost = int64_t(1) << 28;
    LC_CHECK(c.H * c.W <= kMost && c.P() * c.Q() <= kMost && c.stride <= kMost && c.R * c.S * c.C <= kMost &&
                 c.R * c.S * c.K <= kMost,
             op << ": on CUDA H W, P Q, stride, R S C and R S K are at most 2^28; found H = " << c.H << ", W = " << c.W
                << ", stride = " << c.stride << ", R = " << c.R << ", S = " << c.S << ", C = " << c.C << ", K = " << c.K
                << ", so use --device cpu");
}

// Small tiles where large ones would be half empty or too few for the some 100 multiprocessors of a large GPU.
static bool wants_small_tiles(int64_t rows, int64_t columns, int64_t times) {
    return rows <= 64 || columns <= 64 || ceil_div(rows, 128) * ceil_div(columns, 128) * times < 96;
}

template <int kTile, bool kFour>
void launch_conv2d(ConvTask g, int64_t rows, int64_t classes, Stream s) {
    g.row_tiles = unsigned(ceil_div(rows, kTile)), g.column_tiles = unsigned(ceil_div(g.out.columns, kTile));
    const dim3 grid = grid_of(ceil_div(rows, kTile) * g.column_tiles * classes);
    LC_LAUNCH((conv2d_kernel<kTile, kFour>), grid, 2 * kTile, 0, s, g);
}

static void implicit_gemm(ConvTask g, Stream s) {
    const int64_t y_classes = std::min(g.hop, g.y.out), x_classes = std::min(g.hop, g.x.out);
    const int64_t classes = y_classes * x_classes;
    const int64_t rows = g.N * ceil_div(g.y.out, g.hop) * ceil_div(g.x.out, g.hop);  // of the largest class, the first
    g.x_classes = unsigned(x_classes);
    const bool four = aligned16(g.in) && g.depth % 4 == 0 && g.out.columns % 4 == 0;
    if (!four) {
        launch_conv2d<64, false>(g, rows, classes, s);
    } else if (wants_small_tiles(rows, g.out.columns, classes)) {
        launch_conv2d<64, true>(g, rows, classes, s);
    } else {
        launch_conv2d<128, true>(g, rows, classes, s);
    }
}

template <int kTile, bool kFour>
void launch_bwd_filter(ConvFilterTask g, int64_t slices, Stream s) {
    constexpr int kHop = FilterLoader<kTile, kFour>::kHop;
    g.column_tiles = unsigned(ceil_div(g.out.columns, kTile));
    const int64_t C = g.C, u = g.stride;
    g.q_hop = kHop % g.Q * g.stride, g.p_hop = kHop / g.Q % g.P * g.stride;
    g.x_hop = ((int64_t(kHop / g.Q / g.P) * g.H + g.p_hop) * g.W + g.q_hop) * C;
    g.x_row = u * (g.W - g.Q) * C, g.x_image = (g.H - g.P * u) * g.W * C;
    dim3 grid = grid_of(ceil_div(g.rows, kTile) * g.column_tiles);
    grid.y = unsigned(slices);
    LC_LAUNCH((conv2d_bwd_filter_kernel<kTile, kFour>), grid, 2 * kTile, 0, s, g);
}

// Into how many slices the pixels are cut: as many as give all multiprocessors work, but none so short that adding the
// parts would cost more than it saves, none so long that 32 bits do not count it, and the parts fit their memory.
static int64_t filter_slices(int64_t pixels, int64_t tiles, int64_t count) {
    constexpr int64_t kBlocks = 512, kShortest = 256, kLongest = int64_t(1) << 30;
    const int64_t room = std::max<int64_t>(1, kSliceBytes / int64_t(sizeof(float)) / count);
    const int64_t wanted = std::min({ceil_div(kBlocks, tiles), ceil_div(pixels, kShortest), room});
    return std::max(wanted, ceil_div(pixels, kLongest));
}

static void bwd_filter(ConvFilterTask g, Stream s) {
    const int64_t columns = g.out.columns, count = g.rows * columns;
    const bool four = aligned16(g.x) && aligned16(g.dy) && g.C % 4 == 0 && columns % 4 == 0;
    const bool small = !four || wants_small_tiles(g.rows, columns, ceil_div(g.pixels, 256));
    const int64_t tile = small ? 64 : 128, tiles = ceil_div(g.rows, tile) * ceil_div(columns, tile);
    const int64_t cut = filter_slices(g.pixels, tiles, count);
    g.slice = int(ceil_div(ceil_div(g.pixels, cut), kStep) * kStep);
    const int64_t slices = ceil_div(g.pixels, g.slice);

    float* const dw = g.out.data;
    const Workspace<float> parts(slices > 1 ? slices * count : 1, s);
    if (slices > 1) g.out = conv_output(parts.data(), {}, columns);
    if (!four) launch_bwd_filter<64, false>(g, slices, s);
    if (four && small) launch_bwd_filter<64, true>(g, slices, s);
    if (!small) launch_bwd_filter<128, true>(g, slices, s);
    if (slices > 1) {
        LC_LAUNCH(conv2d_add_slices_kernel, grid_of(ceil_div(count, kConvBlock)), kConvBlock, 0, s, dw, parts.data(),
                  count, int(slices));
    }
}

// ---- the ops --------------------------------------------------------------------------------------------------------

// Filters (R, S, C, K) to taps (K, C), by class and backwards.
static void turn_filters(float* turned, const float* w, const Conv2d& c, Stream s) {
    const int64_t blocks = c.R * c.S * ceil_div(c.C, kWarp) * ceil_div(c.K, kWarp);
    LC_LAUNCH(conv2d_turn_kernel, grid_of(blocks), kConvBlock, 0, s, turned, w, int(c.R), int(c.S), int(c.C), int(c.K),
              int(c.stride));
}

static void prepare_winograd(float* prepared, const float* filters, const Conv2d& c, ConvEngine engine, Stream s) {
    if (engine == ConvEngine::winograd2) winograd_prepare<2>(prepared, filters, c.C * c.K, s);
    if (engine == ConvEngine::winograd4) winograd_prepare<4>(prepared, filters, c.C * c.K, s);
}

void conv2d_prepare(float* prepared, const float* w, const Conv2d& c, ConvPass pass, Stream s) {
    check_conv2d_prepare(prepared, w, c, pass);
    check_counts("conv2d_prepare", c);
    const ConvEngine engine = conv2d_engine(c, pass);
    const int64_t count = c.R * c.S * c.C * c.K;
    if (engine == ConvEngine::gemm && pass == ConvPass::forward) {
        LC_CUDA_CHECK(cudaMemcpyAsync(prepared, w, size_t(count) * sizeof(float), cudaMemcpyDeviceToDevice,
                                      static_cast<cudaStream_t>(s)));
    } else if (engine == ConvEngine::gemm) {
        turn_filters(prepared, w, c, s);
    } else if (pass == ConvPass::forward) {
        prepare_winograd(prepared, w, c, engine, s);
    } else {
        const Workspace<float> turned(count, s);
        turn_filters(turned.data(), w, c, s);
        prepare_winograd(prepared, turned.data(), c, engine, s);
    }
}

void conv2d(float* y, const float* x, const float* prepared, const ConvEpilogue& epilogue, const Conv2d& c, Stream s) {
    check_conv2d_forward(y, x, prepared, epilogue, c);
    check_counts("conv2d", c);
    if (c.N == 0) return;
    const ConvOutput out = conv_output(y, epilogue, c.K);
    const int H = int(c.H), W = int(c.W), P = int(c.P()), Q = int(c.Q()), C = int(c.C), pad = int(c.pad);
    const int R = int(c.R), S = int(c.S);
    const ConvEngine engine = conv2d_engine(c, ConvPass::forward);
    const WinogradTask w{.x = x, .y = out, .N = c.N, .H = H, .W = W, .C = C, .P = P, .Q = Q, .pad = pad};
    if (engine == ConvEngine::winograd2) return winograd<2>(w, prepared, s);
    if (engine == ConvEngine::winograd4) return winograd<4>(w, prepared, s);
    implicit_gemm({.in = x,
                   .filters = prepared,
                   .out = out,
                   .N = c.N,
                   .y = {P, H, R, R - 1 - pad},
                   .x = {Q, W, S, S - 1 - pad},
                   .hop = 1,
                   .step = int(c.stride),
                   .depth = C},
                  s);
}

void conv2d_bwd_data(float* dx, const float* dy, const float* prepared, const Conv2d& c, Stream s) {
    check_conv2d_bwd_data(dx, dy, prepared, c);
    check_counts("conv2d_bwd_data", c);
    if (c.N == 0) return;
    const ConvOutput out = conv_output(dx, {}, c.C);
    const int H = int(c.H), W = int(c.W), P = int(c.P()), Q = int(c.Q()), K = int(c.K), pad = int(c.pad);
    const ConvEngine engine = conv2d_engine(c, ConvPass::bwd_data);
    const WinogradTask w{.x = dy, .y = out, .N = c.N, .H = P, .W = Q, .C = K, .P = H, .Q = W, .pad = 2 - pad};
    if (engine == ConvEngine::winograd2) return winograd<2>(w, prepared, s);
    if (engine == ConvEngine::winograd4) return winograd<4>(w, prepared, s);
    implicit_gemm({.in = dy,
                   .filters = prepared,
                   .out = out,
                   .N = c.N,
                   .y = {H, P, int(c.R), pad},
                   .x = {W, Q, int(c.S), pad},
                   .hop = int(c.stride),
                   .step = 1,
                   .depth = K},
                  s);
}

void conv2d_bwd_filter(float* dw, const float* x, const float* dy, const Conv2d& c, Stream s) {
    check_conv2d_bwd_filter(dw, x, dy, c);
    check_counts("conv2d_bwd_filter", c);
    const int64_t count = c.R * c.S * c.C * c.K;
    if (c.N == 0) {
        LC_CUDA_CHECK(cudaMemsetAsync(dw, 0, size_t(count) * sizeof(float), static_cast<cudaStream_t>(s)));
        return;
    }
    bwd_filter({.x = x,
                .dy = dy,
                .out = conv_output(dw, {}, c.K),
                .pixels = c.N * c.P() * c.Q(),
                .H = int(c.H),
                .W = int(c.W),
                .C = int(c.C),
                .P = int(c.P()),
                .Q = int(c.Q()),
                .S = int(c.S),
                .stride = int(c.stride),
                .pad = int(c.pad),
                .rows = int(c.R * c.S * c.C)},
               s);
}

}  // namespace lc::LC_CUDA_NS

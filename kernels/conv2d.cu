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
//            left                    right                      result: one block = one tile
//            +---------------+       +----+------+----+         +-------------+
//            |               |       |    | b_s  | 8  |         | cells of    |     a_s: gathered by conv2d_gather.cuh
//            +-----+---------+       |    +------+    |         | 4 x 4 as in |          and conv2d_filter.cuh
//       tile | a_s | ->      |       |    | |    |    |         | gemm.cu     |
//            +-----+---------+       |    | v    |    |         |             |
//            |  8  (depth)   |       |    | tile |    |         |             |
//            +---------------+       +----+------+----+         +-------------+
//
// Launch   tile 128: 256 threads; tile 64, for small results and for what is not aligned: 128 threads.  grid.x = tiles
//          (columns fastest: neighbours share their rows in L2) times classes; bwd_filter: grid.y = slices of the
//          pixels.  Threads past an edge stage zeros and reach every barrier.
// Shared   2 halves x 2 operands x 8 x (tile + 4) floats: 16.5 KiB (tile 128), 8.5 KiB (tile 64); barriers and banks as in
//          gemm.cu.  forward and bwd_data: the block's place, and where its rows begin in the result, 1.1 KiB at most; written
//          before the walk and read after it, to keep them out of registers.  prepare: a transposed tile, 4.1 KiB.
// Traffic  compulsory 4 (|x| + |w| + |y|) B.  Scheduled as in gemm.cu: 32 flop per byte (tile 128) or 16 from L2, where
//          the R S taps of a pixel meet; x comes from memory about once.  float4 where channels are a multiple of 4 and
//          the arrays aligned, else floats: 8 neighbours along the depth (forward), 32 along a row (bwd_filter).
//          bwd_filter adds 8 B per slice and element of dw.
// Numbers  float32, one chain of fused multiply-adds per element in the order of the depth: bitwise the same for both
//          tiles, any alignment and any N.  bwd_filter: one chain per slice, slices added in their order; how many there
//          are depends on the shape alone.
// Checked  in the simulator.  Channels a multiple of 8: every load and store takes its least number of sectors and of
//          wavefronts (ratio 1.00); a multiple of 4: 1.25 at most.  Stem (C = 3): 1.5 for x.  Unaligned: 2 for x, and 4.3
//          for results, whose floats lie 4 apart in a request and meet in L2.
// Profile  `make sim-profile OP=conv2d` (or conv2d_bwd_data, conv2d_bwd_filter, conv2d_prepare)
#include <algorithm>

#include "kernels/conv2d.h"
#include "kernels/conv2d_common.h"
#include "kernels/conv2d_filter.cuh"
#include "kernels/conv2d_gather.cuh"
#include "kernels/conv2d_winograd.cuh"
#include "kernels/gemm_tile.cuh"

namespace lc::LC_CUDA_NS {

constexpr int kConvBlock = 256;  // threads of a block where there are no tiles

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
    LC_SHARED(ConvPlace, place, [1]);  // once per block: its divisions cost time, its numbers registers
    if (threadIdx.x == 0) place[0] = conv_place(g, kTile);
    __syncthreads();
    const ConvPlace& where = place[0];
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

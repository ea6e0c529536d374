// conv2d_winograd.cpp -- engines `winograd2` and `winograd4` of the CPU convolution (contract: conv2d.h; registers and
// panels: gemm_kernel.h; transforms along one axis: conv2d_winograd.h).
//
// Idea     A tile of m x m outputs reads a x a pixels, a = m + 2.  With matrices A, B, G of small constants (Toom-Cook at the
//          points 0, 1, -1, (2, -2,) infinity; Lavin and Gray 2015)
//
//              y = A' [ sum over c of (G g G') o (B' d B) ] A         g (3, 3) a filter, d (a, a) pixels of one channel
//
//          so that each of the a^2 positions of a tile is a product over channels, for all tiles at once a matrix product:
//
//                x                    V (a^2, tiles, C)            M (a^2, tiles, K)                    y
//              ┌─────────┐   B' d B    ┌────────┐   ┌──────┐       ┌────────┐          A' m A      ┌─────────┐
//              │ ┌────┐  │  ────────>  │════════│ x │ U    │  ──>  │════════│  ──────────────────> │  ┌──┐   │
//              │ │a x a  │             │ tiles  │   │(C, K)│       │ tiles  │  bias, residual, relu│  │mxm   │
//              │ └────┘  │             └────────┘   └──────┘       └────────┘                      │  └──┘   │
//              └─────────┘               C          a^2 of them      K                             └─────────┘
//
//          U = G g G' is made by conv2d_prepare, packed into panels.  All transforms run along channels, a vector at a time.
//          A unit of work is some tiles and some columns: their M stays in L2 between the products and the transform.
// Threads  few filters, many tiles: a thread takes a block of tiles from the pixels to y, and shares nothing.  Many filters:
//          all threads transform the pixels of a block, wait for each other, then share out units; so U, which may be larger
//          than the caches, is read once per block.
// Numbers  every tile and channel is computed by itself in a fixed order; the products as in gemm_kernel.h.
// Profile  `make bench`
#ifndef LC_KERNELS_CONV2D_WINOGRAD_CPP_ONCE  // the file is read once per SIMD target, this part only the first time
#define LC_KERNELS_CONV2D_WINOGRAD_CPP_ONCE

#include <algorithm>
#include <omp.h>

#include "kernels/conv2d_cpu.h"
#include "kernels/conv2d_tiles.h"
#include "kernels/workspace.h"

namespace lc::cpu {
namespace {

constexpr int64_t kDepth = 384;                        // channels of one pass of the products
constexpr int64_t kBlockTiles = 48;                    // tiles that one thread takes from the pixels to y
constexpr int64_t kUnitTiles = 96, kUnitColumns = 64;  // at most, of a unit
constexpr int64_t kSharedFloats = int64_t(4) << 20;    // of V, where threads share it
constexpr int64_t kOwnFilters = 128 * 128;             // C K, up to which threads do not share

// Channels in equal passes: the only cut that decides bits.
int64_t pass_depth(int64_t C) { return std::min(C, round_up(ceil_div(C, ceil_div(C, kDepth)), 8)); }

struct WinogradConv {
    DenseConv conv;
    int64_t m;             // outputs of a tile along an axis
    int64_t down, across;  // tiles of an image

    int64_t positions() const { return (m + 2) * (m + 2); }
    int64_t tiles() const { return conv.N * down * across; }
};

// V or M of a block: position after position, (tiles, ld) each, and 64 bytes more, lest all positions of a tile lie in the
// same cache set.
struct Planes {
    float* data;
    int64_t ld, step;
    float* at(int64_t position, int64_t tile) const { return data + position * step + tile * ld; }
};
Planes planes(float* data, int64_t tiles, int64_t columns) {
    const int64_t ld = round_up(columns, 16) + 16;
    return {data, ld, tiles * ld + 16};
}
int64_t planes_floats(int64_t positions, int64_t tiles, int64_t columns) {
    return positions * planes(nullptr, tiles, columns).step;
}

}  // namespace
}  // namespace lc::cpu
#endif

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/conv2d_winograd.cpp"
#include <hwy/foreach_target.h>

#include "kernels/conv2d_winograd.h"

HWY_BEFORE_NAMESPACE();
namespace lc::cpu::HWY_NAMESPACE {
namespace {

// ---- filters --------------------------------------------------------------------------------------------------------

int64_t plane_of_panels(int64_t C, int64_t K) { return C * round_up(K, kPanel); }

// Channel c of all filters: U (a^2) planes of panels, each packed pass of depth by pass of depth.
template <int m>
void transform_filters(float* prepared, const float* w, int64_t C, int64_t K, int64_t c) {
    constexpr int a = m + 2;
    const int64_t step = pass_depth(C), first = c / step * step, kc = std::min(step, C - first);
    for (int64_t j = 0; j < K; j += kLanes) {
        Vector half[a * 3], u[a * a];  // G g, then (G g) G'
        const auto tap = [&](int r, int s) { return load_some(w + ((r * 3 + s) * C + c) * K + j, K - j); };
        for (int s = 0; s < 3; ++s) {
            Vector column[a];
            filter_axis<m>(column, tap(0, s), tap(1, s), tap(2, s));
            for (int i = 0; i < a; ++i) half[i * 3 + s] = column[i];
        }
        for (int i = 0; i < a; ++i) filter_axis<m>(u + i * a, half[i * 3], half[i * 3 + 1], half[i * 3 + 2]);

        const int64_t panel = j / kPanel * kPanel, width = panel_width(K - panel);
        float* const to = prepared + first * round_up(K, kPanel) + panel * kc + (c - first) * width + (j - panel);
        for (int i = 0; i < a * a; ++i) hn::StoreU(u[i], Tag(), to + i * plane_of_panels(C, K));
    }
}

void filters(float* prepared, const float* w, int64_t C, int64_t K, int64_t m, int64_t c) {
    m == 2 ? transform_filters<2>(prepared, w, C, K, c) : transform_filters<4>(prepared, w, C, K, c);
}

// ---- pixels to V ----------------------------------------------------------------------------------------------------

// One tile; `zeros` (C) stands for every pixel outside of the image.
template <int m>
void input_tile(const Planes& V, int64_t row, const float* x, const float* zeros, const WinogradConv& wc,
                int64_t tile) {
    constexpr int a = m + 2;
    const DenseConv& conv = wc.conv;
    const int64_t n = tile / (wc.down * wc.across);
    const int64_t h0 = tile / wc.across % wc.down * m + conv.top, w0 = tile % wc.across * m + conv.left;
    const float* pixel[a * a];
    for (int i = 0; i < a; ++i) {
        for (int j = 0; j < a; ++j) {
            const int64_t h = h0 + i, w = w0 + j;
            const bool inside = h >= 0 && h < conv.H && w >= 0 && w < conv.W;
            pixel[i * a + j] = inside ? x + ((n * conv.H + h) * conv.W + w) * conv.C : zeros;
        }
    }
    for (int64_t c = 0; c < conv.C; c += kLanes) {
        Vector half[a * a];  // column j of B' d is half[j * a ..]
        for (int j = 0; j < a; ++j) {
            Vector d[a];
            for (int i = 0; i < a; ++i) d[i] = load_some(pixel[i * a + j] + c, conv.C - c);
            input_axis<m>(half + j * a, d, 1);
        }
        float* const to = V.at(0, row) + c;
        for (int i = 0; i < a; ++i) {
            Vector v[a];
            input_axis<m>(v, half + i, a);
            for (int j = 0; j < a; ++j) hn::StoreU(v[j], Tag(), to + (i * a + j) * V.step);
        }
    }
}

// Tiles first .. first + tiles become the rows of V from `row` on.
void input(const Planes& V, int64_t row, const float* x, const float* zeros, const WinogradConv& wc, int64_t first,
           int64_t tiles) {
    for (int64_t t = 0; t < tiles; ++t) {
        wc.m == 2 ? input_tile<2>(V, row + t, x, zeros, wc, first + t)
                  : input_tile<4>(V, row + t, x, zeros, wc, first + t);
    }
}

// ---- M to outputs ---------------------------------------------------------------------------------------------------

// One tile, columns j .. j + cols of y.
template <int m>
void output_tile(float* y, const Planes& M, int64_t row, const ConvEpilogue& e, const WinogradConv& wc, int64_t tile,
                 int64_t j, int64_t cols) {
    constexpr int a = m + 2;
    const DenseConv& conv = wc.conv;
    const int64_t n = tile / (wc.down * wc.across);
    const int64_t p0 = tile / wc.across % wc.down * m, q0 = tile % wc.across * m;
    const int64_t rows = std::min<int64_t>(m, conv.P - p0), columns = std::min<int64_t>(m, conv.Q - q0);
    const int64_t at = n * conv.image + p0 * conv.row + q0 * conv.pixel + j;
    for (int64_t k = 0; k < cols; k += kLanes) {
        Vector half[a * m], out[m * m];  // column i of A' p is half[i * m ..]; rows of y
        const float* const from = M.at(0, row) + k;
        for (int i = 0; i < a; ++i) {
            Vector p[a];
            for (int l = 0; l < a; ++l) p[l] = hn::LoadU(Tag(), from + (l * a + i) * M.step);
            output_axis<m>(half + i * m, p, 1);
        }
        for (int i = 0; i < m; ++i) output_axis<m>(out + i * m, half + i, m);

        const int64_t left = cols - k;
        for (int64_t p = 0; p < rows; ++p) {
            for (int64_t q = 0; q < columns; ++q) {
                const int64_t to = at + p * conv.row + q * conv.pixel + k;
                Vector v = out[p * m + q];
                if (e.bias) v = hn::Add(v, load_some(e.bias + j + k, left));
                if (e.residual) v = hn::Add(v, load_some(e.residual + to, left));
                if (e.relu) v = hn::IfThenZeroElse(hn::Lt(v, hn::Zero(Tag())), v);  // NaN stays
                store_some(v, y + to, left);
            }
        }
    }
}

// Products and outputs of rows row .. row + tiles of V (tile number `first` and those after it), columns j .. j + cols.
void unit(float* y, const Planes& V, int64_t row, float* scratch, const float* prepared, const ConvEpilogue& e,
          const WinogradConv& wc, int64_t first, int64_t tiles, int64_t j, int64_t cols) {
    const int64_t C = wc.conv.C, K = wc.conv.K, step = pass_depth(C);
    const Planes M = planes(scratch, tiles, cols);
    for (int64_t i = 0; i < wc.positions(); ++i) {
        for (int64_t c = 0; c < C; c += step) {
            const int64_t kc = std::min(step, C - c);
            const float* const panels = prepared + i * plane_of_panels(C, K) + c * round_up(K, kPanel) + j * kc;
            const Output out = {M.at(i, 0), M.ld, 1.0f, c == 0 ? 0.0f : 1.0f};
            multiply_panels(out, V.at(i, row) + c, V.ld, tiles, panels, cols, kc);
        }
    }
    for (int64_t t = 0; t < tiles; ++t) {
        wc.m == 2 ? output_tile<2>(y, M, t, e, wc, first + t, j, cols)
                  : output_tile<4>(y, M, t, e, wc, first + t, j, cols);
    }
}

}  // namespace
}  // namespace lc::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace lc::cpu {
namespace {

HWY_EXPORT(filters);
HWY_EXPORT(input);
HWY_EXPORT(unit);

struct Call {
    float* y;
    const float *x, *zeros, *prepared;
    const ConvEpilogue& epilogue;
    const WinogradConv& wc;
};

// Columns of a unit, and how many units lie side by side.
int64_t unit_columns(int64_t K) { return std::min(K, kUnitColumns); }

// A block of tiles by one thread, from the pixels to y.
void own_block(const Call& c, float* memory, int64_t first, int64_t tiles) {
    const Planes V = planes(memory, tiles, c.wc.conv.C);
    float* const scratch = memory + planes_floats(c.wc.positions(), kBlockTiles, c.wc.conv.C);
    HWY_DYNAMIC_DISPATCH(input)(V, 0, c.x, c.zeros, c.wc, first, tiles);
    const int64_t K = c.wc.conv.K, step = unit_columns(K);
    for (int64_t j = 0; j < K; j += step) {
        HWY_DYNAMIC_DISPATCH(unit)
        (c.y, V, 0, scratch, c.prepared, c.epilogue, c.wc, first, tiles, j, std::min(step, K - j));
    }
}

void run_own(const Call& c, float* memory, int64_t stride, int64_t threads) {
    const int64_t tiles = c.wc.tiles(), blocks = round_up(ceil_div(tiles, kBlockTiles), threads);  // as many for each
    const int64_t step = ceil_div(tiles, blocks);
#pragma omp parallel for schedule(dynamic, 1) num_threads(int(threads))
    for (int64_t first = 0; first < tiles; first += step) {
        own_block(c, memory + omp_get_thread_num() * stride, first, std::min(step, tiles - first));
    }
}

// Blocks of `most` tiles by all threads; V at the beginning of memory, then the scratch of each thread.
void run_shared(const Call& c, float* memory, int64_t most, int64_t stride, int64_t threads) {
    const int64_t all = c.wc.tiles(), C = c.wc.conv.C, K = c.wc.conv.K, columns = unit_columns(K);
    float* const scratch = memory + planes_floats(c.wc.positions(), most, C);
    for (int64_t begin = 0; begin < all; begin += most) {
        const int64_t tiles = std::min(most, all - begin), rows = ceil_div(tiles, ceil_div(tiles, kUnitTiles));
        const int64_t down = ceil_div(tiles, rows), across = ceil_div(K, columns);
        const Planes V = planes(memory, tiles, C);
#pragma omp parallel num_threads(int(threads))
        {
#pragma omp for schedule(static)
            for (int64_t t = 0; t < tiles; ++t) HWY_DYNAMIC_DISPATCH(input)(V, t, c.x, c.zeros, c.wc, begin + t, 1);
#pragma omp for schedule(dynamic, 1)
            for (int64_t u = 0; u < down * across; ++u) {  // those with the same filters follow each other
                const int64_t i = u % down * rows, j = u / down * columns;
                HWY_DYNAMIC_DISPATCH(unit)
                (c.y, V, i, scratch + omp_get_thread_num() * stride, c.prepared, c.epilogue, c.wc, begin + i,
                 std::min(rows, tiles - i), j, std::min(columns, K - j));
            }
        }
    }
}

}  // namespace

void pack_winograd(float* prepared, const float* w, int64_t C, int64_t K, int64_t m) {
    const int64_t chunk = std::max<int64_t>(1, 4096 / K);
    for_each_chunk(C, chunk, [=](int64_t begin, int64_t end) {
        for (int64_t c = begin; c < end; ++c) HWY_DYNAMIC_DISPATCH(filters)(prepared, w, C, K, m, c);
    });
}

void run_winograd(float* y, const float* x, const float* prepared, const ConvEpilogue& epilogue, const DenseConv& conv,
                  int64_t m) {
    const WinogradConv wc = {conv, m, ceil_div(conv.P, m), ceil_div(conv.Q, m)};
    const int64_t tiles = wc.tiles(), C = conv.C, K = conv.K, positions = wc.positions();
    if (tiles == 0) return;
    const int64_t threads = threads_for(2.0 * double(tiles * positions) * double(C) * double(K));
    const bool own = C * K <= kOwnFilters && tiles >= 2 * threads * kBlockTiles;

    const int64_t per_tile = planes_floats(positions, 1, C);
    const int64_t most = own ? kBlockTiles : std::min(tiles, std::max(kUnitTiles, kSharedFloats / per_tile));
    const int64_t V = planes_floats(positions, most, C);
    const int64_t M = planes_floats(positions, own ? kBlockTiles : kUnitTiles, unit_columns(K));
    const int64_t zeros = round_up(C, 16);
    static thread_local Workspace workspace;
    float* const memory = workspace.floats(zeros + (own ? threads * (V + M) : V + threads * M));
    std::fill(memory, memory + zeros, 0.0f);
    const Call call = {y, x, memory, prepared, epilogue, wc};
    own ? run_own(call, memory + zeros, V + M, threads) : run_shared(call, memory + zeros, most, M, threads);
}

}  // namespace lc::cpu
#endif  // HWY_ONCE

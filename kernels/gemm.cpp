// gemm.cpp -- CPU backend of gemm, engine `own` (contract and formula: gemm.h; registers and panels: gemm_kernel.h).
//
// Idea     C is cut into a grid of tiles, a few per thread.  One thread computes a tile from beginning to end, in blocks
//          that fit the caches.  B is packed, because the micro-kernel wants 16 neighbours for each k, aligned and without
//          gaps; A it can read row by row, as long as its rows do not fall into the same cache sets.
//
//                                                                      what is kept where (AVX2)
//               op(B) (K, N)              1024 columns                     for columns j in steps of 1024
//                                     ┌──────────────┬─────┐                   for k in steps of 384
//                                 384 │[][][][][][][]│     │                       pack B  (384, 1024)  1.5 MiB  L3
//                                     ├──────────────┘     │                       for rows i in steps of 96
//                                     │  panels of 16      │                           copy A  (96, 384)  144 KiB  L2
//               op(A) (M, K)          └────────────────────┘                           for groups of 8 panels
//               384                                                                            (384, 128)  192 KiB  L2
//             ┌──────┬────────┐       ┌──────────────┬─────┐                               for rows in steps of 6
//          96 │══════│        │       │══6 x 16══════│     │                                   (6, 384)  9 KiB  L1
//             │      │        │       │              │     │                                   for panels of the group
//             ├──────┘        │       ├──────────────┘     │                                       micro-kernel
//             │               │       │   a tile of C      │                                       (6, 16)  registers
//             └───────────────┘       └────────────────────┘
//
//          Where A is read only once (one group of panels is all there is), copying it would not pay: it is read in
//          place.  A stored A^T is turned round by the copy.  Where C has at most 64 columns, steps along k of up to 1024
//          read longer pieces of A and visit C less often, and the panels still fit L2: 256 KiB.
// Threads  tiles share nothing: no barrier, no shared buffer, one fork and join per call; batches only add tiles.  The
//          price is that B is packed once per row of tiles, and A copied once per column of tiles.
// Traffic  per micro-kernel and k: 64 B of packed B and 24 B of A for 6 x 16 multiply-adds.  These are 6 cycles for two
//          256-bit FMA units, so 15 B per cycle from L1 and L2, which deliver 32 and more.
// Numbers  an element is one chain of fused multiply-adds for each block of k, and the blocks are added to C in order.  The
//          cuts along k depend on K and N alone; where C is cut decides who computes an element, not how.  Hence the same
//          bits for any number of threads, and for AVX2 and AVX-512.
// Profile  `make bench`
#ifndef LC_KERNELS_GEMM_CPP_ONCE  // the file is read once per SIMD target, this part only the first time
#define LC_KERNELS_GEMM_CPP_ONCE

#include "kernels/gemm.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <omp.h>

#include "kernels/check.h"
#include "kernels/parallel.h"
#include "kernels/workspace.h"

namespace lc::cpu {
namespace {

constexpr int64_t kDepth = 384;         // k per pass
constexpr int64_t kNarrow = 64;         // C with at most so many columns takes
constexpr int64_t kNarrowDepth = 1024;  // so many k per pass
constexpr int64_t kColumnBlock = 1024;  // columns of B packed at a time
constexpr int64_t kRowBlock = 96;       // rows of A copied at a time
constexpr int64_t kRowPadding = 16;     // floats between copied rows, lest all of them begin in the same cache set
constexpr int64_t kUnitRows = 12;       // tiles of C begin at multiples of these: no register tile is cut in two
constexpr int64_t kUnitColumns = 32;

constexpr double kThreadFlops = 2e6;    // 10 to 20 microseconds of one core: for less a thread is not woken
constexpr double kTileFlops = 5e7;      // a thread gets several tiles when each is at least this large,
constexpr int64_t kTilesPerThread = 4;  // so that others can help out a thread that is held up

constexpr int64_t round_up(int64_t n, int64_t unit) { return ceil_div(n, unit) * unit; }

// K in equal blocks.  The only cut that decides bits, so it depends on the shape of the product and nothing else.
int64_t depth_of(const Gemm& g) {
    const int64_t blocks = ceil_div(g.K, g.N <= kNarrow ? kNarrowDepth : kDepth);
    return std::min(g.K, round_up(ceil_div(g.K, blocks), 8));
}

struct Scratch {    // of one thread, reused from tile to tile
    float* panels;  // packed B: (columns / panel, depth, panel)
    float* rows;    // copied A: (kRowBlock, depth + kRowPadding)
};

}  // namespace
}  // namespace lc::cpu
#endif

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/gemm.cpp"
#include <hwy/foreach_target.h>

#include "kernels/gemm_kernel.h"

HWY_BEFORE_NAMESPACE();
namespace lc::cpu::HWY_NAMESPACE {
namespace {

static_assert(kColumnBlock % kPanel == 0 && kUnitColumns % kPanel == 0);
static_assert(kRowBlock % kTileRows == 0 && kUnitRows % kTileRows == 0);

// A as the micro-kernel wants it: element (i, k) is data[i * ld + k].
struct Rows {
    const float* data;
    int64_t ld;
};

// Rows i .. i + rows of op(A), columns k .. k + depth: in place where they are read once, else a copy; turned round where
// A^T is stored.
Rows rows_of(const float* A, const Gemm& g, int64_t i, int64_t rows, int64_t k, int64_t depth, float* copy) {
    const int64_t ld = depth + kRowPadding;
    if (g.trans_a) {
        transpose_copy(copy, ld, A + k * g.lda + i, g.lda, depth, rows);
        return {copy, ld};
    }
    const float* in_place = A + i * g.lda + k;
    if (g.N <= group_columns(depth)) return {in_place, g.lda};
    for (int64_t r = 0; r < rows; ++r) std::memcpy(copy + r * ld, in_place + r * g.lda, size_t(depth) * sizeof(float));
    return {copy, ld};
}

// One tile of one product: C (g.M, g.N), with K, leading dimensions and transposes of the whole product.
void gemm_tile(float* C, const float* A, const float* B, const Gemm& g, int64_t depth, Scratch scratch) {
    for (int64_t j = 0; j < g.N; j += kColumnBlock) {
        const int64_t cols = std::min(kColumnBlock, g.N - j);
        for (int64_t k = 0; k < g.K; k += depth) {
            const int64_t kc = std::min(depth, g.K - k);
            if (g.trans_b) {
                pack_transposed(scratch.panels, B + j * g.ldb + k, g.ldb, kc, cols);
            } else {
                pack_plain(scratch.panels, B + k * g.ldb + j, g.ldb, kc, cols);
            }
            for (int64_t i = 0; i < g.M; i += kRowBlock) {
                const int64_t rows = std::min(kRowBlock, g.M - i);
                const Rows a = rows_of(A, g, i, rows, k, kc, scratch.rows);
                const Output out = {C + i * g.ldc + j, g.ldc, g.alpha, k == 0 ? g.beta : 1.0f};
                multiply_panels(out, a.data, a.ld, rows, scratch.panels, cols, kc);
            }
        }
    }
}

}  // namespace
}  // namespace lc::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace lc::cpu {

void gemm_openblas(float* C, const float* A, const float* B, const Gemm& g);  // gemm_openblas.cpp

namespace {

HWY_EXPORT(gemm_tile);

// ---- where C is cut -------------------------------------------------------------------------------------------------

// Tile (d, a) of each C is rows d * rows .., columns a * cols ..; the last ones are smaller.
struct Tiling {
    int64_t down = 1, across = 1;  // tiles along M and along N
    int64_t rows, cols;            // of a tile
};

// How many tiles are worth it for all batches together.
int64_t wanted_tiles(double flops, int64_t threads) {
    const int64_t busy = std::max<int64_t>(1, int64_t(std::min(flops / kThreadFlops, double(threads))));
    const double each = flops / double(busy) / kTileFlops;
    return busy == 1 ? 1 : busy * int64_t(std::clamp(each, 1.0, double(kTilesPerThread)));
}

// The grid with that many tiles that packs least: B is packed `down` times, A copied `across` times.
Tiling choose_tiling(const Gemm& g, int64_t threads) {
    const int64_t most_down = ceil_div(g.M, kUnitRows), most_across = ceil_div(g.N, kUnitColumns);
    int64_t tiles = std::min(ceil_div(wanted_tiles(gemm_flops(g), threads), g.batch), most_down * most_across);
    Tiling best;
    for (; tiles > 1 && best.down * best.across == 1; --tiles) {  // a number that no grid has gives way to the next one
        int64_t least = std::numeric_limits<int64_t>::max();
        for (int64_t down = 1; down <= std::min(tiles, most_down); ++down) {
            const int64_t across = tiles / down, packed = down * g.N + across * g.M;
            if (tiles % down != 0 || across > most_across || packed >= least) continue;
            best.down = down, best.across = across, least = packed;
        }
    }
    best.rows = round_up(ceil_div(g.M, best.down), kUnitRows);
    best.cols = round_up(ceil_div(g.N, best.across), kUnitColumns);
    best.down = ceil_div(g.M, best.rows);  // rounding up may have saved the last tiles
    best.across = ceil_div(g.N, best.cols);
    return best;
}

// ---- all tiles of all batches ---------------------------------------------------------------------------------------

// Tile number t, the batches one after the other: a product by itself, of fewer rows and columns.
void run_tile(int64_t t, float* C, const float* A, const float* B, const Gemm& g, const Tiling& tiling,
              Scratch scratch) {
    const int64_t batch = t / (tiling.down * tiling.across);
    const int64_t i = t / tiling.across % tiling.down * tiling.rows, j = t % tiling.across * tiling.cols;
    C += batch * g.stride_c + i * g.ldc + j;
    A += batch * g.stride_a + (g.trans_a ? i : i * g.lda);
    B += batch * g.stride_b + (g.trans_b ? j * g.ldb : j);
    Gemm tile = g;
    tile.M = std::min(tiling.rows, g.M - i);
    tile.N = std::min(tiling.cols, g.N - j);
    HWY_DYNAMIC_DISPATCH(gemm_tile)(C, A, B, tile, depth_of(g), scratch);
}

void gemm_own(float* C, const float* A, const float* B, const Gemm& g) {
    const int64_t available = omp_in_parallel() ? 1 : omp_get_max_threads();
    const Tiling tiling = choose_tiling(g, available);
    const int64_t tiles = g.batch * tiling.down * tiling.across;
    const int64_t threads = std::min({available, tiles, wanted_tiles(gemm_flops(g), available)});

    const int64_t depth = depth_of(g);
    const int64_t panels = depth * std::min(kColumnBlock, round_up(g.N, kUnitColumns));  // floats; multiples of 16, so
    const int64_t rows = kRowBlock * (depth + kRowPadding);                              // that all begin on 64 bytes
    static thread_local Workspace workspace;
    float* const memory = workspace.floats(threads * (panels + rows));
    const auto scratch = [&](int64_t thread) {
        float* const own = memory + thread * (panels + rows);
        return Scratch{own, own + panels};
    };
    if (threads == 1) {
        for (int64_t t = 0; t < tiles; ++t) run_tile(t, C, A, B, g, tiling, scratch(0));
        return;
    }
    const int64_t at_once = std::max<int64_t>(1, tiles / (threads * 16));  // of many small batches
#pragma omp parallel for schedule(dynamic, at_once) num_threads(int(threads))
    for (int64_t t = 0; t < tiles; ++t) run_tile(t, C, A, B, g, tiling, scratch(omp_get_thread_num()));
}

// K = 0 or alpha = 0: C = beta C, and neither A nor B is looked at.
void scale_only(float* C, const Gemm& g) {
    const int64_t rows_per_chunk = std::max<int64_t>(1, 65536 / g.N);
    for_each_chunk(g.batch * g.M, rows_per_chunk, [&](int64_t begin, int64_t end) {
        for (int64_t r = begin; r < end; ++r) {
            float* row = C + r / g.M * g.stride_c + r % g.M * g.ldc;  // (N)
            if (g.beta == 0.0f) {
                std::memset(row, 0, size_t(g.N) * sizeof(float));
            } else {
                for (int64_t j = 0; j < g.N; ++j) row[j] *= g.beta;
            }
        }
    });
}

}  // namespace

void gemm(float* C, const float* A, const float* B, const Gemm& shape, Stream) {
    const Gemm g = checked(shape, C, A, B);
    LC_CHECK(g.engine == GemmEngine::own || g.engine == GemmEngine::openblas,
             "gemm: the engines cublas and cutlass need a GPU (--device cuda); on the CPU take own or openblas");
    if (g.M == 0 || g.N == 0 || g.batch == 0) return;
    if (g.K == 0 || g.alpha == 0.0f) return scale_only(C, g);
    if (g.engine == GemmEngine::openblas) return gemm_openblas(C, A, B, g);
    gemm_own(C, A, B, g);
}

}  // namespace lc::cpu
#endif  // HWY_ONCE

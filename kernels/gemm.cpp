// gemm.cpp -- CPU backend of gemm, engine `own` (contract and formula: gemm.h, registers and panels: gemm_kernel.h).
//
// Idea     C is cut into a grid of tiles, a few per thread; a tile is computed by one thread from beginning to end.
//          A tile walks along k in blocks of at most 512 and along its columns in blocks of at most 1024:
//
//                              columns: 1024 at a time                  packed B block (512, 1024)  2 MiB   L3, L2
//                                 ┌───────┬──────┐                      one panel of it (512, 16)  32 KiB   L2, L1
//             op(B) (K, N)        │packed │      │  k: 512 at a time    6 rows of A (6, 512)       12 KiB   L1
//                                 ├───────┤      │                      a tile of C (6, 16)                 registers
//                                 │       │      │
//             op(A) (M, K)        └───────┴──────┘                      for columns j in steps of 1024
//             ┌───────┬──────┐    ┌───────┬──────┐                          for k in steps of 512
//             │ ─ 6 ─ │      │    │▓▓┆▓▓┆▓▓      │ <- 6 rows of C               pack B block
//             │ rows  │      │    │       │      │                              for rows i in steps of 6
//             │ in    │      │    │ tile of      │                                  for panels of B in the block
//             │ place │      │    │ a thread     │                                      micro-kernel
//             └───────┴──────┘    └───────┴──────┘
//
//          Six rows of A are read where they lie (they stay in L1 for a whole row of panels), so that nothing is spent on
//          packing them; a stored A^T is turned into rows, 96 at a time.  B is packed because the micro-kernel wants 16
//          neighbours of each k, aligned and without gaps.
// Threads  tiles share nothing: no barrier, no shared buffer, one fork and join per call; batches only add tiles.  The
//          price is that B is packed once per row of tiles, and A read once per column of tiles.
// Traffic  per micro-kernel 64 B of packed B per k, for 6 x 16 fused multiply-adds: 6 cycles on a core with two 256-bit
//          FMA units, so about 11 B per cycle from L2 or L3; a core delivers 20 to 32.
// Numbers  an element is a chain of fused multiply-adds over each block of k, and the blocks are added to C in order.
//          The cuts along k depend on K alone; where C is cut decides who computes an element, not how.  Hence the same
//          bits for any number of threads, and for AVX2 and AVX-512.
// Profile  build/release/bench/gemm
#ifndef LC_KERNELS_GEMM_CPP_ONCE  // the file is read once per SIMD target, this part only the first time
#define LC_KERNELS_GEMM_CPP_ONCE

#include "kernels/gemm.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <new>
#include <omp.h>

#include "kernels/check.h"
#include "kernels/parallel.h"

namespace lc::cpu {
namespace {

constexpr int64_t kDepth = 384;         // k per pass
constexpr int64_t kNarrowDepth = 1024;  // k per pass where C has at most kNarrow columns
constexpr int64_t kNarrow = 64;
constexpr int64_t kColumnBlock = 1024;  // columns per packed block of B; a multiple of every panel width
constexpr int64_t kRowBlock = 96;       // rows of A copied at a time; a multiple of 6 and 12
constexpr int64_t kRowPadding = 16;  // floats between copied rows: 4 KiB apart they would fight for the same cache set
constexpr int64_t kUnitRows = 12;    // tiles begin at multiples of these: the register tiles of every SIMD target
constexpr int64_t kUnitColumns = 32;
constexpr double kThreadFlops = 2e6;    // about 20 microseconds of one core: less is not worth waking a thread for
constexpr double kTileFlops = 5e7;      // below this, a thread gets one tile
constexpr int64_t kTilesPerThread = 4;  // above: enough for a thread that was held up to be helped out

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

// A as the micro-kernel wants it: element (i, k) is data[i * ld + k].
struct Rows {
    const float* data;
    int64_t ld;
};

// Rows i .. i + rows of op(A), columns k .. k + depth: in place where they are read once, else as a copy without gaps, or
// turned round where A^T is stored.
Rows rows_of(const float* A, const Gemm& g, int64_t i, int64_t rows, int64_t k, int64_t depth, float* copy) {
    const int64_t ld = depth + kRowPadding;
    if (g.trans_a) {
        transpose_copy(copy, ld, A + k * g.lda + i, g.lda, depth, rows);
        return {copy, ld};
    }
    const float* in_place = A + i * g.lda + k;
    if (g.N <= kGroup) return {in_place, g.lda};
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

struct Grid {
    int64_t down = 1, across = 1;  // tiles of each C along M and along N
};

// As many tiles as are worth it, arranged so that least is packed twice: B is packed `down` times, A read `across` times.
Grid choose_grid(const Gemm& g, int64_t threads) {
    const int64_t max_down = ceil_div(g.M, kUnitRows), max_across = ceil_div(g.N, kUnitColumns);
    const double flops = gemm_flops(g);
    int64_t tiles = int64_t(std::min(flops / kThreadFlops, double(threads)));
    if (flops >= kTileFlops * double(threads)) {
        tiles *= int64_t(std::min(flops / kTileFlops / double(threads), double(kTilesPerThread)));
    }
    tiles = std::min(ceil_div(tiles, g.batch), max_down * max_across);
    for (; threads > 1 && tiles > 1; --tiles) {
        Grid best = {0, 0};
        for (int64_t down = 1; down <= std::min(tiles, max_down); ++down) {
            const int64_t across = tiles / down;
            if (tiles % down != 0 || across > max_across) continue;
            if (best.down == 0 || down * g.N + across * g.M < best.down * g.N + best.across * g.M)
                best = {down, across};
        }
        if (best.down != 0) return best;
    }
    return {};
}

// ---- memory for packing ---------------------------------------------------------------------------------------------

// One block that serves all threads of a call; kept by the calling thread for its next calls, freed when it ends.
class Workspace {
  public:
    float* floats(int64_t n) {
        if (n > size_) {
            data_.reset();
            size_ = 0;
            data_.reset(static_cast<float*>(::operator new(size_t(n) * sizeof(float), kAlignment)));
            size_ = n;
        }
        return data_.get();
    }

  private:
    static constexpr std::align_val_t kAlignment{64};
    struct Free {
        void operator()(float* p) const { ::operator delete(p, kAlignment); }
    };
    std::unique_ptr<float, Free> data_;
    int64_t size_ = 0;
};

// ---- all tiles of all batches ---------------------------------------------------------------------------------------

// Tile (down, across) of batch b is a product by itself, with fewer rows and columns.
struct Tiling {
    Gemm g;
    int64_t rows, cols;  // of a tile; multiples of the units, but for the last ones
    int64_t down, across;
    int64_t depth;

    int64_t count() const { return g.batch * down * across; }

    void run(int64_t index, float* C, const float* A, const float* B, Scratch scratch) const {
        const int64_t batch = index / (down * across), i = index / across % down * rows, j = index % across * cols;
        Gemm tile = g;
        tile.M = std::min(rows, g.M - i);
        tile.N = std::min(cols, g.N - j);
        HWY_DYNAMIC_DISPATCH(gemm_tile)
        (C + batch * g.stride_c + i * g.ldc + j, A + batch * g.stride_a + (g.trans_a ? i : i * g.lda),
         B + batch * g.stride_b + (g.trans_b ? j * g.ldb : j), tile, depth, scratch);
    }
};

Tiling choose_tiling(const Gemm& g, int64_t threads) {
    const Grid grid = choose_grid(g, threads);
    const int64_t rows = round_up(ceil_div(g.M, grid.down), kUnitRows);
    const int64_t cols = round_up(ceil_div(g.N, grid.across), kUnitColumns);
    return {g, rows, cols, ceil_div(g.M, rows), ceil_div(g.N, cols), depth_of(g)};  // rounding up may save tiles
}

void gemm_own(float* C, const float* A, const float* B, const Gemm& g) {
    const int64_t max_threads = omp_in_parallel() ? 1 : omp_get_max_threads();
    const Tiling tiling = choose_tiling(g, max_threads);
    const int64_t threads = gemm_flops(g) < 2 * kThreadFlops ? 1 : std::min(max_threads, tiling.count());

    const int64_t depth = tiling.depth;
    const int64_t panels = depth * std::min(kColumnBlock, round_up(g.N, kUnitColumns));
    const int64_t rows = kRowBlock * (depth + kRowPadding);  // a multiple of 16, as panels is
    static thread_local Workspace workspace;
    float* const memory = workspace.floats(threads * (panels + rows));
    const auto scratch = [&](int64_t thread) {
        float* const own = memory + thread * (panels + rows);
        return Scratch{own, own + panels};
    };
    if (threads == 1) {
        for (int64_t t = 0; t < tiling.count(); ++t) tiling.run(t, C, A, B, scratch(0));
        return;
    }
#pragma omp parallel for schedule(dynamic) num_threads(int(threads))
    for (int64_t t = 0; t < tiling.count(); ++t) tiling.run(t, C, A, B, scratch(omp_get_thread_num()));
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

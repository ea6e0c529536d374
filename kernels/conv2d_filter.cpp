// conv2d_filter.cpp -- the filter gradient of the CPU convolution (contract: conv2d.h; registers and panels:
// gemm_kernel.h; rows of patches: conv2d_kernel.h).
//
// Idea     dw (R S C, K) = patches' (R S C, pixels) dy (pixels, K): a matrix product along the pixels.  dy is packed into
//          panels, a stretch of pixels at a time; then every tile of dw walks along that stretch in blocks of up to 384
//          pixels, for each of which its rows are gathered and turned round.  What a stretch reads of x and dy stays in L3,
//          because tiles read x in narrow strips, one after the other.
//
//               patches'                  dy, packed                       for stretches of pixels
//               pixels                      K columns                          pack dy            with x    4 MiB  L3
//             ┌──────┬────────┐       ┌────────────────────┐                   for tiles of 96 rows of dw, by any thread
//          96 │══════│        │   384 │[][][][][][][][][][]│                       for blocks of 384 pixels
//             ├──────┘        │       ├────────────────────┤                           gather (384, 96), turn (96, 384)
//             │  r, s, c      │       │    n, p, q         │                           multiply, add to dw
//             └───────────────┘       └────────────────────┘
//
// Threads  packing, then tiles of dw: two barriers per stretch.
// Numbers  an element is one chain of fused multiply-adds for each block of pixels, and the blocks are added in order.  The
//          cuts depend on the number of pixels alone.
// Profile  `make bench`
#ifndef LC_KERNELS_CONV2D_FILTER_CPP_ONCE  // the file is read once per SIMD target, this part only the first time
#define LC_KERNELS_CONV2D_FILTER_CPP_ONCE

#include <algorithm>
#include <omp.h>

#include "kernels/conv2d_cpu.h"
#include "kernels/conv2d_tiles.h"
#include "kernels/workspace.h"

namespace lc::cpu {
namespace {

constexpr int64_t kDepth = 384;      // pixels of a block
constexpr int64_t kRowBlock = 96;    // rows of dw
constexpr int64_t kRowPadding = 16;  // floats between rows, lest all of them begin in the same cache set
constexpr int64_t kStretchFloats = int64_t(1) << 20;  // of x and dy
constexpr int64_t kPackColumns = 128;                 // that a thread packs at a time

// Pixels in equal blocks: the only cut that decides bits.
int64_t block_pixels(int64_t pixels) {
    return std::min(pixels, round_up(ceil_div(pixels, ceil_div(pixels, kDepth)), 8));
}

struct Tile {
    int64_t i, rows, j, cols;
};
struct Stretch {
    int64_t first, pixels, block;  // pixels of dy, and how many a block has
    const float* panels;           // block after block
};
struct Scratch {     // of one thread
    float* patches;  // (block, rows)
    float* turned;   // (rows, block + kRowPadding)
};

}  // namespace
}  // namespace lc::cpu
#endif

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/conv2d_filter.cpp"
#include <hwy/foreach_target.h>

#include "kernels/conv2d_kernel.h"

HWY_BEFORE_NAMESPACE();
namespace lc::cpu::HWY_NAMESPACE {
namespace {

void pack_strip(float* panels, const float* dy, int64_t pixels, int64_t K, int64_t j) {
    pack_plain(panels + j * pixels, dy + j, K, pixels, std::min(kPackColumns, K - j));
}

// Rows t.i .. of patches', columns `first` ..: turned round from x itself where they stand there.
void turn_patches(const Scratch& scratch, int64_t ld, const float* x, const DenseConv& conv, Tile t, int64_t first,
                  int64_t pixels) {
    if (conv.plain()) return transpose_copy(scratch.turned, ld, x + first * conv.C + t.i, conv.C, pixels, t.rows);
    gather_patches(scratch.patches, t.rows, x, conv, first, pixels, t.i, t.rows);
    transpose_copy(scratch.turned, ld, scratch.patches, t.rows, pixels, t.rows);
}

void filter_tile(float* dw, const float* x, const DenseConv& conv, const Stretch& s, Tile t, Scratch scratch) {
    const int64_t ld = s.block + kRowPadding, padded = round_up(conv.K, kPanel);
    for (int64_t at = 0; at < s.pixels; at += s.block) {
        const int64_t pixels = std::min(s.block, s.pixels - at);
        turn_patches(scratch, ld, x, conv, t, s.first + at, pixels);
        const ConvOutput out = {dw + t.i * conv.K + t.j, conv.K, s.first + at != 0, nullptr, nullptr, false};
        multiply_panels(out, scratch.turned, ld, t.rows, s.panels + at * padded + t.j * pixels, t.cols, pixels);
    }
}

int64_t padded_columns(int64_t K) { return round_up(K, kPanel); }

}  // namespace
}  // namespace lc::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace lc::cpu {
namespace {

HWY_EXPORT(padded_columns);
HWY_EXPORT(pack_strip);
HWY_EXPORT(filter_tile);

}  // namespace

void run_filter(float* dw, const float* x, const float* dy, const DenseConv& conv) {
    const int64_t pixels = conv.pixels(), depth = conv.depth(), K = conv.K;
    if (pixels == 0) {
        std::fill(dw, dw + depth * K, 0.0f);
        return;
    }
    const int64_t block = block_pixels(pixels), padded = HWY_DYNAMIC_DISPATCH(padded_columns)(K);
    const int64_t floats = block * (padded + conv.stride * conv.stride * conv.C);  // that a block reads
    const int64_t blocks = std::clamp<int64_t>(kStretchFloats / floats, 1, ceil_div(pixels, block));
    const int64_t strips = ceil_div(K, kPackColumns);
    const int64_t threads = threads_for(2.0 * double(pixels) * double(K) * double(depth));
    const Tiles tiles = choose_tiles(depth, K, kRowBlock, threads, 32);

    const int64_t gathered = kRowBlock * block, turned = kRowBlock * (block + kRowPadding);
    const int64_t scratch = round_up(gathered + turned, 16);
    static thread_local Workspace workspace;
    float* const panels = workspace.floats(blocks * block * padded + threads * scratch);
    for (int64_t first = 0; first < pixels; first += blocks * block) {
        const Stretch s = {first, std::min(blocks * block, pixels - first), block, panels};
#pragma omp parallel num_threads(int(threads))
        {
            float* const own = panels + blocks * block * padded + omp_get_thread_num() * scratch;
#pragma omp for schedule(static)
            for (int64_t i = 0; i < ceil_div(s.pixels, block) * strips; ++i) {
                const int64_t at = i / strips * block, n = std::min(block, s.pixels - at);
                HWY_DYNAMIC_DISPATCH(pack_strip)
                (panels + at * padded, dy + (first + at) * K, n, K, i % strips * kPackColumns);
            }
#pragma omp for schedule(dynamic, 1)
            for (int64_t t = 0; t < tiles.count(); ++t) {
                const int64_t i = t / tiles.across * tiles.rows, j = t % tiles.across * tiles.cols;
                const Tile tile = {i, std::min(tiles.rows, depth - i), j, std::min(tiles.cols, K - j)};
                HWY_DYNAMIC_DISPATCH(filter_tile)(dw, x, conv, s, tile, Scratch{own, own + gathered});
            }
        }
    }
}

}  // namespace lc::cpu
#endif  // HWY_ONCE

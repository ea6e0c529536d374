// conv2d_gemm.cpp -- engine `gemm` of the CPU convolution: an implicit matrix product (contract: conv2d.h; registers and
// panels: gemm_kernel.h; rows of patches: conv2d_kernel.h).
//
// Idea     y (pixels, K) = patches (pixels, R S C) w (R S C, K).  The patches exist one block at a time: 96 pixels and up to
//          384 of the depth, gathered into the thread's scratch.  The filters were packed into panels by conv2d_prepare, block
//          of depth by block of depth, so nothing is packed per call.
//
//                                                                      what is kept where (AVX2)
//               w (R S C, K), packed once     K columns
//                                     ┌──────────────┬─────┐           for tiles of 96 pixels, by any thread
//                                 384 │[][][][][][][]│     │               for depth in steps of 384
//                                     ├──────────────┴─────┤                   gather (96, 384)  144 KiB  L2
//                                     │                    │                   for groups of 8 panels
//               patches               └────────────────────┘                           (384, 128)  192 KiB  L2
//               384  (r, s, c)                                                     for rows in steps of 6
//             ┌──────┬────────┐       ┌────────────────────┐                               (6, 384)  9 KiB  L1
//          96 │══════│        │       │══6 x 16════════════│                           for panels of the group
//             ├──────┘        │       ├────────────────────┤                               micro-kernel
//             │  n, p, q      │       │                    │                               (6, 16)  registers
//             └───────────────┘       └────────────────────┘
//                                     y: the 96 rows stay in L2 until the last block of depth adds bias and residual
//
//          A 1 x 1 filter with stride 1 has its patches in x already: they are read in place where that is cheaper.
// Threads  tiles share nothing.  They are cut along columns too where there are few of them.
// Traffic  per 96 pixels all panels once, from L3 or memory: 4 bytes for 96 multiply-adds.
// Numbers  an element is one chain of fused multiply-adds for each block of depth, the blocks are added in order, then bias,
//          then residual.  The cuts of the depth depend on R S C and K alone.
// Profile  `make bench`
#ifndef LC_KERNELS_CONV2D_GEMM_CPP_ONCE  // the file is read once per SIMD target, this part only the first time
#define LC_KERNELS_CONV2D_GEMM_CPP_ONCE

#include <algorithm>
#include <cstring>
#include <omp.h>

#include "kernels/conv2d_cpu.h"
#include "kernels/conv2d_tiles.h"
#include "kernels/workspace.h"

namespace lc::cpu {
namespace {

constexpr int64_t kDepth = 384;         // of a block
constexpr int64_t kNarrow = 64;         // with at most so many filters,
constexpr int64_t kNarrowDepth = 1024;  // this
constexpr int64_t kRowBlock = 96;
constexpr int64_t kRowPadding = 16;  // floats between gathered rows, lest all of them begin in the same cache set

// The depth in equal blocks: the only cut that decides bits.
int64_t block_depth(int64_t depth, int64_t K) {
    const int64_t blocks = ceil_div(depth, K <= kNarrow ? kNarrowDepth : kDepth);
    return std::min(depth, round_up(ceil_div(depth, blocks), 8));
}

struct Tile {
    int64_t i, rows, j, cols;
};
struct Scratch {     // of one thread
    float* patches;  // (kRowBlock, block depth + kRowPadding)
    float* outputs;  // (kRowBlock, K), where the rows of y do not follow each other
};

}  // namespace
}  // namespace lc::cpu
#endif

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/conv2d_gemm.cpp"
#include <hwy/foreach_target.h>

#include "kernels/conv2d_kernel.h"

HWY_BEFORE_NAMESPACE();
namespace lc::cpu::HWY_NAMESPACE {
namespace {

int64_t padded_columns(int64_t K) { return round_up(K, kPanel); }

void pack_block(float* prepared, const float* w, int64_t depth, int64_t K, int64_t k) {
    const int64_t kc = std::min(block_depth(depth, K), depth - k);
    pack_plain(prepared + k * padded_columns(K), w + k * K, K, kc, K);
}

// Reading in place pays where a row is read by one group of panels only; not where rows begin a multiple of 4 KiB apart,
// and so in the same set of the L1 cache.
bool in_place(const DenseConv& conv, int64_t cols, int64_t depth) {
    return conv.plain() && cols <= group_columns(depth) && conv.C % 1024 != 0;
}

// Rows of outputs to where they belong, one by one.
void scatter(float* y, const float* block, const DenseConv& conv, Tile t) {
    for (int64_t i = 0; i < t.rows; ++i) {
        const int64_t n = (t.i + i) / (conv.P * conv.Q), p = (t.i + i) / conv.Q % conv.P, q = (t.i + i) % conv.Q;
        std::memcpy(y + n * conv.image + p * conv.row + q * conv.pixel + t.j, block + i * t.cols,
                    size_t(t.cols) * sizeof(float));
    }
}

void gemm_tile(float* y, const float* x, const float* prepared, const ConvEpilogue& e, const DenseConv& conv, Tile t,
               Scratch scratch) {
    const int64_t depth = conv.depth(), step = block_depth(depth, conv.K), ld = step + kRowPadding;
    const int64_t at = t.i * conv.K + t.j;
    for (int64_t k = 0; k < depth; k += step) {
        const int64_t kc = std::min(step, depth - k);
        const float* const panels = prepared + k * padded_columns(conv.K) + t.j * kc;
        ConvOutput out = {scratch.outputs, t.cols, k != 0, nullptr, nullptr, false};
        if (conv.packed()) out.c = y + at, out.ldc = conv.K;
        if (k + kc == depth) {
            out.bias = e.bias ? e.bias + t.j : nullptr;
            out.residual = e.residual ? e.residual + at : nullptr;
            out.relu = e.relu;
        }
        if (in_place(conv, t.cols, kc)) {
            multiply_panels(out, x + t.i * conv.C + k, conv.C, t.rows, panels, t.cols, kc);
        } else {
            gather_patches(scratch.patches, ld, x, conv, t.i, t.rows, k, kc);
            multiply_panels(out, scratch.patches, ld, t.rows, panels, t.cols, kc);
        }
    }
    if (!conv.packed()) scatter(y, scratch.outputs, conv, t);
}

}  // namespace
}  // namespace lc::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace lc::cpu {
namespace {

HWY_EXPORT(padded_columns);
HWY_EXPORT(pack_block);
HWY_EXPORT(gemm_tile);

}  // namespace

int64_t packed_gemm_floats(int64_t depth, int64_t K) {  // a multiple of 64 bytes
    return round_up(depth * HWY_DYNAMIC_DISPATCH(padded_columns)(K), 16);
}

int64_t pack_gemm(float* prepared, const float* w, int64_t depth, int64_t K) {
    for_each_chunk(depth, block_depth(depth, K), [=](int64_t k, int64_t) {  //
        HWY_DYNAMIC_DISPATCH(pack_block)(prepared, w, depth, K, k);
    });
    return packed_gemm_floats(depth, K);
}

void run_gemm(float* y, const float* x, const float* prepared, const ConvEpilogue& e, const DenseConv& conv) {
    const int64_t M = conv.pixels(), K = conv.K;
    if (M == 0) return;
    const int64_t threads = threads_for(2.0 * double(M) * double(K) * double(conv.depth()));
    const Tiles tiles = choose_tiles(M, K, kRowBlock, threads, 16);
    const int64_t patches = kRowBlock * (block_depth(conv.depth(), K) + kRowPadding);
    const int64_t outputs = conv.packed() ? 0 : kRowBlock * round_up(K, 16);
    static thread_local Workspace workspace;
    float* const memory = workspace.floats(threads * (patches + outputs));
    const auto run = [&](int64_t t, int64_t thread) {
        float* const own = memory + thread * (patches + outputs);
        const int64_t i = t / tiles.across * tiles.rows, j = t % tiles.across * tiles.cols;
        const Tile tile = {i, std::min(tiles.rows, M - i), j, std::min(tiles.cols, K - j)};
        HWY_DYNAMIC_DISPATCH(gemm_tile)(y, x, prepared, e, conv, tile, Scratch{own, own + patches});
    };
    if (threads == 1) {
        for (int64_t t = 0; t < tiles.count(); ++t) run(t, 0);
        return;
    }
#pragma omp parallel for schedule(dynamic, 1) num_threads(int(threads))
    for (int64_t t = 0; t < tiles.count(); ++t) run(t, omp_get_thread_num());
}

}  // namespace lc::cpu
#endif  // HWY_ONCE

// columns.cuh -- columns of a matrix folded to one number each, or a few: what sums, means and moments share on CUDA.
//
//     sum_columns(outs, terms, N, C, divisor, s)    out_kc = (sum over r of term k at (r, c)) / divisor
//     fold_columns(op, N, C, rows, s)               anything that can be joined, over segments of `rows` rows
//
// Idea     a block owns `width` neighbouring columns and 256 / width rows at a time, so that a warp reads neighbours; the
//          states of its threads are joined by a tree in shared memory (the shape of col_reduce in reduce.cu).
// Launch   block = 256, 1-D grid of segments x strips; width = 1 .. 32, the power of two that holds C.  Idle threads fold
//          nothing but keep reaching barriers.
// Shared   256 states; a thread writes its own, a barrier separates every level of the tree.
#pragma once
#include "kernels/device.cuh"
#include "kernels/reduce.h"

namespace lc::LC_CUDA_NS {

constexpr int kFoldUnroll = 8;                        // rows in flight per thread
constexpr int kFoldRows = kFoldUnroll * kFoldUnroll;  // rows per thread of a sum: chains of 8 + 8 additions
constexpr int kFoldBlock = 256;

// Op::State, and nothing() and join() for it; op.rows(r, step, end, c) is the state of the rows r, r + step, ... below
// `end`, at most kFoldUnroll of them, in column c; op.finish(segment, c, state) stores what a segment has come to.
template <class Op>
__global__ void __launch_bounds__(kFoldBlock) col_fold_kernel(Op op, int64_t N, int64_t C, int64_t rows, int width) {
    using State = typename Op::State;
    LC_SHARED(State, tree, [kFoldBlock]);
    const int t = int(threadIdx.x), height = kFoldBlock / width;
    const int64_t strips = ceil_div(C, width);  // blocks side by side
    const int64_t segment = blockIdx.x / strips, strip = blockIdx.x - segment * strips;
    const int64_t c = strip * width + (t & (width - 1)), first = segment * rows + t / width;
    const int64_t end = c < C ? min((segment + 1) * rows, N) : 0;
    State total = Op::nothing();
    for (int64_t r = first; r < end; r += kFoldUnroll * height) total = Op::join(total, op.rows(r, height, end, c));
    tree[t] = total;
    __syncthreads();
    for (int half = kFoldBlock / 2; half >= width; half /= 2) {
        if (t < half) tree[t] = Op::join(tree[t], tree[t + half]);
        __syncthreads();
    }
    if (t < width && c < C) op.finish(segment, c, tree[t]);
}

inline int fold_width(int64_t C) {
    int width = 1;
    while (width < kWarp && width < C) width *= 2;
    return width;
}
inline int64_t fold_rows(int64_t C) { return kFoldRows * (kFoldBlock / fold_width(C)); }  // of a segment of a sum

template <class Op>
void fold_columns(const Op& op, int64_t N, int64_t C, int64_t rows, Stream s) {
    const int width = fold_width(C);
    const dim3 grid = grid_of(ceil_div(N, rows) * ceil_div(C, width));
    LC_LAUNCH(col_fold_kernel<Op>, grid, kFoldBlock, 0, s, op, N, C, rows, width);
}

// ---- sums -----------------------------------------------------------------------------------------------------------

template <int K>
struct Sums {
    float of[K];
};
template <int K>
struct SumPlanes {  // (segments, C) each
    float* of[K];
};

// term(i, c) gives the Sums<K> of element i, which is in column c.
template <int K, class Term>
struct SumOp {
    using State = Sums<K>;
    Term term;
    SumPlanes<K> out;
    int64_t C;
    float divisor;

    __device__ static State nothing() { return {}; }
    __device__ static State join(State a, State b) {
#pragma unroll
        for (int k = 0; k < K; ++k) a.of[k] += b.of[k];
        return a;
    }
    __device__ State rows(int64_t r, int step, int64_t end, int64_t c) const {
        State part = {};
#pragma unroll
        for (int u = 0; u < kFoldUnroll; ++u) {
            part = join(part, r + u * step < end ? term((r + u * step) * C + c, c) : nothing());
        }
        return part;
    }
    __device__ void finish(int64_t segment, int64_t c, State sum) const {
#pragma unroll
        for (int k = 0; k < K; ++k) out.of[k][segment * C + c] = sum.of[k] / divisor;
    }
};

template <int K, class Term>
void sum_columns(SumPlanes<K> out, Term term, int64_t N, int64_t C, float divisor, Stream s) {
    const int64_t rows = fold_rows(C), segments = ceil_div(N, rows);
    if (segments == 1) return fold_columns(SumOp<K, Term>{term, out, C, divisor}, N, C, rows, s);
    const Workspace<float> sums(K * segments * C, s);  // (K, segments, C)
    SumPlanes<K> planes;
    for (int k = 0; k < K; ++k) planes.of[k] = sums.data() + k * segments * C;
    fold_columns(SumOp<K, Term>{term, planes, C, divisor}, N, C, rows, s);
    for (int k = 0; k < K; ++k) col_reduce(out.of[k], planes.of[k], segments, C, Reduction::sum, s);
}

}  // namespace lc::LC_CUDA_NS

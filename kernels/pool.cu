// pool.cu -- CUDA backend of pool (contract and formulas: pool.h).
//
// Idea     maxpool: a thread owns a channel of an output pixel and walks over its window.  maxpool_bwd: a thread owns a
//          channel of an input pixel, looks at the windows that see it and takes their gradients where their place is this
//          pixel, so that nothing is scattered and nothing needs an atomic.  avgpool: sums of the columns of an image
//          (columns.cuh), all images side by side.  avgpool_bwd: a thread per element.
// Launch   block = 256.  maxpool, maxpool_bwd: a block owns 256 neighbours of one row of pixels, (Q C) or (W C) of them.
//          avgpool: as in columns.cuh, N C columns of H W rows in one segment.  avgpool_bwd: ceil(N H W C / 256) blocks.
//          Threads past the end do nothing.
// Shared   avgpool: 256 floats; else none.
// Traffic  each array once from DRAM; overlapping windows come from L1 and L2.  A warp reads 32 neighbouring channels:
//          coalesced.  A comparison per load: bound by DRAM.
// Numbers  maxpool, avgpool_bwd exactly rounded; avgpool float32, chains of 8 + H W / 64 + 8 additions.
// Profile  `make sim-profile OP=maxpool` (or maxpool_bwd, avgpool, avgpool_bwd)
#include "kernels/columns.cuh"
#include "kernels/pool.h"
#include "kernels/pool_arguments.h"

namespace lc::LC_CUDA_NS {

constexpr int kPoolBlock = 256;

// Which number of which row of pixels a thread owns.  32-bit divisions: rows are shorter than 2^31 by contract.
struct PoolSpot {
    int64_t image, row;  // of the image
    int column, c;
    bool exists;
};
static __device__ __forceinline__ PoolSpot pool_spot(int64_t rows, int64_t columns, int64_t C) {
    const unsigned width = unsigned(columns * C), pieces = unsigned(ceil_div(width, kPoolBlock));
    const unsigned line = blockIdx.x / pieces, j = (blockIdx.x - line * pieces) * kPoolBlock + threadIdx.x;
    const unsigned image = line / unsigned(rows), column = j / unsigned(C);
    return {image, int64_t(line - image * unsigned(rows)), int(column), int(j - column * unsigned(C)), j < width};
}
static dim3 pool_grid(int64_t lines, int64_t width) { return grid_of(lines * ceil_div(width, kPoolBlock)); }

__global__ void __launch_bounds__(kPoolBlock) maxpool_kernel(float* __restrict__ y,        // (N, P, Q, C)
                                                             int32_t* __restrict__ place,  // the same, or null
                                                             const float* __restrict__ x,  // (N, H, W, C)
                                                             Pool s, int64_t P, int64_t Q) {
    const PoolSpot me = pool_spot(P, Q, s.C);
    if (!me.exists) return;
    const int64_t h = me.row * s.stride - s.pad, w = me.column * s.stride - s.pad;  // of the window's corner
    const int r_first = h < 0 ? int(-h) : 0, r_end = int(min(s.window, s.H - h));
    const int s_first = w < 0 ? int(-w) : 0, s_end = int(min(s.window, s.W - w));
    const float* const corner = x + ((me.image * s.H + h) * s.W + w) * s.C + me.c;
    float best = -INFINITY;
    int at = r_first * int(s.window) + s_first;
    for (int i = r_first; i < r_end; ++i) {
        for (int j = s_first; j < s_end; ++j) {
            const float v = corner[(i * s.W + j) * s.C];
            if (best == best && !(v <= best)) {  // a NaN is better than any number, and no other NaN is better than it
                best = v;
                at = i * int(s.window) + j;
            }
        }
    }
    const int64_t o = ((me.image * P + me.row) * Q + me.column) * s.C + me.c;
    y[o] = best;
    if (place != nullptr) place[o] = at;
}

__global__ void __launch_bounds__(kPoolBlock) maxpool_bwd_kernel(float* __restrict__ dx,             // (N, H, W, C)
                                                                 const float* __restrict__ dy,       // (N, P, Q, C)
                                                                 const int32_t* __restrict__ place,  // (N, P, Q, C)
                                                                 Pool s, int64_t P, int64_t Q) {
    const PoolSpot me = pool_spot(s.H, s.W, s.C);
    if (!me.exists) return;
    const int64_t h = me.row + s.pad, w = me.column + s.pad;  // in the padded image
    const int64_t p_first = h < s.window ? 0 : (h - s.window) / s.stride + 1, p_end = min(P, h / s.stride + 1);
    const int64_t q_first = w < s.window ? 0 : (w - s.window) / s.stride + 1, q_end = min(Q, w / s.stride + 1);
    float sum = 0.0f;
    for (int64_t p = p_first; p < p_end; ++p) {
        for (int64_t q = q_first; q < q_end; ++q) {
            const int64_t o = ((me.image * P + p) * Q + q) * s.C + me.c;
            if (place[o] == int32_t((h - p * s.stride) * s.window + w - q * s.stride)) sum += dy[o];
        }
    }
    dx[((me.image * s.H + me.row) * s.W + me.column) * s.C + me.c] = sum;
}

struct ImageMeanOp : SumOf {
    const float* x;  // (N, pixels, C)
    float* y;        // (N, C)
    int64_t pixels, C;

    __device__ State rows(int64_t r, int step, int64_t end, int64_t column) const {
        const int64_t n = column / C;
        const float* const channel = x + n * pixels * C + (column - n * C);
        State part = nothing();
#pragma unroll
        for (int u = 0; u < kFoldUnroll; ++u) part += r + u * step < end ? channel[(r + u * step) * C] : 0.0f;
        return part;
    }
    __device__ void finish(int64_t, int64_t column, State sum) const { y[column] = sum / float(pixels); }
};

__global__ void __launch_bounds__(kPoolBlock) avgpool_bwd_kernel(float* __restrict__ dx,        // (N, pixels, C)
                                                                 const float* __restrict__ dy,  // (N, C)
                                                                 int64_t n, int64_t pixels, int64_t C) {
    const int64_t i = int64_t(blockIdx.x) * kPoolBlock + threadIdx.x;
    if (i >= n) return;
    const int64_t pixel = i / C;
    dx[i] = dy[pixel / pixels * C + (i - pixel * C)] / float(pixels);
}

// ---- launchers ------------------------------------------------------------------------------------------------------

void maxpool(float* y, int32_t* place, const float* x, const Pool& shape, Stream s) {
    check_maxpool(y, place, x, shape);
    if (shape.N == 0) return;
    const dim3 grid = pool_grid(shape.N * shape.P(), shape.Q() * shape.C);
    LC_LAUNCH(maxpool_kernel, grid, kPoolBlock, 0, s, y, place, x, shape, shape.P(), shape.Q());
}

void maxpool_bwd(float* dx, const float* dy, const int32_t* place, const Pool& shape, Stream s) {
    check_maxpool_bwd(dx, dy, place, shape);
    if (shape.N == 0) return;
    const dim3 grid = pool_grid(shape.N * shape.H, shape.W * shape.C);
    LC_LAUNCH(maxpool_bwd_kernel, grid, kPoolBlock, 0, s, dx, dy, place, shape, shape.P(), shape.Q());
}

void avgpool(float* y, const float* x, const Pool& shape, Stream s) {
    check_images("avgpool", shape);
    const int64_t N = shape.N, pixels = shape.H * shape.W, C = shape.C;
    check_disjoint("avgpool", {"y", y, N * C}, {"x", x, N * pixels * C});
    if (N == 0) return;
    fold_columns(ImageMeanOp{{}, x, y, pixels, C}, pixels, N * C, pixels, s);
}

void avgpool_bwd(float* dx, const float* dy, const Pool& shape, Stream s) {
    check_images("avgpool_bwd", shape);
    const int64_t N = shape.N, pixels = shape.H * shape.W, C = shape.C;
    check_disjoint("avgpool_bwd", {"dx", dx, N * pixels * C}, {"dy", dy, N * C});
    if (N == 0) return;
    LC_LAUNCH(avgpool_bwd_kernel, grid_of(ceil_div(N * pixels * C, kPoolBlock)), kPoolBlock, 0, s, dx, dy,
              N * pixels * C, pixels, C);
}

}  // namespace lc::LC_CUDA_NS

// softmax.cu -- CUDA backend of softmax (contract and formulas: softmax.h).
//
// Idea     a group of threads owns a row and walks over it three times: maximum, sum of exponentials, output (backward:
//          twice, sum and output).  The formula as it stands; the second and third walk find the row in cache.  The first
//          two walks are in softmax.cuh.
// Launch   block = 256, grid = ceil(N lanes / 256); `lanes` threads per row: 1 .. 32 for C <= 1024, so a block holds
//          256 / lanes rows, and the whole block beyond.  Thread l owns elements l, l + lanes, ...  Groups past row N
//          walk over an empty row, because shuffles and barriers need every thread.
// Shared   8 floats (one per warp), only where lanes = 256; see block_reduce.
// Traffic  compulsory 8 N C B (backward 12 N C B).  Scheduled: x is read 3 times, first from DRAM, then from L1 while
//          the rows of the resident blocks fit (C <= 1024: at most 32 KiB per block), else from L2; y is written once.
//          Two accurate expf per element, some 30 instructions per 8 bytes: bound by DRAM.
// Numbers  as softmax.cuh: a row that has no softmax makes S a NaN, and so the whole row.
// Profile  `make sim-profile OP=softmax` (or log_softmax, softmax_bwd, log_softmax_bwd)
#include "kernels/arguments.h"
#include "kernels/softmax.cuh"
#include "kernels/softmax.h"

namespace lc::LC_CUDA_NS {

// No __restrict__ in both kernels: the output may be an input.  A thread writes only what it alone has read before.
template <bool kLog>
__global__ void __launch_bounds__(kRowBlock) softmax_kernel(float* y,        // (N, C)
                                                            const float* x,  // (N, C)
                                                            int64_t N, int64_t C, int lanes) {
    const RowShare row = row_share(N, C, lanes);
    const auto [top, sum] = softmax_sums(x, row, lanes);
    const float log_sum = kLog ? logf(sum) : 0.0f;
#pragma unroll 4
    for (int64_t i = row.first; i < row.end; i += lanes) {
        y[i] = kLog ? (x[i] - top) - log_sum : expf(x[i] - top) / sum;
    }
}

template <bool kLog>
__global__ void __launch_bounds__(kRowBlock) softmax_bwd_kernel(float* dx,        // (N, C)
                                                                const float* dy,  // (N, C)
                                                                const float* y,   // (N, C)
                                                                int64_t N, int64_t C, int lanes) {
    const RowShare row = row_share(N, C, lanes);
    float sum = 0.0f;
#pragma unroll 4
    for (int64_t i = row.first; i < row.end; i += lanes) sum += kLog ? dy[i] : dy[i] * y[i];
    sum = group_reduce<SumOf>(sum, lanes);
#pragma unroll 4
    for (int64_t i = row.first; i < row.end; i += lanes) {
        dx[i] = kLog ? dy[i] - expf(y[i]) * sum : y[i] * (dy[i] - sum);
    }
}

// ---- launchers ------------------------------------------------------------------------------------------------------

static void check_classes(const char* op, int64_t N, int64_t C) {
    check_shape(op, N, C);
    LC_CHECK(C >= 1, op << ": a row needs at least one class; found C = " << C);
}

static dim3 grid_for(int64_t N, int64_t C) { return grid_of(ceil_div(N * row_lanes(C), kRowBlock)); }

void softmax(float* y, const float* x, int64_t N, int64_t C, Stream s) {
    check_classes("softmax", N, C);
    check_same_or_disjoint("softmax", {"y", y, N * C}, {"x", x, N * C});
    if (N == 0) return;
    LC_LAUNCH(softmax_kernel<false>, grid_for(N, C), kRowBlock, 0, s, y, x, N, C, row_lanes(C));
}

void log_softmax(float* y, const float* x, int64_t N, int64_t C, Stream s) {
    check_classes("log_softmax", N, C);
    check_same_or_disjoint("log_softmax", {"y", y, N * C}, {"x", x, N * C});
    if (N == 0) return;
    LC_LAUNCH(softmax_kernel<true>, grid_for(N, C), kRowBlock, 0, s, y, x, N, C, row_lanes(C));
}

void softmax_bwd(float* dx, const float* dy, const float* y, int64_t N, int64_t C, Stream s) {
    check_classes("softmax_bwd", N, C);
    check_same_or_disjoint("softmax_bwd", {"dx", dx, N * C}, {"dy", dy, N * C});
    check_same_or_disjoint("softmax_bwd", {"dx", dx, N * C}, {"y", y, N * C});
    if (N == 0) return;
    LC_LAUNCH(softmax_bwd_kernel<false>, grid_for(N, C), kRowBlock, 0, s, dx, dy, y, N, C, row_lanes(C));
}

void log_softmax_bwd(float* dx, const float* dy, const float* y, int64_t N, int64_t C, Stream s) {
    check_classes("log_softmax_bwd", N, C);
    check_same_or_disjoint("log_softmax_bwd", {"dx", dx, N * C}, {"dy", dy, N * C});
    check_same_or_disjoint("log_softmax_bwd", {"dx", dx, N * C}, {"y", y, N * C});
    if (N == 0) return;
    LC_LAUNCH(softmax_bwd_kernel<true>, grid_for(N, C), kRowBlock, 0, s, dx, dy, y, N, C, row_lanes(C));
}

}  // namespace lc::LC_CUDA_NS

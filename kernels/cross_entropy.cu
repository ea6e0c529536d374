// cross_entropy.cu -- CUDA backend of cross_entropy (contract and formulas: cross_entropy.h).
//
// Idea     a group of threads owns a row and walks over it three times: maximum, sum of exponentials (softmax.cuh),
//          gradient.  The second and third walk find the row in cache.
// Launch   block = 256, grid = ceil(N lanes / 256); `lanes` threads per row as in softmax.cu: 1 .. 32 for C <= 1024, the
//          whole block beyond.  Thread l owns elements l, l + lanes, ...
// Shared   16 floats (one per warp, for maximum and sum), only where lanes = 256; see block_reduce.
// Traffic  compulsory 8 N C B with the gradient, 4 N C B without.  Scheduled: logits 3 times, all but the first from L1 or
//          L2.  Two accurate expf per element: bound by DRAM.
// Numbers  as softmax.cuh.  A label that is no class makes the sum NaN, and so its loss and its row of the gradient.
// Profile  `make sim-profile OP=cross_entropy`
#include "kernels/cross_entropy.h"
#include "kernels/cross_entropy_arguments.h"
#include "kernels/softmax.cuh"

namespace lc::LC_CUDA_NS {

__global__ void __launch_bounds__(kRowBlock) cross_entropy_kernel(float* __restrict__ loss,            // (N)
                                                                  float* __restrict__ dlogits,         // (N, C) or null
                                                                  const float* __restrict__ logits,    // (N, C)
                                                                  const int32_t* __restrict__ labels,  // (N)
                                                                  int64_t N, int64_t C, float scale, int lanes) {
    const RowShare row = row_share(N, C, lanes);
    const SoftmaxSums softmax = softmax_sums(logits, row, lanes);
    if (row.row >= N) return;

    const int32_t label = labels[row.row];
    const bool known = label >= 0 && label < C;
    const int64_t at_label = row.row * C + (known ? label : 0);
    const float sum = known ? softmax.sum : NAN;
    if (row.first == row.row * C) loss[row.row] = logf(sum) + (softmax.top - logits[at_label]);
    if (dlogits == nullptr) return;
#pragma unroll 4
    for (int64_t i = row.first; i < row.end; i += lanes) {
        dlogits[i] = scale * (expf(logits[i] - softmax.top) / sum - (i == at_label ? 1.0f : 0.0f));
    }
}

void cross_entropy(float* loss, float* dlogits, const float* logits, const int32_t* labels, int64_t N, int64_t C,
                   float scale, Stream s) {
    check_cross_entropy(loss, dlogits, logits, labels, N, C);
    if (N == 0) return;
    const int lanes = row_lanes(C);
    LC_LAUNCH(cross_entropy_kernel, grid_of(ceil_div(N * lanes, kRowBlock)), kRowBlock, 0, s, loss, dlogits, logits,
              labels, N, C, scale, lanes);
}

}  // namespace lc::LC_CUDA_NS

// softmax.cuh -- how a group of threads walks over the softmax of a row (formulas: softmax.h; groups: device.cuh).
//
// Numbers  float32; the sum is at least 1, because the maximum adds exp(0).  NaN, +inf and rows of -inf make the maximum or
//          the sum a NaN, and so whatever is divided by it, without a branch.  Sums: at most ceil(C / lanes) terms in a
//          chain, then a tree; fixed order, bitwise repeatable.
#pragma once
#include "kernels/device.cuh"

namespace lc::LC_CUDA_NS {

// The elements of this thread: first, first + lanes, ... below end, counted from the start of the matrix.  A group past
// row N walks over an empty row, because shuffles and barriers need every thread.
struct RowShare {
    int64_t row, first, end;
};
static __device__ __forceinline__ RowShare row_share(int64_t N, int64_t C, int lanes) {
    const int64_t r = (int64_t(blockIdx.x) * kRowBlock + threadIdx.x) / lanes;
    if (r >= N) return {r, 0, 0};
    return {r, r * C + (int(threadIdx.x) & (lanes - 1)), (r + 1) * C};
}

// The maximum of a row and the sum of exp(x - maximum), in every thread of its group.  All threads of the block must call.
struct SoftmaxSums {
    float top, sum;
};
static __device__ __forceinline__ SoftmaxSums softmax_sums(const float* x, RowShare row, int lanes) {
    float top = -INFINITY;
#pragma unroll 4
    for (int64_t i = row.first; i < row.end; i += lanes) top = MaxOf::join(top, x[i]);
    top = group_reduce<MaxOf>(top, lanes);

    float sum = 0.0f;
#pragma unroll 4
    for (int64_t i = row.first; i < row.end; i += lanes) sum += expf(x[i] - top);
    return {top, group_reduce<SumOf>(sum, lanes)};
}

}  // namespace lc::LC_CUDA_NS

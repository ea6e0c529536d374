// sgd.cu -- CUDA backend of sgd (contract and formulas: sgd.h).
//
// Idea     a thread owns an element: its three numbers are neighbours of the next thread's in all three arrays.
// Launch   grid = ceil(n / 256), block = 256; thread i <-> element i.  Threads past the end do nothing.
// Shared   none.
// Traffic  20 B per element, coalesced 4-byte accesses; three multiply-adds: bound by DRAM.
// Numbers  float32.
// Profile  `make sim-profile OP=sgd`
#include "kernels/arguments.h"
#include "kernels/device.cuh"
#include "kernels/sgd.h"

namespace lc::LC_CUDA_NS {

constexpr int kSgdBlock = 256;

__global__ void __launch_bounds__(kSgdBlock) sgd_kernel(float* __restrict__ x,        // (n)
                                                        float* __restrict__ v,        // (n)
                                                        const float* __restrict__ g,  // (n)
                                                        int64_t n, SgdNumbers k) {
    const int64_t i = int64_t(blockIdx.x) * kSgdBlock + threadIdx.x;
    if (i >= n) return;
    const float slope = k.decay != 0.0f ? fmaf(k.decay, x[i], g[i]) : g[i];
    const float speed = k.fresh ? slope : fmaf(k.momentum, v[i], slope);
    v[i] = speed;
    x[i] = fmaf(-k.lr, speed, x[i]);
}

void sgd(float* x, float* v, const float* g, int64_t n, const SgdStep& step, Stream s) {
    const SgdNumbers numbers = sgd_numbers(step);
    check_length("sgd", n);
    check_disjoint("sgd", {"x", x, n}, {"v", v, n});
    check_disjoint("sgd", {"x", x, n}, {"g", g, n});
    check_disjoint("sgd", {"v", v, n}, {"g", g, n});
    if (n == 0) return;
    LC_LAUNCH(sgd_kernel, grid_of(ceil_div(n, kSgdBlock)), kSgdBlock, 0, s, x, v, g, n, numbers);
}

}  // namespace lc::LC_CUDA_NS

// adam.cu -- CUDA backend of adam (contract and formulas: adam.h).
//
// Idea     a thread owns an element: its four numbers are neighbours of the next thread's in all four arrays.
// Launch   grid = ceil(n / 256), block = 256; thread i <-> element i.  Threads past the end do nothing.
// Shared   none.
// Traffic  28 B per element, coalesced 4-byte accesses; some 20 instructions: bound by DRAM.
// Numbers  float32; square root and division are exactly rounded.
// Profile  `make sim-profile OP=adam`
#include "kernels/adam.h"
#include "kernels/arguments.h"
#include "kernels/device.cuh"

namespace lc::LC_CUDA_NS {

constexpr int kAdamBlock = 256;

__global__ void __launch_bounds__(kAdamBlock) adam_kernel(float* __restrict__ x,        // (n)
                                                          float* __restrict__ m,        // (n)
                                                          float* __restrict__ v,        // (n)
                                                          const float* __restrict__ g,  // (n)
                                                          int64_t n, AdamNumbers k) {
    const int64_t i = int64_t(blockIdx.x) * kAdamBlock + threadIdx.x;
    if (i >= n) return;
    const float grad = k.decay != 0.0f ? fmaf(k.decay, x[i], g[i]) : g[i];
    const float first = fmaf(k.beta1, m[i], k.rest1 * grad);
    const float second = fmaf(k.beta2, v[i], k.rest2 * (grad * grad));
    m[i] = first;
    v[i] = second;
    x[i] -= k.rate * first / (sqrtf(k.v_scale * second) + k.eps);
}

void adam(float* x, float* m, float* v, const float* g, int64_t n, const AdamStep& step, Stream s) {
    const AdamNumbers numbers = adam_numbers(step);
    check_length("adam", n);
    const Array arrays[] = {{"x", x, n}, {"m", m, n}, {"v", v, n}, {"g", g, n}};
    for (int i = 0; i < 4; ++i) {
        for (int j = 0; j < i; ++j) check_disjoint("adam", arrays[j], arrays[i]);
    }
    if (n == 0) return;
    LC_LAUNCH(adam_kernel, grid_of(ceil_div(n, kAdamBlock)), kAdamBlock, 0, s, x, m, v, g, n, numbers);
}

}  // namespace lc::LC_CUDA_NS

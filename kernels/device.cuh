// device.cuh -- small device functions shared by the kernels.
#pragma once
#include "kernels/launch.h"

namespace lc::LC_CUDA_NS {

constexpr unsigned kFullWarp = 0xffffffffu;

LC_HOST_DEVICE constexpr int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

// Butterfly reductions: afterwards every lane holds the result, added in the same order in every lane.
__device__ __forceinline__ float warp_sum(float v) {
    for (int d = 16; d > 0; d /= 2) v += __shfl_xor_sync(kFullWarp, v, d);
    return v;
}

}  // namespace lc::LC_CUDA_NS

// conv2d.cuh -- what the CUDA files of conv2d.h share: where results go, and what happens to them on the way.
#pragma once
#include "kernels/conv2d.h"
#include "kernels/device.cuh"

namespace lc::LC_CUDA_NS {

struct ConvOutput {
    float* data;            // (rows, columns)
    const float* bias;      // (columns), or null
    const float* residual;  // (rows, columns), or null; may be `data` itself
    int columns;
    bool relu, four;  // four: may data and residual be accessed in float4?
};

inline ConvOutput conv_output(float* data, const ConvEpilogue& epilogue, int64_t columns) {
    const bool aligned = aligned16(data) && aligned16(epilogue.residual);  // null is aligned
    return {data, epilogue.bias, epilogue.residual, int(columns), epilogue.relu, aligned && columns % 4 == 0};
}

__device__ __forceinline__ float relu_if(bool wanted, float v) { return wanted && v < 0.0f ? 0.0f : v; }  // NaN stays

// The element at `at`, whose bias was added.
__device__ __forceinline__ void store_one(const ConvOutput& out, int64_t at, float v) {
    if (out.residual != nullptr) v += out.residual[at];
    out.data[at] = relu_if(out.relu, v);
}

}  // namespace lc::LC_CUDA_NS

// conv2d.cuh -- what the CUDA files of conv2d.h share: counting of pixels, and where results go.
#pragma once
#include "kernels/conv2d.h"
#include "kernels/device.cuh"

namespace lc::LC_CUDA_NS {

constexpr int kOutside = -(1 << 30);  // a place that no tap brings back into an image

// Pixel `first` + offset of images of height x width pixels that follow each other.
struct ConvPixel {
    int64_t n;
    int i, j;
    __device__ ConvPixel(int64_t first, int offset, int height, int width) {
        const int area = height * width;
        n = first / area;
        const int within = int(first - n * area) + offset;
        n += within / area;
        i = within % area / width, j = within % area % width;
    }
};

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

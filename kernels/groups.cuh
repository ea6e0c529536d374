// groups.cuh -- four neighbouring floats of an array, by one 16-byte access where that is possible.
#pragma once
#include "kernels/launch.h"

namespace lc::LC_CUDA_NS {

// Four floats from p, of which `left` exist (none where it is not positive).  `vector`: all of them do, and p is aligned.
__device__ __forceinline__ void load_group(float (&v)[4], const float* p, int64_t left, bool vector) {
    if (vector) {
        const float4 q = ld4(p);
        v[0] = q.x, v[1] = q.y, v[2] = q.z, v[3] = q.w;
    } else {
#pragma unroll
        for (int e = 0; e < 4; ++e) v[e] = e < left ? p[e] : 0.0f;
    }
}

__device__ __forceinline__ void store_group(float* p, const float (&v)[4], int64_t left, bool vector) {
    if (vector) {
        st4(p, make_float4(v[0], v[1], v[2], v[3]));
    } else {
#pragma unroll
        for (int e = 0; e < 4; ++e) {
            if (e < left) p[e] = v[e];
        }
    }
}

}  // namespace lc::LC_CUDA_NS

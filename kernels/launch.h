// launch.h -- the dialect of our .cu files: the one place where "compiled by nvcc" and "compiled by g++ for the
// simulator" differ.  A kernel file includes this and is then the same text for both.
//
//     LC_CUDA_NS                         namespace of the ops in a .cu file: lc::cuda by nvcc, lc::sim by g++
//     LC_SHARED(float, tile, [8][132]);  a static __shared__ array, 16-byte aligned
//     LC_DYNAMIC_SMEM(float, smem);      float* smem: the launch's dynamic shared memory, 16-byte aligned
//     LC_LAUNCH(kernel, grid, block, smem_bytes, stream, args...)
//                                        NVTX range named after the op, dynamic shared memory opt-in above 48 KiB,
//                                        launch checked.  Templates need parentheses: LC_LAUNCH((k<1, 2>), ...)
//     LC_CUDA_CHECK(expression)          a CUDA runtime call that must succeed
//     ld4(p), st4(p, v)                  one 16-byte access to four floats, or ld4 to four ints; p 16-byte aligned
//     kSliceBytes                        scratch memory of an op that works in slices.  The simulator gives little, so
//                                        that small cases come in several slices too
//
// Rules for kernels, so that the simulator can prove them: no <<<>>>, no raw __shared__, no inline PTX outside
// device.cuh, no spin waits between blocks, no return before a barrier that others will reach, full-mask warp
// operations outside divergent code, every kernel with __launch_bounds__, every kernel visible (not static, not in an
// anonymous namespace).
#pragma once
#include "kernels/check.h"
#include "kernels/launch_qualifiers.h"
#include "kernels/op.h"

#ifdef __CUDACC__
    #include <cuda_runtime.h>
    #include <nvtx3/nvToolsExt.h>
    #include <utility>

    #ifndef LC_CUDA_NS  // the PTX that the simulator runs is compiled with -DLC_CUDA_NS=sim, so that names match
        #define LC_CUDA_NS cuda
    #endif
    #define LC_SHARED(T, name, dims) __shared__ __align__(16) T name dims
    #define LC_DYNAMIC_SMEM(T, name)                                           \
        extern __shared__ __align__(16) unsigned char lc_dynamic_smem_bytes[]; \
        T* name = reinterpret_cast<T*>(lc_dynamic_smem_bytes)
    #define LC_LAUNCH(kernel, grid, block, smem, stream, ...) \
        ::lc::launch(__func__, #kernel, kernel, grid, block, smem, stream, __VA_ARGS__)

__device__ __forceinline__ float4 ld4(const float* p) { return *reinterpret_cast<const float4*>(p); }
__device__ __forceinline__ int4 ld4(const int* p) { return *reinterpret_cast<const int4*>(p); }
__device__ __forceinline__ void st4(float* p, float4 v) { *reinterpret_cast<float4*>(p) = v; }

namespace lc {
constexpr int64_t kSliceBytes = int64_t(256) << 20;
}
#else
    #include "kernels/sim/cusim.h"
    #define LC_CUDA_NS sim

namespace lc {
constexpr int64_t kSliceBytes = int64_t(128) << 10;
}
#endif

#define LC_CUDA_CHECK(expression) ::lc::cuda_check(expression, #expression, LC_HERE)

namespace lc {

inline void cuda_check(cudaError_t e, const char* what, const char* where) {
    if (e == cudaSuccess) return;
    throw DeviceError(std::string("CUDA: ") + cudaGetErrorString(e) + " in " + what + " at " + where +
                      "; LC_SYNC_LAUNCHES=1 finds the launch to blame, `make doctor` says what this machine has");
}

#ifdef __CUDACC__
bool sync_launches();  // environment variable LC_SYNC_LAUNCHES: wait after every launch, to blame the right one

template <class... Parameters, class... Args>
void launch(const char* op, const char* kernel_name, void (*kernel)(Parameters...), dim3 grid, dim3 block, size_t smem,
            Stream stream, Args&&... args) {
    nvtxRangePushA(op);
    if (smem > 48 * 1024) {  // above 48 KiB the kernel has to ask
        cuda_check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, int(smem)), kernel_name,
                   op);
    }
    kernel<<<grid, block, smem, static_cast<cudaStream_t>(stream)>>>(std::forward<Args>(args)...);
    cudaError_t e = cudaGetLastError();
    if (e == cudaSuccess && sync_launches()) e = cudaStreamSynchronize(static_cast<cudaStream_t>(stream));
    nvtxRangePop();
    cuda_check(e, kernel_name, op);
}
#endif

}  // namespace lc

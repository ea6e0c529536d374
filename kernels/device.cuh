// device.cuh -- what the .cu files share: reductions over a warp or a block, grids, scratch memory.
#pragma once
#include <cmath>
#include <limits>

#include "kernels/launch.h"

namespace lc::LC_CUDA_NS {

constexpr unsigned kFullWarp = 0xffffffffu;
constexpr int kWarp = 32;

LC_HOST_DEVICE constexpr int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

// ---- reductions over a group of threads -----------------------------------------------------------------------------

// What can be reduced: a state, the state of nothing, and how two states become one.
struct SumOf {
    using State = float;
    __device__ static State nothing() { return 0.0f; }
    __device__ static State join(State a, State b) { return a + b; }
};
struct MaxOf {  // a NaN is greater than everything (fmaxf would drop it); zeros of either sign tie
    using State = float;
    __device__ static State nothing() { return -INFINITY; }
    __device__ static State join(State a, State b) { return a != a || a > b ? a : b; }
};

// Rows of a matrix are worked on by groups of `lanes` neighbouring threads, a power of two: a part of a warp where rows
// are short, a warp, or a whole block of kRowBlock threads.  Thread l of a group owns elements l, l + lanes, ...
constexpr int kRowBlock = 256;

inline int row_lanes(int64_t C) {
    if (C > 1024) return kRowBlock;
    int lanes = 1;
    while (lanes < kWarp && lanes < C) lanes *= 2;
    return lanes;
}

// Reduces over each group of `lanes` <= 32 neighbouring lanes by a butterfly: afterwards all of them hold the result,
// joined in the same tree.  All lanes of the warp must call.
template <class Op>
__device__ __forceinline__ typename Op::State warp_reduce(typename Op::State v, int lanes) {
    for (int d = lanes / 2; d > 0; d /= 2) v = Op::join(v, __shfl_xor_sync(kFullWarp, v, d));
    return v;
}

__device__ __forceinline__ float warp_sum(float v) { return warp_reduce<SumOf>(v, kWarp); }

// Reduces over a block of kRowBlock threads.  All of them must call; all of them get the result.
template <class Op>
__device__ __forceinline__ typename Op::State block_reduce(typename Op::State v) {
    using State = typename Op::State;
    constexpr int kWarps = kRowBlock / kWarp;
    LC_SHARED(State, of_warp, [kWarps]);
    const int warp = int(threadIdx.x) / kWarp, lane = int(threadIdx.x) % kWarp;
    v = warp_reduce<Op>(v, kWarp);
    __syncthreads();  // an earlier block_reduce may still be reading of_warp
    if (lane == 0) of_warp[warp] = v;
    __syncthreads();
    return warp_reduce<Op>(of_warp[lane % kWarps], kWarps);
}

template <class Op>
__device__ __forceinline__ typename Op::State group_reduce(typename Op::State v, int lanes) {
    return lanes == kRowBlock ? block_reduce<Op>(v) : warp_reduce<Op>(v, lanes);
}

// ---- for launchers --------------------------------------------------------------------------------------------------

// A grid of `blocks` blocks along x, where the hardware takes most of them.
inline dim3 grid_of(int64_t blocks) {
    LC_CHECK(blocks > 0 && blocks <= std::numeric_limits<int32_t>::max(), "no grid has " << blocks << " blocks");
    return dim3(unsigned(blocks));
}

// Do four floats at a time lie on 16-byte boundaries, as ld4 and st4 need it?
inline bool aligned16(const void* p) { return reinterpret_cast<uintptr_t>(p) % 16 == 0; }

// Scratch memory between the launches of one op: taken and given back in the order of the stream, so that no host
// thread waits.
template <class T>
class Workspace {
  public:
    Workspace(int64_t count, Stream s) : stream_(static_cast<cudaStream_t>(s)) {
        void* p = nullptr;
        LC_CUDA_CHECK(cudaMallocAsync(&p, size_t(count) * sizeof(T), stream_));
        data_ = static_cast<T*>(p);
    }
    ~Workspace() { (void)cudaFreeAsync(data_, stream_); }  // a failure here shows at the next checked call
    Workspace(const Workspace&) = delete;
    Workspace& operator=(const Workspace&) = delete;
    T* data() const { return data_; }

  private:
    T* data_ = nullptr;
    cudaStream_t stream_;
};

}  // namespace lc::LC_CUDA_NS

// cusim.h -- the CUDA dialect for g++ and clang++: what a .cu file sees when it is compiled for the simulator instead
// of by nvcc (launch.h chooses).  Keywords, indices, warp operations, atomics, shared memory, launches.
#pragma once
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "kernels/sim/control.h"
#include "kernels/sim/cuda_api.h"
#include "kernels/sim/engine.h"
#include "kernels/sim/intrinsics.h"
#include "kernels/sim/launch_request.h"

// ---- keywords -------------------------------------------------------------------------------------------------------

#define __global__
#define __device__
#define __host__
#define __grid_constant__
#define __forceinline__ inline __attribute__((always_inline))
#define __launch_bounds__(...)
#define __align__(n) __attribute__((aligned(n)))
// A raw __shared__ array would be one C++ static for all blocks, without bounds: it does not compile.
#define __shared__   LC_ERROR_write_LC_SHARED_or_LC_DYNAMIC_SMEM_instead_of_raw_shared
#define __constant__ LC_ERROR_constant_memory_is_not_simulated_pass_a_struct_by_value

#define threadIdx (::cusim::indices.thread)
#define blockIdx  (::cusim::indices.block)
#define blockDim  (::cusim::indices.block_dim)
#define gridDim   (::cusim::indices.grid_dim)
constexpr int warpSize = 32;

// ---- barriers and warp operations -----------------------------------------------------------------------------------

#define __syncthreads() ::cusim::sync_threads(__FILE__, __LINE__)
#define __syncwarp(...) \
    ((void)::cusim::warp_op(::cusim::WarpOp::sync, ::cusim::mask_or_full(__VA_ARGS__), 0, 0, 32, __FILE__, __LINE__))
#define __shfl_sync(...)       ::cusim::shuffle(::cusim::WarpOp::shfl_idx, __FILE__, __LINE__, __VA_ARGS__)
#define __shfl_up_sync(...)    ::cusim::shuffle(::cusim::WarpOp::shfl_up, __FILE__, __LINE__, __VA_ARGS__)
#define __shfl_down_sync(...)  ::cusim::shuffle(::cusim::WarpOp::shfl_down, __FILE__, __LINE__, __VA_ARGS__)
#define __shfl_xor_sync(...)   ::cusim::shuffle(::cusim::WarpOp::shfl_xor, __FILE__, __LINE__, __VA_ARGS__)
#define __ballot_sync(mask, p) unsigned(::cusim::vote(::cusim::WarpOp::ballot, mask, bool(p), __FILE__, __LINE__))
#define __any_sync(mask, p)    int(::cusim::vote(::cusim::WarpOp::any, mask, bool(p), __FILE__, __LINE__))
#define __all_sync(mask, p)    int(::cusim::vote(::cusim::WarpOp::all, mask, bool(p), __FILE__, __LINE__))

namespace cusim {

CUSIM_INLINE unsigned mask_or_full(unsigned mask = 0xffffffffu) { return mask; }

template <class T>
CUSIM_INLINE T shuffle(WarpOp op, const char* file, int line, unsigned mask, T value, int arg, int width = 32) {
    static_assert(std::is_arithmetic_v<T> && (sizeof(T) == 4 || sizeof(T) == 8), "CUDA shuffles 4- and 8-byte numbers");
    using Bits = std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>;
    return bit_cast<T>(Bits(warp_op(op, mask, bit_cast<Bits>(value), arg, width, file, line)));
}
CUSIM_INLINE uint64_t vote(WarpOp op, unsigned mask, bool value, const char* file, int line) {
    return warp_op(op, mask, value, 0, 32, file, line);
}

}  // namespace cusim

// ---- atomics --------------------------------------------------------------------------------------------------------

// Value parameters take any argument that converts, as CUDA's overloads do.
#define CUSIM_ATOMIC(name, op)                                          \
    template <class T>                                                  \
    CUSIM_INLINE T name(T* address, std::type_identity_t<T> value) {    \
        return ::cusim::atomic<T>(::cusim::Atomic::op, address, value); \
    }
CUSIM_ATOMIC(atomicAdd, add)
CUSIM_ATOMIC(atomicSub, sub)
CUSIM_ATOMIC(atomicExch, exch)
CUSIM_ATOMIC(atomicMin, min)
CUSIM_ATOMIC(atomicMax, max)
CUSIM_ATOMIC(atomicAnd, and_)
CUSIM_ATOMIC(atomicOr, or_)
CUSIM_ATOMIC(atomicXor, xor_)
CUSIM_ATOMIC(atomicInc, inc)
CUSIM_ATOMIC(atomicDec, dec)
#undef CUSIM_ATOMIC
template <class T>
CUSIM_INLINE T atomicCAS(T* address, std::type_identity_t<T> compare, std::type_identity_t<T> value) {
    return ::cusim::atomic<T>(::cusim::Atomic::cas, address, value, compare);
}

// ---- memory ---------------------------------------------------------------------------------------------------------

CUSIM_INLINE float4 ld4(const float* p) { return cusim::load16(p); }
CUSIM_INLINE int4 ld4(const int* p) { return cusim::bit_cast<int4>(cusim::load16(p)); }
CUSIM_INLINE void st4(float* p, float4 v) { cusim::store16(p, v); }

// An array per block, found by its site: named, bounded, full of NaN when a block starts.
#define LC_SHARED(T, name, dims)                                                              \
    typedef T name##_type_ dims;                                                              \
    static ::cusim::SharedSite name##_site_{#name, sizeof(name##_type_), __FILE__, __LINE__}; \
    name##_type_& name = *reinterpret_cast<name##_type_*>(::cusim::shared_static(name##_site_))

#define LC_DYNAMIC_SMEM(T, name) T* name = static_cast<T*>(::cusim::shared_dynamic())

// ---- launches -------------------------------------------------------------------------------------------------------

#define LC_LAUNCH(kernel, grid, block, smem, stream, ...) \
    ::cusim::launch(__func__, #kernel, kernel, grid, block, smem, stream, __VA_ARGS__)

namespace cusim {

constexpr size_t align_up(size_t n, size_t alignment) { return (n + alignment - 1) / alignment * alignment; }

// Byte offsets of the parameters in nvcc's layout, and the size of the whole block at the end.
template <class... P>
constexpr auto param_offsets() {
    struct {
        size_t at[sizeof...(P) + 1] = {};
    } offsets;
    const size_t sizes[] = {sizeof(P)..., 0}, alignments[] = {alignof(P)..., 1};
    size_t end = 0;
    for (size_t i = 0; i < sizeof...(P); ++i) {
        offsets.at[i] = align_up(end, alignments[i]);
        end = offsets.at[i] + sizes[i];
    }
    offsets.at[sizeof...(P)] = end;
    return offsets;
}

template <class P>
CUSIM_INLINE P unpack(const char* params, size_t offset) {
    P p;
    std::memcpy(&p, params + offset, sizeof(P));
    return p;
}

template <class... P, size_t... I>
CUSIM_INLINE void call_unpacked(void (*kernel)(P...), const char* params, std::index_sequence<I...>) {
    constexpr auto offsets = param_offsets<P...>();
    kernel(unpack<P>(params, offsets.at[I])...);
}
template <class... P>
void call_kernel(const void* kernel, const char* params) {
    const auto typed = reinterpret_cast<void (*)(P...)>(const_cast<void*>(kernel));
    call_unpacked(typed, params, std::index_sequence_for<P...>());
}

template <class... P, class... Args>
void launch(const char* op, const char* expression, void (*kernel)(P...), dim3 grid, dim3 block, size_t smem,
            void* stream, Args&&... args) {
    static_assert(sizeof...(P) == sizeof...(Args), "a launch needs exactly the kernel's parameters");
    static_assert((std::is_trivially_copyable_v<P> && ...), "parameters reach a GPU as bytes");
    constexpr auto offsets = param_offsets<P...>();
    static_assert(offsets.at[sizeof...(P)] <= 4096, "a kernel takes at most 4 KiB of parameters");
    LaunchRequest r{op, expression, reinterpret_cast<const void*>(kernel), &call_kernel<P...>, {}, grid, block, smem};
    r.params.assign(offsets.at[sizeof...(P)], 0);
    size_t i = 0;
    auto pack = [&](const auto& p) { std::memcpy(r.params.data() + offsets.at[i++], &p, sizeof(p)); };
    (pack(static_cast<P>(std::forward<Args>(args))), ...);
    enqueue_launch(std::move(r), stream);
}

}  // namespace cusim

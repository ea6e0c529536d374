// engine.h -- what compiled kernels call in the simulator: their indices, shared memory, barriers, warp operations,
// atomics and 16-byte accesses.  The CUDA dialect (cusim.h) and the translated PTX (ptx_registry.h) both stand on this.
#pragma once
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "kernels/sim/vector_types.h"

// Kernels compiled with -fsanitize=thread are "hooked": every access calls the runtime (checks.cpp).
#if defined(__SANITIZE_THREAD__)
    #define CUSIM_HOOKED 1
#elif defined(__has_feature)
    #if __has_feature(thread_sanitizer)
        #define CUSIM_HOOKED 1
    #endif
#endif
#ifndef CUSIM_HOOKED
    #define CUSIM_HOOKED 0
#endif

#define CUSIM_INLINE inline __attribute__((always_inline))

namespace cusim {

// ---- where a CUDA thread is -----------------------------------------------------------------------------------------

struct Indices {
    uint3 thread;  // threadIdx
    uint3 block;   // blockIdx
    uint3 block_dim;
    uint3 grid_dim;
};
// No constructors in there, or g++ would not take it for constant.  Constant as long as a CUDA thread lives, so
// declared const: the compiler keeps it in registers across barriers and the checks do not look at it.  The scheduler,
// which does write it, knows it under another C++ name.
extern __thread const Indices indices __asm__("cusim_indices") __attribute__((tls_model("initial-exec")));

CUSIM_INLINE unsigned thread_rank() {  // 0 .. block size - 1; warps are runs of 32
    const Indices& i = indices;
    return i.thread.x + i.block_dim.x * (i.thread.y + i.block_dim.y * i.thread.z);
}
CUSIM_INLINE unsigned lane_id() { return thread_rank() % 32; }

// ---- shared memory --------------------------------------------------------------------------------------------------

// One static __shared__ array in the source: a static object, so that every block finds its copy by `id`.
struct SharedSite {
    const char* name;
    size_t bytes;
    const char* file;
    int line;
    int id = 0;  // given by the runtime on first use
};
void* shared_static(SharedSite& site);  // this block's copy, 128-byte aligned
void* shared_dynamic();                 // the launch's dynamic shared memory; nullptr if it asked for none
char* shared_base();                    // start of the block's shared window: PTX shared addresses are offsets from it

// ---- barriers and warp operations -----------------------------------------------------------------------------------

void sync_threads(const char* file, int line);

enum class WarpOp : int { sync, shfl_idx, shfl_up, shfl_down, shfl_xor, ballot, any, all };

// Waits until every live lane of `mask` is here, then gives each lane its result.  value: what the lane contributes
// (for votes: zero or not); arg: source lane, distance or xor mask; width: 1, 2, 4, ... 32 lanes per shuffle segment.
uint64_t warp_op(WarpOp op, unsigned mask, uint64_t value, int arg, int width, const char* file, int line);
bool shuffle_in_range();  // did this thread's last shuffle read a lane of its segment?  (PTX: the predicate of shfl)

// ---- atomics --------------------------------------------------------------------------------------------------------

enum class Atomic : int { add, sub, exch, min, max, and_, or_, xor_, inc, dec, cas };

// Gives the old value.  T: int, unsigned, long, unsigned long, long long, unsigned long long; add and exch also float
// and double.  Out of line so that no compiler instruments it.
template <class T>
T atomic(Atomic op, T* address, T value, T compare = T());

// ---- 16-byte accesses -----------------------------------------------------------------------------------------------

float4 checked_load16(const void* p);  // one access for the checks and the counters
void checked_store16(void* p, float4 v);
void misaligned_access(int bytes, bool write);  // what builds without hooks still see

CUSIM_INLINE float4 load16(const void* p) {
#if CUSIM_HOOKED
    return checked_load16(p);
#else
    if (reinterpret_cast<uintptr_t>(p) % 16 != 0) [[unlikely]]
        misaligned_access(16, false);
    float4 v;
    std::memcpy(&v, p, 16);
    return v;
#endif
}
CUSIM_INLINE void store16(void* p, float4 v) {
#if CUSIM_HOOKED
    checked_store16(p, v);
#else
    if (reinterpret_cast<uintptr_t>(p) % 16 != 0) [[unlikely]]
        misaligned_access(16, true);
    std::memcpy(p, &v, 16);
#endif
}

}  // namespace cusim

// tsan_atomics.cpp -- the rest of what -fsanitize=thread makes the compiler call: its atomics.  Kernels have none of these
// (theirs are in atomics.cpp); host functions in the same files do, for instance around a static variable.
#include <cstdint>

#include "kernels/sim/fibers.h"

#if !CUSIM_TSAN

    // clang-format off
    #define CUSIM_FETCH(T, bits, name)                                              \
        T __tsan_atomic##bits##_##name(volatile T* p, T v, int) { return __atomic_##name(p, v, __ATOMIC_SEQ_CST); }
    #define CUSIM_ATOMICS(T, bits)                                                                                         \
        T __tsan_atomic##bits##_load(const volatile T* p, int) { return __atomic_load_n(p, __ATOMIC_SEQ_CST); }            \
        void __tsan_atomic##bits##_store(volatile T* p, T v, int) { __atomic_store_n(p, v, __ATOMIC_SEQ_CST); }            \
        T __tsan_atomic##bits##_exchange(volatile T* p, T v, int) { return __atomic_exchange_n(p, v, __ATOMIC_SEQ_CST); }  \
        CUSIM_FETCH(T, bits, fetch_add)                                                                                    \
        CUSIM_FETCH(T, bits, fetch_sub)                                                                                    \
        CUSIM_FETCH(T, bits, fetch_and)                                                                                    \
        CUSIM_FETCH(T, bits, fetch_or)                                                                                     \
        CUSIM_FETCH(T, bits, fetch_xor)                                                                                    \
        int __tsan_atomic##bits##_compare_exchange_strong(volatile T* p, T* old, T v, int, int) {                          \
            return __atomic_compare_exchange_n(p, old, v, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);                      \
        }                                                                                                                  \
        int __tsan_atomic##bits##_compare_exchange_weak(volatile T* p, T* old, T v, int, int) {                            \
            return __atomic_compare_exchange_n(p, old, v, true, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);                       \
        }                                                                                                                  \
        T __tsan_atomic##bits##_compare_exchange_val(volatile T* p, T old, T v, int, int) {                                \
            __atomic_compare_exchange_n(p, &old, v, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);                            \
            return old;                                                                                                    \
        }
// clang-format on

extern "C" {
CUSIM_ATOMICS(uint8_t, 8)
CUSIM_ATOMICS(uint16_t, 16)
CUSIM_ATOMICS(uint32_t, 32)
CUSIM_ATOMICS(uint64_t, 64)
void __tsan_atomic_thread_fence(int) { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
void __tsan_atomic_signal_fence(int) { __atomic_signal_fence(__ATOMIC_SEQ_CST); }
}

#endif

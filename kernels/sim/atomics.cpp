// atomics.cpp -- atomic operations of kernels.  In the runtime, so that the hooks see one atomic access and not its
// parts.
#include <type_traits>

#include "kernels/sim/checks.h"

namespace cusim {
namespace {

template <class T>
T apply(Atomic op, T old, T value, T compare) {
    switch (op) {
        case Atomic::add:
            return T(old + value);
        case Atomic::sub:
            return T(old - value);
        case Atomic::exch:
            return value;
        case Atomic::min:
            return value < old ? value : old;
        case Atomic::max:
            return old < value ? value : old;
        case Atomic::cas:
            return old == compare ? value : old;
        default:
            break;
    }
    if constexpr (std::is_integral_v<T>) {
        switch (op) {
            case Atomic::and_:
                return old & value;
            case Atomic::or_:
                return old | value;
            case Atomic::xor_:
                return old ^ value;
            case Atomic::inc:
                return old >= value ? T(0) : T(old + 1);
            case Atomic::dec:
                return old == 0 || old > value ? value : T(old - 1);
            default:
                break;
        }
    }
    __builtin_trap();  // a bit operation on floating point: CUDA has none
}

}  // namespace

template <class T>
T atomic(Atomic op, T* address, T value, T compare) {
    if (hooked()) check_access(address, sizeof(T), Use::atomic, __builtin_return_address(0));
    using Bits = std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>;
    auto* bits = reinterpret_cast<Bits*>(address);
    Bits before = __atomic_load_n(bits, __ATOMIC_RELAXED), after;
    T old;
    do {
        std::memcpy(&old, &before, sizeof(T));
        const T fresh = apply(op, old, value, compare);
        std::memcpy(&after, &fresh, sizeof(T));
    } while (!__atomic_compare_exchange_n(bits, &before, after, true, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED));
    return old;
}

#define CUSIM_ATOMIC_FOR(T) template T atomic<T>(Atomic, T*, T, T);
CUSIM_ATOMIC_FOR(int)
CUSIM_ATOMIC_FOR(unsigned)
CUSIM_ATOMIC_FOR(long)
CUSIM_ATOMIC_FOR(unsigned long)
CUSIM_ATOMIC_FOR(long long)
CUSIM_ATOMIC_FOR(unsigned long long)
CUSIM_ATOMIC_FOR(float)
CUSIM_ATOMIC_FOR(double)
#undef CUSIM_ATOMIC_FOR

}  // namespace cusim

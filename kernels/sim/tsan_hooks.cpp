// tsan_hooks.cpp -- the functions that -fsanitize=thread makes the compiler call before every access.  Kernels are
// compiled with it and linked without ThreadSanitizer's library: these stand in its place.  (Where the whole program
// is built for ThreadSanitizer, this file included, the library is there and the hooks are not.)
#include "kernels/sim/checks.h"
#include "kernels/sim/report.h"

namespace cusim {

static bool kernels_are_hooked = false;
bool hooked() { return kernels_are_hooked; }

// ---- accesses of 16 bytes: the compiler would split them ------------------------------------------------------------

static void tell_misaligned(int bytes, bool write, const void* pc) {
    Block& b = *t_block;
    const OffTheRecord hidden(b);
    const std::string place = source_place(pc), unit = std::to_string(bytes);
    report_in(*b.launch, Kind::misaligned,
              b.who(*hidden.thread()) + (write ? " writes " : " reads ") + unit +
                  " bytes at an address that is no multiple of " + unit + ", at " + place,
              place, place);
}

void misaligned_access(int bytes, bool write) { tell_misaligned(bytes, write, __builtin_return_address(0)); }

float4 checked_load16(const void* p) {
    if (hooked())
        check_access(p, 16, Use::read, __builtin_return_address(0));
    else if (reinterpret_cast<uintptr_t>(p) % 16 != 0)
        tell_misaligned(16, false, __builtin_return_address(0));
    float4 v;
    std::memcpy(&v, p, 16);
    return v;
}
void checked_store16(void* p, float4 v) {
    if (hooked())
        check_access(p, 16, Use::write, __builtin_return_address(0));
    else if (reinterpret_cast<uintptr_t>(p) % 16 != 0)
        tell_misaligned(16, true, __builtin_return_address(0));
    std::memcpy(p, &v, 16);
}

}  // namespace cusim

#if !CUSIM_TSAN

    #define CUSIM_HOOK(name, bytes, use) \
        void name(void* p) { cusim::check_access(p, bytes, cusim::Use::use, __builtin_return_address(0)); }

extern "C" {

void __tsan_init() { cusim::kernels_are_hooked = true; }
void __tsan_func_entry(void*) {}
void __tsan_func_exit() {}
void __tsan_vptr_update(void**, void*) {}
void __tsan_vptr_read(void**) {}
void __tsan_ignore_thread_begin() {}
void __tsan_ignore_thread_end() {}

CUSIM_HOOK(__tsan_read1, 1, read)
CUSIM_HOOK(__tsan_read2, 2, read)
CUSIM_HOOK(__tsan_read4, 4, read)
CUSIM_HOOK(__tsan_read8, 8, read)
CUSIM_HOOK(__tsan_read16, 16, read)
CUSIM_HOOK(__tsan_write1, 1, write)
CUSIM_HOOK(__tsan_write2, 2, write)
CUSIM_HOOK(__tsan_write4, 4, write)
CUSIM_HOOK(__tsan_write8, 8, write)
CUSIM_HOOK(__tsan_write16, 16, write)
// "Unaligned" says that the compiler could not prove alignment, or copies bytes; a GPU would demand it all the same
// where the access is one instruction.  So the size is kept and the address checked as above.
CUSIM_HOOK(__tsan_unaligned_read2, 2, read)
CUSIM_HOOK(__tsan_unaligned_read4, 4, read)
CUSIM_HOOK(__tsan_unaligned_read8, 8, read)
CUSIM_HOOK(__tsan_unaligned_read16, 16, read)
CUSIM_HOOK(__tsan_unaligned_write2, 2, write)
CUSIM_HOOK(__tsan_unaligned_write4, 4, write)
CUSIM_HOOK(__tsan_unaligned_write8, 8, write)
CUSIM_HOOK(__tsan_unaligned_write16, 16, write)

void __tsan_read_range(void* p, size_t bytes) {
    cusim::check_access(p, bytes, cusim::Use::read, __builtin_return_address(0));
}
void __tsan_write_range(void* p, size_t bytes) {
    cusim::check_access(p, bytes, cusim::Use::write, __builtin_return_address(0));
}

}  // extern "C"

#endif

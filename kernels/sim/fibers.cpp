// fibers.cpp -- see fibers.h.
#include "kernels/sim/fibers.h"

#include <cstdint>
#include <cstdlib>
#include <mutex>
#include <stdexcept>
#include <sys/mman.h>

#if CUSIM_ASAN
    #include <sanitizer/common_interface_defs.h>
#endif
#if CUSIM_TSAN
    #include <sanitizer/tsan_interface.h>
#endif

#if CUSIM_ASM_SWITCH
extern "C" void cusim_switch(void** save, void* to);  // stores the stack pointer, takes another
// The six registers of the System V ABI that survive a call.  The return address is taken by pop and jump: a `ret` here
// would always be predicted to go back to the caller, which it never does (14 instead of 37 ns).
asm(R"(
.text
.p2align 4
.globl cusim_switch
.type cusim_switch,@function
cusim_switch:
    pushq %rbp
    pushq %rbx
    pushq %r12
    pushq %r13
    pushq %r14
    pushq %r15
    movq %rsp, (%rdi)
    movq %rsi, %rsp
    popq %r15
    popq %r14
    popq %r13
    popq %r12
    popq %rbx
    popq %rbp
    popq %rcx
    jmp *%rcx
.size cusim_switch, .-cusim_switch
)");
#endif

namespace cusim {
namespace {

constexpr int kStacksPerGrowth = 64;

struct Range {
    char *begin, *end;
};
std::mutex ranges_lock;
std::vector<Range>& stack_ranges() {
    static auto* ranges = new std::vector<Range>;  // never destroyed: the crash handler may run late
    return *ranges;
}

#if CUSIM_ASAN
__thread Context* came_from;  // the context that was left by the last switch
#endif

}  // namespace

// ---- stacks ---------------------------------------------------------------------------------------------------------

void StackPool::grow() {
    const size_t bytes = kStackBytes * kStacksPerGrowth;
    void* p = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED) throw std::runtime_error("cusim: no memory for the stacks of a block's threads");
    char* begin = static_cast<char*>(p);
    for (int i = kStacksPerGrowth - 1; i >= 0; --i) {  // the lowest stack ends on top
        Stack s;
        s.base = begin + size_t(i) * kStackBytes;
        mprotect(s.base, kStackGuard, PROT_NONE);
#if CUSIM_TSAN
        s.tsan_fiber = __tsan_create_fiber(0);
#endif
        free_.push_back(s);
    }
    const std::lock_guard<std::mutex> guard(ranges_lock);
    stack_ranges().push_back({begin, begin + bytes});
}

Stack StackPool::take() {
    if (free_.empty()) grow();
    const Stack s = free_.back();
    free_.pop_back();
    return s;
}

void StackPool::give_abandoned(Stack s) {
#if CUSIM_TSAN
    __tsan_destroy_fiber(s.tsan_fiber);
    s.tsan_fiber = __tsan_create_fiber(0);
#endif
    give(s);
}

bool in_stack_guard(const void* p) {
    const char* c = static_cast<const char*>(p);
    for (const Range& r : stack_ranges()) {  // without the lock: called from a signal handler
        if (c >= r.begin && c < r.end) return size_t(c - r.begin) % kStackBytes < kStackGuard;
    }
    return false;
}

// ---- switching ------------------------------------------------------------------------------------------------------

void prepare_context(Context& c, const Stack& stack, size_t skip, void (*entry)()) {
    __asan_unpoison_memory_region(stack.base + kStackGuard,
                                  kStackBytes - kStackGuard);  // functions that never returned left marks
#if CUSIM_ASAN || CUSIM_TSAN
    c.stack_bottom = stack.base + kStackGuard;
    c.stack_bytes = kStackBytes - kStackGuard;
    c.fake_stack = nullptr;
    c.tsan_fiber = stack.tsan_fiber;
#endif
#if CUSIM_ASM_SWITCH
    uintptr_t top = reinterpret_cast<uintptr_t>(stack.base) + kStackBytes - skip;
    void** sp = reinterpret_cast<void**>(top & ~uintptr_t(15));
    *--sp = nullptr;  // the return address of entry(): debuggers stop here, and the stack is aligned as after a call
    *--sp = reinterpret_cast<void*>(entry);
    for (int i = 0; i < 6; ++i) *--sp = nullptr;  // the registers that cusim_switch pops
    c.sp = sp;
#else
    (void)skip;
    getcontext(&c.machine);
    c.machine.uc_stack.ss_sp = stack.base + kStackGuard;
    c.machine.uc_stack.ss_size = kStackBytes - kStackGuard;
    c.machine.uc_link = nullptr;
    makecontext(&c.machine, entry, 0);
#endif
}

#if !CUSIM_ASM_SWITCH || CUSIM_ASAN || CUSIM_TSAN  // else inline in fibers.h

void entered_context(Context& self) {
    #if CUSIM_ASAN
    __sanitizer_finish_switch_fiber(self.fake_stack, &came_from->stack_bottom, &came_from->stack_bytes);
    #else
    (void)self;
    #endif
}

void switch_context(Context& from, Context& to, bool from_ends) {
    (void)from_ends;
    #if CUSIM_ASAN
    came_from = &from;
    __sanitizer_start_switch_fiber(from_ends ? nullptr : &from.fake_stack, to.stack_bottom, to.stack_bytes);
    #endif
    #if CUSIM_TSAN
    if (from.tsan_fiber == nullptr) from.tsan_fiber = __tsan_get_current_fiber();
    __tsan_switch_to_fiber(to.tsan_fiber, 0);
    #endif
    #if CUSIM_ASM_SWITCH
    cusim_switch(&from.sp, to.sp);
    #else
    swapcontext(&from.machine, &to.machine);
    #endif
    entered_context(from);
}

#endif

}  // namespace cusim

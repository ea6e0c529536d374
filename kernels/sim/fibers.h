// fibers.h -- stacks and the switch between them: what lets one OS thread carry the 1024 CUDA threads of a block.
//
// A fiber runs until it calls switch_context() itself.  Nothing is saved but the registers that the ABI says a
// function must preserve, so a switch costs a few nanoseconds (the C library's swapcontext makes a system call: half a
// microsecond).
#pragma once
#include <cstddef>
#include <vector>

#if defined(__x86_64__) && !defined(CUSIM_UCONTEXT)
    #define CUSIM_ASM_SWITCH 1
#else
    #define CUSIM_ASM_SWITCH 0
    #include <ucontext.h>
#endif

#if defined(__has_feature)
    #define CUSIM_HAS_FEATURE(x) __has_feature(x)
#else
    #define CUSIM_HAS_FEATURE(x) 0
#endif
#if defined(__SANITIZE_ADDRESS__) || CUSIM_HAS_FEATURE(address_sanitizer)
    #define CUSIM_ASAN 1
    #include <sanitizer/asan_interface.h>
#else
    #define CUSIM_ASAN                          0
    #define __asan_poison_memory_region(p, n)   ((void)0)
    #define __asan_unpoison_memory_region(p, n) ((void)0)
#endif
// The real ThreadSanitizer (the whole program built with -fsanitize=thread), not the hooks: those never reach the
// runtime.
#if defined(__SANITIZE_THREAD__) || CUSIM_HAS_FEATURE(thread_sanitizer)
    #define CUSIM_TSAN 1
#else
    #define CUSIM_TSAN 0
#endif

namespace cusim {

constexpr size_t kPage = 4096;
constexpr size_t kStackGuard = 64 * 1024;  // below every stack: wide, since one frame may reach far
constexpr size_t kStackBytes = kStackGuard + (CUSIM_ASAN || CUSIM_TSAN ? 256 : 64) * 1024;

struct Stack {
    char* base = nullptr;        // lowest address: the guard, which may not be touched
    void* tsan_fiber = nullptr;  // ThreadSanitizer's name for whoever runs on it
};

// Stacks of one OS thread.  Last in, first out: threads that never wait all run on one hot stack.
class StackPool {
  public:
    Stack take();
    void give(Stack s) { free_.push_back(s); }
    void give_abandoned(Stack s);  // its functions never returned: ThreadSanitizer's books are wiped

  private:
    void grow();
    std::vector<Stack> free_;
};
bool in_stack_guard(const void* p);  // is p in the guard of some stack?  (a stack overflow)

// A place to switch to: a fiber, or the scheduler that runs on the OS thread's own stack.
struct Context {
#if CUSIM_ASM_SWITCH
    void* sp = nullptr;
#else
    ucontext_t machine;
#endif
#if CUSIM_ASAN || CUSIM_TSAN  // what the sanitizers want to know
    const void* stack_bottom = nullptr;
    size_t stack_bytes = 0;
    void* fake_stack = nullptr;
    void* tsan_fiber = nullptr;
#endif
};

// The next switch to `c` enters `entry` at the top of `stack`, `skip` bytes below it: frames of neighbouring fibers
// would otherwise all fall into the same cache sets.  entry() never returns.
void prepare_context(Context& c, const Stack& stack, size_t skip, void (*entry)());

// Leaves `from` (the context that runs now) for `to`; returns when someone switches back.
#if CUSIM_ASM_SWITCH && !CUSIM_ASAN && !CUSIM_TSAN
extern "C" void cusim_switch(void** save, void* to);
inline void switch_context(Context& from, Context& to, bool = false) { cusim_switch(&from.sp, to.sp); }
inline void entered_context(Context&) {}
#else
void switch_context(Context& from, Context& to, bool from_ends = false);
void entered_context(Context& self);  // the first thing entry() does
#endif

}  // namespace cusim

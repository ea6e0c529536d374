// crash.cpp -- see crash.h.  The usual causes are host code that dereferences a device pointer (device memory is closed
// while no kernel runs) and, in builds without hooks, kernels with a wild pointer.
#include "kernels/sim/crash.h"

#include <cstdlib>
#include <signal.h>
#include <string>
#include <sys/mman.h>
#include <unistd.h>
#include <utility>

#include "kernels/sim/block.h"
#include "kernels/sim/memory.h"

namespace cusim {
namespace {

struct sigaction previous_segv, previous_bus;

std::string explain(void* address) {
    Block* b = t_block;
    CudaThread* t = b != nullptr ? b->hide_current() : nullptr;
    if (t == nullptr) {
        return "host code touched device memory: " + Arena::get().describe(address) +
               "; copy it to the host (cudaMemcpyAsync, then synchronise) before reading it there";
    }
    const std::string who = b->launch->name + ", " + b->who(*t);
    if (in_stack_guard(address)) return who + ": local variables need more than the stack of a simulated thread";
    char text[32];
    std::snprintf(text, sizeof(text), "%p", address);
    return who + ": touched address " + text + ", which is not device memory";
}

// Strings in a signal handler are not safe in general.  The process is about to end either way, and the fault came from
// kernel or host code, not from inside the allocator, in every case this is for.
void on_fault(int signal, siginfo_t* info, void*) {
    const bool ours = Arena::get().contains(info->si_addr) || (t_block != nullptr && t_block->current() != nullptr);
    sigaction(signal, signal == SIGSEGV ? &previous_segv : &previous_bus, nullptr);
    if (ours) {
        const std::string text = "cusim: " + explain(info->si_addr) + "\n";
        (void)!write(STDERR_FILENO, text.data(), text.size());
    }
    // Returning repeats the access, which now finds the handler that was there before us.
}

}  // namespace

void prepare_crash_stack() {
    static thread_local bool prepared = false;
    if (std::exchange(prepared, true)) return;
    stack_t existing;
    if (sigaltstack(nullptr, &existing) == 0 && (existing.ss_flags & SS_DISABLE) == 0) return;
    constexpr size_t kBytes = 64 * 1024;
    stack_t s{};
    s.ss_sp = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    s.ss_size = kBytes;
    if (s.ss_sp != MAP_FAILED) sigaltstack(&s, nullptr);
}

void install_crash_handler() {
    prepare_crash_stack();
    struct sigaction action {};
    action.sa_sigaction = on_fault;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK;
    sigemptyset(&action.sa_mask);
    sigaction(SIGSEGV, &action, &previous_segv);
    sigaction(SIGBUS, &action, &previous_bus);
}

}  // namespace cusim

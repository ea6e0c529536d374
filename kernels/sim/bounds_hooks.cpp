// bounds_hooks.cpp -- what -fsanitize=bounds calls when an index leaves its array.  Kernels are compiled with it for the
// checked build and linked without its library, like the hooks in tsan_hooks.cpp.  It sees what no memory check can: an
// index past a thread's own array (registers, on a GPU), or past one row of a shared array into the next.
#include <cstdio>
#include <cstdlib>

#include "kernels/sim/block.h"
#include "kernels/sim/report.h"

namespace {

struct BoundsSite {  // as the compilers lay it out; the types of array and index follow
    const char* file;
    uint32_t line, column;
};

}  // namespace

// Weak: in programs built for a sanitizer as a whole, its own library answers.
extern "C" __attribute__((weak)) void __ubsan_handle_out_of_bounds(const BoundsSite* site, uintptr_t index) {
    using namespace cusim;
    const std::string place = source_place(site->file, int(site->line));
    const std::string text = "index " + std::to_string(int64_t(index)) + " leaves its array, at " + place;
    Block* b = t_block;
    CudaThread* t = b != nullptr ? b->hide_current() : nullptr;
    if (t == nullptr) {  // host code of a kernel file
        std::fprintf(stderr, "cusim: host code: %s\n", text.c_str());
        std::abort();
    }
    report_in(*b->launch, Kind::out_of_bounds, b->who(*t) + ": " + text, place, place);
    b->show_current(t);
    b->stop();
}

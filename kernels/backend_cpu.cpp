// backend_cpu.cpp -- the CPU's entry in the table of backend.h: host memory, no queues, and every op of the inventory.
//
// An op has finished when its call returns, so all streams are one and there is nothing to wait for.
#include <cstring>
#include <fstream>
#include <hwy/highway.h>
#include <omp.h>

#include "kernels/backend.h"
#include "kernels/host_memory.h"

namespace lc::cpu {

const Backend* backend();
std::string description();

namespace {

void* alloc(size_t bytes) {
    void* const p = take_memory(bytes);
    if (p == nullptr) {
        throw DeviceError("cpu: no memory for " + std::to_string(bytes) + " bytes (" + std::to_string(bytes >> 20) +
                          " MiB); use a smaller batch or fewer samples, or close other programs");
    }
    return p;
}

void release(void* p) { give_back(p); }

void copy(void* dst, const void* src, size_t bytes, Copy, Stream) {
    if (bytes == 0) return;
    LC_CHECK(dst != nullptr && src != nullptr,
             "cpu: copy of " << bytes << " bytes from or to a null pointer; allocate both sides");
    const char* d = static_cast<const char*>(dst);
    const char* s = static_cast<const char*>(src);
    LC_CHECK(d + bytes <= s || s + bytes <= d,
             "cpu: source and destination of a copy of " << bytes << " bytes overlap; use two arrays");
    std::memcpy(dst, src, bytes);
}

void zero(void* dst, size_t bytes, Stream) {
    if (bytes == 0) return;
    LC_CHECK(dst != nullptr, "cpu: cannot zero " << bytes << " bytes at a null pointer; allocate it first");
    std::memset(dst, 0, bytes);
}

Stream stream_create() { return nullptr; }
void stream_destroy(Stream) {}
void sync(Stream) {}
void wait(Stream, Stream) {}

Backend make_table() {
    Backend b = {};
    b.name = "cpu";
    b.alloc = alloc;
    b.release = release;
    b.copy = copy;
    b.zero = zero;
    b.stream_create = stream_create;
    b.stream_destroy = stream_destroy;
    b.sync = sync;
    b.wait = wait;
#define LC_FILL(op)     \
    b.op.fn = &cpu::op; \
    b.op.backend = "cpu";
    LC_ALL_OPS(LC_FILL)
#undef LC_FILL
    return b;
}

// What the kernel of the operating system calls the processor.
std::string model_name() {
    std::ifstream info("/proc/cpuinfo");
    for (std::string line; std::getline(info, line);) {
        const size_t colon = line.find(": ");
        if (line.rfind("model name", 0) == 0 && colon != std::string::npos) return line.substr(colon + 2);
    }
    return "CPU";
}

}  // namespace

const Backend* backend() {
    static const Backend table = make_table();
    return &table;
}

std::string description() {
    const int64_t targets = hwy::SupportedTargets() & HWY_TARGETS;  // the lowest bit is the most capable target
    const int threads = omp_get_max_threads();
    return model_name() + ", " + std::to_string(threads) + (threads == 1 ? " thread, " : " threads, ") +
           hwy::TargetName(targets & -targets);
}

}  // namespace lc::cpu

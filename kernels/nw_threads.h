// nw_threads.h -- what the CPU files of nw_smooth.h share outside SIMD code: threads with scratch memory, checks of
// values.
#pragma once
#include <hwy/aligned_allocator.h>
#include <omp.h>

#include "kernels/check.h"
#include "kernels/parallel.h"

namespace lc::cpu {

// Below it, ln theta of soft labels may have lost neighbours to underflow: theta = e^-60 is still 1e12 times the
// smallest normal number.
constexpr float kTrustedLog = -60.0f;

// for_each_chunk (parallel.h) whose body gets `floats` floats of scratch memory, 64-byte aligned, as third argument.
template <class Body>
void for_each_chunk_with_scratch(int64_t n, int64_t chunk, int64_t floats, const Body& body) {
    const int64_t chunks = ceil_div(n, chunk), each = ceil_div(floats, 16) * 16;
    const int64_t threads = std::min<int64_t>(chunks, omp_in_parallel() ? 1 : omp_get_max_threads());
    if (threads == 0) return;
    const auto memory = hwy::AllocateAligned<float>(size_t(threads * each));
    LC_CHECK(memory != nullptr,
             "out of memory: " << threads * each * 4 << " bytes of scratch for " << threads << " threads");
#pragma omp parallel for schedule(dynamic) num_threads(int(threads))
    for (int64_t k = 0; k < chunks; ++k) {
        body(k * chunk, std::min(n, (k + 1) * chunk), memory.get() + omp_get_thread_num() * each);
    }
}

inline void check_classes(const char* op, const char* name, const int32_t* labels, int64_t n, int64_t C) {
    for (int64_t i = 0; labels != nullptr && i < n; ++i) {
        LC_CHECK(labels[i] >= 0 && labels[i] < C, op << ": " << name << "[" << i << "] = " << labels[i]
                                                     << " is not a class from 0 to " << C - 1
                                                     << "; check where the labels come from");
    }
}

}  // namespace lc::cpu

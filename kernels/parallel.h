// parallel.h -- a loop cut into fixed chunks, shared among the OpenMP threads.
//
//     for_each_chunk(n, chunk, [&](int64_t begin, int64_t end) { ... });
//
// The cuts are at multiples of `chunk`, whatever the number of threads: who computes a chunk may change, what is
// computed may not.  That is how every CPU op gives the same bits for 1, 2 or 64 threads.  A single chunk runs on
// the calling thread, so `chunk` is also the size below which waking threads costs more than it brings.
//
// The loops stand outside the SIMD namespaces and call into them once per chunk: an OpenMP region inside a function
// compiled for AVX2 is not reliably compiled for AVX2 itself.  The body must not throw; check arguments before.
#pragma once
#include <algorithm>
#include <cstdint>

namespace lc::cpu {

constexpr int64_t ceil_div(int64_t a, int64_t b) { return a / b + (a % b != 0); }

template <class Body>
void for_each_chunk(int64_t n, int64_t chunk, const Body& body) {
    const int64_t chunks = ceil_div(n, chunk);
    if (chunks <= 1) {
        if (n > 0) body(int64_t(0), n);
        return;
    }
#pragma omp parallel for schedule(static)
    for (int64_t k = 0; k < chunks; ++k) body(k * chunk, std::min(n, (k + 1) * chunk));
}

}  // namespace lc::cpu

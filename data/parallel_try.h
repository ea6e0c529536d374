// parallel_try.h -- a loop shared among the OpenMP threads whose body may throw.
//
//     parallel_try(n, [&](int64_t i) { ... });
//
// What the first i that fails throws is thrown again once all threads are done: the same one for any number of threads.
#pragma once
#include <atomic>
#include <cstdint>
#include <exception>

namespace lc {

template <class Body>
void parallel_try(int64_t n, const Body& body) {
    std::atomic<int64_t> failed{n};  // the first that failed so far; what comes behind it is in vain
    std::exception_ptr thrown;
#pragma omp parallel for schedule(dynamic, 1)
    for (int64_t i = 0; i < n; ++i) {
        if (i > failed) continue;
        try {
            body(i);
        } catch (...) {
#pragma omp critical(lc_parallel_try)
            if (i < failed) {
                failed = i;
                thrown = std::current_exception();
            }
        }
    }
    if (thrown != nullptr) std::rethrow_exception(thrown);
}

}  // namespace lc

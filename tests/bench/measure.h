// measure.h -- time and memory of what a benchmark runs on the CPU.
#pragma once
#include <algorithm>
#include <chrono>
#include <map>

#include "kernels/backend.h"

namespace bench {

// The best of several turns, in seconds: the least disturbed one.
template <class Run>
double best_of(int turns, const Run& run) {
    double best = 1e30;
    for (int turn = 0; turn < turns; ++turn) {
        const auto start = std::chrono::steady_clock::now();
        run();
        best = std::min(best, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
    }
    return best;
}

// Bytes of the backend's memory that are taken now, and the most that were taken at the same time.
struct Memory {
    std::map<void*, size_t> live;
    size_t now = 0, peak = 0;
};
inline Memory& memory() {
    static Memory m;
    return m;
}

// The CPU backend, with a count of its memory.
inline const lc::Backend& counted_cpu() {
    static const lc::Backend counted = [] {
        lc::Backend b = *lc::find_backend("cpu");
        b.alloc = [](size_t bytes) {
            void* p = lc::find_backend("cpu")->alloc(bytes);
            Memory& m = memory();
            m.live[p] = bytes;
            m.now += bytes;
            m.peak = std::max(m.peak, m.now);
            return p;
        };
        b.release = [](void* p) {
            Memory& m = memory();
            m.now -= m.live.at(p);
            m.live.erase(p);
            lc::find_backend("cpu")->release(p);
        };
        return b;
    }();
    return counted;
}

}  // namespace bench

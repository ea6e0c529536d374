// bandwidth.h -- times an op that is bound by memory against a memcpy of the same bytes, in the same run.
//
//     int main(int argc, char** argv) {
//         Bandwidth table(argc, argv);                                         --quick for a short run
//         table.row("add", "16777216", 12.0 * n, [&] { b.add(out, x, y, n, nullptr); });
//     }
//
// The limit: a memcpy by all threads that reads and writes as many bytes in total as the op must.  Op and memcpy take
// turns, so that both see the same machine; each shows its best time.  An op that only reads can pass 100 %, because
// reading is cheaper than writing.
#pragma once
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <omp.h>
#include <string>

#include "kernels/backend.h"

namespace bench {

class Bandwidth {
  public:
    Bandwidth(int argc, char** argv) {
        for (int i = 1; i < argc; ++i) {
            if (std::string(argv[i]) == "--quick") seconds_ = 0.05;
        }
        std::printf("%s\n", lc::devices().front().description.c_str());
        std::printf("%-16s %-14s %10s %10s %12s %9s\n", "op", "shape", "ms", "GB/s", "memcpy GB/s", "of memcpy");
    }

    // `bytes` is what the op must read and write in total.
    template <class Run>
    void row(const std::string& op, const std::string& shape, double bytes, const Run& run) {
        const lc::Backend& b = *lc::find_backend("cpu");
        lc::Buffer<char> from(b, int64_t(bytes / 2)), to(b, from.size());
        std::memset(from.data(), 1, from.bytes());
        run();  // wakes the threads, touches the pages
        copy(to, from);
        double op_time = 1e30, copy_time = 1e30, spent = 0;
        for (int i = 0; i < 3 || spent < seconds_; ++i) {
            const double a = time(run), b = time([&] { copy(to, from); });
            op_time = std::min(op_time, a);
            copy_time = std::min(copy_time, b);
            spent += a + b;
        }
        std::printf("%-16s %-14s %10.3f %10.1f %12.1f %8.0f%%\n", op.c_str(), shape.c_str(), 1e3 * op_time,
                    1e-9 * bytes / op_time, 1e-9 * bytes / copy_time, 100 * copy_time / op_time);
    }

  private:
    template <class Run>
    static double time(const Run& run) {
        const auto start = std::chrono::steady_clock::now();
        run();
        return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    }

    static void copy(lc::Buffer<char>& to, const lc::Buffer<char>& from) {
#pragma omp parallel
        {
            const int64_t threads = omp_get_num_threads(), me = omp_get_thread_num();
            const int64_t begin = from.size() * me / threads, end = from.size() * (me + 1) / threads;
            std::memcpy(to.data() + begin, from.data() + begin, size_t(end - begin));
        }
    }

    double seconds_ = 0.5;  // per row
};

}  // namespace bench

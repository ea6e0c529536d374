// local_net.cpp -- one epoch of LoCal Net on the CPU: time, and the memory a batch takes.
//
//     build/release/cuda/bench/local_net [--quick] [--json]        (`make bench` runs it)
//
// The shape of the paper's CIFAR-10 experiment: n = 10,000 rows, d = 2048 features, H = 64, k = 50, C = 10, batch 1024.
// tests/bench/pytorch.py times the same epoch in PyTorch in the same run and prints the ratios.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <malloc.h>
#include <map>

#include "calib/trainer.h"
#include "kernels/random.h"

namespace {

// The CPU backend, with a count of the bytes that are taken at the same time.
std::map<void*, size_t> live;
size_t live_bytes, peak_bytes;
void* counted_alloc(size_t bytes) {
    void* p = lc::find_backend("cpu")->alloc(bytes);
    live[p] = bytes;
    live_bytes += bytes;
    peak_bytes = std::max(peak_bytes, live_bytes);
    return p;
}
void counted_release(void* p) {
    live_bytes -= live.at(p);
    live.erase(p);
    lc::find_backend("cpu")->release(p);
}

lc::NetData random_rows(const lc::Backend& b, int64_t n, int64_t d, int64_t k, int64_t C) {
    const auto tensor = [&](int64_t columns, uint64_t stream) {
        return lc::constant(lc::Tensor::from(b, {n, columns}, lc::random_normal({1, stream}, n * columns)));
    };
    lc::NetData rows = {tensor(d, 1), tensor(k, 2), tensor(C, 3), {}, {}};
    for (int64_t i = 0; i < n; ++i) rows.labels.push_back(int32_t(lc::random_word({1, 4}, uint64_t(i)) % uint64_t(C)));
    rows.device_labels = lc::to_device(b, rows.labels);
    return rows;
}

}  // namespace

int main(int argc, char** argv) {
    bool json = false, quick = false;
    for (int i = 1; i < argc; ++i) {
        json = json || std::strcmp(argv[i], "--json") == 0;
        quick = quick || std::strcmp(argv[i], "--quick") == 0;
    }
    lc::Backend b = *lc::find_backend("cpu");
    b.alloc = counted_alloc;
    b.release = counted_release;
    const int64_t n = 10000, d = 2048, k = 50, C = 10;
    lc::NetOptions o = lc::preset("ln", "paper", C);
    o.epochs = 1;
    const lc::NetData rows = random_rows(b, n, d, k, C);
    const size_t data_bytes = live_bytes;

    double best = 1e30;
    for (int turn = 0; turn < (quick ? 2 : 7); ++turn) {
        lc::LocalNet net(b, {d, k, C}, o, 1, o.gamma);
        const auto start = std::chrono::steady_clock::now();
        lc::train(net, rows, nullptr, o, o.gamma, {.backend = &b});
        best = std::min(best, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
    }
    const double megabytes = double(peak_bytes - data_bytes) / 1e6;
    if (json) {
        std::printf("{\"epoch_seconds\": %.6f, \"batch_megabytes\": %.1f}\n", best, megabytes);
    } else {
        std::printf(
            "LoCal Net, n = %lld, d = %lld, H = %lld, k = %lld, C = %lld, batch %lld: %.3f s per epoch; %.1f MB beside "
            "the "
            "data (weights, Adam, one batch)\n",
            (long long)n, (long long)d, (long long)o.hidden, (long long)k, (long long)C, (long long)o.batch, best,
            megabytes);
    }
}

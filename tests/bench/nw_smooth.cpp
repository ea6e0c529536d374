// Speed of nw_smooth, its backward and nw_bandwidth on the CPU, against the multiply-add peak of the machine.
//
//     make bench BENCHFLAGS=--quick            all benchmarks, this one among them
//
// Counted are the operations that the formulas need per pair of points, as if all were multiply-adds: 2 d for a
// distance or a sum of differences, 2 C for the labels, 20 for an exponential and what surrounds it.  The peak is
// measured between the turns, because whatever else runs on the machine disturbs both alike; the best time and the best
// peak count.
#include "kernels/nw_smooth.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <functional>
#include <omp.h>
#include <vector>

#include "kernels/nw_bandwidth.h"
#include "kernels/nw_smooth_bwd.h"
#include "kernels/philox.h"
#include "tests/bench/peak.h"

namespace {

struct Data {
    int64_t n, d, C;
    std::vector<float> Z, theta, log_norm, log_label, dtheta, dlog_label, dQ, dR;
    std::vector<int32_t> labels;
    float gamma;
    lc::NwSmooth in;
    lc::NwOutput out;

    Data(int64_t n_, int64_t d_, int64_t C_)
        : n(n_),
          d(d_),
          C(C_),
          Z(uniform(n * d, 1)),
          theta(size_t(n * C)),
          log_norm(size_t(n)),
          log_label(size_t(n)),
          dtheta(uniform(n * C, 2)),
          dlog_label(uniform(n, 3)),
          dQ(size_t(n * d)),
          dR(size_t(n * d)),
          labels(size_t(n)),
          gamma(0.3f * std::sqrt(float(d))) {
        for (int64_t i = 0; i < n; ++i) labels[size_t(i)] = int32_t((i * 2654435761LL >> 7) % C);
        in = {.n = n,
              .m = n,
              .d = d,
              .C = C,
              .Q = Z.data(),
              .R = Z.data(),
              .labels = labels.data(),
              .query_labels = labels.data(),
              .gamma = &gamma,
              .leave_one_out = true};
        out = {theta.data(), log_norm.data(), log_label.data()};
    }
    static std::vector<float> uniform(int64_t count, uint64_t stream) {
        std::vector<float> v(size_t(count) + 3);
        for (size_t i = 0; i < size_t(count); i += 4) {
            const lc::Philox4 bits = lc::random_bits4({1, stream}, i / 4);
            for (size_t j = 0; j < 4; ++j) v[i + j] = float(int32_t(bits.v[j])) * 0x1p-31f;
        }
        return v;
    }
    void forward() { lc::cpu::nw_smooth(out, in, nullptr); }
    void backward() {
        lc::cpu::nw_smooth_bwd({dQ.data(), dR.data(), nullptr}, dtheta.data(), dlog_label.data(), out, in, nullptr);
    }
};

double seconds_of(const std::function<void()>& f) {
    const auto start = std::chrono::steady_clock::now();
    f();
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

void row(const char* what, const Data& data, double flops_per_pair, double budget, const std::function<void()>& run) {
    const int threads = omp_get_max_threads();
    double best = 1e30, peak = bench::fma_peak(threads, 0.1), spent = 0;
    for (int turn = 0; turn < 5 || spent < budget; ++turn) {
        const double t = seconds_of(run);
        best = std::min(best, t);
        spent += t;
        peak = std::max(peak, bench::fma_peak(threads, 0.02));
    }
    const double rate = double(data.n) * double(data.n) * flops_per_pair / best * 1e-9;
    std::printf("%-28s %7ld %5ld %5ld %8d %10.2f %9.1f %8.0f%%\n", what, long(data.n), long(data.d), long(data.C),
                threads, best * 1e3, rate, 100 * rate / peak);
}

void table(double budget, bool quick) {
    std::printf("%-28s %7s %5s %5s %8s %10s %9s %9s\n", "", "n = m", "d", "C", "threads", "ms", "GFLOP/s", "of peak");
    const auto flops = [](const Data& x, int walks) { return double(2 * x.d * walks + 2 * x.C + 20); };
    for (int64_t C : {10, 100}) {
        Data batch(1024, 50, C);
        row("forward, a batch", batch, flops(batch, 1), budget, [&] { batch.forward(); });
        row("backward, a batch", batch, flops(batch, 3), budget, [&] { batch.backward(); });
        row("both", batch, flops(batch, 4) + flops(batch, 0), budget, [&] { batch.forward(), batch.backward(); });
    }
    Data all(quick ? 5000 : 20000, 50, 10);
    row("forward, leave one out", all, flops(all, 1), budget, [&] { all.forward(); });
    Data wide(4000, 2048, 10);
    row("forward, many features", wide, flops(wide, 1), budget, [&] { wide.forward(); });

    Data grid(5000, 50, 10);
    constexpr int64_t kGammas = 13;
    std::vector<float> gammas, nll(size_t(grid.n * kGammas));
    for (int64_t g = 0; g < kGammas; ++g) gammas.push_back(grid.gamma * std::pow(2.0f, 1.0f - 0.5f * float(g)));
    row("13 bandwidths", grid, 2 * double(grid.d) + 22 * double(kGammas), budget, [&] {
        lc::cpu::nw_bandwidth(nll.data(), grid.Z.data(), grid.labels.data(), gammas.data(), grid.n, grid.d, kGammas,
                              nullptr);
    });
}

}  // namespace

int main(int argc, char** argv) {
    const bool quick = argc == 2 && std::strcmp(argv[1], "--quick") == 0;
    if (argc > 1 && !quick) {
        std::fprintf(stderr, "usage: %s [--quick]\nunknown argument '%s'\n", argv[0], argv[1]);
        return 2;
    }
    const int all = omp_get_max_threads();
    omp_set_num_threads(1);
    table(quick ? 0.1 : 1.0, true);
    if (all == 1) return 0;
    omp_set_num_threads(all);
    table(quick ? 0.1 : 1.0, quick);
    return 0;
}

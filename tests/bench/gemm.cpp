// Speed of gemm on the CPU: engine `own` against OpenBLAS and against the multiply-add peak of the machine.
//
//     make bench BENCHFLAGS=--quick            all benchmarks, this one among them
//
// The two engines take turns (own, OpenBLAS, own, ...) and each keeps its best time, at least 7 turns: whatever else runs
// on the machine disturbs both alike, and the best time is the least disturbed one.  Operands are warm: the same arrays in
// every turn.
#include "kernels/gemm.h"

#include <algorithm>
#include <cblas.h>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <omp.h>
#include <vector>

#include "kernels/philox.h"
#include "tests/bench/peak.h"

namespace {

struct Shape {
    const char* what;
    lc::Gemm g;
};

lc::Gemm batched(lc::Gemm g, int64_t batch) {
    g.batch = batch;
    g.stride_a = g.M * g.K, g.stride_b = g.K * g.N, g.stride_c = g.M * g.N;
    return g;
}

const std::vector<Shape> kShapes = {
    {"square", {.M = 1024, .N = 1024, .K = 1024}},
    {"square", {.M = 1024, .N = 1024, .K = 1024, .trans_b = true}},
    {"square", {.M = 1024, .N = 1024, .K = 1024, .trans_a = true}},
    {"square", {.M = 2048, .N = 2048, .K = 2048}},
    {"square", {.M = 256, .N = 256, .K = 256}},
    {"square", {.M = 128, .N = 128, .K = 128}},
    {"square", {.M = 64, .N = 64, .K = 64}},
    {"features to hidden", {.M = 10000, .N = 64, .K = 2048, .trans_b = true}},
    {"  its dW", {.M = 64, .N = 2048, .K = 10000, .trans_a = true}},
    {"  its dX", {.M = 10000, .N = 2048, .K = 64}},
    {"features to hidden", {.M = 1024, .N = 64, .K = 2048, .trans_b = true}},
    {"  its dW", {.M = 64, .N = 2048, .K = 1024, .trans_a = true}},
    {"  its dX", {.M = 1024, .N = 2048, .K = 64}},
    {"hidden to classes", {.M = 10000, .N = 10, .K = 64, .trans_b = true}},
    {"projection", {.M = 1024, .N = 50, .K = 1024}},
    {"projection", {.M = 4096, .N = 50, .K = 4096}},
    {"pairs", {.M = 1024, .N = 1024, .K = 50, .trans_b = true}},
    {"256 small ones", batched({.M = 64, .N = 64, .K = 64}, 256)},
    {"one row", {.M = 1, .N = 2048, .K = 2048}},
};

double seconds_of(const std::function<void()>& f, int repeats) {
    const auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < repeats; ++i) f();
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() / repeats;
}

struct Best {
    double own = 1e30, openblas = 1e30;  // seconds
};

Best race(const lc::Gemm& shape, double budget) {
    const auto values = [](int64_t n) {
        std::vector<float> v(size_t(n) + 3);
        for (size_t i = 0; i < size_t(n); i += 4) {
            const lc::Philox4 bits = lc::random_bits4({1, uint64_t(n)}, i / 4);
            for (size_t j = 0; j < 4 && i + j < v.size(); ++j) v[i + j] = float(int32_t(bits.v[j])) * 0x1p-31f;
        }
        return v;
    };
    const std::vector<float> A = values(shape.M * shape.K * shape.batch), B = values(shape.K * shape.N * shape.batch);
    std::vector<float> C(size_t(shape.M * shape.N * shape.batch));
    lc::Gemm own = shape, openblas = shape;
    openblas.engine = lc::GemmEngine::openblas;
    const auto run_own = [&] { lc::cpu::gemm(C.data(), A.data(), B.data(), own, nullptr); };
    const auto run_openblas = [&] { lc::cpu::gemm(C.data(), A.data(), B.data(), openblas, nullptr); };

    run_openblas();  // first calls allocate and wake threads
    const int repeats =
        int(std::clamp(1e-3 / seconds_of(run_own, 1), 1.0, 10000.0));  // a turn is a millisecond or more
    Best best;
    double spent = 0;
    for (int turn = 0; turn < 7 || spent < budget; ++turn) {
        const double a = seconds_of(run_own, repeats), b = seconds_of(run_openblas, repeats);
        best.own = std::min(best.own, a);
        best.openblas = std::min(best.openblas, b);
        spent += (a + b) * repeats;
    }
    return best;
}

void table(int threads, double budget) {
    omp_set_num_threads(threads);
    openblas_set_num_threads(threads);
    double peak = bench::fma_peak(threads);
    std::vector<Best> results;
    for (const Shape& s : kShapes) {
        results.push_back(race(s.g, budget));
        peak = std::max(peak, bench::fma_peak(threads, 0.02));
    }
    std::printf("\n%d thread%s, multiply-add peak %.1f GFLOP/s, %s\n", threads, threads == 1 ? "" : "s", peak,
                openblas_get_config());
    std::printf("%-20s %6s %6s %6s %5s %5s  %8s %8s %7s %7s\n", "", "M", "N", "K", "A, B", "batch", "GFLOP/s",
                "OpenBLAS", "ratio", "of peak");
    for (size_t i = 0; i < kShapes.size(); ++i) {
        const lc::Gemm& g = kShapes[i].g;
        const double own = lc::gemm_flops(g) / results[i].own * 1e-9,
                     openblas = lc::gemm_flops(g) / results[i].openblas * 1e-9;
        std::printf("%-20s %6ld %6ld %6ld %s, %s %5ld  %8.1f %8.1f %6.0f%% %6.0f%%\n", kShapes[i].what, long(g.M),
                    long(g.N), long(g.K), g.trans_a ? "T" : "N", g.trans_b ? "T" : "N", long(g.batch), own, openblas,
                    100 * own / openblas, 100 * own / peak);
    }
}

}  // namespace

int main(int argc, char** argv) {
    if (const char* told = std::getenv("OPENBLAS_CORETYPE")) {
        std::printf(
            "OPENBLAS_CORETYPE=%s: OpenBLAS does not choose its kernels itself, and may be slower than it could be\n",
            told);
    }
    const bool quick = argc == 2 && std::strcmp(argv[1], "--quick") == 0;
    if (argc > 1 && !quick) {
        std::fprintf(stderr, "usage: %s [--quick]\nunknown argument '%s'\n", argv[0], argv[1]);
        return 2;
    }
    const int all = omp_get_max_threads();
    table(1, quick ? 0.1 : 1.0);
    if (all > 1) table(all, quick ? 0.1 : 1.0);
    return 0;
}

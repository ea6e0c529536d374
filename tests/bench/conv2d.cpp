// Speed of conv2d on the CPU: every distinct convolution of ResNet-50, by the engine that `automatic` takes and by engine
// `gemm`, against the multiply-add peak of the machine.
//
//     make bench BENCHFLAGS=--quick            all benchmarks, this one among them
//
// GFLOP/s count the operations of the definition, whatever the engine saves: Winograd can exceed the peak.  Filters are
// prepared before; bias and relu are part of the forward pass.  The engines take turns and each keeps its best time, so
// whatever else runs on the machine disturbs both alike.  The last line of a table is the sum over all layers of the network,
// each shape as often as it occurs.
#include "kernels/conv2d.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <functional>
#include <omp.h>
#include <vector>

#include "kernels/backend.h"
#include "kernels/philox.h"
#include "tests/bench/peak.h"

namespace {

using lc::Conv2d;
using lc::ConvEngine;
using lc::ConvPass;

struct Layer {
    int times;  // in the network
    Conv2d shape;
};

// The convolutions of stage i = 0 .. 3 (conv2_x .. conv5_x of He et al. 2016, stride on the 3 x 3), for maps of `size` pixels.
std::vector<Layer> stage(int i, int64_t size, int64_t N) {
    const int blocks[] = {3, 4, 6, 3};
    const int64_t w = int64_t(64) << i, in = i == 0 ? 64 : 2 * w, u = i == 0 ? 1 : 2, before = size * u;
    const auto conv = [=](int64_t H, int64_t C, int64_t K, int64_t R, int64_t stride) {
        return Conv2d{.N = N, .H = H, .W = H, .C = C, .K = K, .R = R, .S = R, .stride = stride, .pad = R / 2};
    };
    const int more = blocks[i] - 1;
    if (i == 0) {
        return {{1, conv(size, 64, w, 1, 1)},
                {more, conv(size, 4 * w, w, 1, 1)},
                {more + 1, conv(size, w, w, 3, 1)},
                {more + 2, conv(size, w, 4 * w, 1, 1)}};
    }
    return {{1, conv(before, in, w, 1, 1)},         {1, conv(before, w, w, 3, u)},
            {more + 1, conv(size, w, 4 * w, 1, 1)}, {1, conv(before, in, 4 * w, 1, u)},
            {more, conv(size, 4 * w, w, 1, 1)},     {more, conv(size, w, w, 3, 1)}};
}

std::vector<Layer> resnet50(int64_t size, int64_t N) {
    std::vector<Layer> all = {
        {1, {.N = N, .H = size, .W = size, .C = 3, .K = 64, .R = 7, .S = 7, .stride = 2, .pad = 3}}};
    for (int i = 0; i < 4; ++i) {
        for (const Layer& l : stage(i, size >> (2 + i), N)) all.push_back(l);
    }
    return all;
}

std::vector<float> values(int64_t n) {
    std::vector<float> v(size_t(n) + 3);
    for (size_t i = 0; i < size_t(n); i += 4) {
        const lc::Philox4 bits = lc::random_bits4({1, uint64_t(n)}, i / 4);
        for (size_t j = 0; j < 4; ++j) v[i + j] = float(int32_t(bits.v[j])) * 0x1p-31f;
    }
    return v;
}

double seconds_of(const std::function<void()>& f, int repeats) {
    const auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < repeats; ++i) f();
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() / repeats;
}

// The best time of each, taking turns.
std::vector<double> race(const std::vector<std::function<void()>>& runners, double budget) {
    std::vector<double> best;
    for (const auto& f : runners) best.push_back(seconds_of(f, 1));  // first calls allocate and wake threads
    const int repeats = int(std::clamp(1e-3 / best.back(), 1.0, 1000.0));
    double spent = 0;
    for (int turn = 0; turn < 5 || spent < budget; ++turn) {
        for (size_t i = 0; i < runners.size(); ++i) {
            const double t = seconds_of(runners[i], repeats);
            best[i] = std::min(best[i], t);
            spent += t * repeats;
        }
    }
    return best;
}

const char* name_of(ConvEngine e) {
    return e == ConvEngine::gemm ? "gemm" : e == ConvEngine::winograd2 ? "winograd2" : "winograd4";
}

void print_shape(const Layer& l) {
    const Conv2d& s = l.shape;
    std::printf("%2d x %4ld x %3ld x %3ld x %4ld  %ldx%ld /%ld %4ld", l.times, long(s.N), long(s.H), long(s.W),
                long(s.C), long(s.R), long(s.S), long(s.stride), long(s.K));
}

// ---- forward --------------------------------------------------------------------------------------------------------

struct Arrays {
    const lc::Backend& b = *lc::find_backend("cpu");
    std::vector<float> x, w, y, bias;
    lc::Buffer<float> prepared, prepared_gemm;
    Conv2d automatic, gemm;

    Arrays(const Conv2d& s, ConvPass pass)
        : x(values(s.N * s.H * s.W * s.C)),
          w(values(s.R * s.S * s.C * s.K)),
          y(values(s.N * s.P() * s.Q() * s.K)),
          bias(values(s.K)),
          automatic(s),
          gemm(s) {
        gemm.engine = ConvEngine::gemm;
        prepared = lc::Buffer<float>(b, lc::conv2d_prepared_floats(automatic, pass));
        prepared_gemm = lc::Buffer<float>(b, lc::conv2d_prepared_floats(gemm, pass));
        b.conv2d_prepare(prepared.data(), w.data(), automatic, pass, nullptr);
        b.conv2d_prepare(prepared_gemm.data(), w.data(), gemm, pass, nullptr);
    }
};

void forward_table(int64_t size, int64_t N, double budget) {
    const int threads = omp_get_max_threads();
    double peak = bench::fma_peak(threads), total = 0, total_gemm = 0, flops = 0;
    std::printf("\nResNet-50 forward, %ld images of %ld x %ld, %d threads, multiply-add peak %.1f GFLOP/s\n", long(N),
                long(size), long(size), threads, peak);
    std::printf("%-44s %-10s %8s %8s %8s %8s\n", "times  N x H x W x C  filter /stride K", "automatic", "ms", "GFLOP/s",
                "of peak", "gemm");
    for (const Layer& l : resnet50(size, N)) {
        Arrays a(l.shape, ConvPass::forward);
        const auto run = [&](const Conv2d& s, const lc::Buffer<float>& prepared) {
            a.b.conv2d(a.y.data(), a.x.data(), prepared.data(), {.bias = a.bias.data(), .relu = true}, s, nullptr);
        };
        const std::vector<double> best =
            race({[&] { run(a.automatic, a.prepared); }, [&] { run(a.gemm, a.prepared_gemm); }}, budget);
        const ConvEngine engine = lc::conv2d_engine(l.shape, ConvPass::forward);
        const double work = lc::conv2d_flops(l.shape);
        const double mine = engine == ConvEngine::gemm ? std::min(best[0], best[1]) : best[0];  // twice the same
        print_shape(l);
        std::printf("   %-10s %8.3f %8.1f %7.0f%% %8.1f\n", name_of(engine), mine * 1e3, work / mine * 1e-9,
                    100 * work / mine * 1e-9 / peak, work / best[1] * 1e-9);
        total += l.times * mine, total_gemm += l.times * best[1], flops += l.times * work;
    }
    std::printf("all layers: %.4f s per image, %.1f GFLOP/s (%.0f%% of peak); by gemm alone %.4f s, %.1f GFLOP/s\n",
                total / double(N), flops / total * 1e-9, 100 * flops / total * 1e-9 / peak, total_gemm / double(N),
                flops / total_gemm * 1e-9);
}

// ---- training -------------------------------------------------------------------------------------------------------

void training_table(int64_t N, double budget) {
    const int threads = omp_get_max_threads();
    const double peak = bench::fma_peak(threads);
    std::printf("\nResNet-50, last stage, %ld x 14 x 14 x 1024, GFLOP/s of every pass (peak %.1f); preparing in ms\n",
                long(N), peak);
    std::printf("%-44s %8s %8s %8s %8s %8s\n", "times  N x H x W x C  filter /stride K", "forward", "data", "filter",
                "prepare", "for data");
    std::vector<double> total(5);
    for (const Layer& l : stage(3, 7, N)) {
        Arrays f(l.shape, ConvPass::forward), d(l.shape, ConvPass::bwd_data);
        const auto& b = f.b;
        std::vector<float> dw(f.w.size());
        const auto prepare = [&](Arrays& a, ConvPass pass) {
            b.conv2d_prepare(a.prepared.data(), a.w.data(), l.shape, pass, nullptr);
        };
        const std::vector<double> best =
            race({[&] { b.conv2d(f.y.data(), f.x.data(), f.prepared.data(), {}, l.shape, nullptr); },
                  [&] { b.conv2d_bwd_data(d.x.data(), d.y.data(), d.prepared.data(), l.shape, nullptr); },
                  [&] { b.conv2d_bwd_filter(dw.data(), f.x.data(), d.y.data(), l.shape, nullptr); },
                  [&] { prepare(f, ConvPass::forward); }, [&] { prepare(d, ConvPass::bwd_data); }},
                 budget);
        const double work = lc::conv2d_flops(l.shape) * 1e-9;
        print_shape(l);
        std::printf("   %8.1f %8.1f %8.1f %8.2f %8.2f\n", work / best[0], work / best[1], work / best[2], best[3] * 1e3,
                    best[4] * 1e3);
        for (size_t i = 0; i < total.size(); ++i) total[i] += l.times * best[i];
    }
    std::printf("one step of all convolutions: forward %.3f s, data %.3f s, filter %.3f s, preparing %.3f s: %.3f s\n",
                total[0], total[1], total[2], total[3] + total[4],
                total[0] + total[1] + total[2] + total[3] + total[4]);
}

}  // namespace

int main(int argc, char** argv) {
    const bool quick = argc == 2 && std::strcmp(argv[1], "--quick") == 0;
    if (argc > 1 && !quick) {
        std::fprintf(stderr, "usage: %s [--quick]\nunknown argument '%s'\n", argv[0], argv[1]);
        return 2;
    }
    const double budget = quick ? 0.05 : 0.5;  // seconds per shape
    forward_table(224, 8, budget);
    forward_table(64, 32, budget);
    training_table(32, budget);
    return 0;
}

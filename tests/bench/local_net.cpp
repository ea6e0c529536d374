// local_net.cpp -- one epoch of LoCal Net on the CPU: time, and the memory a batch takes.
//
//     build/release/cuda/bench/local_net [--quick] [--json]        (`make bench` runs it)
//
// The shape of the paper's CIFAR-10 experiment: n = 10,000 rows, d = 2048 features, H = 64, k = 50, C = 10, batch 1024; and
// theta for 20,000 rows, each left out of its own sum.  tests/bench/pytorch.py times the same in PyTorch in the same run and
// prints the ratios.
#include <cstdio>
#include <cstring>

#include "calib/trainer.h"
#include "kernels/random.h"
#include "tests/bench/measure.h"

namespace {

lc::NetData random_rows(const lc::Backend& b, int64_t n, int64_t d, int64_t k, int64_t C) {
    const auto tensor = [&](int64_t columns, uint64_t stream) {
        return lc::constant(lc::Tensor::from(b, {n, columns}, lc::random_normal({1, stream}, n * columns)));
    };
    lc::NetData rows = {tensor(d, 1), tensor(k, 2), tensor(C, 3), {}, {}};
    for (int64_t i = 0; i < n; ++i) rows.labels.push_back(int32_t(lc::random_word({1, 4}, uint64_t(i)) % uint64_t(C)));
    rows.device_labels = lc::to_device(b, rows.labels);
    return rows;
}

double theta_seconds(const lc::Backend& b, int64_t n, int64_t k, int64_t C, int turns) {
    const lc::NetData rows = random_rows(b, n, k, k, C);
    const lc::Var gamma = lc::constant(lc::Tensor::from(b, {1}, std::vector<float>{10}));
    lc::Tape tape;
    tape.training = false;
    return bench::best_of(turns,
                          [&] { lc::smooth(tape, rows.phi, gamma, {.labels = rows.device_labels.data(), .C = C}); });
}

}  // namespace

int main(int argc, char** argv) {
    bool json = false, quick = false;
    for (int i = 1; i < argc; ++i) {
        json = json || std::strcmp(argv[i], "--json") == 0;
        quick = quick || std::strcmp(argv[i], "--quick") == 0;
    }
    const lc::Backend& b = bench::counted_cpu();
    const int64_t n = 10000, d = 2048, k = 50, C = 10;
    lc::NetOptions o = lc::preset("ln", "paper", C);
    o.epochs = 1;
    const lc::NetData rows = random_rows(b, n, d, k, C);
    const size_t data_bytes = bench::memory().now;

    const int turns = quick ? 2 : 7;
    const double epoch = bench::best_of(turns, [&] {
        lc::LocalNet net(b, {d, k, C}, o, 1, o.gamma);
        lc::train(net, rows, nullptr, o, o.gamma, {.backend = &b});
    });
    const double megabytes = double(bench::memory().peak - data_bytes) / 1e6;
    const double theta = theta_seconds(b, 2 * n, k, C, turns);
    if (json) {
        std::printf("{\"epoch_seconds\": %.6f, \"theta_seconds\": %.6f, \"batch_megabytes\": %.1f}\n", epoch, theta,
                    megabytes);
        return 0;
    }
    std::printf("LoCal Net, n = 10000, d = 2048, H = 64, k = 50, C = 10, batch 1024   %8.3f s per epoch\n", epoch);
    std::printf("  memory beside the data: weights, Adam's moments, one batch         %8.1f MB\n", megabytes);
    std::printf("theta, n = 20000, d = 50, C = 10, leave one out                       %8.3f s\n", theta);
}

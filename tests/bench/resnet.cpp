// resnet.cpp -- ResNet-50 on the CPU: forward, a step of training the last stage, nine epochs with and without a kept trunk.
//
//     build/release/cuda/bench/resnet [--quick] [--json]           (`make bench` runs it)
//
// tests/bench/resnet_pytorch.py times the same in PyTorch in the same run and prints the ratios.  Weights and images are random:
// the time does not depend on them.
#include <cstdio>
#include <cstring>
#include <string>

#include "kernels/random.h"
#include "nn/finetune.h"
#include "nn/ops.h"
#include "tests/bench/measure.h"
#include "tests/bench/peak.h"

namespace {

struct Result {
    std::string name, what;
    double seconds, flops, megabytes;
};

lc::ResNet random_net(const lc::Backend& b) {
    lc::ResNet net(b, lc::resnet_plan("resnet50", 10));
    net.initialise(1);
    return net;
}

lc::Var random_images(const lc::Backend& b, const lc::Shape& shape) {
    return lc::constant(lc::Tensor::from(b, shape, lc::random_normal({1, 2}, lc::count_of(shape))));
}

// Multiply-adds of the convolutions count as two operations.  Sizes that halve cleanly only.
double forward_flops(const lc::ResNet& net, int64_t size, int64_t from) {
    double flops = 0;
    lc::Tape t;
    t.training = false;
    const auto count = [&](const lc::ConvBn& u, const lc::Var& x, const lc::Var&, bool) {
        const lc::Conv2d c = lc::conv2d_shape(x->value.shape(), u.filters->value.shape(), u.window);
        flops += lc::conv2d_flops(c);
        return lc::constant(lc::Tensor(x->value.backend(), {c.N, c.P(), c.Q(), c.K}));
    };
    lc::Shape shape = net.input_of(from, size, size);
    shape.insert(shape.begin(), 1);
    net.run(t, count, lc::constant(lc::Tensor(*lc::find_backend("cpu"), shape)), from, net.head());
    return flops;
}

// Per image.
Result forward(const lc::ResNet& net, int64_t size, int64_t batch, int turns) {
    const lc::Backend& b = bench::counted_cpu();
    const lc::Var x = random_images(b, {batch, size, size, 3});
    const lc::Trainee trainee = lc::trainee_of(net, 0, {});
    const auto infer = trainee.inference();
    infer(x);  // folds and prepares the filters
    bench::memory().peak = bench::memory().now;
    const size_t before = bench::memory().now;
    const double seconds = bench::best_of(turns, [&] { infer(x); }) / double(batch);
    return {"forward_" + std::to_string(size),
            "forward, per image of " + std::to_string(size) + ", batch " + std::to_string(batch), seconds,
            forward_flops(net, size, 0), double(bench::memory().peak - before) / 1e6};
}

lc::LabelledRows random_rows(const lc::Backend& b, const lc::Shape& row, int64_t n) {
    lc::LabelledRows rows;
    for (int64_t i = 0; i < n; ++i) rows.labels.push_back(int32_t(i % 10));
    rows.load = [&b, row](std::span<const int64_t> which) {
        lc::Shape shape = row;
        shape.insert(shape.begin(), int64_t(which.size()));
        return random_images(b, shape);
    };
    return rows;
}

// A step on a batch of 32 maps of 14 x 14 x 1024: forward, backward, Adam.
Result training_step(lc::ResNet& net, int turns) {
    const lc::Backend& b = bench::counted_cpu();
    net.train_from(net.last_stage());
    const lc::Trainee trainee = lc::trainee_of(net, net.last_stage(), {.dropout = 0.2f});
    const lc::Var x = random_images(b, {32, 14, 14, 1024});
    const std::vector<int32_t> labels(32, 3);
    lc::Adam adam(trainee.parameters, {.lr = 3e-4f});
    const auto step = [&] {
        lc::Tape tape;
        tape.backward(lc::cross_entropy(tape, trainee.logits(tape, x, {1, 1}), labels.data()));
        adam.step();
    };
    step();
    bench::memory().peak = bench::memory().now;
    const size_t before = bench::memory().now;
    const double seconds = bench::best_of(turns, step);
    return {"last_stage_step", "a training step of the last stage, batch 32", seconds,
            3 * 32 * forward_flops(net, 224, net.last_stage()), double(bench::memory().peak - before) / 1e6};
}

// Nine epochs of fine-tuning at 64 x 64, once with the trunk's outputs kept, once computed again in every epoch.
struct Epochs {
    double kept, again;  // seconds
};
Epochs nine_epochs(int64_t n, int64_t epochs) {
    const lc::Backend& b = bench::counted_cpu();
    const lc::TrainOptions o = {.epochs = epochs, .batch = 64};
    lc::LabelledRows images = random_rows(b, {64, 64, 3}, n);
    Epochs e;
    e.again = bench::best_of(1, [&] {
        lc::ResNet net = random_net(b);
        net.train_from(net.last_stage());
        lc::train(lc::trainee_of(net, 0, {}), images, {}, o, {});
    });
    e.kept = bench::best_of(1, [&] {
        lc::ResNet net = random_net(b);
        net.train_from(net.last_stage());
        lc::Trunk trunk(net, net.last_stage());
        std::vector<lc::Var> kept;
        std::vector<int64_t> rows(64);
        for (int64_t i = 0; i < n; i += 64) kept.push_back(trunk(images.load(rows)));
        lc::LabelledRows maps = images;
        size_t next = 0;
        maps.load = [&](std::span<const int64_t>) { return kept[next++ % kept.size()]; };
        lc::train(lc::trainee_of(net, net.last_stage(), {}), maps, {}, o, {});
    });
    return e;
}

}  // namespace

int main(int argc, char** argv) {
    bool json = false, quick = false;
    for (int i = 1; i < argc; ++i) {
        json = json || std::strcmp(argv[i], "--json") == 0;
        quick = quick || std::strcmp(argv[i], "--quick") == 0;
    }
    const int turns = quick ? 2 : 7;
    const double peak = bench::fma_peak(2);
    std::vector<Result> results;
    {
        lc::ResNet net = random_net(bench::counted_cpu());
        results.push_back(forward(net, 224, 8, turns));
        results.push_back(forward(net, 64, 32, turns));
        results.push_back(training_step(net, turns));
    }
    const Epochs e = nine_epochs(quick ? 128 : 512, 9);
    if (json) {
        std::printf("{");
        for (const Result& r : results) std::printf("\"%s\": %.6f, ", r.name.c_str(), r.seconds);
        std::printf("\"nine_epochs_kept\": %.4f, \"nine_epochs_again\": %.4f}\n", e.kept, e.again);
        return 0;
    }
    std::printf("ResNet-50, float32, CPU; multiply-add peak %.0f GFLOP/s\n%-48s %10s %10s %8s %9s\n", peak, "",
                "seconds", "GFLOP/s", "of peak", "memory");
    for (const Result& r : results) {
        const double gflops = r.flops / r.seconds * 1e-9;
        std::printf("%-48s %10.4f %10.1f %7.0f%% %6.0f MB\n", r.what.c_str(), r.seconds, gflops, 100 * gflops / peak,
                    r.megabytes);
    }
    std::printf(
        "nine epochs of the last stage at 64 x 64: trunk kept %.2f s, computed again %.2f s: %.1f times faster\n",
        e.kept, e.again, e.again / e.kept);
}

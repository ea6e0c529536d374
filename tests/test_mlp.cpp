// The multilayer perceptron and its training: gradients against loops in double, and what a user of nn/train.h relies on.
#include <cmath>
#include <filesystem>
#include <gtest/gtest.h>
#include <omp.h>

#include "kernels/random.h"
#include "nn/train.h"
#include "tests/gradients.h"
#include "tests/oracle/local_net.h"

namespace {

using lc::Mlp;
using lc::Tape;
using lc::Tensor;
using test::Doubles;

const lc::Backend& cpu() { return *lc::find_backend("cpu"); }

// The mean over the rows of -ln softmax at the label.
double mean_cross_entropy(const Doubles& logits, const std::vector<int32_t>& labels) {
    const size_t C = logits.size() / labels.size();
    double sum = 0;
    for (size_t i = 0; i < labels.size(); ++i) {
        double total = 0;
        for (size_t c = 0; c < C; ++c) total += std::exp(logits[i * C + c]);
        sum += std::log(total) - logits[i * C + size_t(labels[i])];
    }
    return sum / double(labels.size());
}

TEST(Mlp, every_gradient_of_the_loss) {
    const std::vector<int32_t> labels = {0, 2, 1, 1, 0, 2, 2};
    const int64_t n = int64_t(labels.size()), d = 5;
    const float rate = 0.3f;
    const lc::RandomKey key = {3, 9};
    const Mlp net(cpu(), {d, 6, 4, 3}, rate, 1);
    for (size_t p = 1; p < net.parameters().size(); p += 2) {  // biases that are not 0
        const lc::Var& b = net.parameters()[p].second;
        b->value.assign(lc::random_normal({2, p}, b->value.size()));
    }
    const std::vector<float> x = lc::random_normal({7, 7}, n * d);

    Tape tape;
    const lc::Var logits = net.forward(tape, lc::constant(Tensor::from(cpu(), {n, d}, x)), key).logits;
    const lc::Var loss = lc::cross_entropy(tape, logits, labels.data());
    tape.backward(loss);

    const auto loops = [&](const std::vector<Doubles>& p) {
        Doubles h(x.begin(), x.end());
        for (size_t k = 0; k < 2; ++k) {
            h = oracle::linear(h, p[2 * k], p[2 * k + 1], n);
            for (double& v : h) v = std::max(v, 0.0);
            h = oracle::dropout(h, rate, {key.seed, key.stream * 2 + k});
        }
        return mean_cross_entropy(oracle::linear(h, p[4], p[5], n), labels);
    };
    std::vector<lc::Var> parameters;
    std::vector<Doubles> at;
    for (const auto& [name, v] : net.parameters()) {
        parameters.push_back(v);
        const std::vector<float> values = v->value.to_host();
        at.emplace_back(values.begin(), values.end());
    }
    EXPECT_NEAR(double(loss->value.to_host()[0]), loops(at), 1e-6);
    test::expect_gradients(parameters, test::differences(loops, at));
}

TEST(Mlp, parameters_are_named_as_pytorch_names_them_and_start_as_he_says) {
    const Mlp net(cpu(), {400, 300, 20, 10}, 0, 5);
    const std::vector<std::string> names = {"0.weight", "0.bias", "3.weight", "3.bias", "6.weight", "6.bias"};
    const std::vector<lc::Shape> shapes = {{300, 400}, {300}, {20, 300}, {20}, {10, 20}, {10}};
    for (size_t p = 0; p < names.size(); ++p) {
        EXPECT_EQ(net.parameters()[p].first, names[p]);
        EXPECT_EQ(net.parameters()[p].second->value.shape(), shapes[p]);
    }
    double sum = 0, squares = 0;
    const std::vector<float> w = net.parameters()[0].second->value.to_host();
    for (float v : w) sum += double(v), squares += double(v) * double(v);
    EXPECT_NEAR(sum / double(w.size()), 0, 1e-3);
    EXPECT_NEAR(squares / double(w.size()), 2.0 / 400, 2e-4);
    for (float b : net.parameters()[1].second->value.to_host()) EXPECT_EQ(b, 0.0f);
    EXPECT_NE(w, Mlp(cpu(), {400, 300, 20, 10}, 0, 6).parameters()[0].second->value.to_host());
}

TEST(Mlp, features_are_the_last_hidden_layer_without_dropout) {
    const Mlp net(cpu(), {4, 8, 6, 3}, 0.5f, 1);
    const lc::Var x = lc::constant(Tensor::from(cpu(), {2000, 4}, lc::random_normal({1, 1}, 8000)));
    Tape tape;
    tape.training = false;
    const Mlp::Output whole = net.forward(tape, x, {});
    const lc::Outputs out = lc::infer(net, x);
    EXPECT_EQ(out.features, whole.features->value.to_host()) << "whatever the chunks";
    EXPECT_EQ(out.logits, whole.logits->value.to_host());
    EXPECT_EQ(out.features.size(), 2000u * 6);
    const auto& p = net.parameters();
    const lc::Var again = lc::linear(tape, whole.features, p[4].second, p[5].second);
    EXPECT_EQ(out.logits, again->value.to_host());
}

TEST(Mlp, refuses_what_is_no_network) {
    EXPECT_THROW(Mlp(cpu(), {4, 3}, 0, 1), lc::Error);
    EXPECT_THROW(Mlp(cpu(), {4, 0, 3}, 0, 1), lc::Error);
}

TEST(Score, known_values) {
    const float ln3 = std::log(3.0f);
    const lc::ClassifierScore s =
        lc::score({ln3, 0, 0, ln3, 0, 0}, {0, 1, 0});  // 3/4 right, 3/4 right, 1/2 (ties: the first)
    EXPECT_NEAR(s.accuracy, 1, 1e-12);
    EXPECT_NEAR(s.confidence, (0.75 + 0.75 + 0.5) / 3, 1e-7);
    EXPECT_NEAR(s.log_loss, (2 * std::log(4.0 / 3) + std::log(2.0)) / 3, 1e-7);
    EXPECT_NEAR(lc::score({1e4f, -1e4f}, {1}).log_loss, 2e4, 1e-9);
    EXPECT_EQ(lc::score({1e4f, -1e4f}, {1}).accuracy, 0);
    EXPECT_THROW(lc::score({}, {}), lc::Error);
    EXPECT_THROW(lc::score({1, 2, 3}, {0, 1}), lc::Error);
}

// ---- training -------------------------------------------------------------------------------------------------------

// Points of the plane, padded with noise; the label is the quadrant.
lc::Examples quadrants(int64_t n, uint64_t seed) {
    const int64_t d = 24;
    const std::vector<float> x = lc::random_normal({seed, 1}, n * d);
    lc::Examples e = {lc::constant(Tensor::from(cpu(), {n, d}, x)), {}};
    for (int64_t i = 0; i < n; ++i) e.labels.push_back((x[size_t(i * d)] > 0) + 2 * (x[size_t(i * d + 1)] > 0));
    return e;
}

using Weights = std::vector<std::vector<float>>;

struct Trained {
    Weights weights;
    std::vector<lc::Epoch> epochs;
};

// Trains; interrupted > 0: an exception ends it after that epoch.
Trained train_quadrants(lc::TrainOptions o, int64_t interrupted = 0) {
    struct Interrupted {};
    const lc::Examples fit = quadrants(700, 1), validation = quadrants(300, 2);
    const Mlp net(cpu(), {24, 48, 16, 4}, 0.1f, o.seed);
    Trained run;
    try {
        lc::train(net, fit, validation, o, [&](const lc::Epoch& e) {
            run.epochs.push_back(e);
            if (e.number == interrupted) throw Interrupted();
        });
    } catch (const Interrupted&) {}
    for (const auto& [name, v] : net.parameters()) run.weights.push_back(v->value.to_host());
    return run;
}

TEST(Train, learns) {
    const Trained run = train_quadrants({.epochs = 30, .batch = 64, .adam = {.lr = 3e-3f}, .seed = 3});
    ASSERT_EQ(run.epochs.size(), 30u);
    const lc::Epoch &first = run.epochs.front(), &last = run.epochs.back();
    EXPECT_EQ(last.number, 30);
    EXPECT_LT(last.fit.log_loss, 0.3 * first.fit.log_loss);
    EXPECT_LT(last.validation.log_loss, 0.7 * first.validation.log_loss);
    EXPECT_GT(last.validation.accuracy, 0.8);
    EXPECT_GT(last.fit.accuracy, 0.85);
}

TEST(Train, the_same_bits_for_any_number_of_threads_and_others_for_another_seed) {
    const int before = omp_get_max_threads();
    const lc::TrainOptions o = {.epochs = 2, .seed = 3};
    std::vector<Weights> weights;
    for (int threads : {1, 2, 3}) {
        omp_set_num_threads(threads);
        weights.push_back(train_quadrants(o).weights);
    }
    omp_set_num_threads(before);
    EXPECT_EQ(weights[0], weights[1]);
    EXPECT_EQ(weights[0], weights[2]);
    EXPECT_NE(weights[0], train_quadrants({.epochs = 2, .seed = 4}).weights);
}

TEST(Train, an_interrupted_training_goes_on_bit_for_bit) {
    const std::string path = testing::TempDir() + "training.checkpoint";
    std::filesystem::remove(path);
    lc::TrainOptions o = {.epochs = 6, .seed = 3};
    const Trained whole = train_quadrants(o);
    o.checkpoint = path, o.fingerprint = "a";
    EXPECT_NE(train_quadrants(o, 2).weights, whole.weights);
    const Trained rest = train_quadrants(o);
    EXPECT_EQ(rest.epochs.size(), 4u);
    EXPECT_EQ(rest.epochs.front().number, 3);
    EXPECT_EQ(rest.weights, whole.weights);
    EXPECT_EQ(rest.epochs.back().validation.log_loss, whole.epochs.back().validation.log_loss);

    EXPECT_EQ(train_quadrants(o).epochs.size(), 0u) << "all done already";
    o.fingerprint = "b";
    EXPECT_EQ(train_quadrants(o).epochs.size(), 6u) << "a checkpoint of something else is not taken up";
}

TEST(Train, refuses_a_checkpoint_that_is_none) {
    const std::string path = testing::TempDir() + "no.checkpoint";
    lc::SafetensorsWriter out;
    out.metadata["schema"] = "localcal.calibrator/1";
    out.write(path);
    EXPECT_THROW(train_quadrants({.epochs = 1, .checkpoint = path}), lc::Error);
}

TEST(Train, stops_where_the_loss_is_not_finite) {
    const lc::Examples fit = quadrants(128, 1);
    const Mlp net(cpu(), {24, 8, 4}, 0, 1);
    net.parameters()[0].second->value.assign(std::vector<float>(8 * 24, NAN));
    try {
        lc::train(net, fit, fit, {.epochs = 3}, {});
        FAIL() << "a NaN was trained on";
    } catch (const lc::Error& e) {
        EXPECT_NE(std::string(e.what()).find("epoch 1"), std::string::npos) << e.what();
    }
}

}  // namespace

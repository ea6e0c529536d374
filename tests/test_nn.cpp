// The differentiable operations: their gradients against central differences of independent loops in double, on the CPU.
#include <cmath>
#include <gtest/gtest.h>

#include "calib/local_net.h"
#include "kernels/random.h"
#include "nn/adam.h"
#include "tests/gradients.h"
#include "tests/oracle/local_net.h"

namespace {

using lc::Tape;
using lc::Tensor;
using lc::Var;
using test::differences;
using test::Doubles;
using test::expect_gradients;

const lc::Backend& cpu() { return *lc::find_backend("cpu"); }

// sum_i w_i y_i as a root of a tape: what turns any operation into a loss.
Var weighted_sum(Tape& t, const Var& y, const std::vector<float>& w) {
    const std::vector<float> v = y->value.to_host();
    float sum = 0;
    for (size_t i = 0; i < v.size(); ++i) sum += v[i] * w[i];
    return t.record(Tensor::from(cpu(), {1}, std::vector<float>{sum}), {y},
                    [=](const lc::Node&) { lc::give_grad(y, Tensor::from(cpu(), y->value.shape(), w)); });
}

struct Input {
    lc::Shape shape;
    std::vector<float> values;
};
Input random_input(lc::Shape shape, uint64_t stream, double mean = 0) {
    return {shape, lc::random_normal({77, stream}, lc::count_of(shape), mean, 1)};
}

// Runs `build` on a tape, backward from a weighted sum of its result, and the same by differences of `loops`.
void check_gradient(const std::vector<Input>& inputs, const std::function<Var(Tape&, const std::vector<Var>&)>& build,
                    const std::function<Doubles(const std::vector<Doubles>&)>& loops) {
    std::vector<Var> parameters;
    std::vector<Doubles> at;
    for (const Input& i : inputs) {
        parameters.push_back(lc::parameter(Tensor::from(cpu(), i.shape, i.values)));
        at.emplace_back(i.values.begin(), i.values.end());
    }
    Tape tape;
    const Var y = build(tape, parameters);
    const std::vector<float> w = lc::random_normal({78, 0}, y->value.size());
    tape.backward(weighted_sum(tape, y, w));
    const auto f = [&](const std::vector<Doubles>& x) {
        const Doubles v = loops(x);
        double sum = 0;
        for (size_t i = 0; i < v.size(); ++i) sum += v[i] * double(w[i]);
        return sum;
    };
    expect_gradients(parameters, differences(f, at));
}

TEST(Nn, linear) {
    check_gradient(
        {random_input({5, 3}, 1), random_input({4, 3}, 2), random_input({4}, 3)},
        [](Tape& t, const std::vector<Var>& v) { return lc::linear(t, v[0], v[1], v[2]); },
        [](const std::vector<Doubles>& v) { return oracle::linear(v[0], v[1], v[2], 5); });
}

TEST(Nn, relu) {
    check_gradient(
        {random_input({6, 3}, 4)}, [](Tape& t, const std::vector<Var>& v) { return lc::relu(t, v[0]); },
        [](const std::vector<Doubles>& v) {
            Doubles y = v[0];
            for (double& x : y) x = std::max(x, 0.0);
            return y;
        });
}

TEST(Nn, dropout_drops_the_same_elements_both_ways) {
    const lc::RandomKey key = {3, 9};
    check_gradient(
        {random_input({6, 5}, 5)}, [=](Tape& t, const std::vector<Var>& v) { return lc::dropout(t, v[0], 0.4f, key); },
        [=](const std::vector<Doubles>& v) { return oracle::dropout(v[0], 0.4f, key); });
}

TEST(Nn, dropout_is_the_identity_without_training) {
    Tape tape;
    tape.training = false;
    const Var x = lc::parameter(Tensor::from(cpu(), {3}, std::vector<float>{1, 2, 3}));
    EXPECT_EQ(lc::dropout(tape, x, 0.5f, {1, 1}), x);
}

TEST(Nn, add_affine) {
    const Input x = random_input({5, 3}, 6);
    for (int64_t width : {int64_t(1), int64_t(3)}) {
        check_gradient(
            {random_input({5, 3}, 7), random_input({width}, 8), random_input({width}, 9)},
            [&](Tape& t, const std::vector<Var>& v) {
                return lc::add_affine(t, v[0], lc::constant(Tensor::from(cpu(), x.shape, x.values)), v[1], v[2]);
            },
            [&](const std::vector<Doubles>& v) {
                return oracle::add_affine(v[0], Doubles(x.values.begin(), x.values.end()), v[1], v[2], 5);
            });
    }
}

TEST(Nn, softplus) {
    check_gradient(
        {random_input({4, 4}, 10)}, [](Tape& t, const std::vector<Var>& v) { return lc::softplus(t, v[0]); },
        [](const std::vector<Doubles>& v) {
            Doubles y = v[0];
            for (double& x : y) x = std::log1p(std::exp(x));
            return y;
        });
}

TEST(Nn, a_value_used_twice_gets_both_gradients) {
    check_gradient(
        {random_input({4, 3}, 11), random_input({3, 3}, 12), random_input({3}, 13)},
        [](Tape& t, const std::vector<Var>& v) {
            const Var h = lc::relu(t, v[0]);
            return lc::linear(t, lc::linear(t, h, v[1], v[2]), v[1], v[2]);  // W and b twice
        },
        [](const std::vector<Doubles>& v) {
            Doubles h = v[0];
            for (double& x : h) x = std::max(x, 0.0);
            return oracle::linear(oracle::linear(h, v[1], v[2], 4), v[1], v[2], 4);
        });
}

TEST(Nn, what_the_loss_does_not_depend_on_gets_no_gradient) {
    Tape tape;
    const Var x = lc::parameter(Tensor::from(cpu(), {2}, std::vector<float>{1, 2}));
    const Var y = lc::parameter(Tensor::from(cpu(), {2}, std::vector<float>{1, 2}));
    const Var used = lc::relu(tape, x);
    lc::relu(tape, y);
    tape.backward(weighted_sum(tape, used, {1, 1}));
    EXPECT_TRUE(x->grad);
    EXPECT_FALSE(y->grad);
}

TEST(Nn, linear_refuses_shapes_that_do_not_fit) {
    Tape tape;
    const auto make = [](lc::Shape s) { return lc::parameter(Tensor::zeros(cpu(), s)); };
    EXPECT_THROW(lc::linear(tape, make({2, 3}), make({4, 5}), make({4})), lc::Error);
}

// ---- the whole loss of LoCal Net ------------------------------------------------------------------------------------

struct WholeLoss {
    const char* name;
    lc::NwForm form;
    lc::JsDistance distance;
    lc::Affine affine;
    lc::Bandwidth bandwidth;
};

class LocalNetLoss : public testing::TestWithParam<WholeLoss> {};

TEST_P(LocalNetLoss, every_parameter) {
    const int64_t n = 9, d = 5, k = 3, C = 4;
    lc::NetOptions o = lc::preset("ln", "paper", C);
    o.hidden = 6, o.dropout = 0.25f, o.affine = GetParam().affine, o.bandwidth = GetParam().bandwidth;
    const double gamma = 1.3;
    const lc::LocalNet net(cpu(), {d, k, C}, o, 5, gamma, 0.8);
    for (const auto& [name, x] : net.parameters()) {  // larger weights than training starts from: every path counts
        std::vector<float> v = x->value.to_host();
        for (size_t i = 0; i < v.size(); ++i) v[i] += 0.3f * lc::random_normal({6, 1}, int64_t(v.size()))[i];
        x->value.assign(v);
    }
    const Input phi = random_input({n, d}, 20), z = random_input({n, k}, 21), g = random_input({n, C}, 22);
    const std::vector<int32_t> labels = {0, 1, 2, 3, 0, 1, 2, 3, 0};
    const lc::RandomKey key = {11, 12};
    const auto data = [](const Input& i) { return lc::constant(Tensor::from(cpu(), i.shape, i.values)); };

    Tape tape;
    const lc::LocalNet::Output out = net.forward(tape, data(phi), data(z), data(g), key);
    const Var width = out.gamma ? out.gamma : lc::constant(Tensor::from(cpu(), {1}, std::vector<float>{float(gamma)}));
    const lc::Smoothed q = lc::smooth(tape, out.z, width, {labels.data(), C, GetParam().form});
    const bool log_space = GetParam().form == lc::NwForm::exact;
    const Var root = lc::js_ce(tape, out.g, q, labels.data(),
                               {.distance = GetParam().distance, .js = 1, .ce = 0.7f, .log_space = log_space});
    tape.backward(root);

    oracle::LocalNet loops = {n, d, k, C, o.hidden, o.dropout, key, gamma, 0.7};
    loops.phi.assign(phi.values.begin(), phi.values.end());
    loops.z.assign(z.values.begin(), z.values.end());
    loops.g.assign(g.values.begin(), g.values.end());
    loops.labels = labels;
    loops.authors = GetParam().form == lc::NwForm::authors;
    loops.classwise = GetParam().distance == lc::JsDistance::classwise;
    std::vector<Var> parameters;
    std::vector<Doubles> at;
    for (const auto& [name, x] : net.parameters()) {
        parameters.push_back(x);
        const std::vector<float> v = x->value.to_host();
        at.emplace_back(v.begin(), v.end());
    }
    const std::vector<float> means = root->value.to_host();
    EXPECT_NEAR(double(means[0]) + 0.7 * double(means[1]), loops.loss(at), 2e-6);
    expect_gradients(parameters, differences([&](const std::vector<Doubles>& x) { return loops.loss(x); }, at));
}

INSTANTIATE_TEST_SUITE_P(Forms, LocalNetLoss,
                         testing::Values(WholeLoss{"paper", lc::NwForm::exact, lc::JsDistance::categorical,
                                                   lc::Affine::scalar, lc::Bandwidth::fixed},
                                         WholeLoss{"authors", lc::NwForm::authors, lc::JsDistance::classwise,
                                                   lc::Affine::vector, lc::Bandwidth::fixed},
                                         WholeLoss{"mixed", lc::NwForm::exact, lc::JsDistance::classwise,
                                                   lc::Affine::vector, lc::Bandwidth::fixed},
                                         WholeLoss{"learned", lc::NwForm::exact, lc::JsDistance::categorical,
                                                   lc::Affine::scalar, lc::Bandwidth::learned}),
                         [](const auto& info) { return info.param.name; });

// ---- Adam -----------------------------------------------------------------------------------------------------------

TEST(Nn, adam_steps_as_the_formula_and_resumes_bit_for_bit) {
    const auto run = [](int steps, int interrupted_at) {
        lc::Parameters p = {{"x", lc::parameter(Tensor::from(cpu(), {3}, std::vector<float>{1, -2, 0.5f}))}};
        auto adam = std::make_unique<lc::Adam>(p, lc::AdamStep{.lr = 0.1f});
        for (int i = 0; i < steps; ++i) {
            if (i == interrupted_at) {  // through a file, into new objects
                const std::string path = testing::TempDir() + "adam.safetensors";
                lc::SafetensorsWriter out;
                lc::store(out, p);
                adam->store(out);
                out.write(path);
                p = {{"x", lc::parameter(Tensor::zeros(cpu(), {3}))}};
                adam = std::make_unique<lc::Adam>(p, lc::AdamStep{.lr = 0.1f});
                const lc::Safetensors in = lc::read_safetensors(path);
                lc::restore(in, p);
                adam->restore(in);
            }
            std::vector<float> g = p[0].second->value.to_host();  // of sum x^2 / 2
            p[0].second->grad = Tensor::from(cpu(), {3}, g);
            adam->step();
        }
        return p[0].second->value.to_host();
    };
    EXPECT_EQ(run(7, -1), run(7, 3));
    EXPECT_NEAR(run(1, -1)[0], 0.9f, 1e-6);  // the first step is lr times the sign
    EXPECT_LT(std::abs(run(400, -1)[1]), 0.05f);
}

}  // namespace

// Cases of sgd.h.
#include "tests/oracle/sgd.h"

#include <cmath>

#include "tests/harness.h"

using namespace test;
using lc::Backend;
using lc::SgdStep;

namespace {

// `steps` steps in a row, with the same gradient.
void add_sgd(int64_t n, const std::string& name, SgdStep step, const std::string& values, int steps = 1,
             int64_t offset = 0) {
    Case c{.op = "sgd", .name = std::to_string(n) + "_" + name};
    c.make = [=](Random& r) {
        auto v = r.fill(n, values == "special" ? "normal" : values);  // two of the largest numbers would overflow
        if (step.t == 1) v.assign(size_t(n), NAN);                    // the first step must not look at it
        return Operands{in_out("x", r.fill(n, values)), in_out("v", v), in("g", r.fill(n, values))};
    };
    c.run = [=](const Backend& b, const Device& d) {
        for (SgdStep s = step; s.t < step.t + steps; ++s.t) b.sgd(d[0], d[1], d[2], n, s, d.stream);
    };
    c.reference = reference([=](auto& v) {
        for (SgdStep s = step; s.t < step.t + steps; ++s.t) oracle::sgd(v[0], v[1], v[2], s);
    });
    c.offset = offset;
    c.flops = double(n) * 6 * steps;
    add_case(c);
}

}  // namespace

CASES(sgd) {
    const SgdStep step{.lr = 0.01f, .momentum = 0.9f, .weight_decay = 5e-4f, .t = 3};
    for (int64_t n : kLengths) add_sgd(n, "normal", step, "normal");
    for (const std::string& values : kValueSets) add_sgd(257, values, step, values);
    add_sgd(257, "special", {.lr = 0.01f, .momentum = 0.5f, .weight_decay = 0, .t = 3}, "special");
    add_sgd(257, "special_decay", {.lr = 0.01f, .momentum = 0, .weight_decay = 1e-4f, .t = 3}, "special");
    add_sgd(257, "offset1", step, "normal", 1, 1);
    add_sgd(1021, "first_step", {.weight_decay = 0.1f, .t = 1}, "normal");
    add_sgd(1021, "many_steps", {.lr = 0.05f, .weight_decay = 1e-3f, .t = 1}, "normal", 50);
    add_sgd(257, "no_momentum", {.momentum = 0, .weight_decay = 0.1f, .t = 2}, "normal");
    add_sgd(257, "no_decay", {.t = 2}, "normal");

    Case c{.op = "sgd", .name = "4M"};
    c.make = [](Random& r) {
        const int64_t n = 1 << 22;
        return Operands{in_out("x", r.normal(n)), in_out("v", r.normal(n)), in("g", r.normal(n))};
    };
    c.run = [=](const Backend& b, const Device& d) { b.sgd(d[0], d[1], d[2], 1 << 22, step, d.stream); };
    c.bytes = 20.0 * double(1 << 22);
    c.bench = c.bench_only = true;
    add_case(c);

    const auto refused = [](const std::string& name, const std::string& says, int64_t n, SgdStep s) {
        add_refusal({"sgd", name, says, [=](const Backend& b) { b.sgd(nullptr, nullptr, nullptr, n, s, nullptr); }});
    };
    refused("negative_length", "n", -1, {});
    refused("null_pointer", "null", 4, {});
    refused("step_zero", "t counts", 0, {.t = 0});
    refused("lr_zero", "lr", 0, {.lr = 0});
    refused("lr_nan", "lr", 0, {.lr = NAN});
    refused("momentum_one", "momentum", 0, {.momentum = 1});
    refused("momentum_negative", "momentum", 0, {.momentum = -0.1f});
    refused("weight_decay_negative", "weight_decay", 0, {.weight_decay = -1e-4f});
    add_refusal({"sgd", "overlap", "overlaps", [](const Backend& b) {
                     const lc::Buffer<float> x(b, 16);
                     b.sgd(x.data(), x.data() + 4, x.data() + 6, 4, SgdStep{}, nullptr);
                 }});
}

// Cases of adam.h.
#include "tests/oracle/adam.h"

#include <cmath>

#include "tests/harness.h"

using namespace test;
using lc::AdamStep;
using lc::Backend;

namespace {

// `steps` steps in a row, with the same gradient.
void add_adam(int64_t n, const std::string& name, AdamStep step, const std::string& values, int steps = 1,
              int64_t offset = 0) {
    Case c{.op = "adam", .name = std::to_string(n) + "_" + name};
    c.make = [=](Random& r) {
        return Operands{in_out("x", r.fill(n, values)), in_out("m", r.normal(n)), in_out("v", r.uniform(n, 0, 2)),
                        in("g", r.fill(n, values))};
    };
    c.run = [=](const Backend& b, const Device& d) {
        for (AdamStep s = step; s.t < step.t + steps; ++s.t) b.adam(d[0], d[1], d[2], d[3], n, s, d.stream);
    };
    c.reference = reference([=](auto& v) {
        for (AdamStep s = step; s.t < step.t + steps; ++s.t) oracle::adam(v[0], v[1], v[2], v[3], s);
    });
    c.offset = offset;
    c.flops = double(n) * 15 * steps;
    add_case(c);
}

}  // namespace

CASES(adam) {
    const AdamStep step{.lr = 0.01f, .beta1 = 0.9f, .beta2 = 0.999f, .eps = 1e-8f, .t = 3};
    for (int64_t n : kLengths) add_adam(n, "normal", step, "normal");
    for (const std::string& values : kValueSets) add_adam(257, values, step, values);
    add_adam(257, "special", step, "special");
    add_adam(257, "offset1", step, "normal", 1, 1);
    add_adam(1021, "first_step", {.t = 1}, "normal");
    add_adam(1021, "many_steps", {.lr = 0.05f, .t = 1}, "normal", 50);
    add_adam(1021, "late", {.t = 10000000}, "normal");
    add_adam(257, "no_memory", {.lr = 0.01f, .beta1 = 0, .beta2 = 0, .t = 2}, "normal");
    add_adam(257, "large_eps", {.lr = 1, .eps = 3, .t = 2}, "normal");
    add_adam(1021, "weight_decay", {.lr = 0.01f, .weight_decay = 0.3f, .t = 3}, "normal", 5);
    add_adam(257, "weight_decay_special", {.lr = 0.01f, .weight_decay = 1e-4f, .t = 3}, "special");
    Case fresh{.op = "adam", .name = "257_fresh"};  // no history: every x moves by lr, up to eps, whatever its gradient
    fresh.make = [](Random& r) {
        const std::vector<double> zero(257, 0.0);
        return Operands{in_out("x", r.normal(257)), in_out("m", zero), in_out("v", zero), in("g", r.normal(257))};
    };
    fresh.run = [](const Backend& b, const Device& d) { b.adam(d[0], d[1], d[2], d[3], 257, AdamStep{}, d.stream); };
    fresh.reference = reference([](auto& v) { oracle::adam(v[0], v[1], v[2], v[3], AdamStep{}); });
    fresh.flops = 4000;
    add_case(fresh);

    Case c{.op = "adam", .name = "4M"};
    c.make = [](Random& r) {
        const int64_t n = 1 << 22;
        return Operands{in_out("x", r.normal(n)), in_out("m", r.normal(n)), in_out("v", r.uniform(n, 0, 1)),
                        in("g", r.normal(n))};
    };
    c.run = [](const Backend& b, const Device& d) { b.adam(d[0], d[1], d[2], d[3], 1 << 22, AdamStep{}, d.stream); };
    c.bytes = 28.0 * double(1 << 22);
    c.bench = c.bench_only = true;
    add_case(c);

    const auto refused = [](const std::string& name, const std::string& says, int64_t n, AdamStep s) {
        add_refusal(
            {"adam", name, says, [=](const Backend& b) { b.adam(nullptr, nullptr, nullptr, nullptr, n, s, nullptr); }});
    };
    refused("negative_length", "n", -1, {});
    refused("null_pointer", "null", 4, {});
    refused("step_zero", "t", 0, {.t = 0});
    refused("beta1_one", "beta1", 0, {.beta1 = 1});
    refused("beta2_negative", "beta2", 0, {.beta2 = -0.1f});
    refused("beta2_nan", "beta2", 0, {.beta2 = NAN});
    refused("lr_zero", "lr", 0, {.lr = 0});
    refused("weight_decay_negative", "weight_decay", 0, {.weight_decay = -1});
    refused("eps_zero", "eps", 0, {.eps = 0});
    add_refusal({"adam", "overlap", "overlaps", [](const Backend& b) {
                     const lc::Buffer<float> x(b, 16);
                     b.adam(x.data(), x.data() + 4, x.data() + 8, x.data() + 6, 4, AdamStep{}, nullptr);
                 }});
}

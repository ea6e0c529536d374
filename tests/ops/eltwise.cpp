// Cases of eltwise.h.  All but softplus are exactly rounded by contract, so they must equal the scalar loops bit for bit.
#include "tests/oracle/eltwise.h"

#include <cmath>

#include "tests/harness.h"

using namespace test;
using lc::Backend;

namespace {

std::vector<std::string> all_values() {
    std::vector<std::string> v = kValueSets;
    v.push_back("special");
    return v;
}

// One elementwise case in the four placements that matter: aligned, shifted off alignment, in place, and every value
// set.
void add_placements(const std::string& op, int64_t n, int inputs,
                    const std::function<void(const Backend&, const Device&, float*)>& run, const Reference& ref,
                    const Reference& ref_in_place) {
    const auto one = [&](const std::string& name, const std::string& values, int64_t offset, bool in_place) {
        Case c{.op = op, .name = name};
        c.make = [=](Random& r) {
            Operands o = {in_place ? in_out("x", r.fill(n, values)) : out("out", n)};
            while (int(o.size()) < inputs + (in_place ? 0 : 1))
                o.push_back(in("in" + std::to_string(o.size()), r.fill(n, values)));
            return o;
        };
        c.run = [=](const Backend& b, const Device& d) {
            Device shifted = d;
            if (in_place) shifted.pointers.insert(shifted.pointers.begin(), d[0]);  // out and first input are one array
            run(b, shifted, shifted[0]);
        };
        c.reference = in_place ? ref_in_place : ref;
        c.compare = Compare::exact;
        c.offset = offset;
        c.flops = double(n);
        add_case(c);
    };
    one(std::to_string(n), "normal", 0, false);
    if (n == 1021) {
        for (const std::string& v : all_values()) one(std::to_string(n) + "_" + v, v, 0, false);
        for (int64_t offset : {1, 2, 3})
            one(std::to_string(n) + "_offset" + std::to_string(offset), "normal", offset, false);
        one(std::to_string(n) + "_in_place", "special", 0, true);
    }
}

// Loops that read inputs from v[1], v[2] and write v[0]; in place, v[0] is also the first input.
template <class Loops>
void add_placements(const std::string& op, int64_t n, int inputs,
                    const std::function<void(const Backend&, const Device&, float*)>& run, Loops loops) {
    const auto in_place = [=](auto& v) {
        auto w = v;
        w.insert(w.begin(), v[0]);
        loops(w);
        v[0] = w[0];
    };
    add_placements(op, n, inputs, run, reference(loops), reference(in_place));
}

}  // namespace

CASES(add) {
    for (int64_t n : kLengths) {
        add_placements(
            "add", n, 2, [=](const Backend& b, const Device& d, float* y) { b.add(y, d[1], d[2], n, d.stream); },
            [](auto& v) { oracle::add(v[0], v[1], v[2]); });
    }
    add_refusal(
        {"add", "negative_length", "n", [](const Backend& b) { b.add(nullptr, nullptr, nullptr, -1, nullptr); }});
    add_refusal(
        {"add", "null_pointer", "null", [](const Backend& b) { b.add(nullptr, nullptr, nullptr, 4, nullptr); }});
    add_gradient({"add",
                  "both",
                  {1, -2, 3, 0.5},
                  {0.3, -0.7},
                  [](const std::vector<double>& x) {
                      return std::vector<double>{x[0] + x[2], x[1] + x[3]};
                  },
                  [](const std::vector<double>&, const std::vector<double>& dy) {
                      return std::vector<double>{dy[0], dy[1], dy[0], dy[1]};
                  }});
}

CASES(scale) {
    for (int64_t n : kLengths) {
        add_placements(
            "scale", n, 1, [=](const Backend& b, const Device& d, float* y) { b.scale(y, d[1], -1.7f, n, d.stream); },
            [](auto& v) { oracle::scale(v[0], v[1], -1.7f); });
    }
    add_refusal({"scale", "negative_length", "n", [](const Backend& b) { b.scale(nullptr, nullptr, 1, -1, nullptr); }});
    const auto loops = [](const std::vector<double>& x) {
        std::vector<double> y(x.size());
        oracle::scale(y, x, 0.75f);
        return y;
    };
    add_gradient({"scale",
                  "input",
                  {1, -2, 3},
                  {0.3, -0.7, 1},
                  loops,
                  [=](const std::vector<double>&, const std::vector<double>& dy) { return loops(dy); }});
}

CASES(relu) {
    for (int64_t n : kLengths) {
        add_placements(
            "relu", n, 1, [=](const Backend& b, const Device& d, float* y) { b.relu(y, d[1], n, d.stream); },
            [](auto& v) { oracle::relu(v[0], v[1]); });
        add_placements(
            "add_relu", n, 2,
            [=](const Backend& b, const Device& d, float* y) { b.add_relu(y, d[1], d[2], n, d.stream); },
            [](auto& v) { oracle::add_relu(v[0], v[1], v[2]); });
        add_placements(
            "relu_bwd", n, 2,
            [=](const Backend& b, const Device& d, float* y) { b.relu_bwd(y, d[1], d[2], n, d.stream); },
            [](auto& v) { oracle::relu_bwd(v[0], v[1], v[2]); });
    }
    add_refusal({"relu", "negative_length", "n", [](const Backend& b) { b.relu(nullptr, nullptr, -1, nullptr); }});
    add_refusal({"add_relu", "negative_length", "n",
                 [](const Backend& b) { b.add_relu(nullptr, nullptr, nullptr, -1, nullptr); }});
    add_refusal({"add_relu", "overlap", "overlaps", [](const Backend& b) {
                     const lc::Buffer<float> x(b, 16);
                     b.add_relu(x.data(), x.data() + 8, x.data() + 2, 4, nullptr);
                 }});
    add_gradient({"add_relu",
                  "both",
                  {1, -2, 3, /* y */ -0.5, 1, 2},
                  {0.3, -0.7, 1},
                  [](const std::vector<double>& x) {
                      std::vector<double> y(3);
                      oracle::add_relu(y, {x[0], x[1], x[2]}, {x[3], x[4], x[5]});
                      return y;
                  },
                  [](const std::vector<double>& x, const std::vector<double>& dy) {
                      std::vector<double> y(3), dx(3);
                      oracle::add_relu(y, {x[0], x[1], x[2]}, {x[3], x[4], x[5]});
                      oracle::relu_bwd(dx, dy, y);
                      return std::vector<double>{dx[0], dx[1], dx[2], dx[0], dx[1], dx[2]};
                  }});
    add_refusal({"relu_bwd", "negative_length", "n",
                 [](const Backend& b) { b.relu_bwd(nullptr, nullptr, nullptr, -1, nullptr); }});
    add_gradient({"relu",
                  "input",
                  {1, -2, 3, -0.5},
                  {0.3, -0.7, 1, 2},  // the kink at 0 is left out
                  [](const std::vector<double>& x) {
                      std::vector<double> y(x.size());
                      oracle::relu(y, x);
                      return y;
                  },
                  [](const std::vector<double>& x, const std::vector<double>& dy) {
                      std::vector<double> y(x.size()), dx(x.size());
                      oracle::relu(y, x);
                      oracle::relu_bwd(dx, dy, y);
                      return dx;
                  }});
}

CASES(softplus) {
    const auto all_sizes = [](const std::string& op, int inputs, auto run, auto loops) {
        const auto one = [=](int64_t n, const std::string& values, int64_t offset) {
            Case c{.op = op, .name = std::to_string(n) + "_" + values + (offset ? "_offset1" : "")};
            c.make = [=](Random& r) {
                Operands o = {out("out", n), in("in", r.fill(n, values))};
                if (inputs == 2) {
                    o.push_back(in("y", r.fill(n, values)));
                    for (double& y : o[2].v) y = std::fabs(y) * (y < 0 ? 1e-4 : 1), y = double(float(y));
                }
                return o;
            };
            c.run = [=](const Backend& b, const Device& d) { run(b, d, n); };
            c.reference = reference(loops);
            c.compare = Compare::relative;
            c.offset = offset;
            c.flops = double(n) * 50;
            add_case(c);
        };
        for (int64_t n : kLengths) one(n, "normal", 0);
        for (const std::string& values : all_values()) one(1019, values, 1);
    };
    all_sizes(
        "softplus", 1, [](const Backend& b, const Device& d, int64_t n) { b.softplus(d[0], d[1], n, d.stream); },
        [](auto& v) { oracle::softplus(v[0], v[1]); });
    all_sizes(
        "softplus_bwd", 2,
        [](const Backend& b, const Device& d, int64_t n) { b.softplus_bwd(d[0], d[1], d[2], n, d.stream); },
        [](auto& v) { oracle::softplus_bwd(v[0], v[1], v[2]); });
    Case c{.op = "softplus", .name = "tails"};  // every magnitude, both signs: small values must be right too
    c.make = [](Random& r) {
        std::vector<double> x = r.uniform(4000, -120, 120);
        for (size_t i = 0; i < 1000; ++i) x[i] = double(float(x[i] * 1e-3));
        return Operands{out("out", 4000), in("x", x)};
    };
    c.run = [](const Backend& b, const Device& d) { b.softplus(d[0], d[1], 4000, d.stream); };
    c.reference = reference([](auto& v) { oracle::softplus(v[0], v[1]); });
    c.compare = Compare::relative;
    c.flops = 200000;
    add_case(c);
    add_refusal(
        {"softplus", "negative_length", "n", [](const Backend& b) { b.softplus(nullptr, nullptr, -1, nullptr); }});
    add_refusal({"softplus_bwd", "negative_length", "n",
                 [](const Backend& b) { b.softplus_bwd(nullptr, nullptr, nullptr, -1, nullptr); }});
    const auto forward = [](const std::vector<double>& x) {
        std::vector<double> y(x.size());
        oracle::softplus(y, x);
        return y;
    };
    add_gradient({"softplus",
                  "input",
                  {1, -2, 3, -0.5, 0, 8},
                  {0.3, -0.7, 1, 2, 1, -1},
                  forward,
                  [=](const std::vector<double>& x, const std::vector<double>& dy) {
                      std::vector<double> dx(x.size());
                      oracle::softplus_bwd(dx, dy, forward(x));
                      return dx;
                  }});
}

CASES(dropout) {
    for (float p : {0.0f, 0.3f, 0.5f, 0.999f}) {
        for (int64_t n : kLengths) {
            if (p != 0.3f && n != 1021) continue;
            const lc::RandomKey key{0x123456789abcdefull, uint64_t(n) << 33};
            Case c{.op = "dropout", .name = std::to_string(n) + "_p" + std::to_string(int(p * 1000))};
            c.make = [=](Random& r) {
                return Operands{out("out", n), in("x", r.fill(n, n == 1021 ? "special" : "normal"))};
            };
            c.run = [=](const Backend& b, const Device& d) { b.dropout(d[0], d[1], p, key, n, d.stream); };
            c.reference = reference([=](auto& v) { oracle::dropout(v[0], v[1], p, key.seed, key.stream); });
            c.compare = Compare::exact;
            c.flops = double(n) * 20;
            add_case(c);
        }
    }
    // A word that equals the threshold is kept.  Words that end in eight zero bits are p 2^32 for a float32 p: of a thousand
    // words about four.
    for (uint64_t i = 0; i < 1021; ++i) {
        const uint32_t word = oracle::philox_word(5, 6, i / 4, int(i % 4));
        if (word % 256 != 0) continue;
        const float p = float(word) * 0x1p-32f;
        Case c{.op = "dropout", .name = "word" + std::to_string(i) + "_at_threshold"};
        c.make = [](Random& r) { return Operands{out("out", 1021), in("x", r.normal(1021))}; };
        c.run = [=](const Backend& b, const Device& d) { b.dropout(d[0], d[1], p, {5, 6}, 1021, d.stream); };
        c.reference = reference([=](auto& v) { oracle::dropout(v[0], v[1], p, 5, 6); });
        c.compare = Compare::exact;
        c.flops = 20000;
        add_case(c);
    }
    const auto call = [](float p) { return [=](const Backend& b) { b.dropout(nullptr, nullptr, p, {}, 0, nullptr); }; };
    add_refusal({"dropout", "p_one", "p", call(1.0f)});
    add_refusal({"dropout", "p_negative", "p", call(-0.1f)});
    add_refusal({"dropout", "p_nan", "p", call(NAN)});
    const auto loops = [](const std::vector<double>& x) {
        std::vector<double> y(x.size());
        oracle::dropout(y, x, 0.5f, 7, 9);
        return y;
    };
    add_gradient({"dropout",
                  "input",
                  {1, -2, 3, 4, 5, 6},
                  {0.3, -0.7, 1, 2, 1, 1},
                  loops,
                  [=](const std::vector<double>&, const std::vector<double>& dy) { return loops(dy); }});
}

CASES(bias) {
    const std::pair<int64_t, int64_t> shapes[] = {{0, 3},    {3, 0},   {1, 1},   {7, 1},   {1, 7},    {5, 2},
                                                  {129, 10}, {33, 31}, {31, 33}, {64, 64}, {3, 1000}, {257, 17}};
    for (auto [N, C] : shapes) {
        for (int64_t offset : {0, 1}) {
            Case c{.op = "bias", .name = std::to_string(N) + "x" + std::to_string(C) + (offset ? "_offset1" : "")};
            c.make = [=, N = N, C = C](Random& r) {
                return Operands{out("out", N * C), in("x", r.fill(N * C, "special")), in("b", r.normal(C))};
            };
            c.run = [=, N = N, C = C](const Backend& b, const Device& d) { b.bias(d[0], d[1], d[2], N, C, d.stream); };
            c.reference = reference([=](auto& v) { oracle::bias(v[0], v[1], v[2]); });
            c.compare = Compare::exact;
            c.offset = offset;
            c.flops = double(N * C);
            add_case(c);
        }
    }
    add_refusal(
        {"bias", "negative_rows", "N", [](const Backend& b) { b.bias(nullptr, nullptr, nullptr, -1, 3, nullptr); }});
    add_gradient({"bias",
                  "input_and_bias",
                  {1, 2, 3, 4, /* b */ 5, 6},
                  {0.3, -0.7, 1, 2},  // x (2, 2), then b (2)
                  [](const std::vector<double>& x) {
                      return std::vector<double>{x[0] + x[4], x[1] + x[5], x[2] + x[4], x[3] + x[5]};
                  },
                  [](const std::vector<double>&, const std::vector<double>& dy) {
                      return std::vector<double>{dy[0], dy[1], dy[2], dy[3], dy[0] + dy[2], dy[1] + dy[3]};
                  }});
}

// Sizes that say something about speed: larger than the last-level cache.
CASES(eltwise_speed) {
    const int64_t n = 1 << 24;
    const auto speed = [=](const std::string& op, int arrays, std::function<void(const Backend&, const Device&)> run) {
        Case c{.op = op, .name = "16M"};
        c.make = [=](Random& r) {
            Operands o = {out("out", n)};
            while (int(o.size()) < arrays) o.push_back(in("in", r.uniform(n, -1, 1)));
            return o;
        };
        c.run = std::move(run);
        c.flops = double(n);
        c.bytes = 4.0 * double(n) * arrays;
        c.bench = c.bench_only = true;
        add_case(c);
    };
    speed("add", 3, [=](const Backend& b, const Device& d) { b.add(d[0], d[1], d[2], n, d.stream); });
    speed("scale", 2, [=](const Backend& b, const Device& d) { b.scale(d[0], d[1], 2.0f, n, d.stream); });
    speed("relu", 2, [=](const Backend& b, const Device& d) { b.relu(d[0], d[1], n, d.stream); });
    speed("add_relu", 3, [=](const Backend& b, const Device& d) { b.add_relu(d[0], d[1], d[2], n, d.stream); });
    speed("dropout", 2, [=](const Backend& b, const Device& d) { b.dropout(d[0], d[1], 0.3f, {1, 2}, n, d.stream); });
    speed("relu_bwd", 3, [=](const Backend& b, const Device& d) { b.relu_bwd(d[0], d[1], d[2], n, d.stream); });
    for (int64_t C : {10, 1000}) {
        const int64_t N = n / C;
        Case c{.op = "bias", .name = std::to_string(N) + "x" + std::to_string(C)};
        c.make = [=](Random& r) { return Operands{out("out", N * C), in("x", r.normal(N * C)), in("b", r.normal(C))}; };
        c.run = [=](const Backend& b, const Device& d) { b.bias(d[0], d[1], d[2], N, C, d.stream); };
        c.bytes = 8.0 * double(N * C);
        c.bench = c.bench_only = true;
        add_case(c);
    }
}

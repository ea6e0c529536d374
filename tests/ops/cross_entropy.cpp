// Cases of cross_entropy.h.
#include "tests/oracle/cross_entropy.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "tests/harness.h"

using namespace test;
using lc::Backend;

namespace {

constexpr float kScale = 0.375f;

struct Inputs {
    std::vector<double> logits, labels;
};

void add_loss(int64_t N, int64_t C, const std::string& name, const std::function<Inputs(Random&)>& make,
              bool with_gradient = true, Compare compare = Compare::measured) {
    Case c{.op = "cross_entropy", .name = std::to_string(N) + "x" + std::to_string(C) + "_" + name};
    c.make = [=](Random& r) {
        const Inputs x = make(r);
        return Operands{out("loss", N), out("dlogits", with_gradient ? N * C : 0), in("logits", x.logits),
                        in_ints("labels", x.labels)};
    };
    c.run = [=](const Backend& b, const Device& d) {
        b.cross_entropy(d[0], with_gradient ? d[1] : nullptr, d[2], d.ints(3), N, C, kScale, d.stream);
    };
    c.reference = reference([=](auto& v) {
        std::decay_t<decltype(v[0])> dlogits(size_t(N * C));
        oracle::cross_entropy(v[0], dlogits, v[2], v[3], N, C, kScale);
        if (with_gradient) v[1] = dlogits;
    });
    c.compare = compare;
    c.flops = double(N * C) * 10;
    add_case(c);
}

Inputs random_inputs(Random& r, int64_t N, int64_t C, const std::string& values) {
    return {r.fill(N * C, values), r.integers(N, 0, C - 1)};
}

// Classes ruled out, the label among them or not; every kind of row that has no softmax; a healthy row after them.
Inputs odd_rows(int64_t C) {
    constexpr double kInf = std::numeric_limits<double>::infinity();
    const std::vector<std::vector<double>> rows = {{1, -kInf, 2, 0.5},   {-kInf, 1, 0, 2}, {-kInf, 3, -kInf, -kInf},
                                                   {-kInf, -kInf, 0, 0}, {1, NAN, 2, 3},   {0, kInf, 1, 2},
                                                   {0, 1, 2, 3}};
    Inputs x;
    for (size_t r = 0; r < rows.size(); ++r) {
        std::vector<double> row(size_t(C), r == 3 ? -kInf : -1.0);
        std::copy(rows[r].begin(), rows[r].end(), row.begin());
        if (r == 3) std::fill(row.begin(), row.end(), -kInf);
        x.logits.insert(x.logits.end(), row.begin(), row.end());
    }
    x.labels = {0, 0, 1, 2, 3, 1, double(C - 1)};
    return x;
}

// Labels that are no class: NaN on a GPU.  The CPU refuses them and writes nothing, so the case writes its NaN for it.
void add_unknown_labels(int64_t C) {
    const std::vector<double> labels = {-1, double(C), double(C), double(C + 1), -2147483648.0, 2147483647.0};
    const int64_t N = int64_t(labels.size());
    Case c{.op = "cross_entropy", .name = std::to_string(N) + "x" + std::to_string(C) + "_unknown_labels"};
    c.make = [=](Random& r) {
        return Operands{out("loss", N), out("dlogits", N * C), in("logits", r.normal(N * C)),
                        in_ints("labels", labels)};
    };
    c.run = [=](const Backend& b, const Device& d) {
        try {
            b.cross_entropy(d[0], d[1], d[2], d.ints(3), N, C, kScale, d.stream);
        } catch (const lc::Error& e) {
            if (b.name != "cpu" || std::string(e.what()).find("label -1 of row 0") == std::string::npos) throw;
            std::fill_n(d[0], N, NAN);
            std::fill_n(d[1], N * C, NAN);
        }
    };
    c.reference = reference([](auto& v) {
        for (size_t k : {0, 1}) std::fill(v[k].begin(), v[k].end(), NAN);
    });
    c.flops = double(N * C) * 10;
    add_case(c);
}

void add_speed(int64_t N, int64_t C) {
    Case c{.op = "cross_entropy", .name = std::to_string(N) + "x" + std::to_string(C)};
    c.make = [=](Random& r) {
        return Operands{out("loss", N), out("dlogits", N * C), in("logits", r.uniform(N * C, -5, 5)),
                        in_ints("labels", r.integers(N, 0, C - 1))};
    };
    c.run = [=](const Backend& b, const Device& d) {
        b.cross_entropy(d[0], d[1], d[2], d.ints(3), N, C, 1.0f / float(N), d.stream);
    };
    c.bytes = 8.0 * double(N * C + N);
    c.bench = c.bench_only = true;
    add_case(c);
}

}  // namespace

CASES(cross_entropy) {
    // Around vectors, a warp, the few classes of a lane and the threads of a block.
    const std::pair<int64_t, int64_t> shapes[] = {
        {0, 3},  {1, 1},  {5, 1},    {9, 2},   {257, 3}, {129, 10}, {33, 31},  {4, 32},   {17, 33},  {9, 47},
        {9, 48}, {9, 49}, {17, 100}, {5, 127}, {5, 128}, {5, 129},  {4, 1000}, {3, 1024}, {3, 1025}, {2, 4099}};
    for (auto [N, C] : shapes) {
        add_loss(N, C, "normal", [=, N = N, C = C](Random& r) { return random_inputs(r, N, C, "normal"); });
    }
    for (int64_t C : {2, 10, 100, 1500}) {
        for (const std::string& values : kValueSets) {
            if (values == "normal") continue;
            add_loss(7, C, values, [=](Random& r) { return random_inputs(r, 7, C, values); });
        }
        add_loss(
            7, C, "no_gradient", [=](Random& r) { return random_inputs(r, 7, C, "normal"); }, false);
        add_loss(7, C, "first_and_last", [=](Random& r) {
            return Inputs{r.normal(7 * C), {0, double(C - 1), 0, double(C - 1), 0, 0, double(C - 1)}};
        });
    }
    for (int64_t C : {4, 60, 1100}) add_loss(7, C, "odd_rows", [=](Random&) { return odd_rows(C); });
    for (int64_t C : {1, 10, 100, 1100}) add_unknown_labels(C);
    for (int64_t C : {2, 10, 100, 1000}) add_speed(10000000 / C, C);

    const auto refused = [](const std::string& name, const std::string& says, int64_t N, int64_t C) {
        add_refusal({"cross_entropy", name, says,
                     [=](const Backend& b) { b.cross_entropy(nullptr, nullptr, nullptr, nullptr, N, C, 1, nullptr); }});
    };
    refused("no_classes", "C", 3, 0);
    refused("negative_rows", "N", -3, 2);
    refused("null_pointer", "loss", 3, 2);
    add_refusal({"cross_entropy", "in_place", "dlogits overlaps logits", [](const Backend& b) {
                     const lc::Buffer<float> x(b, 6);
                     const lc::Buffer<int32_t> labels(b, 2);
                     b.cross_entropy(x.data() + 4, x.data(), x.data(), labels.data(), 2, 2, 1, nullptr);
                 }});
    add_refusal({"cross_entropy", "one_output", "loss overlaps dlogits", [](const Backend& b) {
                     const lc::Buffer<float> x(b, 4), outputs(b, 4);
                     const lc::Buffer<int32_t> labels(b, 2);
                     b.cross_entropy(outputs.data(), outputs.data(), x.data(), labels.data(), 2, 2, 1, nullptr);
                 }});
}

CASES(cross_entropy_gradient) {
    constexpr int64_t N = 3, C = 5;
    const auto run = [](const std::vector<double>& x, std::vector<double>& loss) {
        std::vector<double> dlogits(x.size());
        loss.assign(size_t(N), 0.0);
        oracle::cross_entropy(loss, dlogits, x, {4, 0, 2}, N, C, kScale);
        return dlogits;
    };
    add_gradient({"cross_entropy", "logits", Random(5).normal(N * C), std::vector<double>(size_t(N), double(kScale)),
                  [=](const std::vector<double>& x) {
                      std::vector<double> loss;
                      run(x, loss);
                      return loss;
                  },
                  [=](const std::vector<double>& x, const std::vector<double>&) {
                      std::vector<double> loss;
                      return run(x, loss);
                  }});
}

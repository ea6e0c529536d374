// Cases of softmax.h.
#include "tests/oracle/softmax.h"

#include <cmath>
#include <limits>

#include "tests/harness.h"

using namespace test;
using lc::Backend;

namespace {

// Around a warp, a vector, a block and the register capacity of the kernels; a thousand classes; one class.
const std::pair<int64_t, int64_t> kShapes[] = {{0, 3},    {1, 1},    {5, 1},    {7, 2},    {129, 10}, {33, 31},
                                               {4, 32},   {31, 33},  {17, 100}, {9, 127},  {8, 128},  {7, 129},
                                               {3, 1000}, {2, 1023}, {2, 1024}, {2, 1025}, {2, 4099}, {257, 3}};

std::string shape_name(int64_t N, int64_t C) { return std::to_string(N) + "x" + std::to_string(C); }

void add_forward(int64_t N, int64_t C, const std::string& name, bool log,
                 const std::function<std::vector<double>(Random&)>& x, bool in_place = false) {
    Case c{.op = log ? "log_softmax" : "softmax", .name = shape_name(N, C) + "_" + name};
    c.make = [=](Random& r) {
        return in_place ? Operands{in_out("x", x(r))} : Operands{out("y", N * C), in("x", x(r))};
    };
    c.run = [=](const Backend& b, const Device& d) {
        (log ? b.log_softmax : b.softmax)(d[0], d[in_place ? 0 : 1], N, C, d.stream);
    };
    c.reference = reference([=](auto& v) { oracle::softmax(v[0], std::vector(v[in_place ? 0 : 1]), N, C, log); });
    c.flops = double(N * C) * 10;
    add_case(c);
}

// Probabilities from the oracle, then a random upstream gradient.
void add_backward(int64_t N, int64_t C, const std::string& values, bool log) {
    Case c{.op = log ? "log_softmax_bwd" : "softmax_bwd", .name = shape_name(N, C) + "_" + values};
    c.make = [=](Random& r) {
        const std::vector<double> x = r.fill(N * C, values);
        std::vector<double> y(x.size());
        oracle::softmax(y, x, N, C, log);
        for (double& p : y) p = double(float(p));
        return Operands{out("dx", N * C), in("dy", r.normal(N * C)), in("y", y)};
    };
    c.run = [=](const Backend& b, const Device& d) {
        (log ? b.log_softmax_bwd : b.softmax_bwd)(d[0], d[1], d[2], N, C, d.stream);
    };
    c.reference = reference([=](auto& v) {
        log ? oracle::log_softmax_bwd(v[0], v[1], v[2], N, C) : oracle::softmax_bwd(v[0], v[1], v[2], N, C);
    });
    c.flops = double(N * C) * 10;
    add_case(c);
}

void add_speed(int64_t N, int64_t C) {
    const auto speed = [=](const std::string& op, int arrays, std::function<void(const Backend&, const Device&)> run) {
        Case c{.op = op, .name = shape_name(N, C)};
        c.make = [=](Random& r) {
            Operands o = {out("y", N * C)};
            while (int(o.size()) < arrays) o.push_back(in("in", r.uniform(N * C, -5, 5)));
            return o;
        };
        c.run = std::move(run);
        c.bytes = 4.0 * double(N * C) * arrays;
        c.bench = c.bench_only = true;
        add_case(c);
    };
    speed("softmax", 2, [=](const Backend& b, const Device& d) { b.softmax(d[0], d[1], N, C, d.stream); });
    speed("log_softmax", 2, [=](const Backend& b, const Device& d) { b.log_softmax(d[0], d[1], N, C, d.stream); });
    speed("softmax_bwd", 3,
          [=](const Backend& b, const Device& d) { b.softmax_bwd(d[0], d[1], d[2], N, C, d.stream); });
    speed("log_softmax_bwd", 3,
          [=](const Backend& b, const Device& d) { b.log_softmax_bwd(d[0], d[1], d[2], N, C, d.stream); });
}

// Rows of 6: usable ones with -inf among the scores, and every kind of row that has no softmax.
std::vector<double> odd_rows() {
    constexpr double kInf = std::numeric_limits<double>::infinity();
    return {1,     -kInf, 2,     -kInf, 0.5,   -1,     //  two classes ruled out
            -kInf, -kInf, -kInf, 3,     -kInf, -kInf,  //  one class left: probability 1
            -kInf, -kInf, -kInf, -kInf, -kInf, -kInf,  //  nothing left
            1,     2,     NAN,   4,     5,     6,      //
            1,     kInf,  2,     3,     4,     5,      //
            kInf,  -kInf, 2,     3,     NAN,   5,      //
            0,     0,     0,     0,     0,     0};     //  a healthy row after the broken ones
}

}  // namespace

CASES(softmax) {
    for (bool log : {false, true}) {
        for (auto [N, C] : kShapes) {
            add_forward(N, C, "normal", log, [=, N = N, C = C](Random& r) { return r.normal(N * C); });
            add_backward(N, C, "normal", log);
        }
        for (const std::string& values : kValueSets) {
            for (int64_t C : {10, 100, 1500}) {
                add_forward(7, C, values, log, [=](Random& r) { return r.fill(7 * C, values); });
                add_backward(7, C, values, log);
            }
        }
        add_forward(7, 6, "odd_rows", log, [](Random&) { return odd_rows(); });
        add_forward(
            53, 10, "in_place", log, [](Random& r) { return r.normal(530); }, true);
        add_forward(
            5, 1200, "in_place", log, [](Random& r) { return r.normal(6000); }, true);
    }
    for (int64_t C : {2, 10, 100, 1000}) add_speed(10000000 / C, C);

    float* const none = nullptr;
    add_refusal({"softmax", "no_classes", "C", [=](const Backend& b) { b.softmax(none, none, 3, 0, nullptr); }});
    add_refusal(
        {"log_softmax", "negative_rows", "N", [=](const Backend& b) { b.log_softmax(none, none, -3, 2, nullptr); }});
    add_refusal(
        {"softmax_bwd", "no_classes", "C", [=](const Backend& b) { b.softmax_bwd(none, none, none, 3, 0, nullptr); }});
    add_refusal({"log_softmax_bwd", "negative_rows", "N",
                 [=](const Backend& b) { b.log_softmax_bwd(none, none, none, -3, 2, nullptr); }});
}

// Scores of +-1e4: every log-probability must be right relative to itself, also the ones near 0.
CASES(log_softmax_relative) {
    Case c{.op = "log_softmax", .name = "relative_huge"};
    c.make = [](Random& r) { return Operands{out("y", 64 * 10), in("x", r.fill(64 * 10, "huge"))}; };
    c.run = [](const Backend& b, const Device& d) { b.log_softmax(d[0], d[1], 64, 10, d.stream); };
    c.reference = reference([](auto& v) { oracle::softmax(v[0], v[1], 64, 10, true); });
    c.compare = Compare::relative;
    c.flops = 6400;
    add_case(c);
}

CASES(softmax_gradient) {
    for (bool log : {false, true}) {
        const auto forward = [=](const std::vector<double>& x) {
            std::vector<double> y(x.size());
            oracle::softmax(y, x, 2, int64_t(x.size()) / 2, log);
            return y;
        };
        Random r(3);
        add_gradient({log ? "log_softmax" : "softmax", "input", r.normal(14), r.normal(14), forward,
                      [=](const std::vector<double>& x, const std::vector<double>& dy) {
                          std::vector<double> dx(x.size());
                          const auto y = forward(x);
                          log ? oracle::log_softmax_bwd(dx, dy, y, 2, 7) : oracle::softmax_bwd(dx, dy, y, 2, 7);
                          return dx;
                      }});
    }
}

// Cases of js_ce_loss.h.
#include "tests/oracle/js_ce_loss.h"

#include <cmath>
#include <limits>

#include "tests/harness.h"

using namespace test;
using lc::Backend;
using lc::JsCeLoss;
using lc::JsDistance;

namespace {

struct Inputs {
    std::vector<double> logits, theta, labels, log_label;  // log_label empty: not given
};

// An operand per array; the gradients that are not wanted are left out, and so is log_label where it is not given.
void add_loss(const std::string& name, JsCeLoss how, const std::function<Inputs(Random&)>& make, bool with_logs = false,
              bool with_gradients = true, Compare compare = Compare::measured, double k = 4) {
    const bool classwise = how.distance == JsDistance::classwise;
    const int64_t n = how.n, C = how.C;
    Case c{.op = "js_ce_loss",
           .name = std::to_string(n) + "x" + std::to_string(C) + (classwise ? "_classwise_" : "_") + name};
    const int64_t of_logits = with_gradients ? n * C : 0, of_log_label = with_gradients && with_logs ? n : 0;
    c.make = [=](Random& r) {
        Inputs x = make(r);
        return Operands{out("value", 2 * n),         out("dlogits", of_logits),
                        out("dtheta", of_logits),    out("dlog_label", of_log_label),
                        in("logits", x.logits),      in("theta", x.theta),
                        in_ints("labels", x.labels), in("log_label", x.log_label)};
    };
    c.run = [=](const Backend& b, const Device& d) {
        JsCeLoss loss = how;
        loss.logits = d[4], loss.theta = d[5], loss.labels = d.ints(6), loss.log_label = with_logs ? d[7] : nullptr;
        lc::JsCeGradients g;
        if (with_gradients) g = {d[1], d[2], with_logs ? d[3] : nullptr};
        b.js_ce_loss(d[0], g, loss, d.stream);
    };
    c.reference = reference([=](auto& v) {
        using Numbers = std::decay_t<decltype(v[0])>;
        Numbers dlogits(size_t(n * C)), dtheta(size_t(n * C)), dlog_label(with_logs ? size_t(n) : 0);
        oracle::js_ce_loss(v[0], dlogits, dtheta, dlog_label, v[4], v[5], v[6], v[7], how);
        if (with_gradients) v[1] = dlogits, v[2] = dtheta, v[3] = dlog_label;
    });
    c.compare = compare;
    c.k = k;
    c.flops = double(n * C) * (classwise ? 200 : 100);
    add_case(c);
}

Inputs random_inputs(Random& r, int64_t n, int64_t C, const std::string& values) {
    return {r.fill(n * C, values), r.simplex(n, C), r.integers(n, 0, C - 1), {}};
}

// theta = softmax(logits) (1 + relative * noise), in float32.
Inputs almost_equal(Random& r, int64_t n, int64_t C, double relative) {
    Inputs x = random_inputs(r, n, C, "normal");
    oracle::softmax(x.theta, x.logits, n, C, false);
    const std::vector<double> noise = r.normal(n * C);
    for (size_t i = 0; i < x.theta.size(); ++i) x.theta[i] = double(float(x.theta[i] * (1 + relative * noise[i])));
    return x;
}

// Equal scores of 2^k classes: softmax is exact in float32, so js has to be right to its own last digits, however near
// theta is.  Steps of 2^-20 of p; with steps = 0 p and q are the same numbers.
Inputs exact_softmax(Random& r, int64_t n, int64_t C, int64_t steps) {
    Inputs x = {std::vector<double>(size_t(n * C), 3.0), r.integers(n * C, -steps, steps), r.integers(n, 0, C - 1), {}};
    for (double& q : x.theta) q = (1 + std::ldexp(q, -20)) / double(C);
    return x;
}

// Rows of 4: no class, one class and all but one class ruled out by -inf, a broken score, a broken estimate, a healthy row.
Inputs odd_rows(int64_t C) {
    constexpr double kInf = std::numeric_limits<double>::infinity();
    const std::vector<std::vector<double>> logits = {
        {-kInf, -kInf, -kInf, -kInf}, {-kInf, 1, 0, 2},  //
        {-kInf, 1, -kInf, -kInf},     {1, NAN, 2, 3},   {0, kInf, 1, 2}, {0, 1, 2, 3}, {0, 1, 2, 3}};
    const std::vector<std::vector<double>> theta = {
        {0.25, 0.25, 0.5, 0}, {0, 0, 0.5, 0.5},  //
        {0, 1, 0, 0},         {0.25, 0.25, 0.25, 0.25}, {0.25, 0.25, 0.5, 0}, {0.25, NAN, 0.25, 0.25}, {0, 0, 0, 0}};
    Inputs x;
    for (size_t r = 0; r < logits.size(); ++r) {
        std::vector<double> a(size_t(C), -1.0), b(size_t(C), 0.0);
        std::copy(logits[r].begin(), logits[r].end(), a.begin());
        std::copy(theta[r].begin(), theta[r].end(), b.begin());
        if (r == 0) std::fill(a.begin(), a.end(), -kInf);
        x.logits.insert(x.logits.end(), a.begin(), a.end());
        x.theta.insert(x.theta.end(), b.begin(), b.end());
        x.labels.push_back(double(r % 4));
    }
    return x;
}

JsCeLoss shape(int64_t n, int64_t C, JsDistance distance) {
    return {.n = n, .C = C, .distance = distance, .js_weight = 0.75f, .ce_weight = 1.5f, .scale = 0.25f};
}

void add_speed(int64_t n, int64_t C, JsDistance distance) {
    const JsCeLoss how = shape(n, C, distance);
    Case c{.op = "js_ce_loss", .name = std::to_string(n) + "x" + std::to_string(C)};
    if (distance == JsDistance::classwise) c.name += "_classwise";
    c.make = [=](Random& r) {
        return Operands{out("value", 2 * n),
                        out("dlogits", n * C),
                        out("dtheta", n * C),
                        in("logits", r.normal(n * C)),
                        in("theta", r.simplex(n, C)),  //
                        in_ints("labels", r.integers(n, 0, C - 1))};
    };
    c.run = [=](const Backend& b, const Device& d) {
        JsCeLoss loss = how;
        loss.logits = d[3], loss.theta = d[4], loss.labels = d.ints(5);
        b.js_ce_loss(d[0], {d[1], d[2], nullptr}, loss, d.stream);
    };
    c.bytes = 16.0 * double(n * C);
    c.bench = c.bench_only = true;
    add_case(c);
}

}  // namespace

CASES(js_ce_loss) {
    for (JsDistance distance : {JsDistance::categorical, JsDistance::classwise}) {
        // Around vectors, a warp, the few classes of a lane and the threads of a block.
        const std::pair<int64_t, int64_t> shapes[] = {{0, 3},   {1, 1},   {5, 1},    {9, 2},    {67, 10},  {33, 31},
                                                      {17, 33}, {9, 47},  {9, 48},   {9, 49},   {17, 100}, {5, 127},
                                                      {5, 128}, {5, 129}, {4, 1000}, {3, 1024}, {3, 1025}, {2, 2300}};
        for (auto [n, C] : shapes) {
            add_loss("normal", shape(n, C, distance),
                     [=, n = n, C = C](Random& r) { return random_inputs(r, n, C, "normal"); });
        }
        for (int64_t C : {2, 10, 100, 1000}) {
            const JsCeLoss how = shape(7, C, distance);
            for (const std::string& values : kValueSets) {
                if (values == "normal") continue;
                add_loss(values, how, [=](Random& r) { return random_inputs(r, 7, C, values); });
            }
            add_loss("near_theta", how, [=](Random& r) { return almost_equal(r, 7, C, 1e-6); });
            add_loss("equal_theta", how, [=](Random& r) { return almost_equal(r, 7, C, 0); });
            add_loss("free_theta", how, [=](Random& r) {
                Inputs x = random_inputs(r, 7, C, "normal");
                x.theta = r.uniform(7 * C, 0, 1.5);
                return x;
            });
            add_loss(
                "no_gradients", how, [=](Random& r) { return random_inputs(r, 7, C, "normal"); }, false, false);
            const auto logs = [=](Random& r) {
                Inputs x = random_inputs(r, 7, C, "normal");
                x.log_label = r.uniform(7, -200, 0);
                x.log_label[1] = -std::numeric_limits<double>::infinity(), x.log_label[4] = NAN;
                return x;
            };
            add_loss("logs", how, logs, true);
            add_loss("logs_no_gradients", how, logs, true, false);
            JsCeLoss no_js = how, no_ce = how;
            no_js.js_weight = 0, no_ce.ce_weight = 0;
            add_loss("no_js", no_js, [=](Random& r) { return random_inputs(r, 7, C, "normal"); });
            add_loss("no_ce", no_ce, [=](Random& r) { return random_inputs(r, 7, C, "normal"); });
        }
        for (int64_t C : {2, 8, 64, 256, 2048}) {
            const JsCeLoss how = shape(6, C, distance);
            add_loss(
                "same", how, [=](Random& r) { return exact_softmax(r, 6, C, 0); }, false, true, Compare::relative);
            add_loss(
                "near", how, [=](Random& r) { return exact_softmax(r, 6, C, 4); }, false, true, Compare::relative);
        }
        for (int64_t C : {4, 60}) add_loss("odd_rows", shape(7, C, distance), [=](Random&) { return odd_rows(C); });
        add_loss("at_the_clamp", shape(2, 10000, distance), [](Random& r) {  // p of exactly 1e-4
            Inputs x = {std::vector<double>(20000, 0.0), r.uniform(20000, 0.001, 0.01), r.integers(2, 0, 9999), {}};
            return x;
        });
        add_loss("theta_at_the_clamp", shape(3, 10, distance), [](Random& r) {
            Inputs x = random_inputs(r, 3, 10, "normal");
            for (size_t i = 0; i < x.theta.size(); i += 2) x.theta[i] = double(lc::kJsClamp);
            return x;
        });
        for (int64_t C : {10, 100, 1000}) add_speed(2000000 / C, C, distance);
    }

    const auto refused = [](const std::string& name, const std::string& says, int64_t n, int64_t C, float* dlog_label) {
        add_refusal({"js_ce_loss", name, says, [=](const Backend& b) {
                         JsCeLoss loss;
                         loss.n = n, loss.C = C;
                         b.js_ce_loss(nullptr, {nullptr, nullptr, dlog_label}, loss, nullptr);
                     }});
    };
    static float number = 0;
    refused("no_classes", "C", 3, 0, nullptr);
    refused("negative_rows", "N", -3, 2, nullptr);
    refused("null_pointer", "value", 3, 2, nullptr);
    refused("gradient_of_nothing", "log_label", 3, 2, &number);
    add_refusal({"js_ce_loss", "in_place", "dlogits overlaps logits", [](const Backend& b) {
                     const lc::Buffer<float> x(b, 12);
                     const lc::Buffer<int32_t> labels(b, 2);
                     JsCeLoss loss;
                     loss.n = 2, loss.C = 2, loss.logits = x.data(), loss.theta = x.data() + 4;
                     loss.labels = labels.data();
                     b.js_ce_loss(x.data() + 8, {x.data(), nullptr, nullptr}, loss, nullptr);
                 }});
}

// The values (js, ce of every row) against central differences; x is logits, theta and, where given, log_label.
CASES(js_ce_loss_gradient) {
    constexpr int64_t n = 3, C = 5;
    for (JsDistance distance : {JsDistance::categorical, JsDistance::classwise}) {
        for (bool with_logs : {false, true}) {
            const JsCeLoss how = shape(n, C, distance);
            const auto run = [=](const std::vector<double>& x, std::vector<double>& value) {
                const auto logits = x.begin(), theta = logits + n * C, logs = theta + n * C;
                std::vector<double> dx(size_t(n * C)), dq(size_t(n * C)), dl(with_logs ? size_t(n) : 0);
                value.assign(size_t(2 * n), 0.0);
                oracle::js_ce_loss(value, dx, dq, dl, {logits, theta}, {theta, logs}, {4, 0, 2}, {logs, x.end()}, how);
                dx.insert(dx.end(), dq.begin(), dq.end());
                dx.insert(dx.end(), dl.begin(), dl.end());
                return dx;
            };
            Random r(5);
            std::vector<double> x = r.normal(n * C);
            const std::vector<double> theta = r.uniform(n * C, 0.05, 0.6), logs = r.uniform(n, -3, -0.1);
            x.insert(x.end(), theta.begin(), theta.end());
            if (with_logs) x.insert(x.end(), logs.begin(), logs.end());
            std::vector<double> dy;
            for (int64_t i = 0; i < n; ++i) {
                dy.push_back(double(how.scale) * double(how.js_weight));
                dy.push_back(double(how.scale) * double(how.ce_weight));
            }
            const std::string name = distance == JsDistance::categorical ? "categorical" : "classwise";
            add_gradient({"js_ce_loss", name + (with_logs ? "_logs" : ""), x, dy,
                          [=](const std::vector<double>& at) {
                              std::vector<double> value;
                              run(at, value);
                              return value;
                          },
                          [=](const std::vector<double>& at, const std::vector<double>&) {
                              std::vector<double> value;
                              return run(at, value);
                          }});
        }
    }
}

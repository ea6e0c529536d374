// test_ops.cpp -- every case of every op on every engine of this binary, every refusal, every gradient.  A test is
// called op.case@engine, so that a GoogleTest filter (make test T='gemm.*@ptx') picks any of them.
#include <cmath>
#include <cstdio>
#include <gtest/gtest.h>

#include "tests/harness.h"

namespace test {
namespace {

class OpTest : public testing::Test {
  public:
    explicit OpTest(std::function<std::string()> body) : body_(std::move(body)) {}
    void TestBody() override {
        const std::string story = body_();
        if (!story.empty()) ADD_FAILURE() << story;
    }

  private:
    std::function<std::string()> body_;
};

void add_test(const std::string& op, const std::string& name, std::function<std::string()> body) {
    testing::RegisterTest(op.c_str(), name.c_str(), nullptr, nullptr, __FILE__, __LINE__,
                          [body = std::move(body)]() -> testing::Test* { return new OpTest(body); });
}

std::string run_refusal(const Refusal& r, const Engine& e) {
    e.variants.front().enter();
    std::string text = "nothing was thrown";
    try {
        r.call(*e.backend);
    } catch (const lc::Error& error) {
        text = error.what();
        if (text.find(r.says) != std::string::npos) return "";
    } catch (const std::exception& error) {
        text = std::string("not an lc::Error: ") + error.what();
    }
    return r.op + " on " + e.name + ", " + r.name + ": wanted a refusal that says '" + r.says + "', got: " + text +
           "\n";
}

double dot(const std::vector<double>& a, const std::vector<double>& b) {
    double s = 0;
    for (size_t i = 0; i < a.size(); ++i) s += a[i] * b[i];
    return s;
}

std::string run_gradient(const Gradient& g) {
    const std::vector<double> dx = g.backward(g.x, g.dy);
    for (size_t i = 0; i < g.x.size(); ++i) {
        const double h = 1e-5 * std::fmax(1.0, std::fabs(g.x[i]));
        std::vector<double> left = g.x, right = g.x;
        left[i] -= h;
        right[i] += h;
        const double slope = (dot(g.dy, g.forward(right)) - dot(g.dy, g.forward(left))) / (2 * h);
        const double tolerance = 1e-7 * std::fmax(1.0, std::fabs(slope));
        if (std::fabs(dx[i] - slope) <= tolerance) continue;
        return g.op + " " + g.name + ": oracle gradient [" + std::to_string(i) + "] = " + std::to_string(dx[i]) +
               ", differences say " + std::to_string(slope) + "\n";
    }
    return "";
}

void register_everything() {
    for (const Engine& e : engines()) {
        for (const Case& c : case_lists().cases) {
            if (c.bench_only || c.flops > e.max_flops) continue;
            add_test(c.op, c.name + "@" + e.name, [&c, &e] { return run_case(c, e); });
        }
        for (const Refusal& r : case_lists().refusals) {
            add_test(r.op, "refuses_" + r.name + "@" + e.name, [&r, &e] { return run_refusal(r, e); });
        }
    }
    if (sim_engines) return;  // gradients of the oracle need no engine: once is enough
    for (const Gradient& g : case_lists().gradients) {
        add_test(g.op, "gradient_" + g.name + "@oracle", [&g] { return run_gradient(g); });
    }
}

}  // namespace
}  // namespace test

int main(int argc, char** argv) {
    testing::InitGoogleTest(&argc, argv);
    test::register_everything();
    return RUN_ALL_TESTS();
}

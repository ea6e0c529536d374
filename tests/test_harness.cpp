// Who tests the tester: every way an op can be wrong must make the harness speak, and a right op must leave it silent.
#include <cmath>
#include <cstring>
#include <gtest/gtest.h>

#include "tests/harness.h"

namespace {

using namespace test;

Engine cpu_engine() {
    return {"cpu",
            lc::find_backend("cpu"),
            {{"first", [] {}}, {"second", [] {}}},
            1e12,
            false,
            [] { return std::vector<std::string>(); },
            {}};
}

// y = 2 x for 100 numbers; `op` stands in for the op under test.
Case doubling(std::function<void(float* y, float* x)> op, Compare how = Compare::measured) {
    Case c{.op = "doubling", .name = "100"};
    c.make = [](Random& r) { return Operands{out("y", 100), in("x", r.normal(100))}; };
    c.run = [=](const lc::Backend&, const Device& d) { op(d[0], d[1]); };
    c.reference = reference([](auto& v) {
        for (size_t i = 0; i < 100; ++i) v[0][i] = 2 * v[1][i];
    });
    c.compare = how;
    return c;
}

void right(float* y, const float* x) {
    for (int i = 0; i < 100; ++i) y[i] = 2 * x[i];
}

void expect_story(const Case& c, const std::string& says) {
    const std::string story = run_case(c, cpu_engine());
    EXPECT_NE(story.find(says), std::string::npos) << "wanted '" << says << "' in: " << story;
    EXPECT_NE(story.find("repeat: make test T='doubling.100@cpu'"), std::string::npos) << story;
}

TEST(Harness, IsSilentWhenAllIsRight) {
    for (Compare how : {Compare::measured, Compare::relative, Compare::exact}) {
        EXPECT_EQ(run_case(doubling([](float* y, float* x) { right(y, x); }, how), cpu_engine()), "");
    }
}

TEST(Harness, SeesAWrongValue) {
    expect_story(doubling([](float* y, float* x) { right(y, x), y[37] += 1e-3f; }), "worst index 37");
    expect_story(doubling([](float* y, float* x) { right(y, x), y[37] = std::nextafterf(y[37], 9); }, Compare::exact),
                 "index 37");
}

TEST(Harness, SeesASmallValueThatIsWrongRelativeToItself) {
    const auto op = [](float* y, float* x) {
        right(y, x);
        int smallest = 0;
        for (int i = 0; i < 100; ++i) smallest = std::fabs(y[i]) < std::fabs(y[smallest]) ? i : smallest;
        y[smallest] *= 1.00001f;
    };
    EXPECT_EQ(run_case(doubling(op, Compare::measured), cpu_engine()), "");  // too small to count against the largest
    expect_story(doubling(op, Compare::relative), "relative error");
}

TEST(Harness, SeesNanAndInfinity) {
    expect_story(doubling([](float* y, float* x) { right(y, x), y[5] = NAN; }), "NaN or infinity");
    expect_story(doubling([](float* y, float* x) { right(y, x), y[5] = INFINITY; }), "NaN or infinity");
}

TEST(Harness, SeesAnElementThatWasNotWritten) {
    expect_story(doubling([](float* y, float* x) {
                     for (int i = 0; i < 99; ++i) y[i] = 2 * x[i];
                 }),
                 "NaN or infinity");
}

TEST(Harness, SeesWritesOutside) {
    expect_story(doubling([](float* y, float* x) { right(y, x), y[100] = 0; }), "y was overrun at index 100");
    expect_story(doubling([](float* y, float* x) { right(y, x), y[-1] = 0; }), "y was overrun at index -1");
    expect_story(doubling([](float* y, float* x) { right(y, x), x[3] = 0; }),
                 "x is an input and was changed at index 3");
}

TEST(Harness, SeesReadsOutside) {  // sentinels are NaN
    expect_story(doubling([](float* y, float* x) { right(y, x), y[99] += 0 * x[100]; }), "NaN or infinity");
}

TEST(Harness, SeesResultsThatChangeBetweenVariants) {
    int call = 0;
    expect_story(doubling([&](float* y, float* x) { right(y, x), y[8] += call++ ? 1e-8f * y[8] + 1e-7f : 0.0f; }),
                 "differs in bits");
}

TEST(Harness, SeesExceptionsAndFindings) {
    expect_story(doubling([](float*, float*) { throw std::runtime_error("no such luck"); }), "threw: no such luck");
    Engine e = cpu_engine();
    e.findings = [] { return std::vector<std::string>{"race in k"}; };
    EXPECT_NE(run_case(doubling([](float* y, float* x) { right(y, x); }), e).find("race in k"), std::string::npos);
}

TEST(Harness, ValueSetsAreWhatTheySay) {
    Random r(1);
    int nans = 0, infinities = 0;
    for (double x : r.fill(2000, "special")) nans += std::isnan(x), infinities += std::isinf(x);
    EXPECT_GT(nans, 10);
    EXPECT_GT(infinities, 10);
    for (const std::string& kind : kValueSets) {
        for (double x : r.fill(1000, kind)) EXPECT_EQ(x, double(float(x))) << kind;  // exact in float32
    }
    const std::vector<double> p = r.simplex(30, 5);
    for (int row = 0; row < 30; ++row) {
        double sum = 0;
        for (int c = 0; c < 5; ++c) sum += p[size_t(row * 5 + c)];
        EXPECT_NEAR(sum, 1, 1e-6);
    }
    EXPECT_THROW(r.fill(3, "unheard of"), lc::Error);
}

}  // namespace

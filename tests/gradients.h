// gradients.h -- the gradients on a tape against central differences of loops in double.
#pragma once
#include <cmath>
#include <functional>
#include <gtest/gtest.h>
#include <vector>

#include "nn/tape.h"

namespace test {

using Doubles = std::vector<double>;

// The gradient of f at every element of x by central differences.
inline std::vector<Doubles> differences(const std::function<double(const std::vector<Doubles>&)>& f,
                                        std::vector<Doubles> x) {
    std::vector<Doubles> g = x;
    for (size_t p = 0; p < x.size(); ++p) {
        for (size_t i = 0; i < x[p].size(); ++i) {
            const double at = x[p][i], h = 1e-5;
            x[p][i] = at + h;
            const double up = f(x);
            x[p][i] = at - h;
            g[p][i] = (up - f(x)) / (2 * h);
            x[p][i] = at;
        }
    }
    return g;
}

// Every gradient agrees to 1e-4 of the largest of its array.  (Shifting all features or logits changes nothing: those
// gradients are 0, and roundings of their parts.)
inline void expect_gradients(const std::vector<lc::Var>& parameters, const std::vector<Doubles>& want) {
    for (size_t p = 0; p < parameters.size(); ++p) {
        ASSERT_TRUE(parameters[p]->grad) << "parameter " << p << " got no gradient";
        const std::vector<float> got = parameters[p]->grad.to_host();
        double scale = 1e-6;
        for (double w : want[p]) scale = std::max(scale, std::abs(w));
        ASSERT_EQ(got.size(), want[p].size());
        for (size_t i = 0; i < got.size(); ++i) {
            EXPECT_NEAR(double(got[i]), want[p][i], 1e-4 * scale + 1e-7) << "parameter " << p << ", element " << i;
        }
    }
}

}  // namespace test

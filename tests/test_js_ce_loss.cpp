// js_ce_loss against numbers worked out elsewhere, and the labels that only the CPU backend can refuse.
#include <cmath>
#include <gtest/gtest.h>

#include "kernels/backend.h"

namespace lc {
namespace {

const Backend& cpu() { return *find_backend("cpu"); }

// js and ce of one row of three classes; logits are the logarithms of p.
std::pair<double, double> value_of(const std::vector<double>& p, std::vector<float> q, int32_t label,
                                   JsDistance distance) {
    std::vector<float> logits;
    for (double x : p) logits.push_back(x > 0 ? float(std::log(x)) : -INFINITY);
    float value[2];
    JsCeLoss loss{.n = 1, .C = int64_t(p.size()), .distance = distance};
    loss.logits = logits.data(), loss.theta = q.data(), loss.labels = &label;
    cpu().js_ce_loss(value, {}, loss, nullptr);
    return {double(value[0]), double(value[1])};
}

TEST(JsCeLoss, KnownValues) {
    const auto [categorical, ce] = value_of({0.7, 0.2, 0.1}, {0.1f, 0.2f, 0.7f}, 1, JsDistance::categorical);
    EXPECT_NEAR(categorical, 0.5030920546, 1e-7);
    EXPECT_NEAR(ce, -std::log(0.2), 1e-7);
    EXPECT_NEAR(value_of({0.7, 0.2, 0.1}, {0.1f, 0.2f, 0.7f}, 1, JsDistance::classwise).first, 0.3052075009, 1e-7);
}

TEST(JsCeLoss, DisjointSupportsAreTheFarthestApart) {
    const auto [js, ce] = value_of({0, 0.5, 0.5, 0}, {0.75f, 0, 0, 0.25f}, 1, JsDistance::categorical);
    EXPECT_NEAR(js, std::sqrt(std::log(2.0)), 1e-7);
    EXPECT_NEAR(ce, -std::log(1e-8), 1e-5) << "no probability at all for the label";
}

TEST(JsCeLoss, RefusesALabelThatIsNoClass) {
    for (int32_t label : {-1, 3}) {
        try {
            value_of({0.7, 0.2, 0.1}, {0.1f, 0.2f, 0.7f}, label, JsDistance::categorical);
            FAIL() << "label " << label << " was taken";
        } catch (const Error& e) {
            EXPECT_NE(std::string(e.what()).find("label " + std::to_string(label)), std::string::npos) << e.what();
        }
    }
}

}  // namespace
}  // namespace lc

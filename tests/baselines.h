// baselines.h -- what the tests of calibrators without features share: rows, a fit, what it found, its predictions.
#pragma once
#include <algorithm>
#include <cfloat>
#include <cmath>
#include <gtest/gtest.h>

#include "calib/methods.h"
#include "calib/one_vs_rest.h"
#include "calib/scores.h"
#include "kernels/random.h"
#include "metrics/predictions.h"
#include "tests/metrics_data.h"

namespace test {

// ---- rows -----------------------------------------------------------------------------------------------------------

struct Rows {
    int64_t n = 0, C = 0;
    std::vector<float> logits;
    std::vector<int32_t> labels;  // empty: not known
    std::vector<double> probs;    // empty: logits were given

    lc::Samples samples() const {
        return {n,
                0,
                C,
                nullptr,
                logits.data(),
                labels.empty() ? nullptr : labels.data(),
                probs.empty() ? nullptr : probs.data()};
    }
};

// Probabilities, with the logits that a file of probabilities gets.
inline Rows rows_of_probs(int64_t C, const std::vector<double>& probs, const std::vector<int32_t>& labels = {}) {
    Rows r = {int64_t(probs.size()) / C, C, {}, labels, probs};
    for (const double p : probs) r.logits.push_back(float(std::log(std::max(p, double(FLT_MIN)))));
    return r;
}

// Normal logits g; labels from softmax(g / 2 + a shift of the class): what VS can mend and TS cannot.
inline Rows drawn_rows(int64_t n, int64_t C, uint64_t seed = 1) {
    Rows r = {n, C, lc::random_normal({seed, 1}, n * C, 0, 3), {}, {}};
    for (int64_t i = 0; i < n; ++i) {
        std::vector<double> truth;
        for (int64_t c = 0; c < C; ++c) truth.push_back(double(r.logits[size_t(i * C + c)]) / 2 + double(c % 3) / 2);
        lc::log_softmax_row(truth.data(), C);
        for (double& x : truth) x = std::exp(x);
        r.labels.push_back(draw_label(truth.data(), C, lc::random_unit({seed, 2}, uint64_t(i))));
    }
    return r;
}

inline Rows as_probs(const Rows& r) {
    return rows_of_probs(r.C, lc::scores_of(r.samples(), lc::Scores::probs), r.labels);
}

// ---- fitted ---------------------------------------------------------------------------------------------------------

inline const lc::Context kQuiet = {.backend = lc::find_backend("cpu")};

using Options = std::map<std::string, std::string>;
using Calibrator = std::unique_ptr<lc::Calibrator>;

inline Calibrator fitted(const std::string& method, const lc::Samples& s, const Options& options = {}) {
    Calibrator c = lc::make_calibrator(method, options);
    c->fit(s, kQuiet);
    return c;
}

inline lc::Finding finding(const lc::Calibrator& c, const std::string& name) {
    for (const lc::Finding& f : c.findings()) {
        if (f.name == name) return f;
    }
    ADD_FAILURE() << c.method() << " found no " << name;
    return {};
}

inline lc::Prediction predict(const lc::Calibrator& c, const lc::Samples& s) { return c.predict(s, kQuiet); }

// Before any floor: what tables compare.
inline std::vector<double> unfloored(const lc::Calibrator& c, const lc::Samples& s) {
    const auto* const one_vs_rest = dynamic_cast<const lc::OneVsRest*>(&c);
    return one_vs_rest ? one_vs_rest->probabilities(s) : predict(c, s).probs;
}

inline lc::Predictions predictions(const lc::Calibrator& c, const lc::Samples& s) {
    return lc::predictions_from_probs(unfloored(c, s).data(), s.labels, s.n, s.C);
}

inline void expect_distributions(const lc::Prediction& p) {
    ASSERT_EQ(p.probs.size(), size_t(p.n * p.C));
    ASSERT_EQ(p.log_probs.size(), p.probs.size());
    for (int64_t i = 0; i < p.n; ++i) {
        double sum = 0;
        for (int64_t c = 0; c < p.C; ++c) {
            const double v = p.probs[size_t(i * p.C + c)], l = p.log_probs[size_t(i * p.C + c)];
            ASSERT_TRUE(v >= 0 && v <= 1 && l <= 0) << "row " << i << ": " << v << ", " << l;  // NaN is neither
            ASSERT_NEAR(v, std::exp(l), 1e-12);
            sum += v;
        }
        ASSERT_NEAR(sum, 1, 1e-12) << "row " << i;
    }
}

}  // namespace test

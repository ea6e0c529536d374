// metrics_data.h -- predictions to test metrics on: typed in, or random, with labels drawn from what the model says.
#pragma once
#include <cmath>

#include "kernels/random.h"
#include "metrics/predictions.h"

namespace test {

inline lc::Predictions predictions(const std::vector<std::vector<double>>& rows, const std::vector<int32_t>& labels) {
    std::vector<double> p;
    for (const auto& r : rows) p.insert(p.end(), r.begin(), r.end());
    return lc::predictions_from_probs(p.data(), labels.data(), int64_t(rows.size()), int64_t(rows[0].size()));
}

// Which class the uniform number u in (0, 1) falls in.
inline int32_t draw_label(const double* p, int64_t C, double u) {
    for (int64_t c = 0; c + 1 < C; ++c) {
        if ((u -= p[c]) < 0) return int32_t(c);
    }
    return int32_t(C - 1);
}

// Softmax of normal logits; labels are drawn from softmax(honesty * logits), so that with honesty = 1 the model is
// calibrated, and below it is too sure of itself.
inline lc::Predictions random_predictions(int64_t n, int64_t C, uint64_t seed, double honesty = 1, double spread = 2) {
    const std::vector<float> z = lc::random_normal({seed, 1}, n * C, 0, spread);
    std::vector<float> honest = z;
    for (float& x : honest) x = float(double(x) * honesty);
    const std::vector<int32_t> none(size_t(n), 0);
    const lc::Predictions truth = lc::predictions_from_logits(honest.data(), none.data(), n, C);
    std::vector<int32_t> labels;
    for (int64_t i = 0; i < n; ++i)
        labels.push_back(draw_label(truth.row(i), C, lc::random_unit({seed, 2}, uint64_t(i))));
    return lc::predictions_from_logits(z.data(), labels.data(), n, C);
}

// The same rows in another order, and the same classes.
inline lc::Predictions permuted(const lc::Predictions& s, const std::vector<int64_t>& rows,
                                const std::vector<int64_t>& classes) {
    lc::Predictions t = s;
    for (int64_t i = 0; i < s.n; ++i) {
        const int64_t from = rows[size_t(i)];
        for (int64_t c = 0; c < s.C; ++c) {
            t.p[size_t(i * s.C + c)] = s.row(from)[classes[size_t(c)]];
            if (!s.log_p.empty()) t.log_p[size_t(i * s.C + c)] = s.log_p[size_t(from * s.C + classes[size_t(c)])];
            if (s.labels[size_t(from)] == classes[size_t(c)]) t.labels[size_t(i)] = int32_t(c);
        }
    }
    return t;
}

}  // namespace test

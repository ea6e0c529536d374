// predictions.cpp -- see predictions.h.
#include "metrics/predictions.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "kernels/check.h"
#include "kernels/parallel.h"

namespace lc {
namespace {

constexpr double kRangeTolerance = 1e-6, kSumTolerance = 1e-3;  // those of data/dataset.h: float16 files are welcome

constexpr int64_t kChunk = 1 << 14;  // elements that a thread takes at a time

int64_t rows_at_once(int64_t C) { return std::max<int64_t>(1, kChunk / C); }

void check_shape_and_labels(const int32_t* labels, int64_t n, int64_t C) {
    LC_CHECK(n >= 1, "metrics: expected at least one row, found " << n);
    LC_CHECK(C >= 2, "metrics: expected at least 2 classes, found " << C << "; two classes need two columns");
    for (int64_t i = 0; i < n; ++i) {
        LC_CHECK(labels[i] >= 0 && labels[i] < C, "labels: expected 0 to " << C - 1 << ", found " << labels[i]
                                                                           << " in row " << i
                                                                           << "; labels count from 0");
    }
}

template <class T>
void check_finite(const char* what, const T* x, int64_t n, int64_t C) {
    for (int64_t k = 0; k < n * C; ++k) {
        LC_CHECK(std::isfinite(x[k]), what << ": expected finite numbers, found " << x[k] << " in row " << k / C
                                           << ", column " << k % C << "; remove or mend that row");
    }
}

template <class T>
Predictions from_probs(const T* probs, const int32_t* labels, int64_t n, int64_t C) {
    check_shape_and_labels(labels, n, C);
    check_finite("probabilities", probs, n, C);
    Predictions s = {n, C, std::vector<double>(size_t(n * C)), {}, {labels, labels + n}};
    for (int64_t i = 0; i < n; ++i) {
        double sum = 0;
        for (int64_t c = 0; c < C; ++c) {
            const double p = double(probs[i * C + c]);
            LC_CHECK(p >= -kRangeTolerance && p <= 1 + kRangeTolerance,
                     "probabilities: expected numbers in [0, 1], found " << p << " in row " << i << ", column " << c
                                                                         << "; give logits as logits");
            sum += s.p[size_t(i * C + c)] = std::clamp(p, 0.0, 1.0);
        }
        LC_CHECK(std::abs(sum - 1) <= kSumTolerance, "probabilities: expected rows that sum to 1, found "
                                                         << sum << " in row " << i
                                                         << "; normalise the rows, or give logits");
    }
    return s;
}

template <class T>
Predictions from_logits(const T* logits, const int32_t* labels, int64_t n, int64_t C) {
    check_shape_and_labels(labels, n, C);
    check_finite("logits", logits, n, C);
    Predictions s = {
        n, C, std::vector<double>(size_t(n * C)), std::vector<double>(size_t(n * C)), {labels, labels + n}};
    cpu::for_each_chunk(n, rows_at_once(C), [&](int64_t i, int64_t end) {
        for (; i < end; ++i) {
            const T* z = logits + i * C;
            double* p = s.p.data() + i * C;
            double* log_p = s.log_p.data() + i * C;
            const double top = double(*std::max_element(z, z + C));
            double sum = 0;
            for (int64_t c = 0; c < C; ++c) sum += p[c] = std::exp(double(z[c]) - top);
            const double log_sum = std::log(sum);
            for (int64_t c = 0; c < C; ++c) {
                p[c] /= sum;
                log_p[c] = double(z[c]) - top - log_sum;
            }
        }
    });
    return s;
}

}  // namespace

Predictions predictions_from_logits(const float* logits, const int32_t* labels, int64_t n, int64_t C) {
    return from_logits(logits, labels, n, C);
}

Predictions predictions_from_logits(const double* logits, const int32_t* labels, int64_t n, int64_t C) {
    return from_logits(logits, labels, n, C);
}

Predictions predictions_from_probs(const double* probs, const int32_t* labels, int64_t n, int64_t C) {
    return from_probs(probs, labels, n, C);
}

Predictions predictions_from_probs(const float* probs, const int32_t* labels, int64_t n, int64_t C) {
    return from_probs(probs, labels, n, C);
}

int32_t top_class(const double* row, int64_t C) { return int32_t(std::max_element(row, row + C) - row); }

Outcomes top_label(const Predictions& s) {
    Outcomes o;
    for (int64_t i = 0; i < s.n; ++i) {
        const int32_t top = top_class(s.row(i), s.C);
        o.confidence.push_back(s.row(i)[top]);
        o.happened.push_back(s.labels[size_t(i)] == top);
    }
    return o;
}

Outcomes class_outcomes(const Predictions& s, int64_t c) {
    Outcomes o;
    for (int64_t i = 0; i < s.n; ++i) {
        o.confidence.push_back(s.row(i)[c]);
        o.happened.push_back(s.labels[size_t(i)] == c);
    }
    return o;
}

std::vector<double> uniform_weights(int64_t C) {
    LC_CHECK(C >= 1, "weights: expected at least one class, found " << C);
    return std::vector<double>(size_t(C), 1 / double(C));
}

std::vector<double> prior_weights(const int32_t* labels, int64_t n, int64_t C) {
    check_shape_and_labels(labels, n, C);
    std::vector<double> weights(size_t(C), 0.0);
    for (int64_t i = 0; i < n; ++i) weights[size_t(labels[i])] += 1;
    for (double& w : weights) w /= double(n);
    return weights;
}

void check_weights(std::span<const double> weights, int64_t C) {
    LC_CHECK(int64_t(weights.size()) == C,
             "weights: expected one for each of " << C << " classes, found " << weights.size());
    double sum = 0;
    for (const double w : weights) {
        LC_CHECK(std::isfinite(w) && w >= 0, "weights: expected numbers from 0 on, found " << w);
        sum += w;
    }
    LC_CHECK(std::abs(sum - 1) <= 1e-6, "weights: expected a sum of 1, found " << sum << "; divide them by it");
}

}  // namespace lc

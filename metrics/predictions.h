// predictions.h -- what is scored: probabilities in double, their logarithms where logits are known, labels.
//
//     Predictions s = predictions_from_logits(logits, labels, n, C);     softmax in double, log_p by log-sum-exp
//     Predictions s = predictions_from_probs(probs, labels, n, C);       refuses what is no distribution
#pragma once
#include <cstdint>
#include <vector>

namespace lc {

struct Predictions {
    int64_t n = 0, C = 0;
    std::vector<double> p;        // (n, C)
    std::vector<double> log_p;    // (n, C), right where p underflows; empty where there are no logits
    std::vector<int32_t> labels;  // (n)

    const double* row(int64_t i) const { return p.data() + i * C; }
};

// Both refuse, with one sentence that names the first bad row: n < 1, C < 2, a label outside 0 .. C-1, numbers that are
// not finite; the second one also probabilities outside [0, 1] and rows whose sum is not 1 within 1e-3 (rows are taken
// as they are, never renormalised).
Predictions predictions_from_logits(const float* logits, const int32_t* labels, int64_t n, int64_t C);
Predictions predictions_from_probs(const double* probs, const int32_t* labels, int64_t n, int64_t C);
Predictions predictions_from_probs(const float* probs, const int32_t* labels, int64_t n, int64_t C);

int32_t top_class(const double* row, int64_t C);  // the first of the largest

// Weights of the classes, summing to 1: equal, or the labels' frequencies.
std::vector<double> uniform_weights(int64_t C);
std::vector<double> prior_weights(const int32_t* labels, int64_t n, int64_t C);

}  // namespace lc

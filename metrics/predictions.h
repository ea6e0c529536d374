// predictions.h -- what is scored: probabilities in double, their logarithms where logits are known, labels.
//
//     Predictions s = predictions_from_logits(logits, labels, n, C);     softmax in double, log_p by log-sum-exp
//     Predictions s = predictions_from_probs(probs, labels, n, C);       refuses what is no distribution
#pragma once
#include <cstdint>
#include <span>
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
// not finite; the second one also probabilities outside [0, 1] by more than 1e-6, which is rounding and cut off, and
// rows whose sum is not 1 within 1e-3 (rows are taken as they are, never renormalised).
Predictions predictions_from_logits(const float* logits, const int32_t* labels, int64_t n, int64_t C);
Predictions predictions_from_logits(const double* logits, const int32_t* labels, int64_t n, int64_t C);
Predictions predictions_from_probs(const double* probs, const int32_t* labels, int64_t n, int64_t C);
Predictions predictions_from_probs(const float* probs, const int32_t* labels, int64_t n, int64_t C);

int32_t top_class(const double* row, int64_t C);  // the first of the largest

// How sure somebody was, and whether it happened (0 or 1): what a calibration error of one 'class' needs.
struct Outcomes {
    std::vector<double> confidence, happened;  // (n) each
    int64_t size() const { return int64_t(confidence.size()); }
};
Outcomes top_label(const Predictions& s);                  // the largest probability; was it that class?
Outcomes class_outcomes(const Predictions& s, int64_t c);  // p_c; was it c?

// Weights of the classes, summing to 1: equal, or the labels' frequencies.
std::vector<double> uniform_weights(int64_t C);
std::vector<double> prior_weights(const int32_t* labels, int64_t n, int64_t C);
void check_weights(std::span<const double> weights, int64_t C);  // C finite numbers >= 0 that sum to 1 within 1e-6

// How often each row counts: a bootstrap replicate is the same rows with other counts.  Empty: every row once.
using Counts = std::span<const uint16_t>;
inline double count_of_row(Counts counts, int64_t i) { return counts.empty() ? 1.0 : double(counts[size_t(i)]); }

}  // namespace lc

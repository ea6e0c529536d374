// scores.h -- what the methods without features look at: C numbers per row, in double.
//
//     probs      as given, cut to [0, 1]; the softmax of the logits where these were given
//     logits     as given; ln max(p, FLT_MIN) where probabilities were given
//     log_probs  ln max(p, FLT_MIN)
//     authors    ln(p + 1e-12)
#pragma once
#include "calib/calibrator.h"

namespace lc {

enum class Scores { probs, logits, log_probs, authors };
std::vector<double> scores_of(const Samples& s, Scores kind);  // (n, C)

// Rows to fit on, sorted by label and scores: whatever order they came in, every sum over them has the same bits.
struct ScoredRows {
    int64_t n = 0, C = 0;
    std::vector<double> z;        // (n, C)
    std::vector<int32_t> labels;  // (n)
};
ScoredRows scored_rows(const Samples& s, Scores kind);

// z_c - ln sum exp z, in place.
void log_softmax_row(double* z, int64_t C);

// "class 3" or "classes 3, 5 and 8 more": those that no label names; "" where every class has rows.
std::string absent_classes(const Samples& s);

}  // namespace lc

// ecce.h -- estimated cumulative calibration error: how far the sums of p and of y run apart as p grows.
//
// Binned, class-wise:   cum_b = sum_{b' <= b} (rows_b' / n) (conf_b' - freq_b')
//     authors  mean of |cum_b| over the bins that hold rows (the published numbers)
//     paper    their sum
//
// Without bins (Arrieta-Ibarra, Gujral, Tannen, Tygert, Xu 2022):   D_k = (1/n) sum_{i <= k} (y_i - p_i),   D_0 = 0
// over rows sorted by p.  Rows with the same p are one step, so that their order does not matter.
//     range    max D - min D            sigma = sqrt(sum p (1 - p)) / n
//     max_abs  max |D|
// If the model is calibrated, D / sigma is nearly a Brownian motion on [0, 1], and the P-value is the probability that
// its range (Kuiper) or largest absolute value (Kolmogorov-Smirnov) is as large by chance.
// range >= max_abs >= |mean p - mean y|.
#pragma once
#include "metrics/bin_table.h"

namespace lc {

enum class EcceMode { authors, paper, range };                              // range: class-wise, without bins
double ecce(const BinTable& t, std::span<const double> pi, EcceMode mode);  // authors or paper

struct CumulativeError {
    double range = 0, max_abs = 0;
    double sigma = 0;
    double p_range = 1, p_max_abs = 1;  // with sigma = 0 (all p are 0 or 1): 0 if anything is wrong, else 1
};
CumulativeError cumulative_error(const Outcomes& o);

// Class by class, and sum_c pi_c of each.  P-values of the classes are joined by Bonferroni's rule, C times the
// smallest, at most 1: small if any class is off.  sigma of the mean is sum_c pi_c sigma_c, a scale and not a
// deviation.
struct ClasswiseCumulativeError {
    std::vector<CumulativeError> by_class;  // (C)
    CumulativeError mean;
};
ClasswiseCumulativeError cumulative_error_by_class(const Predictions& s, std::span<const double> pi);

// Sorted once, walked often: what a bootstrap does.
class CumulativeWalk {
  public:
    explicit CumulativeWalk(const Outcomes& o);
    struct Extremes {
        double range = 0, max_abs = 0;
    };
    Extremes operator()(Counts counts = {}) const;

  private:
    std::vector<int32_t> order_;  // (n), by confidence
    std::vector<double> step_;    // (n): y - p
    std::vector<uint8_t> ends_;   // (n): 1 where a group of equal confidences ends
};

}  // namespace lc

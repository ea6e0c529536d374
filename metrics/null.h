// null.h -- what chance alone gives: the same metrics with labels drawn from p.
//
// A model that is right everywhere still has a local calibration error above 0, because neighbourhoods are small.  Labels
// are drawn anew from p, where p is right by construction; how the metric falls over many draws is what a measured value
// has to be compared with.
#pragma once
#include "metrics/bins.h"
#include "metrics/local.h"

namespace lc {

// A value against its null distribution.
struct NullScore {
    double mean = 0, deviation = 0;
    double excess = 0;  // value - mean: the part that is not noise
    double z = 0;       // excess / deviation; 0 where both are 0
    double p = 1;       // share of draws at or above the value, (1 + how many) / (1 + draws)
};
NullScore against_null(double value, const std::vector<double>& null);

// `draws` sets of labels (draws, n), row i from p_i.  The same seed gives the same labels.
std::vector<int32_t> draw_labels(const Predictions& s, int64_t draws, uint64_t seed);

struct LocalNull {
    std::vector<double> lce, mlce;  // (draws)
};
// e: the measured errors of the same rows, whose bins and kept entries the null shares.  One walk over the pairs.
LocalNull local_null(const Tensor& z, const Predictions& s, const LocalErrors& e, const std::vector<double>& weights,
                     LceMode lce, MlceMode mlce, const std::vector<int32_t>& labels, const Progress& progress = {});

struct BinnedNull {
    std::vector<double> ece, ece_top;  // (draws): class-wise and of the most probable class
};
BinnedNull binned_null(const Predictions& s, const std::vector<double>& weights, const Binning& binning,
                       const std::vector<int32_t>& labels);

}  // namespace lc

// local.h -- local calibration error: how far p is from what happens among the neighbours of the same bin.
//
//     LocalErrors e = local_errors(z, predictions, {.gamma = 3});       z (n, k): the (reduced) features, on a backend
//     double lce = lce_of(e, weights, LceMode::authors), mlce = mlce_of(e, weights, MlceMode::authors);
//
// Every definition and its modes: the op is kernels/local_error.h, which says what an entry is.
#pragma once
#include "metrics/predictions.h"
#include "nn/tensor.h"

namespace lc {

// Kernel means of any numbers x (n, C) over the neighbours of the same bin: the op, from host to host.
struct LocalMeans {
    std::vector<float> mean, weight, n_eff;  // (G, n, C), 0 where there is nothing to average
    std::vector<float> spread;               // (G, n, C): of |phi_i - phi_j|_1, where phi (n, m) is given
};
LocalMeans local_means(const Tensor& z, const std::vector<float>& x, const std::vector<int32_t>& bin,
                       const std::vector<double>& gammas, bool include_self, const Progress& progress = {},
                       const std::vector<float>* phi = nullptr);

// How entries are made.  A class's bin is kept where it holds more than `min_bin` rows; the rest is left out.
struct LocalOptions {
    double gamma = 10;
    int64_t bins = 15;
    int64_t min_bin = 20;      // 0: every bin that is not empty
    bool include_self = true;  // a row is its own neighbour, of weight 1
};

struct LocalErrors {
    int64_t n = 0, C = 0;
    LocalOptions options;
    std::vector<int32_t> bin = {};  // (n, C); -1: left out
    std::vector<float> error = {};  // (n, C): mean of p - y around the row, 0 where there is nothing to average
    std::vector<float> weight = {}, n_eff = {};  // (n, C): 0 there

    bool kept(int64_t k) const { return weight[size_t(k)] > 0; }  // k = i C + c
};
LocalErrors local_errors(const Tensor& z, const Predictions& s, const LocalOptions& o, const Progress& progress = {});

// The same, and the kernel mean of |phi_i - phi_j|_1 over the neighbours of each entry (n, C).  phi (n, m)
LocalErrors local_errors_with_spread(const Tensor& z, const Predictions& s, const LocalOptions& o,
                                     const std::vector<float>& phi, std::vector<float>& spread,
                                     const Progress& progress = {});

// The bins of every class; -1 where too few share one.
std::vector<int32_t> class_bins(const Predictions& s, int64_t bins, int64_t min_bin);

enum class LceMode {
    kept_rows,  // `authors`, `corrected`: LCE_c is the mean of |error| over the entries that are kept
    all_rows,   // `paper`: over all n rows, entries without a value counting 0
};
enum class MlceMode {
    class_mean,  // `authors`: sum_c pi_c max_i |error_ic|
    row_l1,      // `paper`: max_i sum_c |error_ic|
    largest,     // `max`: the largest |error_ic|
};
double lce_of(const LocalErrors& e, const std::vector<double>& weights, LceMode mode);
double mlce_of(const LocalErrors& e, const std::vector<double>& weights, MlceMode mode);
double mlce_of(const std::vector<double>& class_most, double row_most, const std::vector<double>& weights,
               MlceMode mode);  // class_most (C): the largest |error| of each class; row_most: the largest sum of a row

struct LocalCounts {
    int64_t entries = 0, dropped = 0;  // of n C; in bins that are too small
    int64_t isolated = 0;              // kept bins, but nobody within five gammas
    double median_n_eff = 0;           // over the entries that are kept; 0 where none is
};
LocalCounts counts_of(const LocalErrors& e);

// |error| against the size of the neighbourhood: the kept entries in `groups` groups of equal size, by n_eff.
struct ProfileGroup {
    double n_eff_low = 0, n_eff_high = 0, mean_error = 0;
    int64_t entries = 0;
};
std::vector<ProfileGroup> n_eff_profile(const LocalErrors& e, int64_t groups = 10);

// The bandwidth for scoring: the smallest of a grid (steps of sqrt 2 down from the r.m.s. norm of the rows) whose median
// n_eff is at least 100.  n_eff grows with gamma, entry by entry, so the grid is searched by halving.
struct ScoringBandwidth {
    double gamma = 0, median_n_eff = 0;
    bool reached = true;  // false: not even the largest has a median of 100
};
ScoringBandwidth scoring_bandwidth(const Tensor& z, const Predictions& s, LocalOptions o,
                                   const Progress& progress = {});

// One line per bandwidth, from one walk over the pairs.
struct SweepLine {
    double gamma = 0, lce = 0, mlce = 0, median_n_eff = 0;
    int64_t isolated = 0;
};
std::vector<SweepLine> sweep(const Tensor& z, const Predictions& s, const LocalOptions& o,
                             const std::vector<double>& gammas, const std::vector<double>& weights, LceMode lce,
                             MlceMode mlce, const Progress& progress = {});

// Local calibration itself: p against theta, the leave-one-out estimate of all rows (not only those of a bin).
struct LocalCalibration {
    int64_t n = 0, C = 0;
    std::vector<float> theta = {};       // (n, C)
    std::vector<double> l1 = {};         // (n): |p_i - theta_i|_1
    double epsilon = 0;                  // the largest of them
    double largest = 0;                  // max over i and c of |p_ic - theta_ic|: L rho
    std::vector<double> quantiles = {};  // of l1 at .5 .9 .95 .99
};
LocalCalibration local_calibration(const Tensor& z, const Predictions& s, double gamma);

}  // namespace lc

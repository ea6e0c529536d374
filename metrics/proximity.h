// proximity.h -- how near a row's neighbours are, and whether probabilities are right both where rows crowd and where
// they are alone (Xiong et al., "Proximity-Informed Calibration for Deep Neural Networks", 2023).
//
//     distance_i  = mean distance to the 10 nearest other rows
//     proximity_i = exp(-distance_i)
//     piece       = sum over cells of (rows / n) |mean correct - mean confidence|, top label;
//                   a cell is one of 15 bins of confidence and one of 10 equal-mass bins of proximity
//
// Bins of equal mass need the order alone.  They are found from -distance, which has the order of exp(-distance) and
// does not underflow where distances are in the hundreds.
#pragma once
#include "metrics/bin_table.h"
#include "nn/tensor.h"

namespace lc {

// Z (n, d), in a backend's memory.  Fewer than k other rows: all of them.  Refused: a single row, a distance that is
// not finite.
std::vector<double> neighbour_distance(const Tensor& Z, int64_t k = 10);  // (n)
std::vector<double> proximity(std::span<const double> distance);          // (n)

struct ProximityBinning {
    Binning confidence = {};
    int64_t proximity_bins = 10;
    int64_t cells() const { return confidence.bins * proximity_bins; }
};

// The cell of every row, confidence bin first: for tabulate(top_label(s), cells, binning.cells()).
std::vector<int32_t> proximity_cells(const Outcomes& o, std::span<const double> distance,
                                     const ProximityBinning& binning);
double piece(const Predictions& s, std::span<const double> distance, const ProximityBinning& binning = {});

// Rows of one bin of confidence (the one with most rows), in two halves: the nearer to their neighbours and the
// farther.  A half is empty only where that bin has a single row.  Equal distances keep the order of the rows.
struct ProximityHalves {
    std::vector<int64_t> near, far;
};
ProximityHalves proximity_halves(const Predictions& s, std::span<const double> distance, const Binning& binning = {});

}  // namespace lc

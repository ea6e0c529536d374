// histogram.h -- histogram binning: the share of the class among the calibration rows in the same bin.
//
// Fifteen bins with about as many rows each.  Bin b begins with the score that has b shares of the rows below it; equal
// scores share a bin, so there may be fewer.  Below the first bin and above the last the map stays as it is in them.
#pragma once
#include "calib/one_vs_rest.h"

namespace lc {

extern const ClassMethod kHistogram;

}  // namespace lc

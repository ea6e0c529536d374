// beta.h -- beta calibration (Kull, Silva Filho, Flach 2017): three parameters per class.
//
//     ln(q / (1 - q)) = a ln p - b ln(1 - p) + c,   a, b >= 0 so that q never falls with p
//
// a = b is Platt scaling on log-odds; a != b lets a class be too sure near 0 and too careful near 1.  p is clipped as
// there, to [1e-12, 1 - 1e-12].  The objective is convex, so the optimum under the bounds is the best of four: a and b
// free, one of them 0, or both.
//
//     beta         Platt's targets, as ps: finite for every class
//     beta:plain   0/1 targets as published
#pragma once
#include "calib/one_vs_rest.h"

namespace lc {

extern const ClassMethod kBeta, kBetaPlain;

}  // namespace lc

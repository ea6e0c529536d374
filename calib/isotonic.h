// isotonic.h -- isotonic regression: the best map of a score that never falls.
//
// Pool adjacent violators: rows in the order of their scores, equal scores as one point with their mean and weight;
// neighbours that fall are pooled until none does.  What is left are blocks of one height.  Between blocks the map is
// linear, outside the scores that were seen it stays as it is at the first and last (scikit-learn's semantics).
//
//     ir           scores in double, only equal ones are one point; zero probabilities are floored
//     ir:authors   scores in float, and those less than 1e-6 above the first of a group are one point, which is what
//                  scikit-learn makes of float32: every p < 1e-6 becomes the same.  No floor.
#pragma once
#include "calib/one_vs_rest.h"

namespace lc {

extern const ClassMethod kIsotonic, kIsotonicAuthors;

struct IsotonicMap {
    std::vector<double> x, y;  // corners: x ascends, y does not descend
};

// `merge`: scores that are less than this above the first of a group belong to it; 0: only equal ones do.
IsotonicMap fit_isotonic(std::span<const double> x, std::span<const double> y, double merge = 0);
double apply_isotonic(std::span<const double> x, std::span<const double> y, double at);

}  // namespace lc

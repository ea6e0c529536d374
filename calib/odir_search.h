// odir_search.h -- lambda and mu of linear_logits.h by cross-validation.
//
// There is no safe constant: good values differ by six decades between data sets.  So every value of a grid is fitted
// on all folds but one and scored by the log-loss of that one; the best mean wins, the stronger penalty where two are
// equal. A fold fits the grid from the strongest penalty to the weakest, each fit starting where the last one ended.
// Where the strongest penalty of the grid wins, which is usual with many classes, stronger ones are tried, decade by
// decade, until one gains nothing worth the while.
//
// Folds are dealt along the rows, which are sorted by label and scores (scored_rows), so each has every class in
// proportion, and the order of the input does not matter.
#pragma once
#include "calib/linear_logits.h"

namespace lc {

struct OdirPoint {
    Odir penalty;
    double nll = 0;  // mean over the rows, each scored by the fit that did not see it
};
struct OdirSearch {
    Odir best;
    std::vector<OdirPoint> curve;  // strongest first
    int unfinished = 0;            // fits that did not converge
};

// 10^2, 10^1, .. 10^-4 for lambda = mu; with `square` every pair of them.
std::vector<Odir> odir_grid(bool square);

OdirSearch search_odir(const LinearRows& rows, const std::vector<Odir>& grid, int64_t folds,
                       const std::vector<double>& start, const Progress& progress);

std::string curve_text(const OdirSearch& s);  // "1e-04: 0.2312, 0.001: 0.2309, ..."; pairs as "0.1/0.001: ..."

}  // namespace lc

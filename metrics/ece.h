// ece.h -- expected and maximum calibration error: how far frequency is from probability, bin by bin.
//
//     ece        sum_c pi_c sum_b (rows_bc / n) |freq_bc - conf_bc|       class-wise, bins of p_c
//     mce        sum_c pi_c max_b |freq_bc - conf_bc|
//     ece_top    the same two for the confidence of the most probable class: one 'class'
//     mce_top
//     ece_multi  sum over cells of a grid on the simplex: sum_c pi_c sum_b (rows_b / n) |freq_bc - conf_bc|
//
// Bins without rows are skipped.  Any ECE is at least |mean p - mean y|, with equality for one bin.  15 bins of equal
// width unless told otherwise; weights are uniform where none are given.
#pragma once
#include "metrics/bin_table.h"

namespace lc {

double ece(const BinTable& t, std::span<const double> pi);
double mce(const BinTable& t, std::span<const double> pi);

double ece(const Predictions& s, const Binning& binning = {}, std::span<const double> pi = {});
double mce(const Predictions& s, const Binning& binning = {}, std::span<const double> pi = {});
double ece_top(const Predictions& s, const Binning& binning = {});
double mce_top(const Predictions& s, const Binning& binning = {});

// One list of confidences and outcomes: the mean over bins of |freq - conf|, the root of the mean square, or the
// largest.
enum class Norm { l1, l2, max };
double calibration_error(const Outcomes& o, const Binning& binning, Norm norm);

// A row's cell is the bin of every one of its probabilities, B per axis; only cells that hold rows exist.  With many
// classes nearly every row is alone in its cell, and ece_multi is then mean |p - y|, whatever the model: look at
// cells.size() / n before believing it.
Cells simplex_cells(const Predictions& s, int64_t B);
double ece_multi(const Predictions& s, const Cells& cells, std::span<const double> pi = {}, Counts counts = {});

}  // namespace lc

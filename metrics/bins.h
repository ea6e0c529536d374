// bins.h -- intervals of probability: bin b holds edge[b] <= p < edge[b+1], the last one is closed.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "metrics/predictions.h"

namespace lc {

struct Binning {
    int64_t bins = 15;
    bool equal_mass = false;  // about as many values in every bin, instead of the same width
};

// Edges i / B.  A probability is compared with the edges themselves; int(p * B) would move samples that lie on one.
std::vector<double> equal_width_edges(int64_t B);

// Edges that put about as many values in every bin.  Equal values share a bin, so there may be fewer bins: a constant
// gives one, not none.
std::vector<double> equal_mass_edges(std::span<const double> values, int64_t B);

// The number of p's bin; outside the edges the first or last one.
int64_t bin_of(double p, const std::vector<double>& edges);

// The bin of every value, and of every probability by the column it stands in (equal mass: each column has its edges).
std::vector<int32_t> assign_bins(std::span<const double> values, const Binning& binning);  // (n)
std::vector<int32_t> assign_bins_by_class(const Predictions& s, const Binning& binning);   // (n, C)

}  // namespace lc

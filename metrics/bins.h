// bins.h -- intervals of probability: bin b holds edge[b] <= p < edge[b+1], the last one is closed.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

namespace lc {

// Edges i / B.  A probability is compared with the edges themselves; int(p * B) would move samples that lie on one.
std::vector<double> equal_width_edges(int64_t B);

// Edges that put about as many values in every bin.  Equal values share a bin, so there may be fewer bins: a constant
// gives one, not none.
std::vector<double> equal_mass_edges(std::span<const double> values, int64_t B);

// The number of p's bin; outside the edges the first or last one.
int64_t bin_of(double p, const std::vector<double>& edges);

}  // namespace lc

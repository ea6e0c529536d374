// bandwidth.h -- how wide the kernel should be.
//
// A bandwidth is a length in the space of the features; one that suits 2048 standardised features reduced to 50 makes all weights
// equal in a smaller space, and the estimate is then just the class prior.  So it is found from the data.
#pragma once
#include <vector>

#include "nn/tensor.h"

namespace lc {

struct BandwidthChoice {
    double gamma = 0;
    std::vector<double> grid, nll;   // what was tried, and the leave-one-out log-loss of each
    int64_t rows_without_class = 0;  // rows left out: no other row has their label
};

// The minimiser of the leave-one-out log-loss of the Nadaraya-Watson estimate over 13 bandwidths, each 1/sqrt(2) of the one
// before, from the root mean square norm of the rows of z downwards.
BandwidthChoice choose_bandwidth(const Tensor& z, const Buffer<int32_t>& labels);

// A bandwidth for every query: the distance to its k-th nearest reference, and never less than a thousandth of the mean of
// these, so that duplicates do not make it 0.                                                               -> (n)
Tensor neighbour_bandwidth(const Tensor& queries, const Tensor& references, int64_t k, bool leave_one_out);

}  // namespace lc

// neighbourhoods.h -- where the model is wrong: the rows around which p and the labels disagree most, and their neighbours.
#pragma once
#include "metrics/local.h"

namespace lc {

struct Neighbour {
    int64_t row = 0;
    double weight = 0;  // of the kernel, 1 for the row itself
    double p = 0;       // of the neighbourhood's class
    int32_t label = 0;
};

struct Neighbourhood {
    int64_t row = 0;  // the one in the middle
    int32_t c = 0;    // the class whose probability is off
    int32_t bin = 0;
    double mean_p = 0, frequency = 0;  // what the model says around here, and what happens
    double error = 0;                  // the difference
    double n_eff = 0;
    double z = 0;                    // error / its standard deviation if p were right
    std::vector<Neighbour> members;  // the heaviest, heaviest first
};

struct ExplainOptions {
    int64_t top = 20, members = 8;
    double least_n_eff = 10;  // smaller neighbourhoods are not looked at
};

// The entries of largest |z|, and of one class at most one among near neighbours (kernel weight above 1/2): the next
// place is more telling than the same one again.
//
//     z = error / sqrt(v / n_eff + 1 / n_eff^2)        v: the mean of p (1 - p) with weights w^2, so that v / n_eff is the
//                                                      variance of the error for labels drawn from p
//
// The second term keeps one unlikely label among certain ones from being a finding: it counts like one neighbour more.
std::vector<Neighbourhood> worst_neighbourhoods(const Tensor& z, const Predictions& s, const LocalErrors& e,
                                                const ExplainOptions& o, const Progress& progress = {});

}  // namespace lc

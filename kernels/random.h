// random.h -- random numbers drawn on the host from Philox bits: initial weights, shuffles, bootstrap draws.
//
// On the host because log and cos differ between libraries: what is drawn here and copied is the same for every
// backend. The same key gives the same numbers whatever was drawn before, so an interrupted run resumes with the right
// ones.
#pragma once
#include <vector>

#include "kernels/philox.h"

namespace lc {

// Word i of a stream, and the same as a number in (0, 1) with 32 bits: never 0, so that its logarithm exists.
uint32_t random_word(RandomKey key, uint64_t i);
double random_unit(RandomKey key, uint64_t i);

std::vector<float> random_normal(RandomKey key, int64_t n, double mean = 0,
                                 double deviation = 1);  // Box-Muller, in double
std::vector<float> random_uniform(RandomKey key, int64_t n, double low, double high);
std::vector<int64_t> random_permutation(RandomKey key, int64_t n);  // Fisher-Yates, without modulo bias

}  // namespace lc

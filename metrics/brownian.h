// brownian.h -- Brownian motion on [0, 1]: the probability that its range (max - min), or its largest absolute value,
// is at most x (cdf) and more than x (tail).  A tail is never below 0 and has its digits however small it is; it is 0
// where the smallest double is larger.
#pragma once

namespace lc {

double brownian_range_cdf(double x);  // Kuiper's statistic
double brownian_range_tail(double x);
double brownian_max_abs_cdf(double x);  // Kolmogorov and Smirnov's
double brownian_max_abs_tail(double x);

}  // namespace lc

// brownian.cpp -- see brownian.h.
//
// Each has two series (Feller 1951: images, and the heat equation's eigenfunctions), which converge fast at opposite
// ends. One gives the distribution for small x, the other the tail for large x: neither subtracts nearly equal numbers,
// so that a P-value of 1e-30 is right, and none is ever below 0.
#include "metrics/brownian.h"

#include <cmath>
#include <numbers>

#include "kernels/check.h"

namespace lc {
namespace {

using std::numbers::pi;

constexpr double kSmall = 1.5;  // where both series need a handful of terms
constexpr int kTerms = 12;      // at kSmall the last one is below 1e-50

double normal_tail(double x) { return 0.5 * std::erfc(x / std::numbers::sqrt2); }

void check(double x) { LC_CHECK(x >= 0, "Brownian motion: expected a distance of at least 0, found " << x); }

double range_small(double x) {
    double sum = 0;
    for (int k = 0; k < kTerms; ++k) {
        const double a = (k + 0.5) * pi;
        sum += (8 / (x * x) + 2 / (a * a)) * std::exp(-2 * a * a / (x * x));
    }
    return sum;
}

double range_large(double x) {
    double sum = 0;
    for (int k = kTerms; k >= 1; --k) sum += (k % 2 ? 8.0 : -8.0) * k * normal_tail(k * x);
    return sum;
}

double max_abs_small(double x) {
    double sum = 0;
    for (int k = 0; k < kTerms; ++k) {
        const double odd = 2 * k + 1, a = odd * pi;
        sum += (k % 2 ? -1 : 1) * 4 / a * std::exp(-a * a / (8 * x * x));
    }
    return sum;
}

double max_abs_large(double x) {
    double sum = 0;
    for (int k = kTerms; k >= 0; --k) sum += (k % 2 ? -4 : 4) * normal_tail((2 * k + 1) * x);
    return sum;
}

}  // namespace

double brownian_range_cdf(double x) {
    check(x);
    if (x < 0.05) return 0;  // below e^-1900; 8 / x^2 would be infinite times 0
    return x < kSmall ? range_small(x) : 1 - range_large(x);
}

double brownian_range_tail(double x) { return x < kSmall ? 1 - brownian_range_cdf(x) : range_large(x); }

double brownian_max_abs_cdf(double x) {
    check(x);
    if (x < 0.01) return 0;
    return x < kSmall ? max_abs_small(x) : 1 - max_abs_large(x);
}

double brownian_max_abs_tail(double x) { return x < kSmall ? 1 - brownian_max_abs_cdf(x) : max_abs_large(x); }

}  // namespace lc

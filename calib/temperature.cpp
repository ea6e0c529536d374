// temperature.cpp -- see temperature.h.
#include "calib/temperature.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/parallel.h"

namespace lc {
namespace {

// Of one row at beta: its loss, and the loss's first and second derivative by beta.
template <class Real>
Curve row_loss(const Real* z, int32_t y, int64_t C, double beta) {
    double top = -INFINITY;
    for (int64_t c = 0; c < C; ++c) top = std::max(top, beta * double(z[c]));
    double sum = 0, mean = 0, square = 0;
    for (int64_t c = 0; c < C; ++c) {
        const double e = std::exp(beta * double(z[c]) - top), shift = double(z[c]) - double(z[y]);
        sum += e;
        mean += e * shift;
        square += e * shift * shift;
    }
    mean /= sum;
    return {std::log(sum) + top - beta * double(z[y]), mean, square / sum - mean * mean};
}

constexpr int64_t kRows = 1024;  // of one partial sum: the cuts, and so the bits, do not depend on the threads

template <class Real>
Curve mean_loss(const Real* logits, const int32_t* labels, int64_t n, int64_t C, double beta) {
    std::vector<Curve> parts(size_t(cpu::ceil_div(n, kRows)));
    cpu::for_each_chunk(n, kRows, [&](int64_t begin, int64_t end) {
        Curve& sum = parts[size_t(begin / kRows)];
        for (int64_t i = begin; i < end; ++i) {
            const Curve r = row_loss(logits + i * C, labels[i], C, beta);
            sum.value += r.value, sum.slope += r.slope, sum.curvature += r.curvature;
        }
    });
    Curve total;
    for (const Curve& p : parts) total.value += p.value, total.slope += p.slope, total.curvature += p.curvature;
    return {total.value / double(n), total.slope / double(n), total.curvature / double(n)};
}

template <class Real>
Temperature fit(const Real* logits, const int32_t* labels, int64_t n, int64_t C) {
    const auto of_log_beta = [&](double t) -> Curve {
        const double beta = std::exp(t);
        const Curve by_beta = mean_loss(logits, labels, n, C, beta);
        return {by_beta.value, beta * by_beta.slope, beta * by_beta.slope + beta * beta * by_beta.curvature};
    };
    const Solved1d s = minimise_1d(of_log_beta, -16, 16, 0);
    // So sharp, or so equal, that beta has no effect any more.
    const bool flat = s.at.slope == 0 && s.at.curvature == 0;
    const double beta = std::exp(s.x);
    return {1 / beta, beta, s.value, s.iterations, flat || s.ended == Ended::at_bound};
}

}  // namespace

Temperature fit_temperature(const float* logits, const int32_t* labels, int64_t n, int64_t C) {
    return fit(logits, labels, n, C);
}
Temperature fit_temperature(const double* logits, const int32_t* labels, int64_t n, int64_t C) {
    return fit(logits, labels, n, C);
}

AuthorsTemperature fit_temperature_as_authors(const double* logits, const int32_t* labels, int64_t n, int64_t C) {
    AuthorsTemperature a;
    const auto of_T = [&](std::span<const double> T, std::span<double> gradient) {
        const double beta = 1 / T[0];
        const Curve by_beta = mean_loss(logits, labels, n, C, beta);
        gradient[0] = -beta * beta * by_beta.slope;
        return by_beta.value;
    };
    a.solved = torch_lbfgs(of_T, {&a.T, 1});
    return a;
}

double nll_of_logits(const float* logits, const int32_t* labels, int64_t n, int64_t C, double beta, double* each) {
    if (each == nullptr) return mean_loss(logits, labels, n, C, beta).value;
    double sum = 0;
    for (int64_t i = 0; i < n; ++i) sum += each[i] = row_loss(logits + i * C, labels[i], C, beta).value;
    return sum / double(n);
}
double nll_of_logits(const double* logits, const int32_t* labels, int64_t n, int64_t C, double beta) {
    return mean_loss(logits, labels, n, C, beta).value;
}

}  // namespace lc

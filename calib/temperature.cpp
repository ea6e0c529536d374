// temperature.cpp -- see temperature.h.
#include "calib/temperature.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/parallel.h"

namespace lc {
namespace {

// Of one row at beta: its loss, and the loss's first and second derivative by beta.
struct RowLoss {
    double nll = 0, slope = 0, curvature = 0;
};

RowLoss row_loss(const float* z, int32_t y, int64_t C, double beta) {
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

RowLoss mean_loss(const float* logits, const int32_t* labels, int64_t n, int64_t C, double beta) {
    std::vector<RowLoss> parts(size_t(cpu::ceil_div(n, kRows)));
    cpu::for_each_chunk(n, kRows, [&](int64_t begin, int64_t end) {
        RowLoss& sum = parts[size_t(begin / kRows)];
        for (int64_t i = begin; i < end; ++i) {
            const RowLoss r = row_loss(logits + i * C, labels[i], C, beta);
            sum.nll += r.nll, sum.slope += r.slope, sum.curvature += r.curvature;
        }
    });
    RowLoss total;
    for (const RowLoss& p : parts) total.nll += p.nll, total.slope += p.slope, total.curvature += p.curvature;
    return {total.nll / double(n), total.slope / double(n), total.curvature / double(n)};
}

}  // namespace

Temperature fit_temperature(const float* logits, const int32_t* labels, int64_t n, int64_t C) {
    double low = -16, high = 16,
           t = 0;  // of ln beta; the slope is negative at low and positive at high, or a bound is it
    Temperature result;
    RowLoss loss;
    for (; result.iterations < 100; ++result.iterations) {
        const double beta = std::exp(t);
        loss = mean_loss(logits, labels, n, C, beta);
        if (loss.slope == 0) break;
        (loss.slope < 0 ? low : high) = t;
        // Newton in ln beta: d/dt = beta slope, d2/dt2 = beta slope + beta^2 curvature.
        const double curve = beta * loss.slope + beta * beta * loss.curvature;
        double next = t - beta * loss.slope / curve;
        if (!(curve > 0 && next > low && next < high)) next = (low + high) / 2;
        if (std::abs(next - t) <= 1e-15 * std::max(1.0, std::abs(t)) || high - low < 1e-14) break;
        t = next;
    }
    const bool flat =
        loss.slope == 0 && loss.curvature == 0;  // so sharp, or so equal, that beta has no effect any more
    result.at_bound = flat || std::abs(t) > 15.99;
    result.beta = std::exp(t);
    result.T = 1 / result.beta;
    result.nll = loss.nll;
    return result;
}

double nll_of_logits(const float* logits, const int32_t* labels, int64_t n, int64_t C, double beta, double* each) {
    if (each == nullptr) return mean_loss(logits, labels, n, C, beta).nll;
    double sum = 0;
    for (int64_t i = 0; i < n; ++i) sum += each[i] = row_loss(logits + i * C, labels[i], C, beta).nll;
    return sum / double(n);
}

}  // namespace lc

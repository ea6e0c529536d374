// linear_blocks.cpp -- LinearLoss::by_class of linear_logits.h.
//
// The Hessian of the log-loss has (C, C) blocks of (C + 1, C + 1).  Those on the diagonal,
//
//     H_c = mean_i p_ic (1 - p_ic) x_i x_i^T + penalty,
//
// know how the scores of a class depend on each other, which is what makes L-BFGS slow; the others know how the classes
// share the probability, which it learns in a few steps.  A row that is sure of its answer about c has no weight in H_c:
// of a hundred classes, a row counts for a handful.
#include <algorithm>
#include <memory>

#include "calib/linear_logits.h"
#include "kernels/parallel.h"

namespace lc {
namespace {

constexpr int64_t kTogether = 128;    // rows, gathered to stay in the cache
constexpr double kNoWeight = 1e-7;    // of p (1 - p): an estimate may do without
constexpr double kLeastPivot = 1e-9;  // of the largest: classes that nobody doubts have no curvature

// sum (m, width) += the rows of x with their weights p (1 - p), p being column c.
void add_class(std::vector<double>& sum, const LinearRows& rows, const double* p, int64_t wide, int64_t c) {
    const int64_t width = rows.width();
    std::vector<double> x(size_t(kTogether * width)), weighted(x.size());
    int64_t count = 0;
    const auto flush = [&] {
        cpu::multiply_double(sum.data(), width, {weighted.data(), 1, width}, x.data(), width, rows.C + 1, width, count,
                             true);
        count = 0;
    };
    for (int64_t i = 0; i < rows.n; ++i) {
        const double h = p[i * wide + c] * (1 - p[i * wide + c]);
        if (!(h > kNoWeight)) continue;
        for (int64_t j = 0; j < width; ++j) {
            x[size_t(count * width + j)] = rows.x[size_t(i * width + j)];
            weighted[size_t(count * width + j)] = h * rows.x[size_t(i * width + j)];
        }
        if (++count == kTogether) flush();
    }
    flush();
}

}  // namespace

Precondition LinearLoss::by_class(std::span<const double> theta) const {
    const int64_t n = rows_.n, C = rows_.C, m = C + 1, width = rows_.width(), wide = cpu::padded(C);
    std::vector<double> p(static_cast<size_t>(n * wide));
    pass(theta, {.probs = p.data()});
    const auto factors = std::make_shared<std::vector<double>>(size_t(C * m * m));  // (C, m, m), lower triangles
    cpu::for_each_chunk(C, 1, [&](int64_t c, int64_t) {
        std::vector<double> sum(static_cast<size_t>(m * width));
        add_class(sum, rows_, p.data(), wide, c);
        const std::span<double> block = std::span(*factors).subspan(size_t(c * m * m), size_t(m * m));
        double top = 1e-12;
        for (int64_t j = 0; j < m; ++j) top = std::max(top, sum[size_t(j * (width + 1))] / double(n));
        for (int64_t j = 0; j < m; ++j) {
            for (int64_t k = 0; k <= j; ++k) block[size_t(j * m + k)] = sum[size_t(j * width + k)] / double(n);
            block[size_t(j * (m + 1))] += 2 * weight_of(c, j) + kLeastPivot * top;
        }
        if (cholesky(block, m)) return;
        std::fill(block.begin(), block.end(), 0.0);  // numbers that are not finite: as if nothing were known
        for (int64_t j = 0; j < m; ++j) block[size_t(j * (m + 1))] = 1;
    });
    return [factors, C, m](std::span<double> b) {
        cpu::for_each_chunk(C, 4, [&](int64_t begin, int64_t end) {
            for (int64_t c = begin; c < end; ++c) {
                cholesky_solve(std::span(*factors).subspan(size_t(c * m * m), size_t(m * m)), m,
                               b.subspan(size_t(c * m), size_t(m)));
            }
        });
    };
}

}  // namespace lc

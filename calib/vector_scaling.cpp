// vector_scaling.cpp -- see vector_scaling.h.
#include "calib/vector_scaling.h"

#include <algorithm>
#include <cmath>

#include "calib/temperature.h"
#include "kernels/parallel.h"

namespace lc {
namespace {

void scale_row(double* out, const double* z, const double* wb, int64_t C) {
    for (int64_t c = 0; c < C; ++c) out[c] = wb[c] * z[c] + wb[C + c];
}

// The mean log-loss by w and b: its value, gradient (2, C), and the diagonal of its Hessian where one is wanted.
class VectorLoss {
  public:
    explicit VectorLoss(const ScoredRows& rows) : rows_(rows) {}

    double operator()(std::span<const double> wb, std::span<double> gradient, std::span<double> diagonal = {}) const {
        const int64_t C = rows_.C, rows = std::max<int64_t>(256, cpu::ceil_div(rows_.n, 64)), size = 1 + 4 * C;
        std::vector<double> parts(static_cast<size_t>(cpu::ceil_div(rows_.n, rows) * size));
        cpu::for_each_chunk(rows_.n, rows, [&](int64_t begin, int64_t end) {
            add_rows(parts.data() + begin / rows * size, wb.data(), begin, end);
        });
        for (int64_t k = size; k < int64_t(parts.size()); ++k) parts[size_t(k % size)] += parts[size_t(k)];
        for (int64_t k = 0; k < size; ++k) parts[size_t(k)] /= double(rows_.n);
        std::copy_n(parts.begin() + 1, 2 * C, gradient.begin());
        if (!diagonal.empty()) std::copy_n(parts.begin() + 1 + 2 * C, 2 * C, diagonal.begin());
        return parts[0];
    }

  private:
    // sum: loss, gradient (2, C), diagonal (2, C)
    void add_rows(double* sum, const double* wb, int64_t begin, int64_t end) const {
        const int64_t C = rows_.C;
        std::vector<double> row(static_cast<size_t>(C));
        double* const gradient = sum + 1;
        double* const diagonal = gradient + 2 * C;
        for (int64_t i = begin; i < end; ++i) {
            const double* const z = rows_.z.data() + i * C;
            scale_row(row.data(), z, wb, C);
            log_softmax_row(row.data(), C);
            sum[0] -= row[size_t(rows_.labels[size_t(i)])];
            for (int64_t c = 0; c < C; ++c) {
                const double p = std::exp(row[size_t(c)]), miss = p - double(c == rows_.labels[size_t(i)]),
                             spread = p * (1 - p);
                gradient[c] += miss * z[c];
                gradient[C + c] += miss;
                diagonal[c] += spread * z[c] * z[c];
                diagonal[C + c] += spread;
            }
        }
    }

    const ScoredRows& rows_;
};

}  // namespace

void VectorScaling::fit(const Samples& s, const Context& c) {
    const ScoredRows rows = begin_fit(s, c);
    const Temperature t = fit_temperature(rows.z.data(), rows.labels.data(), rows.n, rows.C);
    wb_.assign(size_t(2 * C_), 0);
    std::fill_n(wb_.begin(), C_, t.at_bound ? 1 : t.beta);

    const VectorLoss loss(rows);
    std::vector<double> gradient(wb_.size()), curvature(wb_.size());
    loss(wb_, gradient, curvature);
    int calls = 0;
    const auto f = [&](std::span<const double> x, std::span<double> g) {
        const double value = loss(x, g);
        if (c.progress) c.progress(1 - std::pow(0.99, ++calls), "vs: log-loss " + std::to_string(value));
        return value;
    };
    const Solved solved = minimise_lbfgs(f, wb_, {.change = 1e-12, .precondition = by_diagonal(curvature)});
    if (c.progress) c.progress(1, "vs");
    found("nll", solved.value);
    found("ended", solved.text());
    if (c.note && solved.ended != Ended::converged) c.note("vs ended " + solved.text());
}

void VectorScaling::to_logits(double* out, const double* z, int64_t rows) const {
    for (int64_t i = 0; i < rows; ++i) scale_row(out + i * C_, z + i * C_, wb_.data(), C_);
}

void VectorScaling::store(SafetensorsWriter& out) const { out.add("wb", {2, C_}, wb_.data()); }

void VectorScaling::restore(const Safetensors& in) {
    C_ = stored_classes(in);
    wb_ = finite(in, "wb", {2, C_});
}

}  // namespace lc

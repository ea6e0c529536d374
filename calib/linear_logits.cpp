// linear_logits.cpp -- see linear_logits.h.
//
// Work     logits and gradient are two products of (n, C) by (C, C) size: multiply_double() on chunks of rows.
// Threads  every chunk has its own sums; they are added in the order of the rows, so any number of threads gives the
//          same bits.
#include "calib/linear_logits.h"

#include <algorithm>
#include <cmath>

#include "kernels/parallel.h"

namespace lc {

// ---- rows -----------------------------------------------------------------------------------------------------------

LinearRows LinearRows::where(const std::vector<int64_t>& index) const {
    LinearRows some = {int64_t(index.size()), C, {}, {}};
    some.x.reserve(index.size() * size_t(width()));
    for (int64_t i : index) {
        some.x.insert(some.x.end(), x.begin() + i * width(), x.begin() + (i + 1) * width());
        some.labels.push_back(labels[size_t(i)]);
    }
    return some;
}

LinearRows linear_rows(const ScoredRows& scored) {
    const int64_t n = scored.n, C = scored.C;
    LinearRows rows = {n, C, {}, scored.labels};
    rows.x.assign(size_t(n * rows.width()), 0);
    for (int64_t i = 0; i < n; ++i) {
        double* const x = rows.x.data() + i * rows.width();
        std::copy_n(scored.z.data() + i * C, C, x);
        x[C] = 1;
    }
    return rows;
}

// ---- one pass over the rows -----------------------------------------------------------------------------------------

namespace {

// theta (C, C + 1) as multiply_double takes it: transposed (C + 1, padded(C))
std::vector<double> transposed(std::span<const double> theta, int64_t C) {
    const int64_t wide = cpu::padded(C);
    std::vector<double> t(static_cast<size_t>((C + 1) * wide));
    for (int64_t c = 0; c < C; ++c) {
        for (int64_t j = 0; j <= C; ++j) t[size_t(j * wide + c)] = theta[size_t(c * (C + 1) + j)];
    }
    return t;
}

// logits (rows, wide) -> probabilities; returns the sum of the rows' losses.
double softmax_rows(double* logits, int64_t wide, const int32_t* labels, int64_t rows, int64_t C) {
    double loss = 0;
    for (int64_t i = 0; i < rows; ++i) {
        double* const p = logits + i * wide;
        const double top = *std::max_element(p, p + C), own = p[labels[i]];
        double sum = 0;
        for (int64_t c = 0; c < C; ++c) sum += p[c] = std::exp(p[c] - top);
        const double inverse = 1 / sum;
        for (int64_t c = 0; c < C; ++c) p[c] *= inverse;
        loss += std::log(sum) + top - own;
    }
    return loss;
}

// out (C, width) = a^T x               a (rows, wide), x (rows, width)
void outer(double* out, const double* a, int64_t wide, const double* x, int64_t width, int64_t rows, int64_t C) {
    cpu::multiply_double(out, width, {a, 1, wide}, x, width, C, width, rows);
}

// For every pair of classes c >= d: sum_i p_c ([c = d] - p_d) x x^T, one block (width, width) after the other.
void hessian_blocks(double* out, const double* p, int64_t wide, const double* x, int64_t width, int64_t rows,
                    int64_t C) {
    std::vector<double> weighted(static_cast<size_t>(rows * width));
    for (int64_t c = 0; c < C; ++c) {
        for (int64_t d = 0; d <= c; ++d, out += width * width) {
            for (int64_t i = 0; i < rows; ++i) {
                const double h = p[i * wide + c] * (double(c == d) - p[i * wide + d]);
                for (int64_t j = 0; j < width; ++j) weighted[size_t(i * width + j)] = h * x[i * width + j];
            }
            outer(out, weighted.data(), width, x, width, rows, width);
        }
    }
}

// sum_i p_c (1 - p_c) x_j^2
void curvature_sums(double* out, const double* p, int64_t wide, const double* x, int64_t width, int64_t rows,
                    int64_t C) {
    std::vector<double> spread(p, p + rows * wide), square(x, x + rows * width);
    for (double& v : spread) v *= 1 - v;
    for (double& v : square) v *= v;
    outer(out, spread.data(), wide, square.data(), width, rows, C);
}

// One chunk's sums, side by side, and later the sums of all.
struct Sums {
    std::vector<double> gradient, hessian, curvature;
    double loss = 0;
};

void add(double* total, const std::vector<double>& part, double factor) {
    for (size_t k = 0; k < part.size(); ++k) total[k] += factor * part[k];
}

}  // namespace

double LinearLoss::pass(std::span<const double> theta, Wanted wanted) const {
    const int64_t n = rows_.n, C = rows_.C, width = rows_.width(), wide = cpu::padded(C);
    const int64_t chunk = std::max<int64_t>(256, cpu::ceil_div(n, 64));
    const std::vector<double> weights = transposed(theta, C);
    std::vector<Sums> parts(static_cast<size_t>(cpu::ceil_div(n, chunk)));
    cpu::for_each_chunk(n, chunk, [&](int64_t begin, int64_t end) {
        const int64_t rows = end - begin;
        const double* const x = rows_.x.data() + begin * width;
        const int32_t* const labels = rows_.labels.data() + begin;
        Sums& sums = parts[size_t(begin / chunk)];
        std::vector<double> p(static_cast<size_t>(rows * wide));
        cpu::multiply_double(p.data(), wide, {x, width, 1}, weights.data(), wide, rows, wide, C + 1);
        sums.loss = softmax_rows(p.data(), wide, labels, rows, C);
        if (wanted.probs) std::copy(p.begin(), p.end(), wanted.probs + begin * wide);
        if (wanted.hessian) {
            sums.hessian.resize(size_t(C * (C + 1) / 2 * width * width));
            hessian_blocks(sums.hessian.data(), p.data(), wide, x, width, rows, C);
        }
        if (wanted.curvature) {
            sums.curvature.resize(size_t(C * width));
            curvature_sums(sums.curvature.data(), p.data(), wide, x, width, rows, C);
        }
        if (wanted.gradient) {
            for (int64_t i = 0; i < rows; ++i) p[size_t(i * wide + labels[i])] -= 1;
            sums.gradient.resize(size_t(C * width));
            outer(sums.gradient.data(), p.data(), wide, x, width, rows, C);
        }
    });
    double loss = 0;
    for (const Sums& s : parts) {
        loss += s.loss;
        add(wanted.gradient, s.gradient, 1 / double(n));
        add(wanted.hessian, s.hessian, 1 / double(n));
        add(wanted.curvature, s.curvature, 1 / double(n));
    }
    return loss / double(n);
}

// ---- the loss -------------------------------------------------------------------------------------------------------

double LinearLoss::weight_of(int64_t c, int64_t j) const {
    const double C = double(rows_.C);
    return j == rows_.C ? penalty_.mu / C : j == c ? 0 : penalty_.lambda / (C * (C - 1));
}

double LinearLoss::add_penalty(double value, std::span<const double> theta, double* gradient) const {
    const int64_t C = rows_.C;
    for (int64_t c = 0; c < C; ++c) {
        for (int64_t j = 0; j <= C; ++j) {
            const double t = theta[size_t(c * (C + 1) + j)], w = weight_of(c, j);
            value += w * t * t;
            if (gradient) gradient[c * (C + 1) + j] += 2 * w * t;
        }
    }
    return value;
}

double LinearLoss::operator()(std::span<const double> theta, std::span<double> gradient) const {
    const int64_t C = rows_.C, width = rows_.width();
    std::vector<double> wide(static_cast<size_t>(C * width));
    const double nll = pass(theta, {.gradient = wide.data()});
    for (int64_t c = 0; c < C; ++c) std::copy_n(wide.data() + c * width, C + 1, gradient.data() + c * (C + 1));
    return add_penalty(nll, theta, gradient.data());
}

double LinearLoss::nll(std::span<const double> theta) const { return pass(theta, {}); }

double LinearLoss::second_order(std::span<const double> theta, double* gradient, double* hessian) const {
    if (gradient == nullptr) return add_penalty(nll(theta), theta, nullptr);
    const int64_t C = rows_.C, m = C + 1, width = rows_.width(), p = C * m;
    std::vector<double> wide(static_cast<size_t>(C * width)), blocks(static_cast<size_t>(p / 2 * width * width));
    const double nll = pass(theta, {.gradient = wide.data(), .hessian = blocks.data()});
    for (int64_t c = 0; c < C; ++c) std::copy_n(wide.data() + c * width, m, gradient + c * m);
    const double* block = blocks.data();
    for (int64_t c = 0; c < C; ++c) {
        for (int64_t d = 0; d <= c; ++d, block += width * width) {
            for (int64_t j = 0; j < m; ++j) std::copy_n(block + j * width, m, hessian + (c * m + j) * p + d * m);
        }
        for (int64_t j = 0; j < m; ++j) hessian[(c * m + j) * (p + 1)] += 2 * weight_of(c, j);
    }
    return add_penalty(nll, theta, gradient);
}

std::vector<double> LinearLoss::curvature(std::span<const double> theta) const {
    const int64_t C = rows_.C, width = rows_.width();
    std::vector<double> wide(static_cast<size_t>(C * width)), diagonal;
    pass(theta, {.curvature = wide.data()});
    for (int64_t c = 0; c < C; ++c) {
        for (int64_t j = 0; j <= C; ++j) diagonal.push_back(wide[size_t(c * width + j)] + 2 * weight_of(c, j));
    }
    return diagonal;
}

// ---- fitting and applying -------------------------------------------------------------------------------------------

Solved fit_linear(const LinearRows& rows, Odir penalty, std::span<double> theta, const LinearEffort& effort) {
    const LinearLoss loss(rows, penalty);
    if (rows.C <= kNewtonClasses) {
        return minimise_newton([&](auto t, double* g, double* h) { return loss.second_order(t, g, h); }, theta);
    }
    int calls = 0;
    const auto f = [&](std::span<const double> t, std::span<double> g) {
        const double value = loss(t, g);
        if (effort.progress) effort.progress(1 - std::pow(0.99, ++calls), "objective " + std::to_string(value));
        return value;
    };
    return minimise_lbfgs(
        f, theta,
        {.iterations = effort.iterations,
         .gradient = effort.gradient,
         .change = effort.change,
         .precondition = rows.C <= kBlockClasses ? loss.by_class(theta) : by_diagonal(loss.curvature(theta))});
}

std::vector<double> diagonal_theta(int64_t C, double factor) {
    std::vector<double> theta(static_cast<size_t>(C * (C + 1)));
    for (int64_t c = 0; c < C; ++c) theta[size_t(c * (C + 1) + c)] = factor;
    return theta;
}

void apply_linear(double* out, const double* z, int64_t rows, int64_t C, std::span<const double> theta) {
    const int64_t wide = cpu::padded(C);
    const std::vector<double> weights = transposed(theta, C);
    std::vector<double> logits(static_cast<size_t>(rows * wide));
    cpu::multiply_double(logits.data(), wide, {z, C, 1}, weights.data(), wide, rows, wide, C);
    const double* const b = weights.data() + C * wide;
    for (int64_t i = 0; i < rows; ++i) {
        for (int64_t c = 0; c < C; ++c) out[i * C + c] = logits[size_t(i * wide + c)] + b[c];
    }
}

}  // namespace lc

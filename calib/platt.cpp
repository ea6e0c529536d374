// platt.cpp -- see platt.h.
#include "calib/platt.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "calib/logistic.h"

namespace lc {

double clip_probability(double p) { return std::clamp(p, 1e-12, 1 - 1e-12); }

double log_odds(double p) {
    const double q = clip_probability(p);
    return std::log(q) - std::log1p(-q);
}

bool all_bounded(std::span<const double> w) {
    return std::all_of(w.begin(), w.end(), [](double x) { return std::abs(x) <= 1e100; });
}

std::vector<double> platt_targets(const std::vector<double>& positive) {
    const double n = double(positive.size()), yes = std::accumulate(positive.begin(), positive.end(), 0.0);
    std::vector<double> t;
    for (const double y : positive) t.push_back(y > 0 ? (yes + 1) / (yes + 2) : 1 / (n - yes + 2));
    return t;
}

namespace {

// No row of the class, or no other row: 0/1 targets want a constant 0 or 1, at an infinite intercept.
bool constant(const std::vector<double>& positive) {
    return std::adjacent_find(positive.begin(), positive.end(), std::not_equal_to<>()) == positive.end();
}

ClassFit constant_fit(double positive, int64_t k) {
    ClassFit fit;
    fit.parameters.assign(size_t(k) + 1, 0.0);
    fit.parameters.back() = positive > 0 ? INFINITY : -INFINITY;
    return fit;
}

ClassFit fit_log_odds(const ClassRows& rows, const std::vector<double>& target) {
    std::vector<double> x = rows.scores();
    for (double& v : x) v = log_odds(v);
    const LogisticFit fit = fit_logistic({.n = rows.n, .k = 1, .x = x.data(), .target = target.data()});
    return {fit.w, fit.converged};
}

ClassFit fit_platt(const ClassRows& rows) { return fit_log_odds(rows, platt_targets(rows.positives())); }

ClassFit fit_plain(const ClassRows& rows) {
    const std::vector<double> positive = rows.positives();
    return constant(positive) ? constant_fit(positive[0], 1) : fit_log_odds(rows, positive);
}

ClassFit fit_authors(const ClassRows& rows) {
    const std::vector<double> positive = rows.positives();
    if (constant(positive)) return constant_fit(positive[0], rows.C);
    const LogisticFit fit =
        fit_logistic({.n = rows.n, .k = rows.C, .x = rows.p, .target = positive.data(), .ridge = 1});
    return {fit.w, fit.converged};
}

double apply_log_odds(std::span<const double> w, const double* row, int64_t, int64_t c) {
    return sigmoid(w[0] * log_odds(row[c]) + w[1]);
}

double apply_row(std::span<const double> w, const double* row, int64_t C, int64_t) {
    double z = w[size_t(C)];
    for (int64_t j = 0; j < C; ++j) z += w[size_t(j)] * row[j];
    return sigmoid(z);
}

// The intercept may be infinite (constant_fit).
bool valid_weights(std::span<const double> w) {
    return all_bounded(w.first(w.size() - 1)) && (std::isinf(w.back()) || all_bounded(w.last(1)));
}
bool valid_line(std::span<const double> w, int64_t) { return w.size() == 2 && valid_weights(w); }
bool valid_row(std::span<const double> w, int64_t C) { return int64_t(w.size()) == C + 1 && valid_weights(w); }

}  // namespace

const ClassMethod kPlatt = {
    "ps", "auto", "log-odds of p in [1e-12, 1 - 1e-12], Platt targets", false, fit_platt, apply_log_odds, valid_line};
const ClassMethod kPlattPlain = {
    "ps", "plain", "log-odds of p in [1e-12, 1 - 1e-12], 0/1 targets", false, fit_plain, apply_log_odds, valid_line};
const ClassMethod kPlattAuthors = {
    "ps", "authors", "all probabilities, 0/1 targets, L2 with C = 1", false, fit_authors, apply_row, valid_row};

}  // namespace lc

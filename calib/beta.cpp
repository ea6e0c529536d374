// beta.cpp -- see beta.h.
#include "calib/beta.h"

#include <cmath>

#include "calib/logistic.h"
#include "calib/platt.h"

namespace lc {
namespace {

struct Columns {
    std::vector<double> both, below, above;  // (n, 2): ln p and -ln(1 - p); (n) each
};

Columns columns_of(const ClassRows& rows) {
    Columns x;
    for (const double score : rows.scores()) {
        const double p = clip_probability(score);
        x.below.push_back(std::log(p));
        x.above.push_back(-std::log1p(-p));
        x.both.push_back(x.below.back());
        x.both.push_back(x.above.back());
    }
    return x;
}

ClassFit fit_to(const ClassRows& rows, const std::vector<double>& target) {
    const Columns x = columns_of(rows);
    const auto solve = [&](const std::vector<double>& columns, int64_t k) {
        return fit_logistic({.n = rows.n, .k = k, .x = columns.data(), .target = target.data()});
    };
    const LogisticFit both = solve(x.both, 2);
    if (both.w[0] >= 0 && both.w[1] >= 0) return {both.w, both.converged};
    const LogisticFit a = solve(x.below, 1), b = solve(x.above, 1), none = solve({}, 0);
    double least = none.loss;
    ClassFit best = {{0, 0, none.w[0]}, none.converged};
    if (a.w[0] >= 0 && a.loss < least) least = a.loss, best = {{a.w[0], 0, a.w[1]}, a.converged};
    if (b.w[0] >= 0 && b.loss < least) best = {{0, b.w[0], b.w[1]}, b.converged};
    return best;
}

ClassFit fit_beta(const ClassRows& rows) { return fit_to(rows, platt_targets(rows.positives())); }
ClassFit fit_plain(const ClassRows& rows) { return fit_to(rows, rows.positives()); }

double apply(std::span<const double> w, const double* row, int64_t, int64_t c) {
    const double p = clip_probability(row[c]);
    return sigmoid(w[0] * std::log(p) - w[1] * std::log1p(-p) + w[2]);
}

bool valid(std::span<const double> w, int64_t) { return w.size() == 3 && w[0] >= 0 && w[1] >= 0 && all_bounded(w); }

}  // namespace

const ClassMethod kBeta = {"beta", "auto", "a, b >= 0, p in [1e-12, 1 - 1e-12], Platt targets", false, fit_beta,
                           apply,  valid};
const ClassMethod kBetaPlain = {"beta", "plain", "a, b >= 0, p in [1e-12, 1 - 1e-12], 0/1 targets", false, fit_plain,
                                apply,  valid};

}  // namespace lc

// odir_search.cpp -- see odir_search.h.
#include "calib/odir_search.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "calib/options.h"
#include "kernels/check.h"

namespace lc {

namespace {

// Good enough to tell penalties apart.  Where rows are so few that a weak penalty lets them be separated, the weights
// would grow for long and the held-out log-loss with them: there the curve is too low, and still far above its minimum.
const LinearEffort kForScores = {.iterations = 300, .gradient = 1e-6, .change = 1e-6};

std::string text_of(Odir p) {
    const std::string lambda = number_text(p.lambda);
    return p.mu == p.lambda ? lambda : lambda + "/" + number_text(p.mu);
}

const OdirPoint& best_of(const std::vector<OdirPoint>& curve) {
    const auto better = [](const OdirPoint& a, const OdirPoint& b) { return a.nll < b.nll; };
    return *std::min_element(curve.begin(), curve.end(), better);  // the first of equals
}

struct Fold {
    LinearRows fit, held;
};
Fold deal(const LinearRows& rows, int64_t fold, int64_t folds) {
    std::vector<int64_t> fit, held;
    for (int64_t i = 0; i < rows.n; ++i) (i % folds == fold ? held : fit).push_back(i);
    return {rows.where(fit), rows.where(held)};
}

// The grid on every fold, each fit starting where the last one ended.
OdirSearch walk(const LinearRows& rows, const std::vector<Odir>& grid, int64_t folds, const std::vector<double>& start,
                const Progress& progress) {
    OdirSearch s;
    for (const Odir& p : grid) s.curve.push_back({p, 0});
    for (int64_t fold = 0; fold < folds; ++fold) {
        const Fold part = deal(rows, fold, folds);
        std::vector<double> theta = start;
        for (size_t k = 0; k < grid.size(); ++k) {
            s.unfinished += fit_linear(part.fit, grid[k], theta, kForScores).ended != Ended::converged;
            const double nll = LinearLoss(part.held, {}).nll(theta);
            s.curve[k].nll += nll * double(part.held.n) / double(rows.n);
            if (!progress) continue;
            progress((double(fold) * double(grid.size()) + double(k + 1)) / double(folds * int64_t(grid.size())),
                     "fold " + std::to_string(fold + 1) + " of " + std::to_string(folds) + ", lambda " +
                         text_of(grid[k]) + ", log-loss " + std::to_string(nll));
        }
    }
    s.best = best_of(s.curve).penalty;
    return s;
}

bool at_edge(Odir p, double top) { return p.lambda >= top || p.mu >= top; }

}  // namespace

std::vector<Odir> odir_grid(bool square) {
    std::vector<double> decades;
    for (int e = 2; e >= -4; --e) decades.push_back(std::pow(10.0, e));
    std::vector<Odir> grid;
    for (double lambda : decades) {
        if (!square) {
            grid.push_back({lambda, lambda});
            continue;
        }
        for (double mu : decades) grid.push_back({lambda, mu});
        std::reverse(decades.begin(), decades.end());  // a neighbour of the last pair comes next
    }
    return grid;
}

OdirSearch search_odir(const LinearRows& rows, const std::vector<Odir>& grid, int64_t folds,
                       const std::vector<double>& start, const Progress& progress) {
    LC_CHECK(rows.n >= folds, "cross-validation with " << folds << " folds needs as many rows; found " << rows.n
                                                       << "; bring more rows, or give --lambda");
    constexpr double kStrongest = 1e8, kWorthwhile = 1e-4;  // of the log-loss
    OdirSearch s = walk(rows, grid, folds, start, part_of(progress, 0, 0.9));
    double gain = INFINITY;
    for (double top = grid.front().lambda; top < kStrongest && at_edge(s.best, top) && gain > kWorthwhile; top *= 10) {
        const Odir next = {s.best.lambda >= top ? 10 * top : s.best.lambda, s.best.mu >= top ? 10 * top : s.best.mu};
        const double done = 0.9 + 0.1 * (std::log10(top) - 2) / (std::log10(kStrongest) - 2);
        const OdirSearch more = walk(rows, {next}, folds, start, part_of(progress, done, done + 0.01));
        gain = best_of(s.curve).nll - more.curve[0].nll;
        s.curve.insert(s.curve.begin(), more.curve[0]);
        s.unfinished += more.unfinished;
        s.best = best_of(s.curve).penalty;
    }
    if (progress) progress(1, "lambda " + text_of(s.best));
    return s;
}

std::string curve_text(const OdirSearch& s) {
    std::string text;
    for (auto p = s.curve.rbegin(); p != s.curve.rend(); ++p) {
        char value[32];
        std::snprintf(value, sizeof value, ": %.6g", p->nll);
        text += (text.empty() ? "" : ", ") + text_of(p->penalty) + value;
    }
    return text;
}

}  // namespace lc

// isotonic.cpp -- see isotonic.h.
#include "calib/isotonic.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace lc {
namespace {

struct Block {
    double first, last;  // scores
    double sum, weight;  // of y
    double mean() const { return sum / weight; }
};

// Rows with one score as one block, in the order of the scores.
std::vector<Block> group(std::span<const double> x, std::span<const double> y, double merge) {
    std::vector<size_t> order(x.size());
    std::iota(order.begin(), order.end(), size_t(0));
    std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return x[a] < x[b]; });
    std::vector<Block> blocks;
    for (const size_t i : order) {
        const bool same = !blocks.empty() && (x[i] == blocks.back().first || x[i] - blocks.back().first < merge);
        if (!same) blocks.push_back({x[i], x[i], 0, 0});
        blocks.back().sum += y[i];
        blocks.back().weight += 1;
    }
    return blocks;
}

constexpr double kMerge = 1e-6f;  // numpy.finfo(float32).resolution

std::vector<double> as_floats(std::vector<double> v) {
    for (double& x : v) x = double(float(x));
    return v;
}

// Parameters of a class: all x, then all y.
ClassFit pack(const IsotonicMap& map) {
    ClassFit fit = {map.x, true};
    fit.parameters.insert(fit.parameters.end(), map.y.begin(), map.y.end());
    return fit;
}

ClassFit fit_exact(const ClassRows& rows) { return pack(fit_isotonic(rows.scores(), rows.positives())); }

ClassFit fit_authors(const ClassRows& rows) {
    return pack(fit_isotonic(as_floats(rows.scores()), rows.positives(), kMerge));
}

double apply_exact(std::span<const double> xy, const double* row, int64_t, int64_t c) {
    return apply_isotonic(xy.first(xy.size() / 2), xy.subspan(xy.size() / 2), row[c]);
}

double apply_authors(std::span<const double> xy, const double* row, int64_t, int64_t c) {
    return apply_isotonic(xy.first(xy.size() / 2), xy.subspan(xy.size() / 2), double(float(row[c])));
}

bool valid(std::span<const double> xy, int64_t) {
    const size_t m = xy.size() / 2;
    if (m < 1 || xy.size() != 2 * m) return false;
    for (size_t i = 0; i < m; ++i) {
        if (!(xy[i] >= 0 && xy[i] <= 1 && xy[m + i] >= 0 && xy[m + i] <= 1)) return false;
        if (i > 0 && !(xy[i] > xy[i - 1] && xy[m + i] >= xy[m + i - 1])) return false;
    }
    return true;
}

}  // namespace

IsotonicMap fit_isotonic(std::span<const double> x, std::span<const double> y, double merge) {
    std::vector<Block> pooled;
    for (Block b : group(x, y, merge)) {
        // Means are compared without dividing: sums of labels are whole numbers, and so the comparison is exact.
        while (!pooled.empty() && pooled.back().sum * b.weight >= b.sum * pooled.back().weight) {
            const Block& a = pooled.back();
            b = {a.first, b.last, a.sum + b.sum, a.weight + b.weight};
            pooled.pop_back();
        }
        pooled.push_back(b);
    }
    IsotonicMap map;
    for (const Block& b : pooled) {
        map.x.push_back(b.first), map.y.push_back(b.mean());
        if (b.last > b.first) map.x.push_back(b.last), map.y.push_back(b.mean());
    }
    return map;
}

double apply_isotonic(std::span<const double> x, std::span<const double> y, double at) {
    if (at <= x.front()) return y.front();
    if (at >= x.back()) return y.back();
    const size_t above = size_t(std::upper_bound(x.begin(), x.end(), at) - x.begin()), below = above - 1;
    return std::lerp(y[below], y[above], (at - x[below]) / (x[above] - x[below]));
}

const ClassMethod kIsotonic = {
    "ir", "auto", "double, equal scores pooled, linear between corners, floor", true, fit_exact, apply_exact, valid};
const ClassMethod kIsotonicAuthors = {
    "ir",          "authors", "float, scores within 1e-6 pooled, linear between corners, no floor", false, fit_authors,
    apply_authors, valid};

}  // namespace lc

// proper.cpp -- see proper.h.
#include "metrics/proper.h"

#include <algorithm>
#include <cmath>

#include "kernels/check.h"
#include "kernels/parallel.h"

namespace lc {
namespace {

constexpr double kAuthorsShift = 1e-12;
constexpr int64_t kRows = 4096;  // that a thread takes at a time

double log_loss(const Predictions& s, int64_t i, NllMode mode, double floor) {
    const int64_t at = i * s.C + s.labels[size_t(i)];
    if (mode == NllMode::logits) return -s.log_p[size_t(at)];
    const double p = s.p[size_t(at)];
    return -std::log(mode == NllMode::floor ? std::max(p, floor) : p + kAuthorsShift);
}

double square_distance(const Predictions& s, int64_t i) {
    double sum = 0;
    for (int64_t c = 0; c < s.C; ++c) {
        const double off = s.row(i)[c] - (s.labels[size_t(i)] == c ? 1.0 : 0.0);
        sum += off * off;
    }
    return sum;
}

template <class Value>
std::vector<double> for_each_row(int64_t n, const Value& value) {
    std::vector<double> each(static_cast<size_t>(n));
    cpu::for_each_chunk(n, kRows, [&](int64_t i, int64_t end) {
        for (; i < end; ++i) each[size_t(i)] = value(i);
    });
    return each;
}

}  // namespace

std::vector<double> each_hit(const Predictions& s) {
    return for_each_row(s.n, [&](int64_t i) { return double(top_class(s.row(i), s.C) == s.labels[size_t(i)]); });
}

std::vector<double> each_nll(const Predictions& s, NllMode mode, double floor) {
    LC_CHECK(mode != NllMode::logits || !s.log_p.empty(),
             "nll: there are probabilities but no logits; take the mode `floor` or `authors`");
    LC_CHECK(floor > 0 && floor <= 1, "nll: expected a floor above 0, found " << floor);
    return for_each_row(s.n, [&](int64_t i) { return log_loss(s, i, mode, floor); });
}

std::vector<double> each_brier(const Predictions& s) {
    return for_each_row(s.n, [&](int64_t i) { return square_distance(s, i); });
}

double mean_of(std::span<const double> each, Counts counts) {
    double sum = 0, rows = 0;
    for (size_t i = 0; i < each.size(); ++i) {
        const double k = count_of_row(counts, int64_t(i));
        sum += k * each[i];
        rows += k;
    }
    return sum / rows;
}

double acc(const Predictions& s) { return mean_of(each_hit(s)); }

Nll nll(const Predictions& s, NllMode mode, double floor) {
    Nll result = {mean_of(each_nll(s, mode, floor)), mode == NllMode::floor ? floor : 0};
    for (int64_t i = 0; i < s.n; ++i) result.impossible += s.row(i)[s.labels[size_t(i)]] == 0;
    return result;
}

double brier(const Predictions& s) { return mean_of(each_brier(s)); }

}  // namespace lc

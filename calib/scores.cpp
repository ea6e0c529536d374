// scores.cpp -- see scores.h.
#include "calib/scores.h"

#include <algorithm>
#include <cfloat>
#include <cmath>
#include <numeric>

#include "kernels/parallel.h"

namespace lc {

void log_softmax_row(double* z, int64_t C) {
    const double top = *std::max_element(z, z + C);
    double sum = 0;
    for (int64_t c = 0; c < C; ++c) sum += std::exp(z[c] - top);
    const double shift = top + std::log(sum);
    for (int64_t c = 0; c < C; ++c) z[c] -= shift;
}

namespace {

// Logits of a row -> its probabilities.
void to_probs(double* row, int64_t C) {
    const double top = *std::max_element(row, row + C);
    double sum = 0;
    for (int64_t c = 0; c < C; ++c) sum += row[c] = std::exp(row[c] - top);
    for (int64_t c = 0; c < C; ++c) row[c] /= sum;
}

void from_probs(double* row, int64_t C, Scores kind) {
    for (int64_t c = 0; c < C; ++c) {
        const double p = std::clamp(row[c], 0.0, 1.0);  // may be beyond by rounding
        row[c] = kind == Scores::probs     ? p
                 : kind == Scores::authors ? std::log(p + 1e-12)
                                           : std::log(std::max(p, double(FLT_MIN)));
    }
}

void from_logits(double* row, int64_t C, Scores kind) {
    if (kind == Scores::logits) return;
    if (kind != Scores::log_probs) {
        to_probs(row, C);
        return from_probs(row, C, kind);
    }
    log_softmax_row(row, C);
    for (int64_t c = 0; c < C; ++c) row[c] = std::max(row[c], std::log(double(FLT_MIN)));
}

}  // namespace

std::vector<double> scores_of(const Samples& s, Scores kind) {
    std::vector<double> z(static_cast<size_t>(s.n * s.C));
    cpu::for_each_chunk(s.n, 256, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) {
            double* const row = z.data() + i * s.C;
            if (s.probs) {
                std::copy_n(s.probs + i * s.C, s.C, row);
                from_probs(row, s.C, kind);
            } else {
                std::copy_n(s.logits + i * s.C, s.C, row);
                from_logits(row, s.C, kind);
            }
        }
    });
    return z;
}

ScoredRows scored_rows(const Samples& s, Scores kind) {
    const std::vector<double> z = scores_of(s, kind);
    std::vector<int64_t> order(static_cast<size_t>(s.n));
    std::iota(order.begin(), order.end(), 0);
    std::sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
        if (s.labels[a] != s.labels[b]) return s.labels[a] < s.labels[b];
        const double *const x = z.data() + a * s.C, *const y = z.data() + b * s.C;
        return std::lexicographical_compare(x, x + s.C, y, y + s.C);
    });
    ScoredRows rows = {s.n, s.C, {}, {}};
    rows.z.reserve(z.size());
    for (int64_t i : order) {
        rows.z.insert(rows.z.end(), z.begin() + i * s.C, z.begin() + (i + 1) * s.C);
        rows.labels.push_back(s.labels[i]);
    }
    return rows;
}

std::string absent_classes(const Samples& s) {
    std::vector<bool> seen(static_cast<size_t>(s.C));
    for (int64_t i = 0; i < s.n; ++i) seen[size_t(s.labels[i])] = true;
    std::string list;
    int64_t absent = 0;
    for (int64_t c = 0; c < s.C; ++c) {
        if (seen[size_t(c)]) continue;
        if (++absent <= 5) list += (absent == 1 ? " " : ", ") + std::to_string(c);
    }
    if (absent == 0) return "";
    return (absent == 1 ? "class" : "classes") + list +
           (absent > 5 ? " and " + std::to_string(absent - 5) + " more" : "");
}

}  // namespace lc

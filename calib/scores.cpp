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

std::vector<double> scores_of(const Samples& s, Scores kind) {
    const double least = std::log(double(FLT_MIN));
    std::vector<double> z(static_cast<size_t>(s.n * s.C));
    cpu::for_each_chunk(s.n, 1024, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) {
            double* const row = z.data() + i * s.C;
            for (int64_t c = 0; c < s.C; ++c) {
                row[c] =
                    s.probs ? std::log(std::max(s.probs[i * s.C + c], double(FLT_MIN))) : double(s.logits[i * s.C + c]);
            }
            if (kind == Scores::logits) continue;
            if (!s.probs) log_softmax_row(row, s.C);
            for (int64_t c = 0; c < s.C; ++c) {
                row[c] = kind == Scores::log_probs ? std::max(row[c], least)
                         : s.probs                 ? std::log(s.probs[i * s.C + c] + 1e-12)
                                                   : std::log(std::exp(row[c]) + 1e-12);
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

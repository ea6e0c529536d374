// bounds.cpp -- see bounds.h.
#include "metrics/bounds.h"

#include <algorithm>
#include <cmath>

#include "kernels/check.h"

namespace lc {
namespace {

void check_premise(const Premise& p) {
    LC_CHECK(std::isfinite(p.epsilon) && p.epsilon >= 0,
             "bounds: expected an epsilon of at least 0, found " << p.epsilon);
    LC_CHECK(p.delta > 0 && p.delta < 1, "bounds: expected a delta between 0 and 1, found " << p.delta);
}

double log_count(double k, const Premise& p) { return std::log(2 * k / p.delta); }

// Hoeffding's deviation of a mean of `rows` labels, or of a weighted mean that is worth as many.
double deviation(double log_k, double rows) { return std::sqrt(log_k / (2 * rows)); }

// Adds the terms up, and begins the note with what is true of every bound.
Bound finish(Bound b, const Premise& p, const std::string& note) {
    for (const auto& [name, value] : b.terms) b.bound += value;
    b.note = p.plug_in ? kPlugInNote : "";
    if (!note.empty()) b.note += (b.note.empty() ? "" : "; ") + note;
    return b;
}

void check_neighbourhoods(const Neighbourhoods& g, std::span<const double> pi, bool with_spread) {
    check_weights(pi, g.C);
    const size_t entries = size_t(g.n * g.C);
    LC_CHECK(g.n >= 1 && g.bin.size() == entries && g.n_eff.size() == entries,
             "bounds: expected bin and n_eff of " << entries << " entries, found " << g.bin.size() << " and "
                                                  << g.n_eff.size());
    LC_CHECK(!with_spread || g.spread.size() == entries,
             "bounds: theorem 3 needs spread of " << entries << " entries, found " << g.spread.size());
    for (size_t k = 0; k < entries; ++k) {
        LC_CHECK(g.bin[k] < 0 || (std::isfinite(g.n_eff[k]) && (!with_spread || std::isfinite(g.spread[k]))),
                 "bounds: expected finite n_eff and spread, found others in row " << int64_t(k) / g.C);
    }
}

double worth(float n_eff) { return std::max(1.0, double(n_eff)); }

// (B, C): the smallest n_eff of the entries of a bin; 1 where the table has rows that no entry speaks of.
std::vector<double> least_n_eff(const BinTable& t, const Neighbourhoods& g) {
    std::vector<double> least(t.rows.size(), INFINITY);
    for (int64_t i = 0; i < g.n; ++i) {
        for (int64_t c = 0; c < g.C; ++c) {
            const int32_t b = g.bin[size_t(i * g.C + c)];
            LC_CHECK(b < t.B, "bounds: expected bins below " << t.B << ", found " << b << " in row " << i);
            if (b >= 0) least[t.at(b, c)] = std::min(least[t.at(b, c)], worth(g.n_eff[size_t(i * g.C + c)]));
        }
    }
    for (double& l : least) l = std::isinf(l) ? 1 : l;
    return least;
}

// L sum_bc w_bc pi_c (epsilon + noise_bc), as two terms.
template <class Noise>
std::vector<std::pair<std::string, double>> binned_terms(const BinTable& t, std::span<const double> pi,
                                                         const Premise& p, double lipschitz, const Noise& noise) {
    check_weights(pi, t.C);
    double weight = 0, sum = 0;
    for (int64_t b = 0; b < t.B; ++b) {
        for (int64_t c = 0; c < t.C; ++c) {
            const double share = t.rows[t.at(b, c)] / t.n * pi[size_t(c)];
            if (share == 0) continue;
            weight += share;
            sum += share * noise(t.at(b, c));
        }
    }
    return {{"epsilon", lipschitz * weight * p.epsilon}, {"deviation", lipschitz * sum}};
}

// sum_c pi_c of the mean of value(entry) over the entries of the class that are kept; a class without any adds nothing.
template <class Value>
double mean_by_class(const Neighbourhoods& g, std::span<const double> pi, const Value& value) {
    double sum = 0;
    for (int64_t c = 0; c < g.C; ++c) {
        double total = 0, kept = 0;
        for (int64_t k = c; k < g.n * g.C; k += g.C) {
            if (g.bin[size_t(k)] < 0) continue;
            total += value(size_t(k));
            kept += 1;
        }
        if (kept > 0) sum += pi[size_t(c)] * total / kept;
    }
    return sum;
}

double l1(const std::vector<double>& a, const std::vector<double>& b) {
    double sum = 0;
    for (size_t c = 0; c < a.size(); ++c) sum += std::abs(a[c] - b[c]);
    return sum;
}

// What both proximity bounds share: the measured difference, epsilon twice and the difference in confidence.
Bound proximity_terms(const char* name, const GroupMeans& s1, const GroupMeans& s2, const Premise& p) {
    check_premise(p);
    LC_CHECK(s1.rows >= 1 && s2.rows >= 1 && s1.freq.size() == s2.freq.size(),
             "bounds: expected two groups with rows of the same classes, found " << s1.rows << " and " << s2.rows
                                                                                 << " rows");
    return {.name = name,
            .measured = l1(s1.freq, s2.freq),
            .terms = {{"2 epsilon", 2 * p.epsilon}, {"confidence", l1(s1.conf, s2.conf)}}};
}

}  // namespace

Bound theorem_2(double measured, const BinTable& t, std::span<const double> pi, const Premise& p, double lipschitz) {
    check_premise(p);
    const double log_k = log_count(double(t.C * t.B), p);
    const auto noise = [&](size_t bin) { return deviation(log_k, t.rows[bin]); };
    return finish({"theorem 2", measured, 0, binned_terms(t, pi, p, lipschitz, noise)}, p, "");
}

Bound theorem_2_finite(double measured, const BinTable& t, const Neighbourhoods& near, std::span<const double> pi,
                       const Premise& p, double lipschitz) {
    check_premise(p);
    check_neighbourhoods(near, pi, false);
    const std::vector<double> least = least_n_eff(t, near);
    const double log_k = log_count(double(t.C * t.B), p);
    const auto noise = [&](size_t bin) { return 2 * deviation(log_k, least[bin]); };
    return finish({"theorem 2, finite sample", measured, 0, binned_terms(t, pi, p, lipschitz, noise)}, p,
                  "a bias of order gamma^2 is left out: it has no known constant");
}

Bound ecce_bound(double measured, const BinTable& t, std::span<const double> pi, const Premise& p) {
    check_premise(p);
    check_weights(pi, t.C);
    const double log_k = log_count(double(t.C * t.B), p);
    double weight = 0, noise = 0;
    for (int64_t c = 0; c < t.C; ++c) {
        double least = INFINITY, cumulative = 0, sum = 0;
        for (int64_t b = 0; b < t.B; ++b) {
            const double rows = t.rows[t.at(b, c)];
            if (rows == 0) continue;
            least = std::min(least, rows);
            sum += cumulative += rows;
        }
        if (cumulative == 0) continue;
        weight += pi[size_t(c)] * sum / t.n;
        noise += pi[size_t(c)] * sum / t.n * deviation(log_k, least);
    }
    return finish(
        {.name = "ecce", .measured = measured, .terms = {{"epsilon", weight * p.epsilon}, {"deviation", noise}}}, p,
        "of the sum over bins (ecce `paper`); the published proof drops the 2 in the logarithm, kept here");
}

Bound theorem_3(double measured, const Neighbourhoods& near, std::span<const double> pi, const Premise& p,
                double lipschitz) {
    check_premise(p);
    check_neighbourhoods(near, pi, true);
    const double log_k = log_count(double(near.n * near.C), p);
    const double noise = mean_by_class(near, pi, [&](size_t k) { return 2 * deviation(log_k, worth(near.n_eff[k])); });
    const double bias = mean_by_class(near, pi, [&](size_t k) { return double(near.spread[k]); });
    return finish({.name = "theorem 3",
                   .measured = measured,
                   .terms = {{"epsilon", p.epsilon}, {"deviation", noise}, {"bias", lipschitz * bias}}},
                  p, "a reduced space has no Lipschitz constant: spread is that of the logits, with L = 1");
}

Bound theorem_3_tight(double measured, const Neighbourhoods& near, std::span<const double> pi, const Premise& p) {
    check_premise(p);
    check_neighbourhoods(near, pi, false);
    const double log_k = log_count(double(near.n * near.C), p);
    const double noise = mean_by_class(near, pi, [&](size_t k) { return deviation(log_k, worth(near.n_eff[k])); });
    return finish(
        {.name = "theorem 3, tight", .measured = measured, .terms = {{"epsilon", p.epsilon}, {"deviation", noise}}}, p,
        "");
}

GroupMeans group_means(const Predictions& s, std::span<const int64_t> rows) {
    LC_CHECK(!rows.empty(), "bounds: expected a group with rows, found an empty one");
    GroupMeans g = {double(rows.size()), std::vector<double>(size_t(s.C), 0.0), std::vector<double>(size_t(s.C), 0.0)};
    for (const int64_t i : rows) {
        LC_CHECK(i >= 0 && i < s.n, "bounds: expected rows from 0 to " << s.n - 1 << ", found " << i);
        for (int64_t c = 0; c < s.C; ++c) g.conf[size_t(c)] += s.row(i)[c] / g.rows;
        g.freq[size_t(s.labels[size_t(i)])] += 1 / g.rows;
    }
    return g;
}

Bound proximity_bias_published(const GroupMeans& s1, const GroupMeans& s2, const Premise& p) {
    Bound b = proximity_terms("proximity bias, as published", s1, s2, p);
    const double C = double(s1.freq.size());
    b.terms.emplace_back("deviation", std::sqrt(2 * std::log(4 * C / p.delta) / std::min(s1.rows, s2.rows)));
    b.proven = false;
    return finish(b, p,
                  C > 2 ? "false for more than 2 classes: it bounds a sum over classes by one of them"
                        : "not proven: it bounds a sum over 2 classes by one of them; false for delta below .01");
}

Bound proximity_bias(const GroupMeans& s1, const GroupMeans& s2, const Premise& p) {
    Bound b = proximity_terms("proximity bias", s1, s2, p);
    const double C = double(s1.freq.size());
    const auto noise = [&](double rows) { return std::sqrt(C / rows) + std::sqrt(2 * std::log(2 / p.delta) / rows); };
    b.terms.emplace_back("deviation of the first group", noise(s1.rows));
    b.terms.emplace_back("deviation of the second group", noise(s2.rows));
    return finish(b, p, "");
}

}  // namespace lc

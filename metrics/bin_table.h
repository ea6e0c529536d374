// bin_table.h -- how many rows each bin holds, what was expected of them and what happened.  Every binned metric is a
// function of this.
//
//     BinTable t = tabulate(s, assign_bins_by_class(s, {.bins = 15}), 15);
//     double e = binned_metric(t, pi, [](double freq, double conf) { return std::abs(freq - conf); });   class-wise ECE
//
//     E = sum_b sum_c w_bc pi_c phi(freq_bc, conf_bc)             the general binned metric, over bins that hold rows
//
// phi compares, pi weighs the classes, w the bins: rows_bc / n unless given.  Bins are intervals of each class's own
// probability (a bin per row and class: BinTable) or any sets of rows (a bin per row: Cells), by confidence, by a grid
// on the simplex, by proximity, by region.
#pragma once
#include <algorithm>

#include "metrics/bins.h"

namespace lc {

struct BinTable {
    int64_t B = 0, C = 0;
    double n = 0;                            // rows, each as often as it counts
    std::vector<double> rows, sum_p, sum_y;  // (B, C)

    size_t at(int64_t b, int64_t c) const { return size_t(b * C + c); }
    double conf(int64_t b, int64_t c) const { return sum_p[at(b, c)] / rows[at(b, c)]; }  // of a bin that holds rows
    double freq(int64_t b, int64_t c) const { return sum_y[at(b, c)] / rows[at(b, c)]; }
};

// bin (n, C): -1 is an entry that is left out, others are below B.  The second form has one 'class', bin (n).
BinTable tabulate(const Predictions& s, std::span<const int32_t> bin, int64_t B, Counts counts = {});
BinTable tabulate(const Outcomes& o, std::span<const int32_t> bin, int64_t B, Counts counts = {});

template <class Phi>
double binned_metric(const BinTable& t, std::span<const double> pi, const Phi& phi, std::span<const double> w = {}) {
    double sum = 0;
    for (int64_t b = 0; b < t.B; ++b) {
        for (int64_t c = 0; c < t.C; ++c) {
            if (t.rows[t.at(b, c)] == 0) continue;
            const double share = w.empty() ? t.rows[t.at(b, c)] / t.n : w[t.at(b, c)];
            sum += share * pi[size_t(c)] * phi(t.freq(b, c), t.conf(b, c));
        }
    }
    return sum;
}

// The rows of every cell, one cell after the other; cells that nobody is in take no memory.
struct Cells {
    std::vector<int64_t> order;  // (n)
    std::vector<int64_t> begin;  // (cells + 1): cell b has order[begin[b]] .. order[begin[b + 1] - 1]
    int64_t size() const { return int64_t(begin.size()) - 1; }
};

// Rows that are neither less nor greater share a cell.
template <class Less>
Cells group_rows(int64_t n, const Less& less) {
    Cells cells;
    for (int64_t i = 0; i < n; ++i) cells.order.push_back(i);
    std::stable_sort(cells.order.begin(), cells.order.end(), less);
    for (int64_t k = 0; k < n; ++k) {
        if (k == 0 || less(cells.order[size_t(k) - 1], cells.order[size_t(k)])) cells.begin.push_back(k);
    }
    cells.begin.push_back(n);
    return cells;
}
inline Cells group_rows(std::span<const int32_t> cell) {  // (n), any numbers
    return group_rows(int64_t(cell.size()), [&](int64_t i, int64_t j) { return cell[size_t(i)] < cell[size_t(j)]; });
}

template <class Phi>
double binned_metric(const Predictions& s, const Cells& cells, std::span<const double> pi, const Phi& phi,
                     Counts counts = {}) {
    double total = 0, sum = 0;
    std::vector<double> p(size_t(s.C)), y(size_t(s.C));  // sums of one cell
    for (int64_t b = 0; b < cells.size(); ++b) {
        std::fill(p.begin(), p.end(), 0.0);
        std::fill(y.begin(), y.end(), 0.0);
        double rows = 0, of_cell = 0;
        for (int64_t k = cells.begin[size_t(b)]; k < cells.begin[size_t(b) + 1]; ++k) {
            const int64_t i = cells.order[size_t(k)];
            const double times = count_of_row(counts, i);
            if (times == 0) continue;
            for (int64_t c = 0; c < s.C; ++c) p[size_t(c)] += times * s.row(i)[c];
            y[size_t(s.labels[size_t(i)])] += times;
            rows += times;
        }
        if (rows == 0) continue;
        total += rows;
        for (size_t c = 0; c < p.size(); ++c) of_cell += pi[c] * phi(y[c] / rows, p[c] / rows);
        sum += rows * of_cell;
    }
    return sum / total;
}

}  // namespace lc

// bin_table.cpp -- see bin_table.h.
#include "metrics/bin_table.h"

#include <algorithm>

#include "kernels/check.h"
#include "kernels/parallel.h"

namespace lc {
namespace {

BinTable empty_table(int64_t B, int64_t C) {
    const std::vector<double> zeros(size_t(B * C), 0.0);
    return {B, C, 0, zeros, zeros, zeros};
}

void check_assignment(std::span<const int32_t> bin, int64_t entries, int64_t B, Counts counts, int64_t n) {
    LC_CHECK(int64_t(bin.size()) == entries,
             "bins: expected one for each of " << entries << " entries, found " << bin.size());
    LC_CHECK(counts.empty() || int64_t(counts.size()) == n,
             "bins: expected a count for each of " << n << " rows, found " << counts.size());
    const int32_t last = int32_t(B) - 1;
    int32_t outside = 0;  // summed without a branch: this runs once per replicate of a bootstrap
    for (const int32_t b : bin) outside |= int32_t(b < -1) | int32_t(b > last);
    LC_CHECK(outside == 0, "bins: expected numbers from -1 to " << B - 1 << ", found others; assign_bins makes them");
}

// Rows [begin, end) into a table of their own.
void add_rows(BinTable& t, const Predictions& s, const int32_t* bin, Counts counts, int64_t begin, int64_t end) {
    const int64_t C = s.C;
    double* const rows = t.rows.data();
    double* const sum_p = t.sum_p.data();
    for (int64_t i = begin; i < end; ++i) {
        const double times = count_of_row(counts, i);
        if (times == 0) continue;
        const int32_t* b = bin + i * C;
        const double* p = s.row(i);
        for (int64_t c = 0; c < C; ++c) {
            if (b[c] < 0) continue;
            const int64_t at = b[c] * C + c;
            rows[at] += times;
            sum_p[at] += times * p[c];
        }
        const int32_t y = s.labels[size_t(i)];
        if (b[y] >= 0) t.sum_y[t.at(b[y], y)] += times;
        t.n += times;
    }
}

void add_table(BinTable& t, const BinTable& part) {
    t.n += part.n;
    for (size_t k = 0; k < t.rows.size(); ++k) {
        t.rows[k] += part.rows[k];
        t.sum_p[k] += part.sum_p[k];
        t.sum_y[k] += part.sum_y[k];
    }
}

}  // namespace

BinTable tabulate(const Predictions& s, std::span<const int32_t> bin, int64_t B, Counts counts) {
    check_assignment(bin, s.n * s.C, B, counts, s.n);
    // A table for each of at most 32 pieces: where they are cut depends on n alone, and so do the rounding errors.
    const int64_t chunk = std::max<int64_t>(8192, cpu::ceil_div(s.n, 32));
    std::vector<BinTable> parts(size_t(cpu::ceil_div(s.n, chunk)), empty_table(B, s.C));
    cpu::for_each_chunk(s.n, chunk, [&](int64_t begin, int64_t end) {
        add_rows(parts[size_t(begin / chunk)], s, bin.data(), counts, begin, end);
    });
    for (size_t k = 1; k < parts.size(); ++k) add_table(parts[0], parts[k]);
    return std::move(parts[0]);
}

BinTable tabulate(const Outcomes& o, std::span<const int32_t> bin, int64_t B, Counts counts) {
    check_assignment(bin, o.size(), B, counts, o.size());
    BinTable t = empty_table(B, 1);
    for (size_t i = 0; i < bin.size(); ++i) {
        const double times = count_of_row(counts, int64_t(i));
        t.n += times;
        if (bin[i] < 0) continue;
        t.rows[size_t(bin[i])] += times;
        t.sum_p[size_t(bin[i])] += times * o.confidence[i];
        t.sum_y[size_t(bin[i])] += times * o.happened[i];
    }
    return t;
}

}  // namespace lc

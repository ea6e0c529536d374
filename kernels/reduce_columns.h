// reduce_columns.h -- how the CPU backend cuts a reduction along columns, and how it adds the pieces of a sum.
//
// Vectors run along the row and every lane owns a column.  A matrix of few columns is read as a wider one of fewer rows,
// (N, C) as (N / fold, fold C), so that no lane is idle; threads share tiles of rows and columns.  The cuts depend on the
// shape alone, and so does the order of additions.
#pragma once
#include <algorithm>
#include <cstdint>
#include <memory>
#include <vector>

#include "kernels/parallel.h"

namespace lc::cpu {

constexpr int64_t kSegment = 1 << 16;  // elements that one thread takes: the work worth waking it for
constexpr int64_t kTile = 2048;        // columns of a tile: its running sums stay in the first-level cache

// How a column reduction is cut, by its shape alone.
struct ColumnPlan {
    int64_t fold = 1;    // rows of x that make one wide row
    int64_t rows = 0;    // wide rows
    int64_t width = 0;   // fold * C
    int64_t chunk = 0;   // wide rows per chunk
    int64_t chunks = 0;  // at most kMaxChunks, which bounds the memory of partial results, (chunks, width)
    int64_t tiles = 0;   // of kTile columns
    int64_t left = 0;    // rows of x from here on do not fill a wide row

    ColumnPlan(int64_t N, int64_t C) {
        constexpr int64_t kElements = 1 << 18;  // per tile, where there are that many
        constexpr int64_t kMaxChunks = 64;
        if (C < 128) fold = 16 * std::max<int64_t>(1, 8 / C);
        rows = N / fold;
        width = fold * C;
        chunk = std::max(ceil_div(kElements, std::min(width, kTile)), ceil_div(rows, kMaxChunks));
        chunks = ceil_div(rows, chunk);
        tiles = ceil_div(width, kTile);
        left = rows * fold;
    }

    // Calls body(chunk, first row, rows, first column, columns) for every tile of every chunk.
    template <class Body>
    void for_each_tile(const Body& body) const {
        if (rows == 0) return;
        const int64_t tile = std::min(chunk, rows) * std::min(kTile, width);  // elements
        for_each_chunk(chunks * tiles, ceil_div(kSegment, tile), [&](int64_t task, int64_t end) {
            for (; task < end; ++task) {
                const int64_t k = task / tiles, r = k * chunk, w = task % tiles * kTile;
                body(k, r, std::min(chunk, rows - r), w, std::min(kTile, width - w));
            }
        });
    }
};

// total_kc = sum over r of term k at element r C + c, for K terms that are formed from the same loads.
//     tiles(total, pitch, first, stride, rows, width)    total_kw = sum over j < rows of term k at first + j stride + w,
//                                                        in planes of `pitch`
//     element(i, k)                                      a single one, for the rows that do not fill a wide row
template <int K, class Tiles, class Element>
std::vector<double> column_totals(int64_t N, int64_t C, const Tiles& tiles, const Element& element) {
    const ColumnPlan plan(N, C);
    const auto part = std::make_unique_for_overwrite<double[]>(size_t(plan.chunks * K * plan.width));
    plan.for_each_tile([&](int64_t k, int64_t r, int64_t rows, int64_t w, int64_t width) {
        tiles(part.get() + k * K * plan.width + w, plan.width, r * plan.width + w, plan.width, rows, width);
    });
    std::vector<double> total(size_t(K * C), 0.0);               // (K, C)
    for (int64_t i = 0; i < plan.chunks * K * plan.fold; ++i) {  // (chunks, K, fold, C)
        double* const sums = total.data() + i / plan.fold % K * C;
        for (int64_t c = 0; c < C; ++c) sums[c] += part[size_t(i * C + c)];
    }
    for (int64_t i = plan.left * C; i < N * C; ++i) {
        for (int k = 0; k < K; ++k) total[size_t(k * C + i % C)] += double(element(i, k));
    }
    return total;
}

// out_c = (sum over r of element r C + c) / divisor.
//     tile(total, first, stride, rows, width), element(i)    as above, of the one term
template <class Tile, class Element>
void sum_columns(float* out, int64_t N, int64_t C, double divisor, const Tile& tile, const Element& element) {
    const ColumnPlan plan(N, C);
    if (plan.chunks == 1 && plan.fold == 1) {  // no partial results to join
        plan.for_each_tile([&](int64_t, int64_t, int64_t rows, int64_t w, int64_t width) {
            double total[kTile];
            tile(total, w, C, rows, width);
            for (int64_t c = 0; c < width; ++c) out[w + c] = float(total[c] / divisor);
        });
        return;
    }
    const std::vector<double> total = column_totals<1>(
        N, C,
        [&](double* sums, int64_t, int64_t first, int64_t stride, int64_t rows, int64_t width) {
            tile(sums, first, stride, rows, width);
        },
        [&](int64_t i, int) { return element(i); });
    for (int64_t c = 0; c < C; ++c) out[c] = float(total[size_t(c)] / divisor);
}

}  // namespace lc::cpu

// local_error.cpp -- CPU backend of local_error (contract: local_error.h; sums: local_error_table.h; tiles: nw_kernel.h).
//
// Idea     rows stand in blocks of 192.  Two blocks A and B meet once: their squared distances and weights are computed
//          for the panels of A, added to A's sums, turned round, and added to B's sums.
//
//                      B 192 rows                      A 192 rows
//              ┌────────────────────┐          ┌────────────────────┐
//           A  │ w  panel of 16     │  turned  │ w^T                │  B
//              │    panel of 16     │  ----->  │                    │
//              └────────────────────┘          └────────────────────┘
//
// Order    a tournament: in each round every block meets one other, so that no two threads touch the same sums, and
//          the rounds have a fixed order.  Every number of threads gives the same bits.
// Grid     for several bandwidths, and for spread, a thread takes a block of queries and walks over all references: the
//          sums of one block and all bandwidths fit its cache, those of all blocks would not.
// Memory   the rows' table and 3 or 5 n C doubles; for a grid, 5 G C doubles for each of a thread's 192 queries.
// Numbers  float32 within a tile of 192 references, double across tiles.
// Profile  `make bench`
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/local_error.cpp"
#include <hwy/foreach_target.h>

#include "kernels/local_error_kernel.h"

#ifndef LC_KERNELS_LOCAL_ERROR_CPP_ONCE
    #define LC_KERNELS_LOCAL_ERROR_CPP_ONCE
namespace lc::cpu {
namespace {

struct Scratch {
    float* queries;  // (d, kBlock): the panels of a block of queries, one after the other
    float* phi;      // (m, kBlock): the same of phi
    float* tiles;    // (kBlock / kPanel, kBlock, kPanel): weights of all panels of A
    float* tile;     // (kBlock, kPanel)
    float* by_l1;    // (kBlock, kPanel)

    static int64_t floats(const LocalError& in) { return (in.d + in.m + kBlock) * kBlock + 2 * kBlock * kMaxPanel; }
    Scratch(float* memory, const LocalError& in)
        : queries(memory),
          phi(queries + in.d * kBlock),
          tiles(phi + in.m * kBlock),
          tile(tiles + kBlock * kBlock),
          by_l1(tile + kBlock * kMaxPanel) {}
};

}  // namespace
}  // namespace lc::cpu
#endif

HWY_BEFORE_NAMESPACE();
namespace lc::cpu::HWY_NAMESPACE {
namespace {

void pack_block(float* panels, const float* x, int64_t columns, int64_t rows) {
    for (int64_t i = 0; i < rows; i += kPanel) {
        pack_panel(panels + i * columns, x + i * columns, std::min<int64_t>(kPanel, rows - i), columns);
    }
}

// tile (refs, kPanel) = weights times |phi_i - phi_j|_1
void multiply_by_l1(float* tile, const float* weights, const float* panel, const float* phi, int64_t m, int64_t refs) {
    for (int64_t j = 0; j < refs; ++j) {
        for (int v = 0; v < kTileVectors; ++v) {
            V l1 = hn::Zero(df);
            for (int64_t k = 0; k < m; ++k) {
                l1 = hn::Add(l1, hn::Abs(hn::Sub(at(panel + k * kPanel, v), hn::Set(df, phi[j * m + k]))));
            }
            put(hn::Mul(l1, at(weights + j * kPanel, v)), tile + j * kPanel, v);
        }
    }
}

// Blocks a <= b of the same set meet: a's rows get what b's rows give, and the other way round.
void meet(const LocalError& in, const LocalTable& t, const LocalSums& sums_a, const LocalSums& sums_b, int64_t a,
          int64_t b, float* memory) {
    const Scratch scratch(memory, in);
    const float h = exponent_of(in.gammas[0]);
    const int64_t rows_a = t.rows(a), rows_b = t.rows(b), first_a = a * kBlock, first_b = b * kBlock;
    pack_block(scratch.queries, in.Z + first_a * in.d, in.d, rows_a);
    for (int64_t i = 0; i < rows_a; i += kPanel) {
        float* const tile = scratch.tiles + i * kBlock;
        const QueryPanel panel(sums_a, t, a, i);
        prefetch_sums(panel, t.C);
        const Pairs pairs = {first_a + i, std::min<int64_t>(kPanel, rows_a - i), first_b, rows_b};
        distance_tile(tile, in.Z, scratch.queries + i * in.d, in.d, pairs, !in.include_self);
        weights_of(tile, tile, h, rows_b);
        add_tile(panel, tile, nullptr, t, b);
    }
    if (a == b) return;
    for (int64_t j = 0; j < rows_b; j += kPanel) {  // a < b: a has all its rows, only b may lack some
        if (j + kPanel < rows_b) prefetch_sums({sums_b, t, b, j + kPanel}, t.C);
        const int64_t lanes = std::min<int64_t>(kPanel, rows_b - j);
        if (lanes < kPanel) std::fill(scratch.tile, scratch.tile + kBlock * kPanel, 0.0f);
        for (int64_t i = 0; i < kBlock; i += kPanel) {
            const float* const from = scratch.tiles + i * kBlock + j * kPanel;  // (lanes of b, kPanel of a)
            transpose_copy(scratch.tile + i * kPanel, kPanel, from, kPanel, lanes, kPanel);
        }
        add_tile({sums_b, t, b, j}, scratch.tile, nullptr, t, a);
    }
}

// The queries of block a against all references, for all bandwidths.  doubles: LocalSums::doubles() for each of them.
void walk(const LocalError& in, const LocalTable& t, bool squares, bool spreads, int64_t a, double* doubles,
          float* memory) {
    const Scratch scratch(memory, in);
    const int64_t rows = t.rows(a), first = a * kBlock;
    float* const distances = scratch.tiles;  // of one panel only
    pack_block(scratch.queries, in.Z + first * in.d, in.d, rows);
    if (spreads) pack_block(scratch.phi, in.phi + first * in.m, in.m, rows);
    for (int64_t b = 0; b < t.blocks; ++b) {
        const int64_t refs = t.rows(b);
        for (int64_t i = 0; i < rows; i += kPanel) {
            const Pairs pairs = {first + i, std::min<int64_t>(kPanel, rows - i), b * kBlock, refs};
            distance_tile(distances, in.Z, scratch.queries + i * in.d, in.d, pairs, !in.include_self);
            for (int64_t g = 0; g < in.G; ++g) {
                const LocalSums sums(doubles + g * LocalSums::doubles(in.C, squares, spreads), in.C, squares, spreads);
                weights_of(scratch.tile, distances, exponent_of(in.gammas[g]), refs);
                if (spreads) {
                    multiply_by_l1(scratch.by_l1, scratch.tile, scratch.phi + i * in.m, in.phi + b * kBlock * in.m,
                                   in.m, refs);
                }
                add_tile({sums, t, a, i}, scratch.tile, spreads ? scratch.by_l1 : nullptr, t, b);
            }
        }
    }
}

}  // namespace
}  // namespace lc::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
    #include <cmath>

    #include "kernels/local_error_common.h"
    #include "kernels/nw_threads.h"

namespace lc::cpu {
namespace {

HWY_EXPORT(meet);
HWY_EXPORT(walk);

hwy::AlignedFreeUniquePtr<double[]> zeros(int64_t count) {
    auto memory = hwy::AllocateAligned<double>(size_t(count));
    LC_CHECK(memory != nullptr, "local_error: out of memory: " << count * 8 << " bytes of sums; score fewer rows");
    for_each_chunk(count, 1 << 16,
                   [&](int64_t begin, int64_t end) { std::fill(memory.get() + begin, memory.get() + end, 0.0); });
    return memory;
}

struct Entry {
    double weight, square, spread;
};

// The sums of row i and class c, neighbour by neighbour.
Entry sum_directly(const LocalError& in, float gamma, int64_t i, int64_t c, bool spreads) {
    const double h = double(exponent_of(gamma));
    Entry e = {0, 0, 0};
    for (int64_t j = 0; j < in.n; ++j) {
        if (in.bin[j * in.C + c] != in.bin[i * in.C + c] || (j == i && !in.include_self)) continue;
        double D = 0, l1 = 0;
        for (int64_t k = 0; k < in.d; ++k) {
            const double difference = double(in.Z[i * in.d + k]) - double(in.Z[j * in.d + k]);
            D += difference * difference;
        }
        for (int64_t k = 0; spreads && k < in.m; ++k) {
            l1 += std::abs(double(in.phi[i * in.m + k]) - double(in.phi[j * in.m + k]));
        }
        const double w = std::exp(h * D);
        e.weight += w, e.square += w * w, e.spread += w * l1;
    }
    return e;
}

// The sums of one row and class, `at` its place and lane among those of its block.
Entry sums_of(const LocalError& in, const LocalSums& s, int64_t g, int64_t i, int64_t c, int64_t at, bool dense) {
    const int64_t lane = i % kBlock;
    const bool lost = (s.squares && s.square.cancelled(at, lane)) || (s.spreads && s.spread.cancelled(at, lane));
    if (dense && lost) return sum_directly(in, in.gammas[g], i, c, s.spreads);
    return {s.weight.of(at, lane, dense), s.squares ? s.square.of(at, lane, dense) : 0,
            s.spreads ? s.spread.of(at, lane, dense) : 0};
}

void store_block(const LocalErrorOutput& out, const LocalError& in, const LocalTable& t, const LocalSums& s, int64_t g,
                 int64_t block) {
    const int32_t* const bins = t.bins_of(block);
    for (int64_t i = block * kBlock; i < block * kBlock + t.rows(block); ++i) {
        for (int64_t c = 0; c < t.C; ++c) {
            const int64_t at = place(c, i % kBlock, t.C), to = (g * t.n + i) * t.C + c;
            const Entry e = sums_of(in, s, g, i, c, at, bins[at] == t.dense[size_t(c)]);
            const bool none = bins[at] == kNoQuery || e.weight < double(kLeastWeight);  // a NaN is not less
            out.error[to] = none ? 0.0f : float(s.product[at] / e.weight);
            if (out.weight != nullptr) out.weight[to] = none ? 0.0f : float(e.weight);
            if (s.squares) out.n_eff[to] = none ? 0.0f : float(e.weight * e.weight / e.square);
            if (s.spreads) out.spread[to] = none ? 0.0f : float(e.spread / e.weight);
        }
    }
}

// Which block meets `seat` 1 .. players / 2 - 1 or the fixed last player (seat 0) in a round of the circle method.
std::pair<int64_t, int64_t> meeting(int64_t round, int64_t seat, int64_t players) {
    const int64_t circle = players - 1, x = (round + seat) % circle;
    const int64_t y = seat == 0 ? circle : (round + circle - seat) % circle;
    return {std::min(x, y), std::max(x, y)};
}

void symmetric(const LocalErrorOutput& out, const LocalError& in, const LocalTable& t, const Progress& progress) {
    const bool squares = out.n_eff != nullptr;
    const int64_t each = LocalSums::doubles(in.C, squares, false), players = t.blocks + t.blocks % 2;
    const auto memory = zeros(t.blocks * each);
    const auto sums_of_block = [&](int64_t block) {
        return LocalSums(memory.get() + block * each, in.C, squares, false);
    };
    for (int64_t round = -1; round < players - 1; ++round) {  // round -1: everybody meets himself
        const int64_t meetings = round < 0 ? t.blocks : players / 2;
        for_each_chunk_with_scratch(meetings, 1, Scratch::floats(in), [&](int64_t seat, int64_t, float* scratch) {
            const auto [a, b] = round < 0 ? std::pair(seat, seat) : meeting(round, seat, players);
            if (b >= t.blocks) return;  // an odd one out
            HWY_DYNAMIC_DISPATCH(meet)(in, t, sums_of_block(a), sums_of_block(b), a, b, scratch);
        });
        if (progress) progress(double(round + 2) / double(players), "pairs of rows");
    }
    for_each_chunk(t.blocks, 1,
                   [&](int64_t block, int64_t) { store_block(out, in, t, sums_of_block(block), 0, block); });
}

void by_queries(const LocalErrorOutput& out, const LocalError& in, const LocalTable& t, const Progress& progress) {
    const bool squares = out.n_eff != nullptr, spreads = out.spread != nullptr;
    const int64_t each = LocalSums::doubles(in.C, squares, spreads);
    int64_t done = 0;
    const int64_t floats = in.G * each * 2 + Scratch::floats(in);  // the sums first: doubles want their alignment
    for_each_chunk_with_scratch(t.blocks, 1, floats, [&](int64_t a, int64_t, float* memory) {
        double* const doubles = reinterpret_cast<double*>(memory);
        std::fill(doubles, doubles + in.G * each, 0.0);
        HWY_DYNAMIC_DISPATCH(walk)(in, t, squares, spreads, a, doubles, memory + in.G * each * 2);
        for (int64_t g = 0; g < in.G; ++g) store_block(out, in, t, {doubles + g * each, in.C, squares, spreads}, g, a);
    #pragma omp critical(local_error_progress)
        if (progress) progress(double(++done) / double(t.blocks), "pairs of rows");
    });
}

}  // namespace

void local_error(const LocalErrorOutput& out, const LocalError& in, const Progress& progress, Stream) {
    check_local_error(out, in);
    if (progress) progress(0, "pairs of rows");
    const LocalTable t = make_local_table("local_error", in);
    if (in.G == 1 && out.spread == nullptr) {
        symmetric(out, in, t, progress);
    } else {
        by_queries(out, in, t, progress);
    }
}

}  // namespace lc::cpu
#endif  // HWY_ONCE

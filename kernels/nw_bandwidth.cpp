// nw_bandwidth.cpp -- CPU backend of nw_bandwidth (contract: nw_bandwidth.h; distances: nw_kernel.h).
//
// Idea     the tiles of nw_smooth.cpp, and its two groups of neighbours: those of the query's own class and the
//          others.  The nearest neighbour of either group is the same for every bandwidth, so one walk over the pairs
//          serves the whole grid: a tile of squared distances D becomes D - near, and every bandwidth sums exp(h_g (D -
//          near)) over it. When a block brings a nearer neighbour, the sums so far are scaled down first.  At the end
//
//              nll_g = ln( 1 + e^(h_g (near_other - near_own)) sum_other / sum_own )
// Numbers  float32; the sums of a block are added to the sums so far, block after block.
// Profile  `make bench`
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/nw_bandwidth.cpp"
#include "kernels/nw_bandwidth.h"

#include <cmath>
#include <hwy/foreach_target.h>

#include "kernels/nw_kernel.h"

#ifndef LC_KERNELS_NW_BANDWIDTH_CPP_ONCE
    #define LC_KERNELS_NW_BANDWIDTH_CPP_ONCE
namespace lc::cpu {
namespace {

struct Grid {
    const float* Z;         // (n, d)
    const int32_t* labels;  // (n)
    const float* gammas;    // (G)
    int64_t n, d, G;

    float h(int64_t g) const { return float(-0.5 / (double(gammas[g]) * double(gammas[g]))); }
};

}  // namespace
}  // namespace lc::cpu
#endif

HWY_BEFORE_NAMESPACE();
namespace lc::cpu::HWY_NAMESPACE {
namespace {

struct Panel {         // kPanel queries
    float* q;          // (d, kPanel)
    float* sum_own;    // (G, kPanel)
    float* sum_other;  // (G, kPanel)
    HWY_ALIGN float near_own[kPanel];
    HWY_ALIGN float near_other[kPanel];
    HWY_ALIGN int32_t own[kPanel];
};

void start_panel(Panel& p, const Grid& grid, int64_t i, int64_t rows) {
    pack_panel(p.q, grid.Z + i * grid.d, rows, grid.d);
    std::fill(p.sum_own, p.sum_own + grid.G * kPanel, 0.0f);
    std::fill(p.sum_other, p.sum_other + grid.G * kPanel, 0.0f);
    for (int64_t l = 0; l < kPanel; ++l) {
        p.near_own[l] = p.near_other[l] = kFarthest;
        p.own[l] = l < rows ? grid.labels[i + l] : 0;
    }
}

// Scales the sums so far to neighbours that are nearer.
void rescale(Panel& p, int v, const Nearest& old, const Nearest& now, const Grid& grid) {
    for (int64_t g = 0; g < grid.G; ++g) {
        const V h = hn::Set(df, grid.h(g));
        const V of_own = exp_weight_lanes(df, hn::Mul(h, hn::Sub(old.own, now.own)));
        const V of_other = exp_weight_lanes(df, hn::Mul(h, hn::Sub(old.other, now.other)));
        put(hn::Mul(at(p.sum_own + g * kPanel, v), of_own), p.sum_own + g * kPanel, v);
        put(hn::Mul(at(p.sum_other + g * kPanel, v), of_other), p.sum_other + g * kPanel, v);
    }
    put(now.own, p.near_own, v);
    put(now.other, p.near_other, v);
}

// tile -= near, the nearest neighbour of the group that the reference belongs to.
void subtract_nearest(const Panel& p, int v, const Nearest& now, float* tile, const int32_t* labels, int64_t refs) {
    for (int64_t j = 0; j < refs; ++j) {
        const V near = hn::IfThenElse(own_lanes(p.own, v, labels[j]), now.own, now.other);
        put(hn::Sub(at(tile + j * kPanel, v), near), tile + j * kPanel, v);
    }
}

void add_tile(Panel& p, float* tile, const int32_t* labels, int64_t refs, const Grid& grid) {
    for (int v = 0; v < kTileVectors; ++v) {
        const Nearest old = {at(p.near_own, v), at(p.near_other, v)};
        const Nearest now = nearest_of_groups(old, p.own, v, tile, labels, refs);
        if (now.nearer_than(old)) rescale(p, v, old, now, grid);
        subtract_nearest(p, v, now, tile, labels, refs);
        for (int64_t g = 0; g < grid.G; ++g) {
            const V h = hn::Set(df, grid.h(g));
            V own = hn::Zero(df), other = own;
            for (int64_t j = 0; j < refs; ++j) {
                const Mask mine = own_lanes(p.own, v, labels[j]);
                const V w = exp_weight_lanes(df, hn::Mul(h, at(tile + j * kPanel, v)));
                own = hn::Add(own, hn::IfThenElseZero(mine, w));
                other = hn::Add(other, hn::IfThenZeroElse(mine, w));
            }
            put(hn::Add(at(p.sum_own + g * kPanel, v), own), p.sum_own + g * kPanel, v);
            put(hn::Add(at(p.sum_other + g * kPanel, v), other), p.sum_other + g * kPanel, v);
        }
    }
}

// In double, one by one: n G of them are few against n^2 G weights.
double nll_of(const Panel& p, int64_t l, int64_t g, const Grid& grid) {
    const double own = double(p.sum_own[g * kPanel + l]), other = double(p.sum_other[g * kPanel + l]);
    if (own == 0) return double(kInfinity) + other;  // nobody has the class; a NaN stays one
    if (other == 0) return 0 * own;
    const double log_ratio =
        double(grid.h(g)) * (double(p.near_other[l]) - double(p.near_own[l])) + std::log(other / own);
    return log_ratio > 0 ? log_ratio + std::log1p(std::exp(-log_ratio)) : std::log1p(std::exp(log_ratio));
}

// Queries begin .. end, at most kChunk.
void bandwidth_chunk(float* nll, const Grid& grid, int64_t begin, int64_t end, float* scratch) {
    Panel panels[kChunk / kPanel];
    float* const tile = scratch;
    for (int64_t i = begin; i < end; i += kPanel) {
        Panel& p = panels[(i - begin) / kPanel];
        p.q = scratch + kRefs * kMaxPanel + (i - begin) * (grid.d + 2 * grid.G);
        p.sum_own = p.q + grid.d * kPanel;
        p.sum_other = p.sum_own + grid.G * kPanel;
        start_panel(p, grid, i, std::min<int64_t>(kPanel, end - i));
    }
    for (int64_t j = 0; j < grid.n; j += kRefs) {
        for (int64_t i = begin; i < end; i += kPanel) {
            Panel& p = panels[(i - begin) / kPanel];
            const Pairs pairs = {i, std::min<int64_t>(kPanel, end - i), j, std::min(kRefs, grid.n - j)};
            distance_tile(tile, grid.Z, p.q, grid.d, pairs, true);
            add_tile(p, tile, grid.labels + j, pairs.refs, grid);
        }
    }
    for (int64_t i = begin; i < end; ++i) {
        const int64_t l = i - begin;
        for (int64_t g = 0; g < grid.G; ++g)
            nll[i * grid.G + g] = float(nll_of(panels[l / kPanel], l % kPanel, g, grid));
    }
}

}  // namespace
}  // namespace lc::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
    #include "kernels/nw_smooth_common.h"
    #include "kernels/nw_threads.h"

namespace lc::cpu {
namespace {

HWY_EXPORT(bandwidth_chunk);

}  // namespace

void nw_bandwidth(float* nll, const float* Z, const int32_t* labels, const float* gammas, int64_t n, int64_t d,
                  int64_t G, Stream) {
    check_nw_bandwidth(nll, Z, labels, gammas, n, d, G);
    const Grid grid = {Z, labels, gammas, n, d, G};
    const int64_t floats = kRefs * kMaxPanel + kChunk * (d + 2 * G);
    for_each_chunk_with_scratch(n, kChunk, floats, [&](int64_t begin, int64_t end, float* scratch) {
        HWY_DYNAMIC_DISPATCH(bandwidth_chunk)(nll, grid, begin, end, scratch);
    });
}

}  // namespace lc::cpu
#endif  // HWY_ONCE

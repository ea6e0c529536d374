// nw_kernel.h -- what the CPU files of nw_smooth.h share: squared distances with the queries in the lanes.
//
//          lane      0 ............... 15        a panel: kPanel queries (16 on AVX2), turned round: (d, kPanel)
//                  ┌─────────────────────┐
//       feature 0  │ q_0,0  ..... q_15,0 │       A block of up to kRefs references passes by, six rows at a time.
//           :      │   :            :    │       Their squared distances fill a tile (kRefs, kPanel), which stays in
//                  └─────────────────────┘       L1 while all that follows walks over it: nearest neighbour, exp, the
//       r_j, j = 0 [ D_0,0  .... D_0,15  ]       sum of its class, products.  That is plain vector arithmetic without
//           j = 1  [ D_1,0  .... D_1,15  ]       a sum across lanes, and a hard label costs one row of theta:
//             :    [   :            :    ]       theta[label_j] += w_j.
//
// Numbers  D is the sum of (q - r)^2 as it stands, feature by feature.  The usual |q|^2 + |r|^2 - 2 q r loses all
//          digits where a distance is small against the norms, and on machines that add and multiply in different
//          units it is hardly faster: the subtraction runs beside the multiply-add.  A lane never sees another one, so
//          that a row of the result does not depend on its neighbours in the panel.
//
// Included once per SIMD target, after foreach_target.h, like every "-inl" header of Highway.
#ifndef LC_KERNELS_NW_KERNEL_H_ONCE  // the rest is read once per SIMD target, this part only the first time
#define LC_KERNELS_NW_KERNEL_H_ONCE
#include <cstdint>

namespace lc::cpu {
constexpr int64_t kRefs = 192;  // references in a block: the tile takes 12 KiB of L1 on AVX2
constexpr int64_t kChunk =
    64;  // queries that a thread takes at a time: the block is read from L2 for each of their panels
constexpr int64_t kMaxPanel = 32;  // the widest panel of all targets

constexpr float kAuthorsFloor = 1e-6f;  // form authors: added to the sum, and the least weight
}  // namespace lc::cpu
#endif

#if defined(LC_KERNELS_NW_KERNEL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef LC_KERNELS_NW_KERNEL_H_
    #undef LC_KERNELS_NW_KERNEL_H_
#else
    #define LC_KERNELS_NW_KERNEL_H_
#endif

#include <limits>

#include "kernels/gemm_kernel.h"
#include "kernels/simd_math.h"

HWY_BEFORE_NAMESPACE();
namespace lc::cpu::HWY_NAMESPACE {
namespace {

static_assert(kChunk % kPanel == 0 && kPanel <= kMaxPanel);

constexpr hn::ScalableTag<float> df;
constexpr hn::RebindToSigned<decltype(df)> di;
using V = hn::Vec<decltype(df)>;
using VI = hn::Vec<decltype(di)>;
using Mask = hn::Mask<decltype(df)>;

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kFarthest =
    std::numeric_limits<float>::max();  // nobody seen yet; finite, so that exp(h (inf - it)) is 0

// panel (d, kPanel): `rows` queries turned round, zeros in the lanes beyond.
inline void pack_panel(float* panel, const float* Q, int64_t rows, int64_t d) {
    if (rows < kPanel) std::fill(panel, panel + d * kPanel, 0.0f);
    transpose_copy(panel, kPanel, Q, d, rows, d);
}

// tile (kRows, kPanel) = squared distances of kRows references to the queries of a panel, in registers.
template <int kRows>
void distance_rows(float* HWY_RESTRICT tile, const float* HWY_RESTRICT r, int64_t d, const float* HWY_RESTRICT panel) {
    V acc[kRows][kTileVectors];
    HWY_UNROLL(kTileRows)
    for (int i = 0; i < kRows; ++i) {
        for (int v = 0; v < kTileVectors; ++v) acc[i][v] = hn::Zero(df);
    }
    for (int64_t k = 0; k < d; ++k) {
        V q[kTileVectors];
        for (int v = 0; v < kTileVectors; ++v) q[v] = hn::Load(df, panel + k * kPanel + v * kLanes);
        HWY_UNROLL(kTileRows)
        for (int i = 0; i < kRows; ++i) {
            const V ri = hn::Set(df, r[i * d + k]);
            for (int v = 0; v < kTileVectors; ++v) {
                const V difference = hn::Sub(q[v], ri);
                acc[i][v] = hn::MulAdd(difference, difference, acc[i][v]);
            }
        }
    }
    HWY_UNROLL(kTileRows)
    for (int i = 0; i < kRows; ++i) {
        for (int v = 0; v < kTileVectors; ++v) hn::Store(acc[i][v], df, tile + i * kPanel + v * kLanes);
    }
}

using DistanceRows = void (*)(float*, const float*, int64_t, const float*);
template <int... kRowsMinusOne>
DistanceRows distance_rows_for(int64_t rows, std::integer_sequence<int, kRowsMinusOne...>) {
    static constexpr DistanceRows table[] = {distance_rows<kRowsMinusOne + 1>...};
    return table[rows - 1];
}

// Which pairs a tile holds: queries i .. i + rows of the whole set against references j .. j + refs.
struct Pairs {
    int64_t i, rows, j, refs;
};

// tile (refs, kPanel) = squared distances; +inf, a weight of 0, where a query meets itself and is to be left out.
inline void distance_tile(float* tile, const float* R, const float* panel, int64_t d, const Pairs& p,
                          bool leave_one_out) {
    for (int64_t j = 0; j < p.refs; j += kTileRows) {
        const int64_t rows = std::min<int64_t>(kTileRows, p.refs - j);
        const DistanceRows kernel = distance_rows_for(rows, std::make_integer_sequence<int, kTileRows>());
        kernel(tile + j * kPanel, R + (p.j + j) * d, d, panel);
    }
    if (!leave_one_out) return;
    for (int64_t i = std::max(p.i, p.j); i < std::min(p.i + p.rows, p.j + p.refs); ++i) {
        tile[(i - p.j) * kPanel + (i - p.i)] = kInfinity;
    }
}

HWY_INLINE V at(const float* row, int v) { return hn::Load(df, row + v * kLanes); }
HWY_INLINE void put(V x, float* row, int v) { hn::Store(x, df, row + v * kLanes); }

// The lanes whose own class is `label`.
HWY_INLINE Mask own_lanes(const int32_t* classes, int v, int32_t label) {
    return hn::RebindMask(df, hn::Eq(hn::Load(di, classes + v * kLanes), hn::Set(di, label)));
}

// Squared distances to the nearest reference of a lane's own class, and to the nearest of the others.
struct Nearest {
    V own, other;

    HWY_INLINE bool nearer_than(const Nearest& old) const {
        return !hn::AllFalse(df, hn::Or(hn::Lt(own, old.own), hn::Lt(other, old.other)));
    }
};

// `so_far` and the references of a tile.  Without labels nobody is of the own class.
HWY_INLINE Nearest nearest_of_groups(Nearest so_far, const int32_t* classes, int v, const float* tile,
                                     const int32_t* labels, int64_t refs) {
    const V farthest = hn::Set(df, kFarthest);
    for (int64_t j = 0; j < refs; ++j) {
        const V D = at(tile + j * kPanel, v);
        if (labels == nullptr) {
            so_far.other = hn::Min(so_far.other, D);
            continue;
        }
        const Mask mine = own_lanes(classes, v, labels[j]);
        so_far.own = hn::Min(so_far.own, hn::IfThenElse(mine, D, farthest));
        so_far.other = hn::Min(so_far.other, hn::IfThenElse(mine, farthest, D));
    }
    return so_far;
}

}  // namespace
}  // namespace lc::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif  // per-target guard

// knn.cpp -- CPU backend of knn (contract and formulas: knn.h).
//
// Idea     references are packed into panels of 16, feature by feature, so that a vector holds one feature of several
//          references.  A group of queries meets a panel in registers, then every query picks from its 16 distances what
//          is below its worst so far and inserts it into its sorted list.
// Memory   a copy of R in panels.  A thread works on 64 queries at a time: 16 distances and a list of k each.
// Traffic  a panel is read once per 64 queries and block of 512 features, from the first-level cache after that: bound by
//          arithmetic, one subtraction and one multiply-add per feature and pair.
// Numbers  float32 over blocks of 512 features, which are then added.  A pair that does not count (padding, the query
//          itself) is a NaN, which never enters a list.
// Profile  `make bench`
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/knn.cpp"
#include "kernels/knn.h"

#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#ifndef LC_KERNELS_KNN_ONCE
    #define LC_KERNELS_KNN_ONCE
    #include <limits>
namespace lc::cpu {
constexpr int64_t kPanel = 16;    // references side by side
constexpr int64_t kQueries = 64;  // queries that a thread takes at a time
constexpr int64_t kDepth = 512;   // features between two additions to the distances: a panel of them fills 32 KiB
constexpr float kNone = std::numeric_limits<float>::quiet_NaN();
}  // namespace lc::cpu
#endif

HWY_BEFORE_NAMESPACE();
namespace lc::cpu::HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;

constexpr hn::CappedTag<float, kPanel> d;
using V = hn::Vec<decltype(d)>;
constexpr int64_t kLanes = int64_t(hn::MaxLanes(d)), kVectors = kPanel / kLanes;
constexpr int64_t kGroup = kLanes >= 8 ? 4 : 2;  // queries whose sums fit in registers

// squares += (q - r)^2 over `depth` features, for kGroup queries and a panel.
HWY_INLINE void add_squares(float* squares,                       // (kGroup, kPanel)
                            const float* const (&q)[kGroup],      // (depth) each
                            const float* panel, int64_t depth) {  // (depth, kPanel)
    V sum[kGroup][kVectors];
    for (auto& row : sum) {
        for (V& s : row) s = hn::Zero(d);
    }
    for (int64_t c = 0; c < depth; ++c) {
        for (int64_t i = 0; i < kGroup; ++i) {
            const V x = hn::Set(d, q[i][c]);
            for (int64_t v = 0; v < kVectors; ++v) {
                const V off = hn::Sub(x, hn::LoadU(d, panel + c * kPanel + v * kLanes));
                sum[i][v] = hn::MulAdd(off, off, sum[i][v]);
            }
        }
    }
    for (int64_t i = 0; i < kGroup; ++i) {
        for (int64_t v = 0; v < kVectors; ++v) {
            float* const s = squares + i * kPanel + v * kLanes;
            hn::StoreU(hn::Add(hn::LoadU(d, s), sum[i][v]), d, s);
        }
    }
}

// Puts x into the list where it is below the last of it.  NaN counts as larger than everything, in the list too.
HWY_INLINE void insert(float* list, int64_t k, float x) {  // (k), sorted
    if (x != x || x >= list[k - 1]) return;
    int64_t i = k - 1;
    for (; i > 0 && !(list[i - 1] <= x); --i) list[i] = list[i - 1];
    list[i] = x;
}

// One panel of distances to the lists of its query; most of the time nothing is near enough.
HWY_INLINE void pick(float* list, int64_t k, const float* squares) {  // (k), (kPanel)
    const V worst = hn::Set(d, list[k - 1]);
    auto any = hn::Not(hn::Ge(hn::LoadU(d, squares), worst));
    for (int64_t v = 1; v < kVectors; ++v) {
        any = hn::Or(any, hn::Not(hn::Ge(hn::LoadU(d, squares + v * kLanes), worst)));
    }
    if (hn::AllFalse(d, any)) return;
    for (int64_t j = 0; j < kPanel; ++j) insert(list, k, squares[j]);
}

// Queries first .. first + count - 1, count <= kQueries.
void nearest(float* distance, const float* Q, const float* panels, const Knn& g, int64_t first, int64_t count) {
    HWY_ALIGN float squares[kQueries * kPanel];  // (count, kPanel)
    float lists[kQueries * kMostNeighbours];     // (count, k)
    for (int64_t i = 0; i < count * g.k; ++i) lists[i] = kNone;
    for (int64_t j = 0; j < g.m; j += kPanel) {
        for (float& s : squares) s = 0.0f;
        for (int64_t c = 0; c < g.d; c += kDepth) {
            for (int64_t i = 0; i < count; i += kGroup) {
                const float* q[kGroup];  // where queries run out, the last one again
                for (int64_t k = 0; k < kGroup; ++k) q[k] = Q + (first + HWY_MIN(i + k, count - 1)) * g.d + c;
                add_squares(squares + i * kPanel, q, panels + j * g.d + c * kPanel, HWY_MIN(kDepth, g.d - c));
            }
        }
        for (int64_t i = 0; i < count; ++i) {
            const int64_t self = first + i - j;
            if (g.leave_one_out && self >= 0 && self < kPanel) squares[i * kPanel + self] = kNone;
            pick(lists + i * g.k, g.k, squares + i * kPanel);
        }
    }
    const hn::CappedTag<float, 1> one;
    for (int64_t i = 0; i < count * g.k; ++i) {
        hn::StoreU(hn::Sqrt(hn::LoadU(one, lists + i)), one, distance + first * g.k + i);
    }
}

}  // namespace
}  // namespace lc::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
    #include <memory>

    #include "kernels/parallel.h"

namespace lc::cpu {
HWY_EXPORT(nearest);

// R (m, d) as panels (ceil(m / 16), d, 16); the places after the last reference hold NaN.
static std::unique_ptr<float[]> pack(const float* R, int64_t m, int64_t d) {
    auto panels = std::make_unique_for_overwrite<float[]>(size_t(ceil_div(m, kPanel) * kPanel * d));
    for_each_chunk(ceil_div(m, kPanel), ceil_div(1 << 14, kPanel * d), [&](int64_t p, int64_t end) {
        for (; p < end; ++p) {
            float* const panel = panels.get() + p * kPanel * d;
            for (int64_t i = 0; i < kPanel; ++i) {
                const int64_t r = p * kPanel + i;
                for (int64_t c = 0; c < d; ++c) panel[c * kPanel + i] = r < m ? R[r * d + c] : kNone;
            }
        }
    });
    return panels;
}

void knn(float* distance, const float* Q, const float* R, const Knn& shape, Stream) {
    check_knn(distance, Q, R, shape);
    if (shape.n == 0) return;
    const auto panels = pack(R, shape.m, shape.d);
    const int64_t at_once = std::min(kQueries, std::max<int64_t>(8, ceil_div(shape.n, 16)));  // some tasks per thread
    for_each_chunk(shape.n, at_once, [&](int64_t i, int64_t end) {
        for (; i < end; i += kQueries) {
            HWY_DYNAMIC_DISPATCH(nearest)(distance, Q, panels.get(), shape, i, std::min(kQueries, end - i));
        }
    });
}

}  // namespace lc::cpu
#endif  // HWY_ONCE

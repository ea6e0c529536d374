// cross_entropy.cpp -- CPU backend of cross_entropy (contract and formulas: cross_entropy.h).
//
// Idea     softmax as in softmax.cpp (simd_softmax.h): few classes, a lane owns a row; many, one row at a time.  The
//          exponentials wait where the gradient will be, one factor turns them into it, and what the labels change is a
//          number per row, put right while the rows are in the cache.
// Traffic  8 bytes and one exp per element with the gradient, 4 bytes without.
// Numbers  as simd_softmax.h.  The label's gradient is scale p - scale: what rounding loses is small against scale.
// Profile  `make bench`
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cross_entropy.cpp"
#include "kernels/cross_entropy.h"

#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/simd_softmax.h"

HWY_BEFORE_NAMESPACE();
namespace lc::cpu::HWY_NAMESPACE {
namespace {

constexpr hn::ScalableTag<float> d;
using V = hn::Vec<decltype(d)>;
constexpr int64_t kLanes = int64_t(hn::MaxLanes(d));
constexpr int64_t kFewClasses = 48;  // up to here a lane owns a row

// As many rows as there are lanes.
HWY_INLINE void group_of_rows(float* tile,                                 // (C, lanes), scratch
                              float* loss, float* dlogits,                 // (lanes), (lanes, C) or null
                              const float* logits, const int32_t* labels,  // (lanes, C), (lanes)
                              int64_t C, float scale) {
    HWY_ALIGN float of_label[kLanes];
    load_columns(d, tile, logits, C);
    for (int64_t r = 0; r < kLanes; ++r) of_label[r] = logits[r * C + labels[r]];
    const auto [top, sum] = exp_of_columns(d, tile, tile, C);
    hn::StoreU(hn::Add(log_lanes(d, sum), hn::Sub(top, hn::Load(d, of_label))), d, loss);
    if (dlogits == nullptr) return;
    const V factor = hn::Div(hn::Set(d, scale), sum);
    for (int64_t c = 0; c < C; ++c) set_column(d, tile, c, hn::Mul(column(d, tile, c), factor));
    store_columns(d, dlogits, tile, C);
    for (int64_t r = 0; r < kLanes; ++r) dlogits[r * C + labels[r]] -= scale;
}

// The last group may be short: it is copied to a full one, whose other rows are zeros.
void few_classes(float* loss, float* dlogits, const float* logits, const int32_t* labels, int64_t N, int64_t C,
                 float scale) {
    HWY_ALIGN float tile[kFewClasses * kLanes] = {};
    int64_t r = 0;
    for (; r + kLanes <= N; r += kLanes) {
        group_of_rows(tile, loss + r, dlogits != nullptr ? dlogits + r * C : nullptr, logits + r * C, labels + r, C,
                      scale);
    }
    if (r == N) return;
    float rows[kFewClasses * kLanes] = {}, gradient[kFewClasses * kLanes] = {}, losses[kLanes];  // (lanes, C), (lanes)
    int32_t classes[kLanes] = {};
    for (int64_t i = 0; i < (N - r) * C; ++i) rows[i] = logits[r * C + i];
    for (int64_t i = 0; i < N - r; ++i) classes[i] = labels[r + i];
    group_of_rows(tile, losses, gradient, rows, classes, C, scale);
    for (int64_t i = 0; i < N - r; ++i) loss[r + i] = losses[i];
    for (int64_t i = 0; i < (N - r) * C && dlogits != nullptr; ++i) dlogits[r * C + i] = gradient[i];
}

float one_row(float* dlogits, const float* logits, int32_t label, int64_t C, float scale) {
    const V top = max_of_row(d, logits, C);
    const V sum = sum_row(
        d, dlogits, C, [&](V v) HWY_ATTR { return exp_lanes(d, hn::Sub(v, top)); }, logits);
    if (dlogits != nullptr) {
        const V factor = hn::Div(hn::Set(d, scale), sum);
        map_row(
            d, dlogits, C, [&](V e) HWY_ATTR { return hn::Mul(e, factor); }, dlogits);
        dlogits[label] -= scale;
    }
    return hn::GetLane(log_lanes(d, sum)) + (hn::GetLane(top) - logits[label]);
}

void cross_entropy_chunk(float* loss, float* dlogits, const float* logits, const int32_t* labels, int64_t N, int64_t C,
                         float scale) {
    if (C <= kFewClasses) return few_classes(loss, dlogits, logits, labels, N, C, scale);
    for (int64_t r = 0; r < N; ++r) {
        loss[r] = one_row(dlogits != nullptr ? dlogits + r * C : nullptr, logits + r * C, labels[r], C, scale);
    }
}

}  // namespace
}  // namespace lc::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
    #include "kernels/cross_entropy_arguments.h"
    #include "kernels/parallel.h"

namespace lc::cpu {
HWY_EXPORT(cross_entropy_chunk);

void cross_entropy(float* loss, float* dlogits, const float* logits, const int32_t* labels, int64_t N, int64_t C,
                   float scale, Stream) {
    check_cross_entropy(loss, dlogits, logits, labels, N, C);
    for (int64_t r = 0; r < N; ++r) {
        LC_CHECK(labels[r] >= 0 && labels[r] < C,
                 "cross_entropy: label " << labels[r] << " of row " << r << " is not in [0, C = " << C << ")");
    }
    const int64_t chunk = C >= 1024 ? ceil_div(16384, C) : 16 * ceil_div(1024, C);  // about 16384 elements
    for_each_chunk(N, chunk, [=](int64_t r, int64_t end) {
        HWY_DYNAMIC_DISPATCH(cross_entropy_chunk)
        (loss + r, dlogits != nullptr ? dlogits + r * C : nullptr, logits + r * C, labels + r, end - r, C, scale);
    });
}

}  // namespace lc::cpu
#endif  // HWY_ONCE

// simd_columns.h -- sums along columns of anything that is computed element by element, a lane per column.
//
//     sum_tile_of(total, term, stride, rows, width)    total_w = sum over k < rows of term at k stride + w
//
// term(tag, i, w) gives the vector of elements from i on, whose first one is in column w of the tile.

// Included once per target: Highway flips HWY_TARGET_TOGGLE, so an ordinary #pragma once would be wrong.
#if defined(LC_KERNELS_SIMD_COLUMNS_H) == defined(HWY_TARGET_TOGGLE)
    #ifdef LC_KERNELS_SIMD_COLUMNS_H
        #undef LC_KERNELS_SIMD_COLUMNS_H
    #else
        #define LC_KERNELS_SIMD_COLUMNS_H
    #endif

    #include <cstdint>
    #include <hwy/highway.h>

    #include "kernels/reduce_columns.h"

HWY_BEFORE_NAMESPACE();
namespace lc::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// sum += the rows i, i + stride, ... of four, or the one row i.  Two forms, because four rows at once load and store the
// sums once.
template <class D, class Term>
HWY_INLINE void add_four(D d, float* sum, const Term& term, int64_t i, int64_t w, int64_t stride) {
    const auto a = hn::Add(term(d, i, w), term(d, i + stride, w));
    const auto b = hn::Add(term(d, i + 2 * stride, w), term(d, i + 3 * stride, w));
    hn::StoreU(hn::Add(hn::LoadU(d, sum), hn::Add(a, b)), d, sum);
}
template <class D, class Term>
HWY_INLINE void add_one(D d, float* sum, const Term& term, int64_t i, int64_t w) {
    hn::StoreU(hn::Add(hn::LoadU(d, sum), term(d, i, w)), d, sum);
}

template <class Term>
HWY_INLINE void sum_tile_of(double* total,                                                    // (width)
                            const Term& term, int64_t stride, int64_t rows, int64_t width) {  // width <= kTile
    constexpr int64_t kBlockRows = 64;  // rows added in float32 before the sums move to double
    const hn::ScalableTag<float> d;
    const hn::CappedTag<float, 1> one;
    const int64_t lanes = int64_t(hn::Lanes(d));
    HWY_ALIGN float sum[kTile];
    for (int64_t w = 0; w < width; ++w) total[w] = 0;
    for (int64_t begin = 0; begin < rows; begin += kBlockRows) {
        const int64_t end = HWY_MIN(rows, begin + kBlockRows);
        for (int64_t w = 0; w < width; ++w) hn::StoreU(term(one, begin * stride + w, w), one, sum + w);
        int64_t r = begin + 1;
        for (; r + 4 <= end; r += 4) {
            int64_t w = 0;
            for (; w + lanes <= width; w += lanes) add_four(d, sum + w, term, r * stride + w, w, stride);
            for (; w < width; ++w) add_four(one, sum + w, term, r * stride + w, w, stride);
        }
        for (; r < end; ++r) {
            int64_t w = 0;
            for (; w + lanes <= width; w += lanes) add_one(d, sum + w, term, r * stride + w, w);
            for (; w < width; ++w) add_one(one, sum + w, term, r * stride + w, w);
        }
        for (int64_t w = 0; w < width; ++w) total[w] += double(sum[w]);
    }
}

}  // namespace lc::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target guard

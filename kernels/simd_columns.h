// simd_columns.h -- sums along columns of anything that is computed element by element, a lane per column.
//
//     sum_tile_of(total, term, stride, rows, width)              total_w  = sum over r < rows of term at r stride + w
//     sum_tiles_of<K>(total, pitch, term, stride, rows, width)   total_kw = the same of K terms that share their loads
//
// term(tag, i, w) gives the vector of elements from i on, whose first one is in column w of the tile; for sum_tiles_of
// the Terms of K such vectors.

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

// What a term gives that is K numbers per element.
template <class V, int K>
struct Terms {
    V of[K];
};
template <class Term>
struct SingleTerm {
    const Term& term;
    template <class D>
    HWY_INLINE Terms<hn::Vec<D>, 1> operator()(D d, int64_t i, int64_t w) const {
        return {{term(d, i, w)}};
    }
};

// sum += the rows i, i + stride, ... of four, or the one row i.  Two forms, because four rows at once load and store the
// sums once.
template <int K, class D, class Term>
HWY_INLINE void add_four(D d, float* sum, const Term& term, int64_t i, int64_t w, int64_t stride) {
    const auto t0 = term(d, i, w), t1 = term(d, i + stride, w);
    const auto t2 = term(d, i + 2 * stride, w), t3 = term(d, i + 3 * stride, w);
    for (int k = 0; k < K; ++k) {
        const auto four = hn::Add(hn::Add(t0.of[k], t1.of[k]), hn::Add(t2.of[k], t3.of[k]));
        hn::StoreU(hn::Add(hn::LoadU(d, sum + k * kTile), four), d, sum + k * kTile);
    }
}
template <int K, class D, class Term>
HWY_INLINE void add_one(D d, float* sum, const Term& term, int64_t i, int64_t w) {
    const auto t = term(d, i, w);
    for (int k = 0; k < K; ++k) hn::StoreU(hn::Add(hn::LoadU(d, sum + k * kTile), t.of[k]), d, sum + k * kTile);
}

template <int K, class Term>
HWY_INLINE void sum_tiles_of(double* total, int64_t pitch,                                     // (K, pitch), width used
                             const Term& term, int64_t stride, int64_t rows, int64_t width) {  // width <= kTile
    constexpr int64_t kBlockRows = 64;  // rows added in float32 before the sums move to double
    const hn::ScalableTag<float> d;
    const hn::CappedTag<float, 1> one;
    const int64_t lanes = int64_t(hn::Lanes(d));
    HWY_ALIGN float sum[K * kTile];
    for (int k = 0; k < K; ++k) {
        for (int64_t w = 0; w < width; ++w) total[k * pitch + w] = 0;
    }
    for (int64_t begin = 0; begin < rows; begin += kBlockRows) {
        const int64_t end = HWY_MIN(rows, begin + kBlockRows);
        const auto start = [&](auto tag, int64_t w) HWY_ATTR {
            const auto t = term(tag, begin * stride + w, w);
            for (int k = 0; k < K; ++k) hn::StoreU(t.of[k], tag, sum + k * kTile + w);
        };
        int64_t w = 0;
        for (; w + lanes <= width; w += lanes) start(d, w);
        for (; w < width; ++w) start(one, w);
        int64_t r = begin + 1;
        for (; r + 4 <= end; r += 4) {
            for (w = 0; w + lanes <= width; w += lanes) add_four<K>(d, sum + w, term, r * stride + w, w, stride);
            for (; w < width; ++w) add_four<K>(one, sum + w, term, r * stride + w, w, stride);
        }
        for (; r < end; ++r) {
            for (w = 0; w + lanes <= width; w += lanes) add_one<K>(d, sum + w, term, r * stride + w, w);
            for (; w < width; ++w) add_one<K>(one, sum + w, term, r * stride + w, w);
        }
        for (int k = 0; k < K; ++k) {
            for (w = 0; w < width; ++w) total[k * pitch + w] += double(sum[k * kTile + w]);
        }
    }
}

template <class Term>
HWY_INLINE void sum_tile_of(double* total,  // (width)
                            const Term& term, int64_t stride, int64_t rows, int64_t width) {
    sum_tiles_of<1>(total, width, SingleTerm<Term>{term}, stride, rows, width);
}

}  // namespace lc::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target guard

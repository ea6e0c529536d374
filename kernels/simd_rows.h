// simd_rows.h -- rows of a row-major matrix, in and out of vectors.
//
//     load_columns(d, tile, x, C)     tile[c][r] = x[r][c] for as many rows as the vector has lanes
//     store_columns(d, x, tile, C)    and back
//     sum_of_columns(d, tile, C)      sum over c of tile[c][r], for every lane r
//     load_padded(d, p, n, fill)      the first n lanes from memory, the others `fill`; n less than a whole vector
//     store_first(v, d, p, n)         the first n lanes to memory
//
// With few columns a row does not fill a vector, and what it fills has to be reduced across lanes.  Turned by 90
// degrees, every lane owns a row: maximum, exp and sum are plain vector operations, and no lane is idle.

// Included once per target: Highway flips HWY_TARGET_TOGGLE, so an ordinary #pragma once would be wrong.
#if defined(LC_KERNELS_SIMD_ROWS_H) == defined(HWY_TARGET_TOGGLE)
    #ifdef LC_KERNELS_SIMD_ROWS_H
        #undef LC_KERNELS_SIMD_ROWS_H
    #else
        #define LC_KERNELS_SIMD_ROWS_H
    #endif

    #include <cstdint>
    #include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace lc::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

template <class D>
HWY_INLINE hn::Vec<D> load_padded(D d, const float* p, int64_t n, float fill) {
    #if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3  // masked loads that do not touch what the mask leaves out
    const auto mask = hn::FirstN(d, size_t(n));
    return hn::IfThenElse(mask, hn::MaskedLoad(mask, d, p), hn::Set(d, fill));
    #else
    HWY_ALIGN float lanes[hn::MaxLanes(d)];
    hn::Store(hn::Set(d, fill), d, lanes);
    for (int64_t i = 0; i < n; ++i) lanes[i] = p[i];
    return hn::Load(d, lanes);
    #endif
}

template <class D>
HWY_INLINE void store_first(hn::Vec<D> v, D d, float* p, int64_t n) {
    HWY_ALIGN float lanes[hn::MaxLanes(d)];
    hn::Store(v, d, lanes);
    for (int64_t i = 0; i < n; ++i) p[i] = lanes[i];
}

    #if HWY_TARGET == HWY_SCALAR

// One lane, one row: its columns are already in order.
template <class D>
HWY_INLINE void load_columns(D, float* tile, const float* x, int64_t C) {
    for (int64_t c = 0; c < C; ++c) tile[c] = x[c];
}
template <class D>
HWY_INLINE void store_columns(D, float* x, const float* tile, int64_t C) {
    for (int64_t c = 0; c < C; ++c) x[c] = tile[c];
}

    #else

// Four floats in every 128-bit block of the vector, the blocks `stride` floats apart in memory.
template <class D>
HWY_INLINE hn::Vec<D> load_blocks(D d, const float* p, int64_t stride) {
    if constexpr (hn::MaxLanes(d) == 4) {
        return hn::LoadU(d, p);
    } else {
        const hn::Half<D> half;
        const int64_t below = int64_t(hn::MaxLanes(half)) / 4;  // blocks in the lower half
        return hn::Combine(d, load_blocks(half, p + below * stride, stride), load_blocks(half, p, stride));
    }
}
template <class D>
HWY_INLINE void store_blocks(hn::Vec<D> v, D d, float* p, int64_t stride) {
    if constexpr (hn::MaxLanes(d) == 4) {
        hn::StoreU(v, d, p);
    } else {
        const hn::Half<D> half;
        const int64_t below = int64_t(hn::MaxLanes(half)) / 4;
        store_blocks(hn::LowerHalf(half, v), half, p, stride);
        store_blocks(hn::UpperHalf(half, v), half, p + below * stride, stride);
    }
}

// Transposes the 4 x 4 matrix that four vectors hold in each of their 128-bit blocks.
template <class D, class V = hn::Vec<D>>
HWY_INLINE void transpose_blocks(D d, V& a, V& b, V& c, V& e) {
    const hn::Repartition<uint64_t, D> pair;
    const auto ab01 = hn::BitCast(pair, hn::InterleaveLower(d, a, b));  // a0 b0 a1 b1
    const auto ab23 = hn::BitCast(pair, hn::InterleaveUpper(d, a, b));  // a2 b2 a3 b3
    const auto ce01 = hn::BitCast(pair, hn::InterleaveLower(d, c, e));
    const auto ce23 = hn::BitCast(pair, hn::InterleaveUpper(d, c, e));
    a = hn::BitCast(d, hn::InterleaveLower(pair, ab01, ce01));  // a0 b0 c0 e0
    b = hn::BitCast(d, hn::InterleaveUpper(pair, ab01, ce01));
    c = hn::BitCast(d, hn::InterleaveLower(pair, ab23, ce23));
    e = hn::BitCast(d, hn::InterleaveUpper(pair, ab23, ce23));
}

// Columns c .. c + 3 of all rows.  Block k of vector j is row 4 k + j, so that lane r is row r after the transposition.
template <class D>
HWY_INLINE void load_four_columns(D d, float* tile, const float* x, int64_t C, int64_t c) {
    const int64_t lanes = int64_t(hn::Lanes(d));
    auto v0 = load_blocks(d, x + 0 * C + c, 4 * C), v1 = load_blocks(d, x + 1 * C + c, 4 * C);
    auto v2 = load_blocks(d, x + 2 * C + c, 4 * C), v3 = load_blocks(d, x + 3 * C + c, 4 * C);
    transpose_blocks(d, v0, v1, v2, v3);
    hn::Store(v0, d, tile + (c + 0) * lanes);
    hn::Store(v1, d, tile + (c + 1) * lanes);
    hn::Store(v2, d, tile + (c + 2) * lanes);
    hn::Store(v3, d, tile + (c + 3) * lanes);
}
template <class D>
HWY_INLINE void store_four_columns(D d, float* x, const float* tile, int64_t C, int64_t c) {
    const int64_t lanes = int64_t(hn::Lanes(d));
    auto v0 = hn::Load(d, tile + (c + 0) * lanes), v1 = hn::Load(d, tile + (c + 1) * lanes);
    auto v2 = hn::Load(d, tile + (c + 2) * lanes), v3 = hn::Load(d, tile + (c + 3) * lanes);
    transpose_blocks(d, v0, v1, v2, v3);
    store_blocks(v0, d, x + 0 * C + c, 4 * C);
    store_blocks(v1, d, x + 1 * C + c, 4 * C);
    store_blocks(v2, d, x + 2 * C + c, 4 * C);
    store_blocks(v3, d, x + 3 * C + c, 4 * C);
}

// The last four columns may overlap the four before them; moving a column twice does no harm.
template <class D>
HWY_INLINE void load_columns(D d, float* tile,             // (C, lanes), aligned
                             const float* x, int64_t C) {  // (lanes, C)
    const int64_t lanes = int64_t(hn::Lanes(d));
    if (C >= 4) {
        for (int64_t c = 0; c + 4 <= C; c += 4) load_four_columns(d, tile, x, C, c);
        if (C % 4 != 0) load_four_columns(d, tile, x, C, C - 4);
        return;
    }
    hn::Vec<D> v0, v1, v2;
    if (C == 1) v0 = hn::LoadU(d, x);
    if (C == 2) hn::LoadInterleaved2(d, x, v0, v1);
    if (C == 3) hn::LoadInterleaved3(d, x, v0, v1, v2);
    hn::Store(v0, d, tile);
    if (C >= 2) hn::Store(v1, d, tile + lanes);
    if (C >= 3) hn::Store(v2, d, tile + 2 * lanes);
}

template <class D>
HWY_INLINE void store_columns(D d, float* x,                   // (lanes, C)
                              const float* tile, int64_t C) {  // (C, lanes), aligned
    const int64_t lanes = int64_t(hn::Lanes(d));
    if (C >= 4) {
        for (int64_t c = 0; c + 4 <= C; c += 4) store_four_columns(d, x, tile, C, c);
        if (C % 4 != 0) store_four_columns(d, x, tile, C, C - 4);
        return;
    }
    const auto v0 = hn::Load(d, tile);
    if (C == 1) hn::StoreU(v0, d, x);
    if (C == 2) hn::StoreInterleaved2(v0, hn::Load(d, tile + lanes), d, x);
    if (C == 3) hn::StoreInterleaved3(v0, hn::Load(d, tile + lanes), hn::Load(d, tile + 2 * lanes), d, x);
}

    #endif  // HWY_TARGET

// In four interleaved sums: a quarter of the rounding error and of the latency of one.  Every lane adds in the same
// order, which depends on C alone.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V sum_of_columns(D d, const float* tile, int64_t C) {
    const int64_t lanes = int64_t(hn::Lanes(d));
    V s0 = hn::Zero(d), s1 = s0, s2 = s0, s3 = s0;
    int64_t c = 0;
    for (; c + 4 <= C; c += 4) {
        s0 = hn::Add(s0, hn::Load(d, tile + (c + 0) * lanes));
        s1 = hn::Add(s1, hn::Load(d, tile + (c + 1) * lanes));
        s2 = hn::Add(s2, hn::Load(d, tile + (c + 2) * lanes));
        s3 = hn::Add(s3, hn::Load(d, tile + (c + 3) * lanes));
    }
    if (c + 0 < C) s0 = hn::Add(s0, hn::Load(d, tile + (c + 0) * lanes));
    if (c + 1 < C) s1 = hn::Add(s1, hn::Load(d, tile + (c + 1) * lanes));
    if (c + 2 < C) s2 = hn::Add(s2, hn::Load(d, tile + (c + 2) * lanes));
    return hn::Add(hn::Add(s0, s1), hn::Add(s2, s3));
}

}  // namespace lc::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target guard

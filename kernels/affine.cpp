// affine.cpp -- CPU backend of affine (contract and formulas: affine.h).
//
// Idea     affine, standardise: w, b, mean and inverse are repeated until the pattern is long enough to walk along like any
//          array.  affine_bwd, col_moment2: sums of columns as in reduce.cpp, of a product or a square that is formed on
//          the way.  gather_rows: whole rows are copied.
// Traffic  4 bytes per element and array, each touched once: bound by memory.
// Numbers  sums: float32 over 64 rows, blocks joined in double.  One for all columns is the matrix as a single column.
// Profile  `make bench`
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/affine.cpp"
#include "kernels/affine.h"

#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/simd_columns.h"
#include "kernels/simd_map.h"

HWY_BEFORE_NAMESPACE();
namespace lc::cpu::HWY_NAMESPACE {
namespace {

struct Affine {
    template <class D, class V>
    HWY_INLINE V operator()(D, V x, V w, V b) const {
        return hn::MulAdd(w, x, b);
    }
    template <class D, class V>
    HWY_INLINE V operator()(D, V a, V x, V w, V b) const {
        return hn::Add(a, hn::MulAdd(w, x, b));
    }
};
struct Standardise {
    template <class D, class V>
    HWY_INLINE V operator()(D, V x, V mean, V inverse) const {
        return hn::Mul(hn::Sub(x, mean), inverse);
    }
};

// The chunk starts at the beginning of the patterns, which are `period` long.
void affine_chunk(float* out, const float* a, const float* x, const float* w, const float* b, int64_t period,
                  int64_t n) {
    for (int64_t i = 0; i < n; i += period) {
        const int64_t m = HWY_MIN(period, n - i);
        if (a == nullptr) {
            map(out + i, m, false, Affine(), x + i, w, b);
        } else {
            map(out + i, m, false, Affine(), a + i, x + i, w, b);
        }
    }
}
void standardise_chunk(float* out, const float* x, const float* mean, const float* inverse, int64_t period, int64_t n) {
    for (int64_t i = 0; i < n; i += period) {
        map(out + i, HWY_MIN(period, n - i), false, Standardise(), x + i, mean, inverse);
    }
}

struct AffineGradTerms {
    const float *dy, *x;
    template <class D>
    HWY_INLINE Terms<hn::Vec<D>, 2> operator()(D d, int64_t i, int64_t) const {
        const auto slope = hn::LoadU(d, dy + i);
        return {{hn::Mul(slope, hn::LoadU(d, x + i)), slope}};
    }
};
void affine_grads_tile(double* total, int64_t pitch, const float* dy, const float* x, int64_t stride, int64_t rows,
                       int64_t width) {
    sum_tiles_of<2>(total, pitch, AffineGradTerms{dy, x}, stride, rows, width);
}

struct SquareTerm {
    const float *x, *mean;
    template <class D>
    HWY_INLINE hn::Vec<D> operator()(D d, int64_t i, int64_t w) const {
        const auto off = hn::Sub(hn::LoadU(d, x + i), hn::LoadU(d, mean + w));
        return hn::Mul(off, off);
    }
};
void sum_square_tile(double* total, const float* x, const float* mean, int64_t stride, int64_t rows, int64_t width) {
    sum_tile_of(total, SquareTerm{x, mean}, stride, rows, width);
}

}  // namespace
}  // namespace lc::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
    #include <cstring>

    #include "kernels/affine_arguments.h"
    #include "kernels/pattern.h"

namespace lc::cpu {
HWY_EXPORT(affine_chunk);
HWY_EXPORT(standardise_chunk);
HWY_EXPORT(affine_grads_tile);
HWY_EXPORT(sum_square_tile);

constexpr int64_t kGatherChunk = 1 << 15;  // elements

void affine(float* out, const float* a, const float* x, const float* w, const float* b, int64_t N, int64_t C,
            Columns columns, Stream) {
    check_affine(out, a, x, w, b, N, C, columns);
    const int64_t n = N * C;
    const auto chunk = [=](int64_t i, int64_t m, int64_t period, const float* wp, const float* bp) {
        HWY_DYNAMIC_DISPATCH(affine_chunk)(out + i, a != nullptr ? a + i : nullptr, x + i, wp, bp, period, m);
    };
    columns.one ? for_patterns(n, 1, chunk, w, b) : for_patterns(N, C, chunk, w, b);
}

void affine_bwd(float* dw, float* db, const float* dy, const float* x, int64_t N, int64_t C, Columns columns, Stream) {
    check_affine_bwd(dw, db, dy, x, N, C, columns);
    const int64_t entries = columns.one ? 1 : C;
    if (entries == 0) return;
    const std::vector<double> sums = column_totals<2>(
        columns.one ? N * C : N, entries,
        [=](double* total, int64_t pitch, int64_t first, int64_t stride, int64_t rows, int64_t width) {
            HWY_DYNAMIC_DISPATCH(affine_grads_tile)(total, pitch, dy + first, x + first, stride, rows, width);
        },
        [=](int64_t i, int k) { return k == 0 ? dy[i] * x[i] : dy[i]; });
    for (int64_t c = 0; c < entries; ++c) {
        dw[c] = float(sums[size_t(c)]);
        db[c] = float(sums[size_t(entries + c)]);
    }
}

void standardise(float* out, const float* x, const float* mean, const float* inverse, int64_t N, int64_t C, Stream) {
    check_standardise(out, x, mean, inverse, N, C);
    const auto chunk = [=](int64_t i, int64_t m, int64_t period, const float* mean_p, const float* inverse_p) {
        HWY_DYNAMIC_DISPATCH(standardise_chunk)(out + i, x + i, mean_p, inverse_p, period, m);
    };
    for_patterns(N, C, chunk, mean, inverse);
}

void col_moment2(float* out, const float* x, const float* mean, int64_t N, int64_t C, Stream) {
    check_col_moment2(out, x, mean, N, C);
    if (C == 0) return;
    const ColumnPlan plan(N, C);
    const std::vector<float> means = repeated(mean, C, plan.fold);  // (fold, C): one per column of the wide matrix
    sum_columns(
        out, N, C, double(N),
        [&](double* total, int64_t first, int64_t stride, int64_t rows, int64_t width) {
            const float* const here = means.data() + first % stride;
            HWY_DYNAMIC_DISPATCH(sum_square_tile)(total, x + first, here, stride, rows, width);
        },
        [=](int64_t i) { return (x[i] - mean[i % C]) * (x[i] - mean[i % C]); });
}

void gather_rows(float* out, const float* x, const int32_t* index, int64_t N, int64_t M, int64_t C, Stream) {
    check_gather_rows(out, x, index, N, M, C);
    for (int64_t r = 0; r < N; ++r) {
        LC_CHECK(index[r] >= 0 && index[r] < M,
                 "gather_rows: index " << index[r] << " of row " << r << " is not in [0, M = " << M << ")");
    }
    if (C == 0) return;
    for_each_chunk(N, ceil_div(kGatherChunk, C), [=](int64_t r, int64_t end) {
        for (; r < end; ++r) std::memcpy(out + r * C, x + index[r] * C, size_t(C) * sizeof(float));
    });
}

}  // namespace lc::cpu
#endif  // HWY_ONCE

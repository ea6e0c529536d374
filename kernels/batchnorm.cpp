// batchnorm.cpp -- CPU backend of batchnorm (contract and formulas: batchnorm.h).
//
// Idea     statistics: one pass over x gives both moments.  Every chunk of rows counts from a shift of its own, the mean of
//          its first rows, so that its sums of deviations and of squares are small, and what it found is joined with the
//          others by mean and variance (Chan, Golub and LeVeque 1979).  batchnorm_bwd: one pass over dy and x gives both
//          sums.  Then everything is one multiplication and addition per element, with numbers per channel that are
//          repeated until vectors can walk along them (pattern.h).
// Traffic  batchnorm reads x twice and writes y, batchnorm_bwd reads dy and x twice and writes dx (frozen: dy alone):
//          bound by memory.  Outputs too large for the caches are written past them.
// Numbers  float32 over 64 rows, blocks joined in double; statistics in double until they are stored.  The square of a
//          chunk's shift is at most rows / 16 of its variance, however far the channel is from 0.
// Profile  `make bench`
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/batchnorm.cpp"
#include "kernels/batchnorm.h"

#include <hwy/cache_control.h>
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/simd_columns.h"
#include "kernels/simd_map.h"

HWY_BEFORE_NAMESPACE();
namespace lc::cpu::HWY_NAMESPACE {
namespace {

struct PlainTerm {
    const float* x;
    template <class D>
    HWY_INLINE hn::Vec<D> operator()(D d, int64_t i, int64_t) const {
        return hn::LoadU(d, x + i);
    }
};
struct MomentTerms {
    const float *x, *shift;
    template <class D>
    HWY_INLINE Terms<hn::Vec<D>, 2> operator()(D d, int64_t i, int64_t w) const {
        const auto off = hn::Sub(hn::LoadU(d, x + i), hn::LoadU(d, shift + w));
        return {{off, hn::Mul(off, off)}};
    }
};
// Sums of x - shift and of its square (2, pitch), and the shift (width): the mean of the first rows.
void moments_tile(double* total, int64_t pitch, float* shift, const float* x, int64_t stride, int64_t rows,
                  int64_t width) {
    const int64_t first = HWY_MIN(rows, int64_t(16));
    double sum[kTile];
    sum_tile_of(sum, PlainTerm{x}, stride, first, width);
    for (int64_t w = 0; w < width; ++w) shift[w] = float(sum[w] / double(first));
    sum_tiles_of<2>(total, pitch, MomentTerms{x, shift}, stride, rows, width);
}

struct GradTerms {
    const float *dy, *x, *mean;
    template <class D>
    HWY_INLINE Terms<hn::Vec<D>, 2> operator()(D d, int64_t i, int64_t w) const {
        const auto slope = hn::LoadU(d, dy + i);
        return {{slope, hn::Mul(slope, hn::Sub(hn::LoadU(d, x + i), hn::LoadU(d, mean + w)))}};
    }
};
void grads_tile(double* total, int64_t pitch, const float* dy, const float* x, const float* mean, int64_t stride,
                int64_t rows, int64_t width) {
    sum_tiles_of<2>(total, pitch, GradTerms{dy, x, mean}, stride, rows, width);
}

struct Normalise {
    template <class D, class V>
    HWY_INLINE V operator()(D, V x, V mean, V scale, V beta) const {
        return hn::MulAdd(hn::Sub(x, mean), scale, beta);
    }
};
struct Backward {
    template <class D, class V>
    HWY_INLINE V operator()(D, V dy, V x, V scale, V mean, V mean_dy, V slope) const {
        return hn::Mul(scale, hn::NegMulAdd(hn::Sub(x, mean), slope, hn::Sub(dy, mean_dy)));
    }
};
struct BackwardFrozen {
    template <class D, class V>
    HWY_INLINE V operator()(D, V dy, V scale) const {
        return hn::Mul(scale, dy);
    }
};

// Chunks start at the beginning of the patterns, which are `period` long.
void normalise_chunk(float* y, const float* x, const float* mean, const float* scale, const float* beta, int64_t period,
                     int64_t n, bool stream) {
    for (int64_t i = 0; i < n; i += period) {
        map(y + i, HWY_MIN(period, n - i), stream, Normalise(), x + i, mean, scale, beta);
    }
    if (stream) hwy::FlushStream();
}
void backward_chunk(float* dx, const float* dy, const float* x, const float* scale, const float* mean,
                    const float* mean_dy, const float* slope, int64_t period, int64_t n, bool stream) {
    for (int64_t i = 0; i < n; i += period) {
        map(dx + i, HWY_MIN(period, n - i), stream, Backward(), dy + i, x + i, scale, mean, mean_dy, slope);
    }
    if (stream) hwy::FlushStream();
}
void backward_frozen_chunk(float* dx, const float* dy, const float* scale, int64_t period, int64_t n, bool stream) {
    for (int64_t i = 0; i < n; i += period) {
        map(dx + i, HWY_MIN(period, n - i), stream, BackwardFrozen(), dy + i, scale);
    }
    if (stream) hwy::FlushStream();
}

}  // namespace
}  // namespace lc::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
    #include <cmath>

    #include "kernels/batchnorm_arguments.h"
    #include "kernels/pattern.h"
    #include "kernels/streaming.h"

namespace lc::cpu {
HWY_EXPORT(moments_tile);
HWY_EXPORT(grads_tile);
HWY_EXPORT(normalise_chunk);
HWY_EXPORT(backward_chunk);
HWY_EXPORT(backward_frozen_chunk);

struct ColumnMoments {
    std::vector<double> mean, var;  // (C)
};

static ColumnMoments moments_of(const float* x, int64_t N, int64_t C) {
    const ColumnPlan plan(N, C);
    const auto sums =
        std::make_unique_for_overwrite<double[]>(size_t(plan.chunks * 2 * plan.width));            // (chunks, 2, width)
    const auto shift = std::make_unique_for_overwrite<float[]>(size_t(plan.chunks * plan.width));  // (chunks, width)
    plan.for_each_tile([&](int64_t k, int64_t r, int64_t rows, int64_t w, int64_t width) {
        HWY_DYNAMIC_DISPATCH(moments_tile)
        (sums.get() + k * 2 * plan.width + w, plan.width, shift.get() + k * plan.width + w, x + r * plan.width + w,
         plan.width, rows, width);
    });
    ColumnMoments m = {std::vector<double>(size_t(C), 0.0), std::vector<double>(size_t(C), 0.0)};
    // Calls body(c, rows, mean, squares) for the parts of every column, in a fixed order.
    const auto for_each_part = [&](const auto& body) {
        for (int64_t i = 0; i < plan.chunks * plan.fold; ++i) {
            const int64_t k = i / plan.fold, f = i % plan.fold;
            const double rows = double(std::min(plan.chunk, plan.rows - k * plan.chunk));
            const double* const sum = sums.get() + k * 2 * plan.width + f * C;
            for (int64_t c = 0; c < C; ++c) {
                const double off = sum[c] / rows, squares = sum[plan.width + c] - off * sum[c];
                body(size_t(c), rows, double(shift[size_t(i * C + c)]) + off, squares);
            }
        }
        for (int64_t i = plan.left * C; i < N * C; ++i) body(size_t(i % C), 1.0, double(x[i]), 0.0);
    };
    for_each_part([&](size_t c, double rows, double mean, double) { m.mean[c] += rows * mean; });
    for (double& v : m.mean) v /= double(N);
    for_each_part([&](size_t c, double rows, double mean, double squares) {
        m.var[c] += squares + rows * (mean - m.mean[c]) * (mean - m.mean[c]);
    });
    for (size_t c = 0; c < m.var.size(); ++c) {
        m.var[c] = m.var[c] < 0 ? 0 : m.var[c] / double(N);  // rounding only; a NaN stays
        if (std::isnan(m.var[c])) m.mean[c] = m.var[c];      // an infinite mean says less
    }
    return m;
}

static void normalise(float* y, const float* x, const float* mean, const float* scale, const float* beta, int64_t N,
                      int64_t C) {
    const bool large = should_stream(y, N * C, x);
    const auto chunk = [=](int64_t i, int64_t n, int64_t period, const float* m, const float* w, const float* b) {
        const bool stream = large && period % 16 == 0;  // every period starts at the same alignment
        HWY_DYNAMIC_DISPATCH(normalise_chunk)(y + i, x + i, m, w, b, period, n, stream);
    };
    for_patterns(N, C, chunk, mean, scale, beta);
}

void batchnorm(float* y, BatchStats batch, RunningStats running, const float* x, const float* gamma, const float* beta,
               const BatchNorm& shape, Stream) {
    check_batchnorm(y, batch, running, x, gamma, beta, shape);
    const auto [N, C, eps, momentum] = shape;
    if (C == 0) return;
    const ColumnMoments m = moments_of(x, N, C);
    std::vector<float> scale(static_cast<size_t>(C));
    for (size_t c = 0; c < scale.size(); ++c) {
        const double rstd = 1 / std::sqrt(m.var[c] + double(eps));
        batch.mean[c] = float(m.mean[c]);
        batch.rstd[c] = float(rstd);
        scale[c] = float(double(gamma[c]) * rstd);
        if (running.mean == nullptr) continue;
        const double unbiased = m.var[c] * double(N) / double(N - 1), share = double(momentum);
        running.mean[c] = float((1 - share) * double(running.mean[c]) + share * m.mean[c]);
        running.var[c] = float((1 - share) * double(running.var[c]) + share * unbiased);
    }
    normalise(y, x, batch.mean, scale.data(), beta, N, C);
}

void batchnorm_infer(float* y, const float* x, const float* mean, const float* var, const float* gamma,
                     const float* beta, const BatchNorm& shape, Stream) {
    check_batchnorm_infer(y, x, mean, var, gamma, beta, shape);
    std::vector<float> scale(static_cast<size_t>(shape.C));
    for (size_t c = 0; c < scale.size(); ++c) {
        scale[c] = float(double(gamma[c]) / std::sqrt(double(var[c]) + double(shape.eps)));
    }
    normalise(y, x, mean, scale.data(), beta, shape.N, shape.C);
}

// What dx is made of besides dy and x: dx = scale (dy - mean_dy - (x - mean) slope).
struct BackwardNumbers {
    std::vector<float> scale, mean_dy, slope;  // (C)
};

// Sums over dy and x, into dgamma and dbeta where they are wanted, and into the numbers of dx.
static void sum_gradients(BackwardNumbers& numbers, BatchNormGrads out, const float* dy, const float* x,
                          BatchStats batch, int64_t N, int64_t C) {
    const std::vector<float> means = repeated(batch.mean, C, ColumnPlan(N, C).fold);  // (fold, C)
    const std::vector<double> sums = column_totals<2>(
        N, C,
        [&](double* total, int64_t pitch, int64_t first, int64_t stride, int64_t rows, int64_t width) {
            const float* const here = means.data() + first % stride;
            HWY_DYNAMIC_DISPATCH(grads_tile)(total, pitch, dy + first, x + first, here, stride, rows, width);
        },
        [=](int64_t i, int k) { return k == 0 ? dy[i] : dy[i] * (x[i] - batch.mean[i % C]); });
    for (size_t c = 0; c < size_t(C); ++c) {
        const double rstd = double(batch.rstd[c]), dbeta = sums[c], dgamma = sums[size_t(C) + c] * rstd;
        if (out.dgamma != nullptr) out.dgamma[c] = float(dgamma), out.dbeta[c] = float(dbeta);
        numbers.mean_dy[c] = float(dbeta / double(N));
        numbers.slope[c] = float(dgamma * rstd / double(N));
    }
}

void batchnorm_bwd(BatchNormGrads out, const float* dy, const float* x, BatchStats batch, const float* gamma,
                   bool frozen, const BatchNorm& shape, Stream) {
    check_batchnorm_bwd(out, dy, x, batch, gamma, shape);
    const int64_t N = shape.N, C = shape.C;
    if (C == 0) return;
    const std::vector<float> zeros(static_cast<size_t>(C));
    BackwardNumbers k = {zeros, zeros, zeros};
    for (size_t c = 0; c < size_t(C); ++c) k.scale[c] = float(double(gamma[c]) * double(batch.rstd[c]));
    if (out.dgamma != nullptr || (out.dx != nullptr && !frozen)) sum_gradients(k, out, dy, x, batch, N, C);
    if (out.dx == nullptr) return;
    const bool large = should_stream(out.dx, N * C, dy);
    if (frozen) {
        const auto chunk = [=](int64_t i, int64_t n, int64_t period, const float* w) {
            HWY_DYNAMIC_DISPATCH(backward_frozen_chunk)(out.dx + i, dy + i, w, period, n, large && period % 16 == 0);
        };
        for_patterns(N, C, chunk, k.scale.data());
        return;
    }
    const auto chunk = [=](int64_t i, int64_t n, int64_t period, const float* w, const float* m, const float* mean_dy,
                           const float* slope) {
        const bool stream = large && period % 16 == 0;
        HWY_DYNAMIC_DISPATCH(backward_chunk)(out.dx + i, dy + i, x + i, w, m, mean_dy, slope, period, n, stream);
    };
    for_patterns(N, C, chunk, k.scale.data(), static_cast<const float*>(batch.mean), k.mean_dy.data(), k.slope.data());
}

}  // namespace lc::cpu
#endif  // HWY_ONCE

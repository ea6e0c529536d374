// batchnorm.cu -- CUDA backend of batchnorm (contract and formulas: batchnorm.h).
//
// Idea     statistics: a thread takes eight rows of its column into registers, finds their mean and the squares of their
//          deviations, and joins that with what it has (Chan, Golub and LeVeque 1979):
//              d = sum_b / n_b - sum_a / n_a     squares = squares_a + squares_b + d^2 n_a n_b / (n_a + n_b)
//          so do the threads of a block, and a second launch joins the segments and finishes the statistics.
//          batchnorm_bwd: both sums in one pass (columns.cuh).  Then one launch of batchnorm_map_kernel over the elements.
// Launch   statistics and sums: as in columns.cuh.  Elements: grid = ceil(N C / 1024), block = 256, a thread owns four
//          neighbours; the last group may be short and is then moved float by float.
// Shared   statistics: 256 states of 12 B; sums: of 8 B; else none.
// Traffic  batchnorm reads x twice and writes y: 12 B per element; batchnorm_bwd reads dy and x twice and writes dx: 20 B
//          (frozen, without dgamma: 8 B).  Coalesced; numbers per channel come from L1.  Some 5 flops per element: bound by
//          DRAM.
// Numbers  float32.  Squares are those of deviations from the mean of their own eight rows: no difference of large sums
//          anywhere.  Sums are counted from the channel's first row, so that a channel far from 0 loses no digits in d,
//          and a constant one is exact.  No atomics; segments depend on N and C only.
// Profile  `make sim-profile OP=batchnorm` (or batchnorm_infer, batchnorm_bwd)
#include "kernels/batchnorm.h"
#include "kernels/batchnorm_arguments.h"
#include "kernels/columns.cuh"
#include "kernels/groups.cuh"

namespace lc::LC_CUDA_NS {

// ---- statistics -----------------------------------------------------------------------------------------------------

struct Moments {
    float rows, sum, squares;  // sum: of x - x0, where x0 is the channel's first row; squares: of x - mean
};
struct JoinMoments {
    using State = Moments;
    __device__ static State nothing() { return {0.0f, 0.0f, 0.0f}; }
    __device__ static State join(State a, State b) {
        if (a.rows == 0.0f) return b;
        if (b.rows == 0.0f) return a;
        const float rows = a.rows + b.rows, d = b.sum / b.rows - a.sum / a.rows;
        return {rows, a.sum + b.sum, a.squares + b.squares + d * d * a.rows * (b.rows / rows)};
    }
};

// From rows of x to a sum and squares per segment.
struct MomentsOfRows : JoinMoments {
    const float* x;         // (N, C)
    float *sums, *squares;  // (segments, C)
    int64_t C;

    __device__ State rows(int64_t r, int step, int64_t end, int64_t c) const {
        const float origin = x[c];
        float off[kFoldUnroll], sum = 0.0f, n = 0.0f;
#pragma unroll
        for (int u = 0; u < kFoldUnroll; ++u) {
            const bool exists = r + u * step < end;
            off[u] = exists ? x[(r + u * step) * C + c] - origin : 0.0f;
            sum += off[u];
            n += exists ? 1.0f : 0.0f;
        }
        const float mean = sum / n;
        float total = 0.0f;
#pragma unroll
        for (int u = 0; u < kFoldUnroll; ++u) {
            const float d = off[u] - mean;
            total += r + u * step < end ? d * d : 0.0f;
        }
        return {n, sum, total};
    }
    __device__ void finish(int64_t segment, int64_t c, State m) const {
        sums[segment * C + c] = m.sum;
        squares[segment * C + c] = m.squares;
    }
};

// From segments to the statistics of the op.
struct StatsOfSegments : JoinMoments {
    const float *sums, *squares;  // (segments, C)
    const float *x, *gamma;       // the first row, (C)
    float* scale;                 // (C): gamma rstd
    BatchStats batch;
    RunningStats running;
    BatchNorm shape;
    int64_t segment_rows;

    __device__ State rows(int64_t r, int step, int64_t end, int64_t c) const {
        State part = nothing();
#pragma unroll
        for (int u = 0; u < kFoldUnroll; ++u) {
            const int64_t k = r + u * step;
            if (k < end) {
                const int64_t n = min(segment_rows, shape.N - k * segment_rows), i = k * shape.C + c;
                part = join(part, {float(n), sums[i], squares[i]});
            }
        }
        return part;
    }
    __device__ void finish(int64_t, int64_t c, State m) const {
        const float N = float(shape.N), var = m.squares / N, rstd = 1.0f / sqrtf(var + shape.eps);
        const float whole = float(double(x[c]) + double(m.sum) / double(shape.N));  // once per channel
        const float mean = var == var ? whole : var;                                // NaN where an infinity was
        batch.mean[c] = mean;
        batch.rstd[c] = rstd;
        scale[c] = gamma[c] * rstd;
        if (running.mean == nullptr) return;
        const float share = shape.momentum, rest = 1.0f - share;
        running.mean[c] = rest * running.mean[c] + share * mean;
        running.var[c] = rest * running.var[c] + share * (m.squares / (N - 1.0f));
    }
};

// ---- elements: a few numbers of the channel go with each ------------------------------------------------------------

struct NormaliseOp {
    static constexpr int kInputs = 1, kRows = 3;
    const float* rows[kRows];  // mean, scale, beta (C)
    __device__ float operator()(float x, float, const float (&k)[kRows]) const { return fmaf(x - k[0], k[1], k[2]); }
};
struct BackwardOp {
    static constexpr int kInputs = 2, kRows = 5;
    const float* rows[kRows];  // mean, rstd, gamma, dgamma, dbeta (C)
    float N;
    __device__ float operator()(float dy, float x, const float (&k)[kRows]) const {
        const float xhat = (x - k[0]) * k[1];
        return k[2] * k[1] * (dy - k[4] / N - xhat * (k[3] / N));
    }
};
struct BackwardFrozenOp {
    static constexpr int kInputs = 1, kRows = 2;
    const float* rows[kRows];  // rstd, gamma (C)
    __device__ float operator()(float dy, float, const float (&k)[kRows]) const { return k[1] * k[0] * dy; }
};

constexpr int kNormBlock = 256;
constexpr int kNormEach = 4;  // elements per thread

// No __restrict__: out may be a.  Every element is read and written by one thread alone.
template <class Op>
__global__ void __launch_bounds__(kNormBlock)
    batchnorm_map_kernel(float* out,      // (N, C)
                         const float* a,  // (N, C)
                         const float* b,  // (N, C), not read with one input
                         int64_t n, int64_t C, bool aligned, bool quads, Op op) {
    const int64_t i = (int64_t(blockIdx.x) * kNormBlock + threadIdx.x) * kNormEach;
    const bool vector = aligned && i + kNormEach <= n;
    float u[kNormEach], v[kNormEach] = {}, of_channel[Op::kRows][kNormEach];
    load_group(u, a + i, n - i, vector);
    if constexpr (Op::kInputs == 2) load_group(v, b + i, n - i, vector);
    const int64_t first = i % C;
#pragma unroll
    for (int k = 0; k < Op::kRows; ++k) {
        if (quads) {  // C is a multiple of four: the channels of a group are neighbours
            load_group(of_channel[k], op.rows[k] + first, kNormEach, true);
        } else {
            int64_t c = first;
#pragma unroll
            for (int e = 0; e < kNormEach; ++e) {
                of_channel[k][e] = op.rows[k][c];
                c = c + 1 == C ? 0 : c + 1;
            }
        }
    }
#pragma unroll
    for (int e = 0; e < kNormEach; ++e) {
        float mine[Op::kRows];
#pragma unroll
        for (int k = 0; k < Op::kRows; ++k) mine[k] = of_channel[k][e];
        u[e] = op(u[e], v[e], mine);
    }
    store_group(out + i, u, n - i, vector);
}

template <class Op>
static void map_elements(float* out, const float* a, const float* b, const Op& op, int64_t N, int64_t C, Stream s) {
    const bool aligned = aligned16(out) && aligned16(a) && aligned16(b);
    bool quads = C % kNormEach == 0;
    for (const float* row : op.rows) quads = quads && aligned16(row);
    const dim3 grid = grid_of(ceil_div(N * C, kNormBlock * kNormEach));
    LC_LAUNCH(batchnorm_map_kernel<Op>, grid, kNormBlock, 0, s, out, a, b, N * C, C, aligned, quads, op);
}

__global__ void __launch_bounds__(kNormBlock) batchnorm_scale_kernel(float* __restrict__ scale,        // (C)
                                                                     const float* __restrict__ gamma,  // (C)
                                                                     const float* __restrict__ var,    // (C)
                                                                     int64_t C, float eps) {
    const int64_t c = int64_t(blockIdx.x) * kNormBlock + threadIdx.x;
    if (c < C) scale[c] = gamma[c] / sqrtf(var[c] + eps);
}

// ---- launchers ------------------------------------------------------------------------------------------------------

void batchnorm(float* y, BatchStats batch, RunningStats running, const float* x, const float* gamma, const float* beta,
               const BatchNorm& shape, Stream s) {
    check_batchnorm(y, batch, running, x, gamma, beta, shape);
    const int64_t N = shape.N, C = shape.C;
    if (C == 0) return;
    const int64_t rows = fold_rows(C), segments = ceil_div(N, rows);
    const Workspace<float> sums(segments * C, s), squares(segments * C, s), scale(C, s);
    fold_columns(MomentsOfRows{{}, x, sums.data(), squares.data(), C}, N, C, rows, s);
    const StatsOfSegments stats = {{},           sums.data(), squares.data(), x,     gamma,
                                   scale.data(), batch,       running,        shape, rows};
    fold_columns(stats, segments, C, segments, s);
    map_elements(y, x, nullptr, NormaliseOp{{batch.mean, scale.data(), beta}}, N, C, s);
}

void batchnorm_infer(float* y, const float* x, const float* mean, const float* var, const float* gamma,
                     const float* beta, const BatchNorm& shape, Stream s) {
    check_batchnorm_infer(y, x, mean, var, gamma, beta, shape);
    const int64_t N = shape.N, C = shape.C;
    if (N == 0 || C == 0) return;
    const Workspace<float> scale(C, s);
    LC_LAUNCH(batchnorm_scale_kernel, grid_of(ceil_div(C, kNormBlock)), kNormBlock, 0, s, scale.data(), gamma, var, C,
              shape.eps);
    map_elements(y, x, nullptr, NormaliseOp{{mean, scale.data(), beta}}, N, C, s);
}

struct BatchNormGradTerms {
    const float *dy, *x, *mean, *rstd;  // (N, C), (C)
    __device__ Sums<2> operator()(int64_t i, int64_t c) const {
        return {{dy[i] * ((x[i] - mean[c]) * rstd[c]), dy[i]}};
    }
};

void batchnorm_bwd(BatchNormGrads out, const float* dy, const float* x, BatchStats batch, const float* gamma,
                   bool frozen, const BatchNorm& shape, Stream s) {
    check_batchnorm_bwd(out, dy, x, batch, gamma, shape);
    const int64_t N = shape.N, C = shape.C;
    if (C == 0) return;
    if (N == 0) {
        for (float* sum : {out.dgamma, out.dbeta}) {
            if (sum != nullptr) col_reduce(sum, dy, 0, C, Reduction::sum, s);  // zeros
        }
        return;
    }
    const bool wanted = out.dgamma != nullptr, needed = out.dx != nullptr && !frozen;
    const Workspace<float> own(needed && !wanted ? 2 * C : 1, s);
    float* const dgamma = wanted ? out.dgamma : own.data();
    float* const dbeta = wanted ? out.dbeta : own.data() + C;
    if (wanted || needed) {
        sum_columns<2>({dgamma, dbeta}, BatchNormGradTerms{dy, x, batch.mean, batch.rstd}, N, C, 1.0f, s);
    }
    if (out.dx == nullptr) return;
    if (frozen) {
        map_elements(out.dx, dy, nullptr, BackwardFrozenOp{{batch.rstd, gamma}}, N, C, s);
    } else {
        const BackwardOp op = {{batch.mean, batch.rstd, gamma, dgamma, dbeta}, float(N)};
        map_elements(out.dx, dy, x, op, N, C, s);
    }
}

}  // namespace lc::LC_CUDA_NS

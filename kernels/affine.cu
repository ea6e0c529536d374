// affine.cu -- CUDA backend of affine (contract and formulas: affine.h).
//
// Idea     affine, standardise: a thread per element, which finds its column by one division.
//          affine_bwd, col_moment2: col_sum_kernel forms a product or a square and adds it over a segment of rows; the
//          sums of the segments are few, and col_reduce adds them.
//          gather_rows: a group of threads copies a row.
// Launch   block = 256, 1-D grids.  Elements: ceil(N C / 256).  Sums: `width` = 1 .. 32 columns x 256 / width threads,
//          segments of 64 * 256 / width rows (the shape of reduce.cu).  Rows: 1 .. 32 threads per row for C <= 1024, 256
//          beyond.  Idle threads add nothing but keep reaching barriers.
// Shared   sums: 256 floats, a thread writes its own, a barrier separates every level of the tree; else none.
// Traffic  each array once, coalesced (w, b, mean, inverse from L1; affine_bwd reads dy twice); a handful of flops per
//          element: bound by DRAM.
// Numbers  float32.  No chain of additions is longer than 8 + 8 + 8 per launch.  Segments depend on the shape alone.
// Profile  `make sim-profile OP=affine` (or affine_bwd, standardise, col_moment2, gather_rows)
#include "kernels/affine.h"
#include "kernels/arguments.h"
#include "kernels/device.cuh"
#include "kernels/reduce.h"

namespace lc::LC_CUDA_NS {

constexpr int kAffineBlock = 256;

// No __restrict__: out may be an input.  Every element is read and written by one thread alone.
__global__ void __launch_bounds__(kAffineBlock) affine_kernel(float* out,      // (N, C)
                                                              const float* a,  // (N, C) or null
                                                              const float* x,  // (N, C)
                                                              const float* w,  // (C), or (1) where C is given as 1
                                                              const float* b,  // the same
                                                              int64_t n, int64_t C) {
    const int64_t i = int64_t(blockIdx.x) * kAffineBlock + threadIdx.x;
    if (i >= n) return;
    const int64_t c = i % C;
    const float y = fmaf(w[c], x[i], b[c]);
    out[i] = a != nullptr ? a[i] + y : y;
}

__global__ void __launch_bounds__(kAffineBlock) standardise_kernel(float* out,            // (N, C)
                                                                   const float* x,        // (N, C)
                                                                   const float* mean,     // (C)
                                                                   const float* inverse,  // (C)
                                                                   int64_t n, int64_t C) {
    const int64_t i = int64_t(blockIdx.x) * kAffineBlock + threadIdx.x;
    if (i < n) out[i] = (x[i] - mean[i % C]) * inverse[i % C];
}

// ---- sums along columns ---------------------------------------------------------------------------------------------

struct ProductTerm {
    const float *x, *y;  // (N, C)
    __device__ float operator()(int64_t i, int64_t) const { return x[i] * y[i]; }
};
struct SquareTerm {
    const float *x, *mean;  // (N, C), (C)
    __device__ float operator()(int64_t i, int64_t c) const { return (x[i] - mean[c]) * (x[i] - mean[c]); }
};

constexpr int kSumUnroll = 8;                      // terms in flight per thread
constexpr int kSumRows = kSumUnroll * kSumUnroll;  // rows per thread
constexpr int kSumBlock = 256;

// sums_kc = (sum of the terms of segment k in column c) / divisor.
template <class Term>
__global__ void __launch_bounds__(kSumBlock) col_sum_kernel(float* __restrict__ sums,  // (segments, C)
                                                            Term term, int64_t N, int64_t C, int width, float divisor) {
    LC_SHARED(float, tree, [kSumBlock]);
    const int t = int(threadIdx.x), height = kSumBlock / width;
    const int64_t strips = ceil_div(C, width);  // blocks side by side
    const int64_t segment = blockIdx.x / strips, strip = blockIdx.x - segment * strips;
    const int64_t c = strip * width + (t & (width - 1)), first = segment * height * kSumRows + t / width;
    const int64_t end = c < C ? min((segment + 1) * height * kSumRows, N) : 0;
    float total = 0.0f;
    for (int64_t r0 = first; r0 < end; r0 += kSumUnroll * height) {
        float part = 0.0f;
#pragma unroll
        for (int u = 0; u < kSumUnroll; ++u) {
            const int64_t r = r0 + u * height;
            part += r < end ? term(r * C + c, c) : 0.0f;
        }
        total += part;
    }
    tree[t] = total;
    __syncthreads();
    for (int half = kSumBlock / 2; half >= width; half /= 2) {
        if (t < half) tree[t] += tree[t + half];
        __syncthreads();
    }
    if (t < width && c < C) sums[segment * C + c] = tree[t] / divisor;
}

template <class Term>
static void sum_columns(float* out, Term term, int64_t N, int64_t C, float divisor, Stream s) {
    int width = 1;
    while (width < kWarp && width < C) width *= 2;
    const int64_t segments = ceil_div(N, kSumRows * (kSumBlock / width));
    const dim3 grid = grid_of(segments * ceil_div(C, width));
    if (segments == 1) {
        LC_LAUNCH(col_sum_kernel<Term>, grid, kSumBlock, 0, s, out, term, N, C, width, divisor);
        return;
    }
    const Workspace<float> sums(segments * C, s);
    LC_LAUNCH(col_sum_kernel<Term>, grid, kSumBlock, 0, s, sums.data(), term, N, C, width, divisor);
    col_reduce(out, sums.data(), segments, C, Reduction::sum, s);
}

// ---- rows -----------------------------------------------------------------------------------------------------------

__global__ void __launch_bounds__(kRowBlock) gather_rows_kernel(float* __restrict__ out,            // (N, C)
                                                                const float* __restrict__ x,        // (M, C)
                                                                const int32_t* __restrict__ index,  // (N)
                                                                int64_t N, int64_t M, int64_t C, int lanes) {
    const int64_t r = (int64_t(blockIdx.x) * kRowBlock + threadIdx.x) / lanes;
    if (r >= N) return;
    const int64_t from = index[r];
    const bool exists = from >= 0 && from < M;
    for (int64_t c = int(threadIdx.x) & (lanes - 1); c < C; c += lanes) {
        out[r * C + c] = exists ? x[from * C + c] : NAN;
    }
}

// ---- launchers ------------------------------------------------------------------------------------------------------

void affine(float* out, const float* a, const float* x, const float* w, const float* b, int64_t N, int64_t C,
            Columns columns, Stream s) {
    check_shape("affine", N, C);
    const int64_t n = N * C, entries = columns.one ? (n > 0) : C;
    const Array result = {"out", out, n};
    check_same_or_disjoint("affine", result, {"x", x, n});
    if (a != nullptr) check_same_or_disjoint("affine", result, {"a", a, n});
    check_disjoint("affine", result, {"w", w, entries});
    check_disjoint("affine", result, {"b", b, entries});
    if (n == 0) return;
    LC_LAUNCH(affine_kernel, grid_of(ceil_div(n, kAffineBlock)), kAffineBlock, 0, s, out, a, x, w, b, n, entries);
}

void affine_bwd(float* dw, float* db, const float* dy, const float* x, int64_t N, int64_t C, Columns columns,
                Stream s) {
    check_shape("affine_bwd", N, C);
    const int64_t n = N * C, entries = columns.one ? 1 : C;
    for (const Array& out : {Array{"dw", dw, entries}, Array{"db", db, entries}}) {
        check_disjoint("affine_bwd", out, {"dy", dy, n});
        check_disjoint("affine_bwd", out, {"x", x, n});
    }
    check_disjoint("affine_bwd", {"dw", dw, entries}, {"db", db, entries});
    if (entries == 0) return;
    const int64_t rows = columns.one ? n : N;
    if (rows == 0) {
        col_reduce(dw, x, 0, entries, Reduction::sum, s);  // zeros
    } else {
        sum_columns(dw, ProductTerm{dy, x}, rows, entries, 1.0f, s);
    }
    col_reduce(db, dy, rows, entries, Reduction::sum, s);
}

void standardise(float* out, const float* x, const float* mean, const float* inverse, int64_t N, int64_t C, Stream s) {
    check_shape("standardise", N, C);
    check_same_or_disjoint("standardise", {"out", out, N * C}, {"x", x, N * C});
    check_disjoint("standardise", {"out", out, N * C}, {"mean", mean, C});
    check_disjoint("standardise", {"out", out, N * C}, {"inverse", inverse, C});
    if (N == 0 || C == 0) return;
    LC_LAUNCH(standardise_kernel, grid_of(ceil_div(N * C, kAffineBlock)), kAffineBlock, 0, s, out, x, mean, inverse,
              N * C, C);
}

void col_moment2(float* out, const float* x, const float* mean, int64_t N, int64_t C, Stream s) {
    check_shape("col_moment2", N, C);
    if (C == 0) return;
    LC_CHECK(N > 0, "col_moment2: the mean of no squares does not exist; found N = 0");
    check_disjoint("col_moment2", {"out", out, C}, {"x", x, N * C});
    check_disjoint("col_moment2", {"out", out, C}, {"mean", mean, C});
    sum_columns(out, SquareTerm{x, mean}, N, C, float(N), s);
}

void gather_rows(float* out, const float* x, const int32_t* index, int64_t N, int64_t M, int64_t C, Stream s) {
    check_shape("gather_rows", N, C);
    check_shape("gather_rows", M, C);
    check_disjoint("gather_rows", {"out", out, N * C}, {"x", x, M * C});
    check_disjoint("gather_rows", {"out", out, N * C}, {"index", index, N});
    if (N == 0 || C == 0) return;
    const int lanes = row_lanes(C);
    LC_LAUNCH(gather_rows_kernel, grid_of(ceil_div(N * lanes, kRowBlock)), kRowBlock, 0, s, out, x, index, N, M, C,
              lanes);
}

}  // namespace lc::LC_CUDA_NS

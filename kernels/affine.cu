// affine.cu -- CUDA backend of affine (contract and formulas: affine.h).
//
// Idea     affine, standardise: a thread per element, which finds its column by one division.
//          affine_bwd, col_moment2: sums of columns (columns.cuh) of a product or a square that is formed on the way.
//          gather_rows: a group of threads copies a row.
// Launch   block = 256, 1-D grids.  Elements: ceil(N C / 256).  Sums: as in columns.cuh.  Rows: 1 .. 32 threads per row for
//          C <= 1024, 256 beyond.
// Shared   sums: 256 states (columns.cuh); else none.
// Traffic  each array once, coalesced (w, b, mean, inverse from L1); a handful of flops per element: bound by DRAM.
// Numbers  float32.  No chain of additions is longer than 8 + 8 + 8 per launch.  Segments depend on the shape alone.
// Profile  `make sim-profile OP=affine` (or affine_bwd, standardise, col_moment2, gather_rows)
#include "kernels/affine.h"
#include "kernels/affine_arguments.h"
#include "kernels/columns.cuh"

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

struct AffineGradTerms {
    const float *dy, *x;  // (N, C)
    __device__ Sums<2> operator()(int64_t i, int64_t) const { return {{dy[i] * x[i], dy[i]}}; }
};
struct SquareTerm {
    const float *x, *mean;  // (N, C), (C)
    __device__ Sums<1> operator()(int64_t i, int64_t c) const { return {{(x[i] - mean[c]) * (x[i] - mean[c])}}; }
};

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
    check_affine(out, a, x, w, b, N, C, columns);
    const int64_t n = N * C, entries = columns.one ? 1 : C;
    if (n == 0) return;
    LC_LAUNCH(affine_kernel, grid_of(ceil_div(n, kAffineBlock)), kAffineBlock, 0, s, out, a, x, w, b, n, entries);
}

void affine_bwd(float* dw, float* db, const float* dy, const float* x, int64_t N, int64_t C, Columns columns,
                Stream s) {
    check_affine_bwd(dw, db, dy, x, N, C, columns);
    const int64_t entries = columns.one ? 1 : C;
    if (entries == 0) return;
    const int64_t rows = columns.one ? N * C : N;
    if (rows == 0) {  // zeros
        col_reduce(dw, x, 0, entries, Reduction::sum, s);
        col_reduce(db, dy, 0, entries, Reduction::sum, s);
        return;
    }
    sum_columns<2>({dw, db}, AffineGradTerms{dy, x}, rows, entries, 1.0f, s);
}

void standardise(float* out, const float* x, const float* mean, const float* inverse, int64_t N, int64_t C, Stream s) {
    check_standardise(out, x, mean, inverse, N, C);
    if (N == 0 || C == 0) return;
    LC_LAUNCH(standardise_kernel, grid_of(ceil_div(N * C, kAffineBlock)), kAffineBlock, 0, s, out, x, mean, inverse,
              N * C, C);
}

void col_moment2(float* out, const float* x, const float* mean, int64_t N, int64_t C, Stream s) {
    check_col_moment2(out, x, mean, N, C);
    if (C == 0) return;
    sum_columns<1>({out}, SquareTerm{x, mean}, N, C, float(N), s);
}

void gather_rows(float* out, const float* x, const int32_t* index, int64_t N, int64_t M, int64_t C, Stream s) {
    check_gather_rows(out, x, index, N, M, C);
    if (N == 0 || C == 0) return;
    const int lanes = row_lanes(C);
    LC_LAUNCH(gather_rows_kernel, grid_of(ceil_div(N * lanes, kRowBlock)), kRowBlock, 0, s, out, x, index, N, M, C,
              lanes);
}

}  // namespace lc::LC_CUDA_NS

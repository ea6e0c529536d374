// nw_smooth_bwd.cu -- CUDA backend of nw_smooth_bwd (contract: nw_smooth_bwd.h; tiles and threads: nw_smooth.cuh).
//
// Idea     first a small kernel folds the upstream gradients into a table A (C, n): what a reference of class c is
//          worth to query i.  Then one kernel in three roles: a block owns 64 rows of one set, walks over the other in
//          tiles of 64, turns the tile of squared distances into one of g_ij / gamma_i^2, and
//              shift   owner Q   adds up P_ij e_ij for form authors, which its other roles need
//              dQ      owner Q   dQ_i += sum_j g_ij (r_j - q_i), and dgamma_i
//              dR      owner R   dR_j += sum_i g_ij (q_i - r_j)
//          So every gradient has one owner: no atomics, one order; the price is that distances are computed twice.
// Own      with hard labels and form exact, a reference of the query's own class has the weight u_ij = exp(s_ij -
//          log_norm_i - log_label_i) within its class, at most 1, and A its worth relative to that: right where P_ij
//          and theta underflow.
// Launch   prepare: a thread per query.  roles: grid = ceil(rows of the owner / 64), block = 256.
// Shared   28 KiB: two slices of 16 features, the tile, a line for joining groups.
// Traffic  per tile 4 (64, d) floats are read from L1 or L2 and (64, d) added to, in a workspace where the rows of the
//          owner are neighbours, for 4096 pairs of 6 d + 40 instructions: bound by arithmetic.
// Numbers  float32, accurate expf; differences are taken before they are multiplied.
// Profile  `make sim-profile OP=nw_smooth_bwd`
#include "kernels/nw_smooth.cuh"
#include "kernels/nw_smooth_bwd.h"
#include "kernels/nw_smooth_common.h"

namespace lc::LC_CUDA_NS {

struct NwQueries {     // the queries as the roles need them, each array (n)
    float* h;          // -1 / (2 gamma^2)
    float* log_label;  // -inf: no pull
    float* shift;      // subtracted from the worth of every reference
    float* rare;       // soft labels, where theta_l underflowed: dlog_label, which A cannot hold
    int* own;          // class with weights u_ij; -1: none
};

struct NwBackward {
    NwSmooth in;
    NwOutput forward;
    const float* dtheta;      // (n, C)
    const float* dlog_label;  // (n) or null
    NwQueries queries;
    float* A;  // (C, n)
};

__global__ void __launch_bounds__(kNwBlock) nw_prepare_kernel(NwBackward b) {
    const NwSmooth& in = b.in;
    const int64_t i = int64_t(blockIdx.x) * kNwBlock + threadIdx.x;
    if (i >= in.n) return;
    const float* dtheta = b.dtheta + i * in.C;
    const bool exact = in.form == NwForm::exact, hard = in.labels != nullptr;
    const float log_label = b.dlog_label == nullptr ? -INFINITY : b.forward.log_label[i];
    const bool pulled = log_label != -INFINITY;  // else nobody has the class
    const float dlog = pulled ? b.dlog_label[i] : 0.0f;
    float dot = 0.0f;
    for (int64_t c = 0; c < in.C; ++c) dot += dtheta[c] * b.forward.theta[i * in.C + c];

    const float shift = exact ? dot + dlog : 0.0f;
    const float folded = exact && hard ? shift : 0.0f;  // hard labels: A holds all of it
    for (int64_t c = 0; c < in.C; ++c) b.A[c * in.n + i] = dtheta[c] - folded;
    float rare = 0.0f;
    int own = -1;
    if (pulled) {
        const int y = in.query_labels[i];
        float& a = b.A[y * in.n + i];
        if (exact && hard) {
            own = y;
            a = (dtheta[y] - dot) * expf(log_label) - dlog * expm1f(log_label);
        } else if (exact && log_label < kTrustedLog) {
            rare = dlog;
        } else {
            a += dlog * expf(-log_label);
        }
    }
    b.queries.h[i] = exponent_of(gamma_of(in, i));
    b.queries.log_label[i] = log_label;
    b.queries.shift[i] = shift - folded;
    b.queries.rare[i] = rare;
    b.queries.own[i] = own;
}

// ---- one pair -------------------------------------------------------------------------------------------------------

// What reference j is worth to query i.
__device__ __forceinline__ float worth_of(const NwBackward& b, int64_t i, int64_t j) {
    if (b.in.labels != nullptr) {
        const int c = b.in.labels[j];
        return c >= 0 && c < b.in.C ? b.A[c * b.in.n + i] : 0.0f;
    }
    float worth = 0.0f;
    for (int64_t c = 0; c < b.in.C; ++c) worth += b.in.soft[j * b.in.C + c] * b.A[c * b.in.n + i];
    return worth;
}

enum class NwRole { shift, dQ, dR };

// g_ij / gamma_i^2; in role shift P_ij e_ij.
template <NwRole kRole>
__device__ __forceinline__ float pull_of(const NwBackward& b, int64_t i, int64_t j, float D) {
    const NwQueries& q = b.queries;
    const bool mine = q.own[i] >= 0 && b.in.labels[j] == q.own[i];
    const float h = q.h[i], s = h * D - b.forward.log_norm[i], weight = expf(mine ? s - q.log_label[i] : s);
    float worth = worth_of(b, i, j);
    if (b.in.form == NwForm::authors && (weight < kNwFloor || weight > 1.0f - kNwFloor)) worth = 0.0f;
    if (kRole == NwRole::shift) return weight * worth;
    float g = weight * (worth - q.shift[i]);
    if (q.rare[i] != 0.0f) {
        const float Y = b.in.soft[j * b.in.C + b.in.query_labels[i]];
        if (Y != 0.0f) g += q.rare[i] * expf(s - q.log_label[i] + logf(Y));
    }
    return g * (-2.0f * h);
}

// ---- one role -------------------------------------------------------------------------------------------------------

// The features of this thread among those of a slice: 4 of 16.
__device__ __forceinline__ bool owns_feature(int64_t k) { return k % kStep / 4 == nw_thread().group; }

// sums[feature][lane] += sum over the walked rows of g (walked - owner), for the features k .. of the staged slices.
__device__ __forceinline__ void add_differences(float* sums, const NwShared& s, int rows, int64_t k, int64_t d) {
    const NwThread t = nw_thread();
    const int f = 4 * t.group;
    float own[4], sum[4] = {};
#pragma unroll
    for (int u = 0; u < 4; ++u) own[u] = s.owner[(f + u) * kPitch + t.lane];
    for (int r = 0; r < rows; ++r) {
        const float g = s.D[r * kPitch + t.lane];
#pragma unroll
        for (int u = 0; u < 4; ++u) sum[u] += g * (s.walked[(f + u) * kPitch + r] - own[u]);
    }
#pragma unroll
    for (int u = 0; u < 4; ++u) {
        if (k + f + u < d) sums[(k + f + u) * kSide + t.lane] += sum[u];
    }
}

// The tile D becomes g_ij / gamma_i^2.  Returns the sum over this thread's rows of P e or g D.
template <NwRole kRole>
__device__ __forceinline__ float gradient_tile(const NwBackward& b, float* D, bool inside, int64_t o, int64_t w,
                                               int rows) {
    const NwThread t = nw_thread();
    float sum = 0.0f;
    for (int r = t.group; r < rows; r += kGroups) {
        float& cell = D[r * kPitch + t.lane];
        const int64_t i = kRole == NwRole::dR ? w + r : o, j = kRole == NwRole::dR ? o : w + r;
        const bool counts = inside && !(b.in.leave_one_out && i == j);
        const float D2 = cell;
        cell = counts ? pull_of<kRole>(b, i, j, D2) : 0.0f;
        if (counts && kRole != NwRole::dR) sum += kRole == NwRole::shift ? cell : cell * D2;
    }
    return sum;
}

// out: dQ (n, d) or dR (m, d); workspace: so many rows in whole tiles, each turned round (d, kSide); row_dgamma (n) or
// null, in role dQ.  Role shift writes into b.queries.
template <NwRole kRole>
__global__ void __launch_bounds__(kNwBlock, 3)
    nw_backward_kernel(NwBackward b, float* out, float* workspace, float* row_dgamma) {
    LC_NW_SHARED(s);
    constexpr bool kOwnsR = kRole == NwRole::dR, kSums = kRole != NwRole::shift;
    const NwSmooth& in = b.in;
    const NwThread t = nw_thread();
    const NwRows Q = {in.Q, in.n}, R = {in.R, in.m}, owner = kOwnsR ? R : Q, walked = kOwnsR ? Q : R;
    const int64_t first = int64_t(blockIdx.x) * kSide, o = first + t.lane;
    const bool inside = o < owner.count;
    float* const sums = workspace + first * in.d;
    for (int64_t k = 0; kSums && k < in.d; ++k) {
        if (owns_feature(k)) sums[k * kSide + t.lane] = 0.0f;
    }
    float sum = 0.0f;
    for (int64_t w = 0; w < walked.count; w += kSide) {
        const int rows = tile_rows(walked.count, w);
        distance_tile(s, owner, first, walked, w, in.d);
        sum += gradient_tile<kRole>(b, s.D, inside, o, w, rows);
        for (int64_t k = 0; kSums && k < in.d; k += kStep) {
            __syncthreads();  // the tile is complete, the slices may still be read
            stage(s.owner, owner, first, in.d, k);
            stage(s.walked, walked, w, in.d, k);
            __syncthreads();
            add_differences(sums, s, rows, k, in.d);
        }
    }
    __syncthreads();
    for (int64_t e = threadIdx.x; kSums && e < tile_rows(owner.count, first) * in.d; e += kNwBlock) {
        out[first * in.d + e] = sums[e % in.d * kSide + e / in.d];
    }
    if (kOwnsR) return;
    sum = join_groups<SumOf>(sum);
    if (!inside || t.group != 0) return;
    if (kRole == NwRole::shift) b.queries.shift[o] = sum;
    if (kRole == NwRole::dQ && row_dgamma != nullptr) row_dgamma[o] = sum / gamma_of(in, o);
}

// out (1) = the sum of x (n), by one block.
__global__ void __launch_bounds__(kRowBlock) nw_total_kernel(float* out, const float* x, int64_t n) {
    float sum = 0.0f;
    for (int64_t i = threadIdx.x; i < n; i += kRowBlock) sum += x[i];
    sum = block_reduce<SumOf>(sum);
    if (threadIdx.x == 0) *out = sum;
}

void nw_smooth_bwd(const NwGradients& out, const float* dtheta, const float* dlog_label, const NwOutput& forward,
                   const NwSmooth& in, Stream s) {
    check_nw_smooth_bwd(out, dtheta, dlog_label, forward, in);
    const int64_t n = in.n == 0 ? 1 : in.n, Q_tiles = ceil_div(n, kSide), R_tiles = ceil_div(in.m, kSide);
    const Workspace<float> A(n * in.C, s), of_queries(5 * n, s);
    const Workspace<float> sums((Q_tiles > R_tiles ? Q_tiles : R_tiles) * kSide * in.d, s);
    const Workspace<int> own(n, s);
    float* const x = of_queries.data();
    const NwQueries queries = {x, x + n, x + 2 * n, x + 3 * n, own.data()};
    float* const row_dgamma = x + 4 * n;
    const NwBackward b = {in, forward, dtheta, dlog_label, queries, A.data()};
    const bool whole_dgamma = out.dgamma != nullptr && !in.gamma_per_row;
    float* const of_rows = whole_dgamma ? row_dgamma : out.dgamma;
    float* const none = nullptr;
    if (in.n > 0) {
        const dim3 grid = grid_of(Q_tiles);
        LC_LAUNCH(nw_prepare_kernel, grid_of(ceil_div(in.n, kNwBlock)), kNwBlock, 0, s, b);
        if (in.form == NwForm::authors) {
            LC_LAUNCH(nw_backward_kernel<NwRole::shift>, grid, kNwBlock, 0, s, b, none, sums.data(), none);
        }
        LC_LAUNCH(nw_backward_kernel<NwRole::dQ>, grid, kNwBlock, 0, s, b, out.dQ, sums.data(), of_rows);
    }
    LC_LAUNCH(nw_backward_kernel<NwRole::dR>, grid_of(R_tiles), kNwBlock, 0, s, b, out.dR, sums.data(), none);
    if (whole_dgamma) LC_LAUNCH(nw_total_kernel, grid_of(1), kRowBlock, 0, s, out.dgamma, row_dgamma, in.n);
}

}  // namespace lc::LC_CUDA_NS

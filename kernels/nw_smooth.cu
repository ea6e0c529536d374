// nw_smooth.cu -- CUDA backend of nw_smooth (contract: nw_smooth.h; tiles and threads: nw_smooth.cuh).
//
// Idea     a block owns 64 queries and walks over the references in tiles of 64.  A query's neighbours are two groups,
//          those of its own class (where log_label is asked for) and the others; each group has its nearest neighbour
//          so far, and weights relative to it, so that neither sum underflows.  A nearer one scales down what was
//          summed before.  Form authors has no such reference point: two walks, first the sum of exp(s), then the
//          clamped weights.
// Launch   grid = ceil(n / 64), block = 256.  Lanes past n compute with zeros and store nothing; references past m are
//          left out of every loop.
// Classes  the sums (C, 64) of a block lie in shared memory where C <= 40, else in a workspace of n C floats.  Class c
//          of column `lane` belongs to thread (lane, c mod 4): one owner each, so no atomics and a fixed order.  In
//          that loop a warp has one label at a time, hence no divergence, and 32 neighbouring sums.
// Shared   27 KiB: two slices of 16 features, the tile, a line for joining groups; and the sums: 256 C B.
// Traffic  per tile 2 (64, d) floats from L1 or L2 for 4096 pairs of 3 d + 2 C + 30 instructions: bound by arithmetic.
// Numbers  float32, accurate expf and logf; every sum has one order.
// Profile  `make sim-profile OP=nw_smooth`
#include "kernels/nw_smooth.cuh"
#include "kernels/nw_smooth.h"
#include "kernels/nw_smooth_common.h"

namespace lc::LC_CUDA_NS {

constexpr int64_t kSharedClasses = 40;  // sums of so many classes fit shared memory beside the tile, below 48 KiB

struct Query {                   // what a thread knows about the query of its column; the kGroups threads agree
    int64_t i;                   // row; n or more: none
    float h;                     // -1 / (2 gamma^2)
    int own;                     // its class; -1: none is told apart
    float near_own, near_other;  // squared distances
    float sum_own, sum_other;    // of the weights of this thread's rows j
};

__device__ __forceinline__ Query query_of(const NwSmooth& in, bool tell_own) {
    Query q = {int64_t(blockIdx.x) * kSide + nw_thread().lane, -1.0f, -1, kNwFarthest, kNwFarthest, 0.0f, 0.0f};
    if (q.i >= in.n) return q;
    q.h = exponent_of(gamma_of(in, q.i));
    if (tell_own) q.own = in.query_labels[q.i];
    return q;
}

// Calls f(j, own, D) for the rows j of the tile that are this thread's; D is the place of the squared distance.
template <class F>
__device__ __forceinline__ void for_own_rows(const NwSmooth& in, const Query& q, float* D, int64_t first, const F& f) {
    const NwThread t = nw_thread();
    for (int r = t.group; r < tile_rows(in.m, first); r += kGroups) {
        const int64_t j = first + r;
        if (in.leave_one_out && j == q.i) D[r * kPitch + t.lane] = INFINITY;
        f(q.own >= 0 && in.labels[j] == q.own, D[r * kPitch + t.lane]);
    }
}

// sums[c][lane] += the weights of the tile, for the classes c of this thread.
__device__ __forceinline__ void add_weights(float* sums, const NwSmooth& in, const float* weights, int64_t first) {
    const NwThread t = nw_thread();
    const int rows = tile_rows(in.m, first);
    if (in.labels != nullptr) {
        for (int r = 0; r < rows; ++r) {
            const int c = in.labels[first + r];
            if (c >= 0 && c < in.C && c % kGroups == t.group) sums[c * kSide + t.lane] += weights[r * kPitch + t.lane];
        }
        return;
    }
    for (int c = t.group; c < in.C; c += kGroups) {
        float sum = 0.0f;
        for (int r = 0; r < rows; ++r) sum += weights[r * kPitch + t.lane] * in.soft[(first + r) * in.C + c];
        sums[c * kSide + t.lane] += sum;
    }
}

// ---- exact ----------------------------------------------------------------------------------------------------------

// Takes the nearest neighbours of a tile into account: what was summed before shrinks.
__device__ __forceinline__ void approach(Query& q, float* sums, const NwSmooth& in, float* D, int64_t first) {
    float own = q.near_own, other = q.near_other;
    for_own_rows(in, q, D, first, [&](bool mine, float D2) {
        if (mine) own = MinOf::join(own, D2);
        if (!mine) other = MinOf::join(other, D2);
    });
    own = join_groups<MinOf>(own);
    other = join_groups<MinOf>(other);
    if (own < q.near_own || other < q.near_other) {
        const NwThread t = nw_thread();
        const float of_own = expf(q.h * (q.near_own - own)), of_other = expf(q.h * (q.near_other - other));
        for (int c = t.group; c < in.C; c += kGroups) sums[c * kSide + t.lane] *= c == q.own ? of_own : of_other;
        q.sum_own *= of_own;
        q.sum_other *= of_other;
        q.near_own = own;
        q.near_other = other;
    }
}

__device__ __forceinline__ void exact_tile(Query& q, float* sums, const NwSmooth& in, float* D, int64_t first) {
    approach(q, sums, in, D, first);
    for_own_rows(in, q, D, first, [&](bool mine, float& D2) {
        D2 = expf(q.h * (D2 - (mine ? q.near_own : q.near_other)));
        (mine ? q.sum_own : q.sum_other) += D2;
    });
    __syncthreads();
    add_weights(sums, in, D, first);
}

// ln sum_j exp(s_ij) Y_jl by itself, for a query whose theta_l is too small for float32: rare, and so without ceremony.
__device__ float log_soft_sum(const NwSmooth& in, const Query& q) {
    const int64_t l = in.query_labels[q.i];
    float top = -INFINITY, sum = 0.0f;
    for (int64_t j = 0; j < in.m; ++j) {
        const float Y = in.soft[j * in.C + l];
        if ((in.leave_one_out && j == q.i) || Y == 0.0f) continue;
        float D = 0.0f;
        for (int64_t k = 0; k < in.d; ++k) {
            const float difference = in.Q[q.i * in.d + k] - in.R[j * in.d + k];
            D += difference * difference;
        }
        const float s = q.h * D + logf(Y);
        const float higher = s > top ? s : top;
        sum = sum * expf(top - higher) + expf(s - higher);
        top = higher;
    }
    return top + logf(sum);
}

// Scales the sums of this thread's classes to theta; log_norm and log_label are stored.
__device__ __forceinline__ void finish_exact(const NwOutput& out, const NwSmooth& in, const Query& q, float* sums) {
    const NwThread t = nw_thread();
    const float own = join_groups<SumOf>(q.sum_own), other = join_groups<SumOf>(q.sum_other);
    const float nearest = MinOf::join(q.near_own, q.near_other);
    const float of_own = expf(q.h * (q.near_own - nearest)), of_other = expf(q.h * (q.near_other - nearest));
    const float total = own * of_own + other * of_other;
    for (int c = t.group; c < in.C; c += kGroups) {
        float& sum = sums[c * kSide + t.lane];
        sum = sum * (c == q.own ? of_own : of_other) / total;
    }
    if (t.group != 0 || q.i >= in.n) return;
    out.log_norm[q.i] = q.h * nearest + logf(total);
    if (q.own >= 0) out.log_label[q.i] = q.h * (q.near_own - nearest) + (logf(own) - logf(total));
}

// ---- authors --------------------------------------------------------------------------------------------------------

__device__ __forceinline__ void authors_sum(Query& q, const NwSmooth& in, float* D, int64_t first) {
    for_own_rows(in, q, D, first, [&](bool, float D2) { q.sum_other += expf(q.h * D2); });
}

__device__ __forceinline__ void authors_tile(const Query& q, float log_norm, float* sums, const NwSmooth& in, float* D,
                                             int64_t first) {
    for_own_rows(in, q, D, first, [&](bool, float& D2) {
        const float k = expf(q.h * D2 - log_norm);
        D2 = k < kNwFloor ? kNwFloor : k > 1.0f - kNwFloor ? 1.0f - kNwFloor : k;  // a NaN stays
    });
    __syncthreads();
    add_weights(sums, in, D, first);
}

// ---- the kernel -----------------------------------------------------------------------------------------------------

// log_label where it is ln theta: form authors and soft labels.
__device__ __forceinline__ void log_of_theta(const NwOutput& out, const NwSmooth& in, const Query& q,
                                             const float* sums) {
    const NwThread t = nw_thread();
    if (out.log_label == nullptr || q.own >= 0 || t.group != 0 || q.i >= in.n) return;
    const float value = logf(sums[in.query_labels[q.i] * kSide + t.lane]);
    const bool lost = in.form == NwForm::exact && value < kTrustedLog;
    out.log_label[q.i] = lost ? log_soft_sum(in, q) - out.log_norm[q.i] : value;
}

// resources: nw_smooth_kernel dynamic_smem=2560
__global__ void __launch_bounds__(kNwBlock) nw_smooth_kernel(NwOutput out, NwSmooth in, float* workspace) {
    LC_DYNAMIC_SMEM(float, class_sums);
    LC_NW_SHARED(s);
    const NwThread t = nw_thread();
    const int64_t first_query = int64_t(blockIdx.x) * kSide;
    const NwRows owner = {in.Q, in.n}, walked = {in.R, in.m};
    const bool exact = in.form == NwForm::exact;
    float* const sums = workspace == nullptr ? class_sums : workspace + first_query * in.C;  // (C, kSide)
    for (int c = t.group; c < in.C; c += kGroups) sums[c * kSide + t.lane] = 0.0f;

    Query q = query_of(in, exact && in.labels != nullptr && out.log_label != nullptr);
    float log_norm = 0.0f;
    for (int walk = exact ? 1 : 0; walk < 2; ++walk) {
        for (int64_t j = 0; j < in.m; j += kSide) {
            distance_tile(s, owner, first_query, walked, j, in.d);
            if (exact) exact_tile(q, sums, in, s.D, j);
            if (!exact && walk == 0) authors_sum(q, in, s.D, j);
            if (!exact && walk == 1) authors_tile(q, log_norm, sums, in, s.D, j);
        }
        if (!exact && walk == 0) log_norm = logf(join_groups<SumOf>(q.sum_other) + kNwFloor);
    }
    if (exact) finish_exact(out, in, q, sums);
    if (!exact && t.group == 0 && q.i < in.n) out.log_norm[q.i] = log_norm;
    __syncthreads();  // all classes of all columns are ready
    log_of_theta(out, in, q, sums);
    const int64_t rows = tile_rows(in.n, first_query);
    for (int64_t e = threadIdx.x; e < rows * in.C; e += kNwBlock) {
        out.theta[first_query * in.C + e] = sums[e % in.C * kSide + e / in.C];
    }
}

void nw_smooth(const NwOutput& out, const NwSmooth& in, Stream s) {
    check_nw_smooth(out, in);
    if (in.n == 0) return;
    const int64_t blocks = ceil_div(in.n, kSide);
    if (in.C <= kSharedClasses) {
        LC_LAUNCH(nw_smooth_kernel, grid_of(blocks), kNwBlock, size_t(in.C * kSide) * sizeof(float), s, out, in,
                  nullptr);
        return;
    }
    const Workspace<float> sums(blocks * kSide * in.C, s);
    LC_LAUNCH(nw_smooth_kernel, grid_of(blocks), kNwBlock, 0, s, out, in, sums.data());
}

}  // namespace lc::LC_CUDA_NS

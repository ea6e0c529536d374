// knn.cu -- CUDA backend of knn (contract and formulas: knn.h).
//
// Idea     a block owns 64 queries and walks over all references, 64 at a time.  The 64 x 64 distances of a step are
//          computed in registers, 4 x 4 per thread, and laid down in shared memory; then a warp takes one query after
//          another and inserts what is nearer than its worst so far into its sorted list, which two registers per lane
//          hold meanwhile.
//
//              features: 8 at a time             distances             lists
//              Q^T [8][64]  R^T [8][64]    ->    [64][64]        ->    [64][64], sorted
//
// Launch   grid = ceil(n / 64), block = 256.  Threads of missing queries work on zeros, missing references become NaN.
// Shared   two 8 x 68 tiles, 64 x 68 distances, 64 x 64 lists: 38 KiB, static.  68 = 64 + 4: a warp stores 4 rows x 8
//          features in 32 different banks, float4 stays aligned.
// Traffic  compulsory 4 (n + m) d B; scheduled: R once per block, from L2.  Per feature and step a thread reads 8 floats
//          from shared memory for 32 instructions: bound by arithmetic.
// Numbers  float32, one chain of d terms per pair.  A pair that does not count is a NaN and never enters a list.
//          The lists are sets of numbers: the order of insertion does not show.
// Profile  `make sim-profile OP=knn`
#include "kernels/device.cuh"
#include "kernels/knn.h"

namespace lc::LC_CUDA_NS {

constexpr int kKnnBlock = 256;
constexpr int kSide = 64;           // queries, and references, of a step
constexpr int kStride = kSide + 4;  // of the tiles in shared memory
constexpr int kFeatures = 8;        // per step along d
constexpr int kEach = 4;            // queries, and references, per thread
static_assert(kSide == kMostNeighbours && kSide == 2 * kWarp, "a list is two numbers per lane");

// Rows first .. first + 63 of x, features c .. c + 7, transposed; zeros outside.
static __device__ __forceinline__ void load_tile(float (&tile)[kFeatures][kStride], const float* x, int64_t rows,
                                                 int64_t d, int64_t first, int64_t c) {
    const int feature = int(threadIdx.x) % kFeatures;
    for (int i = int(threadIdx.x) / kFeatures; i < kSide; i += kKnnBlock / kFeatures) {
        const bool exists = first + i < rows && c + feature < d;
        tile[feature][i] = exists ? x[(first + i) * d + c + feature] : 0.0f;
    }
}

// A sorted list of 64, NaN last: lane l of a warp holds elements l and 32 + l.
struct KnnList {
    float low, high;

    __device__ __forceinline__ float at(int i) const {
        const float a = __shfl_sync(kFullWarp, low, i % kWarp), b = __shfl_sync(kFullWarp, high, i % kWarp);
        return i < kWarp ? a : b;
    }
    __device__ __forceinline__ void insert(float x, int lane) {
        const int place = __popc(__ballot_sync(kFullWarp, low <= x)) +
                          __popc(__ballot_sync(kFullWarp, high <= x));  // NaN <= x: false
        const float last = __shfl_sync(kFullWarp, low, kWarp - 1);
        const float low_before = __shfl_up_sync(kFullWarp, low, 1), high_before = __shfl_up_sync(kFullWarp, high, 1);
        if (lane >= place) low = lane == place ? x : low_before;
        if (lane + kWarp >= place) high = lane + kWarp == place ? x : lane == 0 ? last : high_before;
    }
};

// Inserts every square of a row that is below the k-th of the list.
static __device__ __forceinline__ void pick(KnnList& list, const float* squares, int k, int lane) {
    float worst = list.at(k - 1);
    for (int half = 0; half < 2; ++half) {
        float x = squares[half * kWarp + lane];
        for (;;) {
            const unsigned near = __ballot_sync(kFullWarp, x == x && !(x >= worst));
            if (near == 0) break;
            const int from = __ffs(int(near)) - 1;
            list.insert(__shfl_sync(kFullWarp, x, from), lane);
            worst = list.at(k - 1);
            if (lane == from) x = NAN;
        }
    }
}

__global__ void __launch_bounds__(kKnnBlock, 3) knn_kernel(float* __restrict__ distance,  // (n, k)
                                                           const float* __restrict__ Q,   // (n, d)
                                                           const float* __restrict__ R,   // (m, d)
                                                           Knn g) {
    LC_SHARED(float, q_tile, [kFeatures][kStride]);
    LC_SHARED(float, r_tile, [kFeatures][kStride]);
    LC_SHARED(float, squares, [kSide][kStride]);
    LC_SHARED(float, lists, [kSide][kSide]);
    const int t = int(threadIdx.x), lane = t % kWarp, warp = t / kWarp;
    const int tx = t % (kSide / kEach), ty = t / (kSide / kEach);
    const int64_t first = int64_t(blockIdx.x) * kSide;
    for (int i = t; i < kSide * kSide; i += kKnnBlock) lists[i / kSide][i % kSide] = NAN;

    for (int64_t j = 0; j < g.m; j += kSide) {
        float sum[kEach][kEach] = {};
        for (int64_t c = 0; c < g.d; c += kFeatures) {
            __syncthreads();  // the tiles, and the squares of the step before, have been read
            load_tile(q_tile, Q, g.n, g.d, first, c);
            load_tile(r_tile, R, g.m, g.d, j, c);
            __syncthreads();
#pragma unroll
            for (int f = 0; f < kFeatures; ++f) {
                const float4 q4 = ld4(&q_tile[f][ty * kEach]), r4 = ld4(&r_tile[f][tx * kEach]);
                const float q[kEach] = {q4.x, q4.y, q4.z, q4.w}, r[kEach] = {r4.x, r4.y, r4.z, r4.w};
#pragma unroll
                for (int a = 0; a < kEach; ++a) {
#pragma unroll
                    for (int b = 0; b < kEach; ++b) sum[a][b] = fmaf(q[a] - r[b], q[a] - r[b], sum[a][b]);
                }
            }
        }
#pragma unroll
        for (int a = 0; a < kEach; ++a) {
#pragma unroll
            for (int b = 0; b < kEach; ++b) {
                const int64_t reference = j + tx * kEach + b;
                const bool self = g.leave_one_out && reference == first + ty * kEach + a;
                if (reference >= g.m || self) sum[a][b] = NAN;
            }
            st4(&squares[ty * kEach + a][tx * kEach], make_float4(sum[a][0], sum[a][1], sum[a][2], sum[a][3]));
        }
        __syncthreads();
        for (int i = warp; i < kSide; i += kKnnBlock / kWarp) {
            KnnList list = {lists[i][lane], lists[i][kWarp + lane]};
            pick(list, squares[i], int(g.k), lane);
            lists[i][lane] = list.low;
            lists[i][kWarp + lane] = list.high;
        }
    }
    __syncthreads();
    const int k = int(g.k), found = int(min(int64_t(kSide), g.n - first)) * k;
    for (int i = t; i < found; i += kKnnBlock) distance[first * k + i] = sqrtf(lists[i / k][i % k]);
}

void knn(float* distance, const float* Q, const float* R, const Knn& shape, Stream s) {
    check_knn(distance, Q, R, shape);
    if (shape.n == 0) return;
    LC_LAUNCH(knn_kernel, grid_of(ceil_div(shape.n, kSide)), kKnnBlock, 0, s, distance, Q, R, shape);
}

}  // namespace lc::LC_CUDA_NS

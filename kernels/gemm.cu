// gemm.cu -- CUDA backend of gemm, engine `own` (contract and formula: gemm.h).
//
// Idea     a block owns a square tile of C, a thread 8 x 8 (4 x 8) elements of it in registers.  The block walks along
//          k in steps of 8: while it multiplies one pair of tiles from shared memory, the next pair is on its way from
//          global memory to registers, and goes to the other half of shared memory afterwards.
//
//            A (M, K)              B (K, N)               C: one block = one tile          one warp = 4 x 8 lanes
//            +-----------+         +---+-----+-----+      +-------+-------+                +-+-+-+-+-+-+-+-+
//            |           |         |   | b_s | 8   |      | w0 w1 | w0 w1 | rows 0..63     |0|1|2|3|4|5|6|7|
//            +---+-------+         |   +-----+     |      | w2 w3 | w2 w3 |                +-+-+-+-+-+-+-+-+
//        128 |a_s| k ->  |         |   | k | |     |      | w4 w5 | w4 w5 |                |8| | | | | | | |
//            +---+-------+         |   |   v |     |      | w6 w7 | w6 w7 |                +-+-+-+-+-+-+-+-+
//            | 8         |         |   | 128 |     |      +-------+-------+                | | | | | | | | |
//            +-----------+         +---+-----+-----+      | w0 w1 | w0 w1 | rows 64..127   +-+-+-+-+-+-+-+-+
//                                                         |  ...  |  ...  |                | | | | | | | |31
//                                                         +-------+-------+                +-+-+-+-+-+-+-+-+
//
//          A lane is a cell of 4 x 4 elements, at the same place in each quarter of the tile (tile 64: four warps, and
//          the two halves left and right).  So 8 lanes read 8 neighbouring float4 of b_s and one float4 of a_s, which
//          costs no bank conflict, and write 128 neighbouring bytes of C.
//
// Launch   tile 128: 256 threads, 8 x 8 each; tile 64, for small C and for unaligned operands: 128 threads, 4 x 8 each.
//          grid = (tiles of M, tiles of N, batch).  Threads outside M, N or K stage zeros and reach every barrier.
// Shared   2 halves x 2 operands x 8 x (tile + 4) floats: 16.5 KiB (tile 128), 8.5 KiB (tile 64).  One barrier per
//          step: the half that is written was last read before the previous barrier.  Rows are padded by 4 floats: an
//          operand that is contiguous along k is transposed by its store, 16 rows x 2 k-groups per warp, and 4 rows of
//          the shared tile are then 4 * (tile + 4) = 16 banks (mod 32) apart, so that the 32 lanes hit 32 banks.
// Traffic  compulsory 4 (M K + K N + M N) B.  Scheduled: A once per column of tiles, B once per row of tiles, mostly
//          L2: 8 KiB per step and block for 2 * 128 * 128 * 8 flop -> 32 flop per byte: bound by the FP32 pipe.  Tile
//          64: 16 flop per byte.  C in float4 where it is aligned, else in floats that share their sectors in L2.
// Numbers  float32, one chain of fused multiply-adds per element in the order of k: bitwise the same for both tiles,
//          any alignment and any transposes.  No split of k: its partial products would need memory that grows with
//          M N.
// Profile  `make sim-profile OP=gemm`
#include <algorithm>

#include "kernels/gemm.h"
#include "kernels/gemm_tile.cuh"
#if defined(LC_HAVE_CUBLAS) || defined(LC_HAVE_CUTLASS)
    #include "kernels/gemm_nvidia.h"
#endif

namespace lc::LC_CUDA_NS {

// A and B look alike from here: `outer` is m for A and n for B, element (outer, k) lies at outer * outer_stride +
// k * k_stride, and one of the two strides is 1.
enum class GemmLayout {
    k_float4,      // k_stride = 1, four k at a time
    outer_float4,  // outer_stride = 1, four outer at a time
    any,           // no alignment: float by float
};

struct GemmOperand {
    const float* data;
    int64_t outer, outer_stride, k_stride, batch_stride;
    bool k_contiguous;
};

struct GemmTask {
    GemmOperand a, b;
    float* C;  // (batch, M, N)
    int64_t K, ldc, stride_c;
    float alpha, beta;
    bool c_float4;  // may C be accessed in float4?
};

// ---- from global to shared memory -----------------------------------------------------------------------------------

// The share of one thread in moving the tiles of one operand: four elements per step, which wait in registers between
// load() and store().  What is the same for all threads stays in the operand, to keep it out of their registers.
template <int kTile, GemmLayout kLayout>
struct GemmStager {
    static constexpr int kThreads = 2 * kTile, kPitch = kTile + kPad;
    static constexpr int kNever = 1 << 30;                                        // a k that no step reaches
    static constexpr int kOuterHop = kThreads / kStep, kKHop = kThreads / kTile;  // between the four of layout `any`
    const float* next;  // this thread's first element of the tile to be loaded next
    int slot;           // its place in a shared tile
    int k;              // its place along k, or kNever where `outer` is past the edge of the matrix
    int outer_left;     // from its `outer` to that edge; layout `any` only
    float v[4];

    __device__ GemmStager(const GemmOperand& x, unsigned tile) {
        const int t = int(threadIdx.x);
        int outer;
        if (kLayout == GemmLayout::k_float4) {  // two threads per row
            outer = t / 2, k = t % 2 * 4;
        } else if (kLayout == GemmLayout::outer_float4) {
            outer = t % (kTile / 4) * 4, k = t / (kTile / 4);
        } else if (x.k_contiguous) {  // eight threads per row
            outer = t / kStep, k = t % kStep;
        } else {
            outer = t % kTile, k = t / kTile;
        }
        const int64_t first = int64_t(tile) * kTile + outer;
        next = x.data + blockIdx.z * x.batch_stride + first * x.outer_stride + k * x.k_stride;
        slot = k * kPitch + outer;
        outer_left = int(min(x.outer - first, int64_t(kTile)));
        if (outer_left <= 0) k = kNever;
    }

    // Loads the next tile, of which `k_left` steps along k exist.
    __device__ __forceinline__ void load(const GemmOperand& x, int k_left) {
        if (kLayout != GemmLayout::any) {
            float4 q = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
            if (k < k_left) q = ld4(next);
            v[0] = q.x, v[1] = q.y, v[2] = q.z, v[3] = q.w;
        } else if (x.k_contiguous) {
            load_floats<true>(x, k_left);
        } else {
            load_floats<false>(x, k_left);
        }
        next += kLayout == GemmLayout::k_float4 ? kStep : kStep * x.k_stride;
    }

    template <bool kAlongK>
    __device__ __forceinline__ void load_floats(const GemmOperand& x, int k_left) {
        const float* p = next;
#pragma unroll
        for (int e = 0; e < 4; ++e) {
            const bool inside = kAlongK ? k < k_left && e * kOuterHop < outer_left : k + e * kKHop < k_left;
            v[e] = inside ? *p : 0.0f;
            p += kAlongK ? kOuterHop * x.outer_stride : kKHop * x.k_stride;
        }
    }

    __device__ __forceinline__ void store(float (&tile)[kStep][kPitch], const GemmOperand& x) const {
        float* const to = &tile[0][0] + slot;
        if (kLayout == GemmLayout::outer_float4) {
            st4(to, make_float4(v[0], v[1], v[2], v[3]));
        } else {
#pragma unroll
            for (int e = 0; e < 4; ++e) {
                const int any_hop = x.k_contiguous ? kOuterHop : kKHop * kPitch;
                to[e * (kLayout == GemmLayout::k_float4 ? kPitch : any_hop)] = v[e];
            }
        }
    }
};

// ---- from registers to C --------------------------------------------------------------------------------------------

// Four neighbours of a row of C, of which `left` exist.
static __device__ __forceinline__ void store_four(float* c, const float* sum, int left, const GemmTask& g) {
    const bool keep = g.beta != 0.0f;  // else C is not read: it may hold NaN
    if (g.c_float4 && left >= 4) {
        float4 q = make_float4(g.alpha * sum[0], g.alpha * sum[1], g.alpha * sum[2], g.alpha * sum[3]);
        if (keep) {
            const float4 old = ld4(c);
            q = make_float4(fmaf(g.beta, old.x, q.x), fmaf(g.beta, old.y, q.y), fmaf(g.beta, old.z, q.z),
                            fmaf(g.beta, old.w, q.w));
        }
        st4(c, q);
        return;
    }
#pragma unroll
    for (int e = 0; e < 4; ++e) {
        if (e < left) c[e] = keep ? fmaf(g.beta, c[e], g.alpha * sum[e]) : g.alpha * sum[e];
    }
}

template <int kTile, class P = GemmPlace<kTile>>
static __device__ __forceinline__ void store_tile(const float (&sum)[P::kRows][P::kCols], const GemmTask& g, P at) {
    const int64_t m = int64_t(blockIdx.x) * kTile + at.row, n = int64_t(blockIdx.y) * kTile + at.column;
    const int rows = int(min(g.a.outer - m, int64_t(kTile))), columns = int(min(g.b.outer - n, int64_t(kTile)));
    float* const C = g.C + blockIdx.z * g.stride_c + m * g.ldc + n;  // first element of this thread
#pragma unroll
    for (int i = 0; i < P::kRows; ++i) {
        const int row = i / kCell * P::kRowHop + i % kCell;
        if (row >= rows) break;
#pragma unroll
        for (int j = 0; j < P::kColCells; ++j) {
            store_four(C + row * g.ldc + j * P::kColHop, &sum[i][j * kCell], columns - j * P::kColHop, g);
        }
    }
}

// ---- the kernel -----------------------------------------------------------------------------------------------------

template <int kTile, GemmLayout kLayoutA, GemmLayout kLayoutB>
__global__ void __launch_bounds__(2 * kTile, kTile == 128 ? 2 : 4) gemm_kernel(GemmTask g) {
    LC_SHARED(float, a_s, [2][kStep][kTile + kPad]);
    LC_SHARED(float, b_s, [2][kStep][kTile + kPad]);
    using Place = GemmPlace<kTile>;
    const Place at;
    GemmStager<kTile, kLayoutA> a(g.a, blockIdx.x);
    GemmStager<kTile, kLayoutB> b(g.b, blockIdx.y);
    float sum[Place::kRows][Place::kCols] = {};

    int ahead = int(min(g.K, int64_t(kStep)));  // how much of the tile to be loaded exists
    a.load(g.a, ahead);
    b.load(g.b, ahead);
    int half = 0;
    for (int64_t k_left = g.K; k_left > 0; k_left -= kStep) {
        a.store(a_s[half], g.a);
        b.store(b_s[half], g.b);
        __syncthreads();  // this half is complete, and everybody is done with the other one
        ahead = int(min(k_left - kStep, int64_t(kStep)));
        a.load(g.a, ahead);  // in the last step nothing is left to read
        b.load(g.b, ahead);
        multiply_tiles<kTile>(sum, a_s[half], b_s[half], at);
        half ^= 1;
    }
    store_tile<kTile>(sum, g, at);
}

// ---- launchers ------------------------------------------------------------------------------------------------------

// May the operand be loaded in float4?  Then every row starts on 16 bytes and ends with a whole float4.
static bool float4_ready(const GemmOperand& x, int64_t K, int64_t batch) {
    const int64_t row = x.k_contiguous ? K : x.outer, ld = x.k_contiguous ? x.outer_stride : x.k_stride;
    return aligned16(x.data) && row % 4 == 0 && ld % 4 == 0 && (batch == 1 || x.batch_stride % 4 == 0);
}

template <int kTile, GemmLayout kLayoutA, GemmLayout kLayoutB>
void launch_gemm(const GemmTask& all, int64_t batch, Stream s) {
    constexpr int64_t kMaxGrid = 65535;  // of y and z; larger problems take several launches
    for (int64_t n = 0; n < all.b.outer; n += kMaxGrid * kTile) {
        for (int64_t z = 0; z < batch; z += kMaxGrid) {
            GemmTask g = all;
            g.a.data += z * g.a.batch_stride;
            g.b.data += z * g.b.batch_stride + n * g.b.outer_stride;
            g.C += z * g.stride_c + n;
            g.b.outer -= n;
            dim3 grid = grid_of(ceil_div(g.a.outer, kTile));
            grid.y = unsigned(std::min(ceil_div(g.b.outer, kTile), kMaxGrid));
            grid.z = unsigned(std::min(batch - z, kMaxGrid));
            LC_LAUNCH((gemm_kernel<kTile, kLayoutA, kLayoutB>), grid, 2 * kTile, 0, s, g);
        }
    }
}

template <int kTile>
void launch_float4(const GemmTask& g, int64_t batch, Stream s) {
    constexpr GemmLayout kK = GemmLayout::k_float4, kOuter = GemmLayout::outer_float4;
    const bool ka = g.a.k_contiguous, kb = g.b.k_contiguous;
    if (ka && kb) launch_gemm<kTile, kK, kK>(g, batch, s);
    if (ka && !kb) launch_gemm<kTile, kK, kOuter>(g, batch, s);
    if (!ka && kb) launch_gemm<kTile, kOuter, kK>(g, batch, s);
    if (!ka && !kb) launch_gemm<kTile, kOuter, kOuter>(g, batch, s);
}

static void gemm_own(float* C, const float* A, const float* B, const Gemm& g, Stream s) {
    if (g.M == 0 || g.N == 0 || g.batch == 0) return;
    GemmTask task;
    task.a = {A, g.M, g.trans_a ? 1 : g.lda, g.trans_a ? g.lda : 1, g.stride_a, !g.trans_a};
    task.b = {B, g.N, g.trans_b ? g.ldb : 1, g.trans_b ? 1 : g.ldb, g.stride_b, g.trans_b};
    task.C = C, task.ldc = g.ldc, task.stride_c = g.stride_c;
    task.K = g.K, task.alpha = g.alpha, task.beta = g.beta;
    task.c_float4 = aligned16(C) && g.ldc % 4 == 0 && (g.batch == 1 || g.stride_c % 4 == 0);
    if (g.K == 0 || g.alpha == 0.0f) {  // an empty sum: A and B are not read, and may be null
        task.K = 0, task.alpha = 0.0f;
        task.a.data = task.b.data = C;
    }
    // Small tiles where large ones would be half empty or too few for the some 100 multiprocessors of a large GPU; and
    // for operands without alignment, whose bookkeeping and a large tile do not fit into 128 registers.
    const bool small = g.M <= 64 || g.N <= 64 || ceil_div(g.M, 128) * ceil_div(g.N, 128) * g.batch < 96;
    if (!float4_ready(task.a, task.K, g.batch) || !float4_ready(task.b, task.K, g.batch)) {
        launch_gemm<64, GemmLayout::any, GemmLayout::any>(task, g.batch, s);
    } else if (small) {
        launch_float4<64>(task, g.batch, s);
    } else {
        launch_float4<128>(task, g.batch, s);
    }
}

void gemm(float* C, const float* A, const float* B, const Gemm& shape, Stream s) {
    const Gemm g = checked(shape, C, A, B);
    if (g.engine == GemmEngine::own) return gemm_own(C, A, B, g, s);
#ifdef LC_HAVE_CUBLAS
    if (g.engine == GemmEngine::cublas) return cuda::gemm_cublas(C, A, B, g, s);
#endif
#ifdef LC_HAVE_CUTLASS
    if (g.engine == GemmEngine::cutlass) return cuda::gemm_cutlass(C, A, B, g, s);
#endif
    LC_CHECK(g.engine != GemmEngine::openblas,
             "gemm engine openblas runs on the CPU only; use engine own, or --device cpu");
    LC_CHECK(g.engine == GemmEngine::own,
             "this backend was built without that gemm engine (cublas and cutlass need "
             "`make cuda-libs` before the build, and a GPU); use engine own");
}

}  // namespace lc::LC_CUDA_NS

// gemm_cutlass.cu -- gemm by NVIDIA's templates (contract: gemm.h, what is particular to this engine: gemm_nvidia.h).
//
// Idea     CUTLASS builds a kernel from a list of types: element, layout, tile of a block, tile of a warp, arithmetic,
//          number of pipeline stages.  Row-major with a transpose flag is a layout each: trans_a = false is RowMajor,
//          true is ColumnMajor.  Four pairs of layouts times two kinds of arithmetic make the eight kernels here.
// Simt     float32 on the ordinary cores: tile 128 x 128 x 8, eight warps of 32 x 64, five stages in shared memory.
// Tf32     tensor cores of sm_80: tile 128 x 128 x 16, four warps of 64 x 64, four stages.
// Access   one element at a time (alignment 1), so that every leading dimension and every start address is allowed.
//          Alignments of 2 and 4 would be faster where the shape permits them, and cost eight more kernels each.
// Edges    beta = 0: the epilogue does not read C.  Batches go in slices of 65535, the depth of a grid, so that a block
//          never works on two matrices: CUTLASS could, but puts no barrier between its reads of the first and its
//          writes to shared memory for the second.
// Compile  these templates are slow to compile, so one PTX (compute_80) serves all GPUs from sm_80 on; a wait of a minute
//          instead of two, and the same kernels, since nothing here is written for a newer one.
#include <algorithm>
#include <climits>
#include <cutlass/gemm/device/gemm_batched.h>

#include "kernels/gemm_nvidia.h"
#include "kernels/launch.h"

namespace lc::cuda {

namespace {

using cutlass::gemm::GemmShape;
using RowMajor = cutlass::layout::RowMajor;
using ColumnMajor = cutlass::layout::ColumnMajor;

constexpr int64_t kMaxGridYZ = 65535;
constexpr int kTileN = 128;

struct Simt {
    using Class = cutlass::arch::OpClassSimt;
    using BlockTile = GemmShape<128, kTileN, 8>;
    using WarpTile = GemmShape<32, 64, 8>;
    using Instruction = GemmShape<1, 1, 1>;
    static constexpr int kStages = 5;
    static constexpr int kNeedsArch = 0;
};
struct Tf32 {
    using Class = cutlass::arch::OpClassTensorOp;
    using BlockTile = GemmShape<128, kTileN, 16>;
    using WarpTile = GemmShape<64, 64, 16>;
    using Instruction = GemmShape<16, 8, 8>;
    static constexpr int kStages = 4;
    static constexpr int kNeedsArch = 80;
};

// A kernel that the GPU runs from code for an older architecture exists, but without its tensor-core instructions.
template <class Kernel>
void check_arch(int needed) {
    cudaFuncAttributes f{};
    LC_CUDA_CHECK(cudaFuncGetAttributes(&f, cutlass::Kernel<Kernel>));
    LC_CHECK(f.ptxVersion >= needed, "tf32 of gemm engine cutlass needs code for sm_"
                                         << needed << " or newer; this GPU runs code for sm_" << f.ptxVersion
                                         << "; run without tf32, or on such a GPU with ARCHS=" << needed);
}

template <class Math, class LayoutA, class LayoutB>
void cutlass_gemm(float* C, const float* A, const float* B, const Gemm& g, Stream s) {
    using Epilogue = cutlass::epilogue::thread::LinearCombination<float, 1, float, float>;  // alpha sum + beta C
    using Swizzle = cutlass::gemm::threadblock::GemmBatchedIdentityThreadblockSwizzle;
    using Operation =
        cutlass::gemm::device::GemmBatched<float, LayoutA, float, LayoutB, float, RowMajor, float, typename Math::Class,
                                           cutlass::arch::Sm80, typename Math::BlockTile, typename Math::WarpTile,
                                           typename Math::Instruction, Epilogue, Swizzle, Math::kStages,
                                           /*AlignmentA=*/1, /*AlignmentB=*/1, cutlass::arch::OpMultiplyAdd>;
    using Kernel = typename Operation::GemmKernel;
    if (Math::kNeedsArch > 0) check_arch<Kernel>(Math::kNeedsArch);
    const cutlass::gemm::GemmCoord size(int(g.M), int(g.N), int(g.K));
    const cutlass::gemm::GemmCoord tile(Math::BlockTile::kM, Math::BlockTile::kN, Math::BlockTile::kK);

    for (int64_t first = 0; first < g.batch; first += kMaxGridYZ) {
        const int count = int(std::min(g.batch - first, kMaxGridYZ));
        const cutlass::gemm::GemmCoord tiles = Swizzle::get_tiled_shape(size, tile, count);
        // The iterators want pointers to non-const, also for what they only read.
        float* a = const_cast<float*>(A + first * g.stride_a);
        float* b = const_cast<float*>(B + first * g.stride_b);
        float* c = C + first * g.stride_c;
        const typename Kernel::Params params(
            size, tiles, {a, LayoutA(int(g.lda))}, g.stride_a, {b, LayoutB(int(g.ldb))}, g.stride_b,
            {c, RowMajor(int(g.ldc))}, g.stride_c, {c, RowMajor(int(g.ldc))}, g.stride_c, {g.alpha, g.beta}, count);
        // Launched by us rather than by Operation::run(), which replaces CUDA's error by "internal error".
        LC_LAUNCH(cutlass::Kernel<Kernel>, Swizzle::get_grid_shape(tiles), dim3(Kernel::kThreadCount),
                  sizeof(typename Kernel::SharedStorage), s, params);
    }
}

template <class Math>
void choose_layouts(float* C, const float* A, const float* B, const Gemm& g, Stream s) {
    if (!g.trans_a && !g.trans_b) return cutlass_gemm<Math, RowMajor, RowMajor>(C, A, B, g, s);
    if (!g.trans_a && g.trans_b) return cutlass_gemm<Math, RowMajor, ColumnMajor>(C, A, B, g, s);
    if (g.trans_a && !g.trans_b) return cutlass_gemm<Math, ColumnMajor, RowMajor>(C, A, B, g, s);
    return cutlass_gemm<Math, ColumnMajor, ColumnMajor>(C, A, B, g, s);
}

}  // namespace

void gemm_cutlass(float* C, const float* A, const float* B, const Gemm& shape, Stream s) {
    Gemm g = checked(shape, C, A, B);
    if (g.M == 0 || g.N == 0 || g.batch == 0) return;
    if (g.K == 0 || g.alpha == 0.0f) {  // C = beta C, without a look at A and B
        g.engine = GemmEngine::own;
        return gemm(C, A, B, g, s);
    }

    const int64_t largest = std::max({g.M, g.N, g.K, g.lda, g.ldb, g.ldc});
    LC_CHECK(largest <= INT_MAX, "gemm engine cutlass counts rows and columns in 32 bits; found "
                                     << largest << "; use engine own or cublas");
    LC_CHECK(g.N <= kMaxGridYZ * kTileN, "gemm engine cutlass takes at most " << kMaxGridYZ * kTileN
                                                                              << " columns; found " << g.N
                                                                              << "; use engine own or cublas");
    g.tf32 ? choose_layouts<Tf32>(C, A, B, g, s) : choose_layouts<Simt>(C, A, B, g, s);
}

}  // namespace lc::cuda

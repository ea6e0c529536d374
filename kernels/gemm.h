// gemm -- general matrix product, batched.
//
//     C = alpha op(A) op(B) + beta C           C (M, N)   op(A) (M, K)   op(B) (K, N)      row-major float32
//
//     trans_a = false: A is stored (M, K)      true: A is stored (K, M)      element (i, j) of a stored matrix X is
//     trans_b = false: B is stored (K, N)      true: B is stored (N, K)      X[i * ldx + j],  ldx >= its columns
//     batch b works on A + b stride_a, B + b stride_b, C + b stride_c        a stride of 0 shares A or B
//
// Needs    M, N, K, batch >= 0; leading dimensions at least the number of stored columns (0 stands for "tightly
//          packed"); C overlaps neither A nor B, and the C of one batch not that of another.
// Promises every element is a sum over k in a fixed order that depends on the shape only: bitwise repeatable for any
//          number of threads (engine `own`).  No allocation that grows with M N.
// Edges    K = 0 or alpha = 0: C = beta C, A and B are not read.  beta = 0: C is not read, so NaN in it vanishes.
// Engines  own       our packed Highway kernel on the CPU, our register-tiled kernel on CUDA             (default)
//          openblas  CPU only; several threads, not repeatable between thread counts
//          cublas    CUDA only; NVIDIA's library      cutlass  CUDA only; NVIDIA's templates
//          tf32 = true lets cublas and cutlass round the inputs to 10 bits of mantissa; off unless asked for.
// Backward of C = A B:  dA = dC B^T,  dB = A^T dC: this op again, with beta = 1 to accumulate.
#pragma once
#include <string_view>

#include "kernels/op.h"

namespace lc {

enum class GemmEngine { own, openblas, cublas, cutlass };
GemmEngine gemm_engine(std::string_view name);  // refuses an unknown name, listing the known ones

struct Gemm {
    int64_t M = 0, N = 0, K = 0;
    bool trans_a = false, trans_b = false;
    float alpha = 1.0f, beta = 0.0f;
    int64_t lda = 0, ldb = 0, ldc = 0;
    int64_t batch = 1, stride_a = 0, stride_b = 0, stride_c = 0;
    GemmEngine engine = GemmEngine::own;
    bool tf32 = false;
};
LC_OP(gemm, float* C, const float* A, const float* B, const Gemm& shape, Stream s);

// What every engine does first: leading dimensions filled in, ranges and overlap checked, one clear sentence if wrong.
Gemm checked(Gemm g, const float* C, const float* A, const float* B);

inline double gemm_flops(const Gemm& g) { return 2.0 * double(g.M) * double(g.N) * double(g.K) * double(g.batch); }

}  // namespace lc

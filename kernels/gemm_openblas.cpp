// gemm_openblas.cpp -- gemm by OpenBLAS: what the engine `own` is measured against, chosen by name only (contract: gemm.h).
//
// Row-major is an argument of cblas, and leading dimensions mean the same as ours.  OpenBLAS takes as many threads as
// OpenMP has and splits the work by their number: its results differ between thread counts, which is why it is not the
// default.  Batches run one after the other.  Sizes are 32-bit integers in cblas.
#include <limits>

#include "kernels/check.h"
#include "kernels/gemm.h"
#ifdef LC_HAVE_OPENBLAS
    #include <cblas.h>
#endif

namespace lc::cpu {

#ifdef LC_HAVE_OPENBLAS

void gemm_openblas(float* C, const float* A, const float* B, const Gemm& g) {
    for (int64_t size : {g.M, g.N, g.K, g.lda, g.ldb, g.ldc}) {
        LC_CHECK(size <= std::numeric_limits<blasint>::max(),
                 "gemm: OpenBLAS counts in 32 bits and cannot take a size of " << size << "; use engine own");
    }
    const CBLAS_TRANSPOSE op_a = g.trans_a ? CblasTrans : CblasNoTrans, op_b = g.trans_b ? CblasTrans : CblasNoTrans;
    for (int64_t b = 0; b < g.batch; ++b) {
        cblas_sgemm(CblasRowMajor, op_a, op_b, blasint(g.M), blasint(g.N), blasint(g.K), g.alpha, A + b * g.stride_a,
                    blasint(g.lda), B + b * g.stride_b, blasint(g.ldb), g.beta, C + b * g.stride_c, blasint(g.ldc));
    }
}

#else

void gemm_openblas(float*, const float*, const float*, const Gemm&) {
    throw Error(
        "gemm: this binary was built without OpenBLAS (cblas.h was not found); use engine own, or install "
        "libopenblas-openmp-dev and run `make build` again");
}

#endif

}  // namespace lc::cpu

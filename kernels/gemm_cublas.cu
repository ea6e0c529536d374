// gemm_cublas.cu -- gemm by NVIDIA's library (contract: gemm.h, what is particular to this engine: gemm_nvidia.h).
//
// Row-major  cuBLAS thinks in columns.  The bytes of a row-major X with leading dimension ldx are, read by columns, X^T
//            with the same ldx.  So the transposed product is asked for,
//                C^T = alpha op(B)^T op(A)^T + beta C^T              C^T (N, M)   op(B)^T (N, K)   op(A)^T (K, M)
//            with B as first operand, A as second, M and N exchanged, and both transpose flags unchanged: what is
//            stored as (K, N) already is op(B)^T to a reader of columns.  Nothing is copied or transposed.
// Precision  CUBLAS_DEFAULT_MATH computes a float32 product in float32; TF32 only where the caller allows it.  Atomics
//            stay forbidden, because sums by atomics change from run to run.
#include <cublas_v2.h>
#include <map>
#include <mutex>
#include <string>

#include "kernels/gemm_nvidia.h"
#include "kernels/launch.h"

namespace lc::cuda {

namespace {

void cublas_check(cublasStatus_t status, const char* what, const char* where) {
    if (status == CUBLAS_STATUS_SUCCESS) return;
    throw DeviceError(
        std::string("cuBLAS: ") + cublasGetStatusString(status) + " in " + what + " at " + where +
        "; CUBLAS_LOGDEST_DBG=stderr CUBLAS_LOGINFO_DBG=1 shows the call, engine `own` does without cuBLAS");
}
#define LC_CUBLAS_CHECK(expression) cublas_check(expression, #expression, LC_HERE)

// One handle per device, made at first use (it costs milliseconds and device memory) and never destroyed: at exit the
// driver may be gone before our destructors run.  `lock` is held from choosing the stream to the call that uses it.
struct Handles {
    std::mutex lock;
    std::map<int, cublasHandle_t> of_device;

    cublasHandle_t current() {
        int device = 0;
        LC_CUDA_CHECK(cudaGetDevice(&device));
        cublasHandle_t& handle = of_device[device];
        if (handle == nullptr) LC_CUBLAS_CHECK(cublasCreate(&handle));
        return handle;
    }
};
Handles& handles() {
    static Handles* const all = new Handles;
    return *all;
}

cublasStatus_t multiply(cublasHandle_t handle, float* C, const float* A, const float* B, const Gemm& g) {
    const cublasOperation_t op_a = g.trans_a ? CUBLAS_OP_T : CUBLAS_OP_N;
    const cublasOperation_t op_b = g.trans_b ? CUBLAS_OP_T : CUBLAS_OP_N;
    if (g.batch == 1) {
        return cublasSgemm_64(handle, op_b, op_a, g.N, g.M, g.K, &g.alpha, B, g.ldb, A, g.lda, &g.beta, C, g.ldc);
    }
    return cublasSgemmStridedBatched_64(handle, op_b, op_a, g.N, g.M, g.K, &g.alpha, B, g.ldb, g.stride_b, A, g.lda,
                                        g.stride_a, &g.beta, C, g.ldc, g.stride_c, g.batch);
}

}  // namespace

void gemm_cublas(float* C, const float* A, const float* B, const Gemm& shape, Stream s) {
    Gemm g = checked(shape, C, A, B);
    if (g.M == 0 || g.N == 0 || g.batch == 0) return;
    if (g.K == 0 || g.alpha == 0.0f) {  // C = beta C, without a look at A and B
        g.engine = GemmEngine::own;
        return gemm(C, A, B, g, s);
    }

    const std::lock_guard<std::mutex> hold(handles().lock);
    cublasHandle_t handle = handles().current();
    LC_CUBLAS_CHECK(cublasSetStream(handle, static_cast<cudaStream_t>(s)));
    LC_CUBLAS_CHECK(cublasSetAtomicsMode(handle, CUBLAS_ATOMICS_NOT_ALLOWED));
    LC_CUBLAS_CHECK(cublasSetMathMode(handle, g.tf32 ? CUBLAS_TF32_TENSOR_OP_MATH : CUBLAS_DEFAULT_MATH));

    nvtxRangePushA("gemm_cublas");
    const cublasStatus_t status = multiply(handle, C, A, B, g);
    nvtxRangePop();
    cublas_check(status, "gemm", LC_HERE);
    if (sync_launches()) LC_CUDA_CHECK(cudaStreamSynchronize(static_cast<cudaStream_t>(s)));
}

}  // namespace lc::cuda

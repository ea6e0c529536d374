// gemm_nvidia.h -- the two gemm engines that are NVIDIA's code: its library (cuBLAS) and its templates (CUTLASS).
//
//     lc::cuda::gemm with engine = cublas or cutlass calls these; the contract of both is gemm.h, word for word.
//
// Where the product is empty (K = 0 or alpha = 0) both hand over to engine `own`, so those edges are written once.
//
// Sums     cublas   float32, in an order that the library chooses by shape and GPU.  Repeatable run after run on one
//                   GPU while one stream at a time is busy; with several, cuBLAS itself promises nothing.
//          cutlass  float32, in one fixed order along k (no split of k, no atomics): repeatable.
//          tf32 = true: inputs are rounded to TF32 (10 bits of mantissa) and multiplied by tensor cores, sums stay
//          float32.  cublas takes it as permission; cutlass refuses it where the code at hand is for less than sm_80.
// Limits   cublas   none beyond gemm.h: its 64-bit interface is used.
//          cutlass  M, N, K and leading dimensions below 2^31, N at most 65535 tiles of 128; refused beyond.
// Tested   compiled and linked everywhere, run only where there is a GPU: no simulator executes them.  Without one, the
//          numbers to trust are those of engine `own`.
// Source   compiled in where `make cuda-libs` or the toolkit provides the library (LC_HAVE_CUBLAS, LC_HAVE_CUTLASS).
#pragma once
#include "kernels/gemm.h"

namespace lc::cuda {

gemm_fn gemm_cublas;   // gemm_cublas.cu
gemm_fn gemm_cutlass;  // gemm_cutlass.cu

}  // namespace lc::cuda

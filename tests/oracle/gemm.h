// Oracle of gemm.h: three loops.  T = double is the judge, T = float the yardstick for rounding error.
#pragma once
#include <vector>

#include "kernels/gemm.h"

namespace oracle {

template <class T>
void gemm(std::vector<T>& C, const std::vector<T>& A, const std::vector<T>& B, const lc::Gemm& g) {
    const int64_t lda = g.lda ? g.lda : (g.trans_a ? g.M : g.K);
    const int64_t ldb = g.ldb ? g.ldb : (g.trans_b ? g.K : g.N);
    const int64_t ldc = g.ldc ? g.ldc : g.N;
    for (int64_t b = 0; b < g.batch; ++b) {
        for (int64_t i = 0; i < g.M; ++i) {
            for (int64_t j = 0; j < g.N; ++j) {
                T sum = 0;
                for (int64_t k = 0; g.alpha != 0 && k < g.K; ++k) {
                    const int64_t at = g.trans_a ? k * lda + i : i * lda + k;
                    const int64_t bt = g.trans_b ? j * ldb + k : k * ldb + j;
                    sum += A[b * g.stride_a + at] * B[b * g.stride_b + bt];
                }
                T& c = C[b * g.stride_c + i * ldc + j];
                c = g.alpha == 0 ? T(0) + (g.beta == 0 ? T(0) : T(g.beta) * c)
                                 : T(g.alpha) * sum + (g.beta == 0 ? T(0) : T(g.beta) * c);
            }
        }
    }
}

}  // namespace oracle

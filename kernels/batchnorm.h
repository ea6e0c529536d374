// batchnorm -- every channel brought to mean 0 and deviation 1, then stretched and shifted (Ioffe and Szegedy 2015).
//
//     batchnorm        mean_c = mean_r x_rc    var_c = mean_r (x_rc - mean_c)^2    rstd_c = 1 / sqrt(var_c + eps)
//                      y_rc = gamma_c (x_rc - mean_c) rstd_c + beta_c
//                      running_mean_c <- (1 - m) running_mean_c + m mean_c                    m = momentum
//                      running_var_c  <- (1 - m) running_var_c  + m var_c N / (N - 1)         as PyTorch does
//     batchnorm_infer  y_rc = gamma_c (x_rc - mean_c) / sqrt(var_c + eps) + beta_c            mean, var: the running ones
//     batchnorm_bwd    xhat = (x - mean) rstd     dbeta_c = sum_r dy_rc     dgamma_c = sum_r dy_rc xhat_rc
//                      training  dx_rc = gamma_c rstd_c (dy_rc - dbeta_c / N - xhat_rc dgamma_c / N)
//                      frozen    dx_rc = gamma_c rstd_c dy_rc       backward of batchnorm_infer: mean, rstd are constants
//
//     x, y, dy, dx (N, C), N = images x height x width (channels last)      all others (C)        row-major float32
//
// Needs    N, C >= 0; eps > 0; 0 <= momentum <= 1.  batchnorm needs two rows at least, as in PyTorch: the variance of one
//          says nothing.  y may be the very same array as x, dx as dy; the others are disjoint.  running may be null (no
//          update), and so may dx, or dgamma and dbeta together, of batchnorm_bwd (not wanted).
// Promises the variance from deviations, never as a difference of large sums: channels far from 0 keep their digits, and
//          a constant channel gives y = beta exactly.  Sums in an order that depends on N and C alone (as reduce.h):
//          bitwise repeatable.
// Edges    a NaN or an infinity in a channel makes its mean, rstd and y NaN, and its running statistics; no other channel
//          is touched.  Deviations above 1e19 overflow the variance (rstd = 0).  batchnorm_infer with var < -eps gives NaN.
//          batchnorm_infer and batchnorm_bwd over no rows: nothing to do, dgamma = dbeta = 0.
#pragma once
#include "kernels/op.h"

namespace lc {

struct BatchNorm {
    int64_t N = 0, C = 0;
    float eps = 1e-5f, momentum = 0.1f;
};
struct BatchStats {  // (C) each
    float *mean, *rstd;
};
struct RunningStats {  // (C) each, or both null
    float *mean = nullptr, *var = nullptr;
};
struct BatchNormGrads {  // dx (N, C), dgamma, dbeta (C)
    float *dx, *dgamma, *dbeta;
};

LC_OP(batchnorm, float* y, BatchStats batch, RunningStats running, const float* x, const float* gamma,
      const float* beta, const BatchNorm& shape, Stream s);
LC_OP(batchnorm_infer, float* y, const float* x, const float* mean, const float* var, const float* gamma,
      const float* beta, const BatchNorm& shape, Stream s);
LC_OP(batchnorm_bwd, BatchNormGrads out, const float* dy, const float* x, BatchStats batch, const float* gamma,
      bool frozen, const BatchNorm& shape, Stream s);

}  // namespace lc

// batchnorm_arguments.h -- the checks of the batchnorm ops, the same on every backend (contract: batchnorm.h).
#pragma once
#include <vector>

#include "kernels/arguments.h"
#include "kernels/batchnorm.h"

namespace lc {

inline void check_batchnorm_shape(const char* op, const BatchNorm& s) {
    check_shape(op, s.N, s.C);
    LC_CHECK(s.eps > 0, op << ": eps keeps the division possible, so it is positive; found eps = " << s.eps);
}

// Outputs share nothing with each other and with the inputs, except that the first output may be the first input.
inline void check_batchnorm_arrays(const char* op, const std::vector<Array>& outputs,
                                   const std::vector<Array>& inputs) {
    for (size_t i = 0; i < outputs.size(); ++i) {
        for (size_t j = 0; j < i; ++j) check_disjoint(op, outputs[i], outputs[j]);
        for (size_t j = 0; j < inputs.size(); ++j) {
            i + j == 0 ? check_same_or_disjoint(op, outputs[i], inputs[j]) : check_disjoint(op, outputs[i], inputs[j]);
        }
    }
}

inline void check_batchnorm(const float* y, BatchStats batch, RunningStats running, const float* x, const float* gamma,
                            const float* beta, const BatchNorm& s) {
    const char* const op = "batchnorm";
    check_batchnorm_shape(op, s);
    LC_CHECK(s.momentum >= 0 && s.momentum <= 1,
             op << ": momentum is the weight of this batch, 0 to 1; found momentum = " << s.momentum);
    LC_CHECK(s.N >= 2, op << ": the variance of a channel needs two rows or more (images x height x width); found N = "
                          << s.N << "; take a larger batch, or batchnorm_infer with the running statistics");
    LC_CHECK((running.mean == nullptr) == (running.var == nullptr),
             op << ": the running mean and variance are updated together; pass both or neither");
    const int64_t kept = running.mean != nullptr ? s.C : 0;
    check_batchnorm_arrays(op,
                           {{"y", y, s.N * s.C},
                            {"mean", batch.mean, s.C},
                            {"rstd", batch.rstd, s.C},
                            {"running mean", running.mean, kept},
                            {"running var", running.var, kept}},
                           {{"x", x, s.N * s.C}, {"gamma", gamma, s.C}, {"beta", beta, s.C}});
}

inline void check_batchnorm_infer(const float* y, const float* x, const float* mean, const float* var,
                                  const float* gamma, const float* beta, const BatchNorm& s) {
    const char* const op = "batchnorm_infer";
    check_batchnorm_shape(op, s);
    check_batchnorm_arrays(
        op, {{"y", y, s.N * s.C}},
        {{"x", x, s.N * s.C}, {"mean", mean, s.C}, {"var", var, s.C}, {"gamma", gamma, s.C}, {"beta", beta, s.C}});
}

inline void check_batchnorm_bwd(const BatchNormGrads& out, const float* dy, const float* x, BatchStats batch,
                                const float* gamma, const BatchNorm& s) {
    const char* const op = "batchnorm_bwd";
    check_batchnorm_shape(op, s);
    LC_CHECK((out.dgamma == nullptr) == (out.dbeta == nullptr),
             op << ": dgamma and dbeta come together; pass both or neither");
    const int64_t wanted = out.dgamma != nullptr ? s.C : 0;
    check_batchnorm_arrays(op,
                           {{"dx", out.dx, out.dx != nullptr ? s.N * s.C : 0},
                            {"dgamma", out.dgamma, wanted},
                            {"dbeta", out.dbeta, wanted}},
                           {{"dy", dy, s.N * s.C},
                            {"x", x, s.N * s.C},
                            {"mean", batch.mean, s.C},
                            {"rstd", batch.rstd, s.C},
                            {"gamma", gamma, s.C}});
}

}  // namespace lc

// vector_scaling.h -- VS: softmax(w o g + b), a factor and a shift per class, at the minimum of the log-loss.
//
// Convex, 2 C variables, no penalty: L-BFGS from w = 1 / T of temperature scaling and b = 0, so that the log-loss of
// the fitted rows is never above that of TS.  A class without rows gets a shift that makes it as good as impossible.
#pragma once
#include "calib/softmax_calibrator.h"

namespace lc {

class VectorScaling : public SoftmaxCalibrator {
  public:
    std::string method() const override { return "vs"; }
    void fit(const Samples& s, const Context& c) override;
    void store(SafetensorsWriter& out) const override;
    void restore(const Safetensors& in) override;

  protected:
    void to_logits(double* out, const double* z, int64_t rows) const override;

  private:
    std::vector<double> wb_;  // (2, C): w, then b
};

}  // namespace lc

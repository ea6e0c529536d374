// sgd.h -- gradient descent with momentum on named parameters (one step: kernels/sgd.h).
#pragma once
#include "nn/adam.h"

namespace lc {

class Sgd : public Optimiser {
  public:
    Sgd(Parameters p, SgdStep settings);
    void step(double rate_factor = 1) override;
    void store(SafetensorsWriter& out) const override;
    void restore(const Safetensors& in) override;

  private:
    Parameters p_, v_;  // v: what has gathered momentum, as "sgd.v.w1"
    SgdStep step_;      // t counts the steps done
};

}  // namespace lc

// adam.h -- named parameters and the optimisers that move them: Adam here (one step: kernels/adam.h), Sgd in sgd.h.
//
//     Parameters p = {{"w1", parameter(...)}, ...};
//     Adam adam(p, {.lr = 1e-3f});
//     tape.backward(loss);
//     adam.step();                                   moves every parameter, drops the gradients
//     store(out, p); adam.store(out);                both into one safetensors file, and back: training goes on bit for bit
#pragma once
#include <string>
#include <utility>
#include <vector>

#include "data/safetensors.h"
#include "nn/tape.h"

namespace lc {

using Parameters = std::vector<std::pair<std::string, Var>>;

void store(SafetensorsWriter& out, const Parameters& p, const std::string& prefix = "");
void restore(const Safetensors& in, const Parameters& p, const std::string& prefix = "");  // shapes must agree

class Optimiser {
  public:
    virtual ~Optimiser() = default;
    virtual void step(double rate_factor = 1) = 0;  // at so much of the learning rate
    virtual void store(SafetensorsWriter& out) const = 0;
    virtual void restore(const Safetensors& in) = 0;
};

class Adam : public Optimiser {
  public:
    Adam(Parameters p, AdamStep settings);
    void step(double rate_factor = 1) override;
    void store(SafetensorsWriter& out) const override;
    void restore(const Safetensors& in) override;

  private:
    Parameters p_;
    Parameters m_, v_;  // first and second moment of every parameter, as "adam.m.w1", "adam.v.w1"
    AdamStep step_;     // t counts the steps done
};

}  // namespace lc

// mlp.h -- a multilayer perceptron: stages of linear, ReLU and dropout, and a linear layer to the logits.
//
//     h_0 = x    h_k = dropout(relu(W_k h_(k-1) + b_k))    logits = W h_K + b          x (n, widths[0])   logits (n, C)
//
// W_k ~ N(0, 2 / fan in), so that a ReLU passes on the variance that it gets (He et al. 2015); b_k = 0.  The numbers come from
// Philox on the host: the same for every backend.  Parameters have the names that PyTorch gives them in
// Sequential(Linear, ReLU, Dropout, Linear, ReLU, Dropout, ..., Linear): "0.weight", "0.bias", "3.weight", ...
#pragma once
#include "nn/adam.h"
#include "nn/ops.h"

namespace lc {

class Mlp {
  public:
    // widths: of the input, of every hidden layer (one at least), and the number of classes.
    Mlp(const Backend& b, const std::vector<int64_t>& widths, float dropout, uint64_t seed);

    struct Output {
        Var features;  // (n, widths[K]): the last hidden layer, before its dropout
        Var logits;    // (n, C)
    };
    Output forward(Tape& t, const Var& x, RandomKey dropout_key) const;

    const Parameters& parameters() const { return parameters_; }

  private:
    Parameters parameters_;  // weight and bias of every layer in turn
    float dropout_;
};

}  // namespace lc

// local_net.h -- the network of LN, KC and KO: one hidden layer that nudges reduced features and logits.
//
//     h     = dropout(relu(W1 phi + b1))                 phi (n, d) raw features     h (n, H)
//     z'    = Ws h + bs + w_phi z + b_phi                z   (n, k) reduced by PCA
//     g'    = Wg h + bg + w_g g + b_g                    g   (n, C) logits
//     gamma = softplus(Wb h + bb)                        (n), only with bandwidth `learned`
//
// W1, Ws, Wg, Wb ~ N(0, 0.01^2); b1, bs, bg uniform in +-1/sqrt(fan in); w_phi = w_g = 1; b_phi, b_g ~ N(0, 0.01^2): at the
// start z' is almost z and g' almost g.  The numbers come from Philox on the host: the same for every backend.
#pragma once
#include "calib/options.h"
#include "nn/adam.h"
#include "nn/ops.h"

namespace lc {

struct NetShape {
    int64_t d = 0, k = 0, C = 0;
};

class LocalNet {
  public:
    // gamma: where the learned bandwidth starts.  w_g: the factor of the logits to start from.
    LocalNet(const Backend& b, NetShape shape, const NetOptions& o, uint64_t seed, double gamma, double w_g = 1);

    struct Output {
        Var z;      // (n, k)
        Var g;      // (n, C)
        Var gamma;  // (n) with bandwidth `learned`, else null
    };
    Output forward(Tape& t, const Var& phi, const Var& z, const Var& g, RandomKey dropout_key) const;

    const Parameters& parameters() const { return parameters_; }

  private:
    Var add(const std::string& name, Tensor initial);
    const Var& at(const char* name) const;
    Parameters parameters_;
    float dropout_;
};

}  // namespace lc

// mlp.cpp -- see mlp.h.
#include "nn/mlp.h"

#include <cmath>

#include "kernels/random.h"

namespace lc {

Mlp::Mlp(const Backend& b, const std::vector<int64_t>& widths, float dropout, uint64_t seed) : dropout_(dropout) {
    LC_CHECK(widths.size() >= 3, "mlp: expected the widths of the input, a hidden layer and the output at least; found "
                                     << widths.size() << " widths");
    for (size_t k = 0; k + 1 < widths.size(); ++k) {
        const int64_t in = widths[k], out = widths[k + 1];
        LC_CHECK(in >= 1 && out >= 1, "mlp: a layer is 1 wide at least; found " << in << " to " << out);
        const std::string name = std::to_string(3 * k);  // linear, ReLU, dropout
        const std::vector<float> weight = random_normal({seed, k}, out * in, 0, std::sqrt(2 / double(in)));
        parameters_.emplace_back(name + ".weight", parameter(Tensor::from(b, {out, in}, weight)));
        parameters_.emplace_back(name + ".bias", parameter(Tensor::zeros(b, {out})));
    }
}

Mlp::Output Mlp::forward(Tape& t, const Var& x, RandomKey key) const {
    const size_t hidden = parameters_.size() / 2 - 1;
    const auto layer = [&](size_t k, const Var& h) {
        return linear(t, h, parameters_[2 * k].second, parameters_[2 * k + 1].second);
    };
    Output out;
    Var h = x;
    for (size_t k = 0; k < hidden; ++k) {
        out.features = relu(t, layer(k, h));
        h = dropout(t, out.features, dropout_,
                    {key.seed, key.stream * hidden + k});  // a mask of its own for every stage
    }
    out.logits = layer(hidden, h);
    return out;
}

}  // namespace lc

// local_net.cpp -- see local_net.h.
#include "calib/local_net.h"

#include <cmath>

#include "kernels/random.h"

namespace lc {

LocalNet::LocalNet(const Backend& b, NetShape s, const NetOptions& o, uint64_t seed, double gamma, double w_g)
    : dropout_(o.dropout) {
    constexpr double kSmall = 0.01;
    uint64_t stream = 0;  // a stream of random numbers for every parameter
    const auto normal = [&](Shape shape) {
        return Tensor::from(b, shape, random_normal({seed, stream++}, count_of(shape), 0, kSmall));
    };
    const auto uniform = [&](int64_t n, int64_t fan_in) {
        const double bound = 1 / std::sqrt(double(fan_in));
        return Tensor::from(b, {n}, random_uniform({seed, stream++}, n, -bound, bound));
    };
    const auto filled = [&](int64_t n, double value) {
        return Tensor::from(b, {n}, std::vector<float>(size_t(n), float(value)));
    };
    const bool one = o.affine == Affine::scalar;
    add("w1", normal({o.hidden, s.d}));
    add("b1", uniform(o.hidden, s.d));
    add("ws", normal({s.k, o.hidden}));
    add("bs", uniform(s.k, o.hidden));
    add("wg", normal({s.C, o.hidden}));
    add("bg", uniform(s.C, o.hidden));
    add("w_phi", filled(one ? 1 : s.k, 1));
    add("b_phi", normal({one ? 1 : s.k}));
    add("w_g", filled(one ? 1 : s.C, w_g));
    add("b_g", normal({one ? 1 : s.C}));
    if (o.bandwidth == Bandwidth::learned) {
        add("wb", normal({1, o.hidden}));
        add("bb", filled(1, gamma + std::log(-std::expm1(-gamma))));  // softplus of it is gamma
    }
}

Var LocalNet::add(const std::string& name, Tensor initial) {
    parameters_.emplace_back(name, parameter(std::move(initial)));
    return parameters_.back().second;
}

const Var& LocalNet::at(const char* name) const {
    for (const auto& [n, x] : parameters_) {
        if (n == name) return x;
    }
    throw std::logic_error(std::string("no parameter ") + name);
}

LocalNet::Output LocalNet::forward(Tape& t, const Var& phi, const Var& z, const Var& g, RandomKey key) const {
    const Var h = dropout(t, relu(t, linear(t, phi, at("w1"), at("b1"))), dropout_, key);
    Output out;
    out.z = add_affine(t, linear(t, h, at("ws"), at("bs")), z, at("w_phi"), at("b_phi"));
    out.g = add_affine(t, linear(t, h, at("wg"), at("bg")), g, at("w_g"), at("b_g"));
    if (parameters_.back().first == "bb") out.gamma = softplus(t, linear(t, h, at("wb"), at("bb")));
    return out;
}

}  // namespace lc

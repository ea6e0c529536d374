// adam.cpp -- see adam.h.
#include "nn/adam.h"

namespace lc {

void store(SafetensorsWriter& out, const Parameters& p, const std::string& prefix) {
    for (const auto& [name, x] : p) {
        const std::vector<float> values = x->value.to_host();
        out.add(prefix + name, x->value.shape(), values.data());
    }
}

void restore(const Safetensors& in, const Parameters& p, const std::string& prefix) {
    for (const auto& [name, x] : p) {
        x->value.assign(in.at(prefix + name, x->value.shape()).to_floats());
    }
}

Adam::Adam(Parameters p, AdamStep settings) : p_(std::move(p)), step_(settings) {
    for (const auto& [name, x] : p_) {
        m_.emplace_back("adam.m." + name, constant(Tensor::zeros(x->value.backend(), x->value.shape())));
        v_.emplace_back("adam.v." + name, constant(Tensor::zeros(x->value.backend(), x->value.shape())));
    }
    step_.t = 0;
}

void Adam::step(double rate_factor) {
    ++step_.t;
    AdamStep now = step_;
    now.lr = float(double(step_.lr) * rate_factor);
    for (size_t i = 0; i < p_.size(); ++i) {
        Node& x = *p_[i].second;
        if (!x.grad) continue;  // the loss does not depend on it
        x.value.backend().adam(x.value.data(), m_[i].second->value.data(), v_[i].second->value.data(), x.grad.data(),
                               x.value.size(), now, nullptr);
        x.grad = {};
    }
}

void Adam::store(SafetensorsWriter& out) const {
    lc::store(out, m_);
    lc::store(out, v_);
    out.metadata["adam.steps"] = std::to_string(step_.t);
}

void Adam::restore(const Safetensors& in) {
    lc::restore(in, m_);
    lc::restore(in, v_);
    step_.t = in.meta_integer("adam.steps");
}

}  // namespace lc

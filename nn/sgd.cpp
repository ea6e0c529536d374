// sgd.cpp -- see sgd.h.
#include "nn/sgd.h"

namespace lc {

Sgd::Sgd(Parameters p, SgdStep settings) : p_(std::move(p)), step_(settings) {
    for (const auto& [name, x] : p_) {
        v_.emplace_back("sgd.v." + name, constant(Tensor::zeros(x->value.backend(), x->value.shape())));
    }
    step_.t = 0;
}

void Sgd::step(double rate_factor) {
    ++step_.t;
    SgdStep now = step_;
    now.lr = float(double(step_.lr) * rate_factor);
    for (size_t i = 0; i < p_.size(); ++i) {
        Node& x = *p_[i].second;
        if (!x.grad) continue;  // the loss does not depend on it
        x.value.backend().sgd(x.value.data(), v_[i].second->value.data(), x.grad.data(), x.value.size(), now, nullptr);
        x.grad = {};
    }
}

void Sgd::store(SafetensorsWriter& out) const {
    lc::store(out, v_);
    out.metadata["sgd.steps"] = std::to_string(step_.t);
}

void Sgd::restore(const Safetensors& in) {
    lc::restore(in, v_);
    step_.t = in.meta_integer("sgd.steps");
}

}  // namespace lc

// net_calibrator.cpp -- predicting, storing and restoring; fitting is in net_fit.cpp.
#include "calib/net_calibrator.h"

#include <cmath>

#include "calib/net_on_device.h"

namespace lc {

const NetCalibrator::OnDevice& NetCalibrator::on(const Backend& b) const {
    if (on_device_ == nullptr || on_device_->backend != &b) {
        auto d = std::make_shared<OnDevice>();
        d->backend = &b;
        d->reduce = std::make_unique<PcaTransform>(b, pca_);
        d->net = std::make_unique<LocalNet>(b, NetShape{pca_.d, pca_.k, C_}, o_, 0, gamma_);
        for (const auto& [name, x] : d->net->parameters()) x->value.assign(weights_.at(name).second);
        if (o_.method != Method::ln) {
            d->references = {Tensor::from(b, {int64_t(reference_labels_.size()), pca_.k}, reference_z_),
                             to_device(b, reference_labels_)};
        }
        on_device_ = std::move(d);
    }
    return *on_device_;
}

Prediction NetCalibrator::predict(const Samples& s, const Context& c) const {
    const Backend& b = *c.backend;
    const OnDevice& device = on(b);
    Prediction p = {.n = s.n, .C = C_, .k = pca_.k, .probs = {}, .log_probs = {}, .features = {}};
    constexpr int64_t kRows = 8192;  // at a time: memory stays small, and progress has something to say
    for (int64_t begin = 0; begin < s.n; begin += kRows) {
        const NetData rows = to_net_data(b, *device.reduce, pca_.k, s.rows(begin, std::min(s.n, begin + kRows)));
        Tensor z, log_probs;
        if (only_temperature_) {
            z = rows.z->value.clone();
            log_probs = rows.g->value.clone();
        } else {
            NetOutput out = forward_rows(*device.net, rows, o_, gamma_);
            if (o_.method != Method::ln) out.log_probs = kernel_log_probs(out, device.references, o_, C_);
            z = std::move(out.z);
            log_probs = std::move(out.log_probs);
        }
        Tensor probs(b, {rows.n(), C_});
        b.scale(log_probs.data(), log_probs.data(), float(1 / temperature_), log_probs.size(), nullptr);
        b.softmax(probs.data(), log_probs.data(), rows.n(), C_, nullptr);
        b.log_softmax(log_probs.data(), log_probs.data(), rows.n(), C_, nullptr);
        const auto append = [](auto& to, const Tensor& from) {
            const std::vector<float> v = from.to_host();
            to.insert(to.end(), v.begin(), v.end());
        };
        append(p.probs, probs);
        append(p.log_probs, log_probs);
        append(p.features, z);
        if (c.progress) c.progress(double(begin + rows.n()) / double(s.n), "rows " + std::to_string(begin + rows.n()));
    }
    return p;
}

// ---- the file -------------------------------------------------------------------------------------------------------

void NetCalibrator::store(SafetensorsWriter& out) const {
    for (const auto& [name, value] : to_text(o_)) out.metadata["option." + name] = value;
    out.set("gamma", gamma_);
    out.set("temperature", temperature_);
    out.set("only_temperature", only_temperature_);
    out.set("pca.total_variance", pca_.total_variance);
    for (const auto& [name, w] : weights_) out.add("net." + name, w.first, w.second.data());
    out.add("pca.mean", {pca_.d}, pca_.mean.data());
    out.add("pca.inverse", {pca_.d}, pca_.inverse.data());
    out.add("pca.components", {pca_.k, pca_.d}, pca_.components.data());
    out.add("pca.variance", {pca_.k}, pca_.variance.data());
    if (o_.method == Method::ln) return;
    const int64_t m = int64_t(reference_labels_.size());
    out.add("reference.z", {m, pca_.k}, reference_z_.data());
    out.add("reference.labels", {m}, reference_labels_.data());
}

void NetCalibrator::restore(const Safetensors& in) {
    const std::string method = in.meta("method");
    const size_t colon = method.find(':');
    C_ = in.meta_integer("classes");
    o_ = preset(method.substr(0, colon), colon == std::string::npos ? "auto" : method.substr(colon + 1), C_);
    for (const auto& [name, value] : to_text(o_)) set_option(o_, name, in.meta("option." + name));
    gamma_ = in.meta_number("gamma");
    temperature_ = in.meta_number("temperature");
    only_temperature_ = in.meta_integer("only_temperature") != 0;

    const auto vector = [&](const char* name, const Shape& shape) { return in.at(name, shape).to_floats(); };
    const Shape& components = in.at("pca.components").shape;
    if (components.size() != 2 || components[1] != in.meta_integer("features") || C_ < 2) {
        throw Error(in.path + ": the shapes in the file contradict each other; fit the model again");
    }
    pca_.k = components[0];
    pca_.d = components[1];
    pca_.mean = vector("pca.mean", {pca_.d});
    pca_.inverse = vector("pca.inverse", {pca_.d});
    pca_.components = vector("pca.components", {pca_.k, pca_.d});
    pca_.variance = in.at("pca.variance", {pca_.k}).to_doubles();
    pca_.total_variance = in.meta_number("pca.total_variance");

    const LocalNet expected(choose_backend("cpu"), {pca_.d, pca_.k, C_}, o_, 0, gamma_);  // names and shapes
    for (const auto& [name, x] : expected.parameters()) {
        weights_[name] = {x->value.shape(), in.at("net." + name, x->value.shape()).to_floats()};
    }
    if (o_.method == Method::ln) return;
    const Shape& labels = in.at("reference.labels").shape;
    if (labels.size() != 1 || labels[0] < 1) throw Error(in.path + ": the reference set is empty; fit the model again");
    reference_z_ = vector("reference.z", {labels[0], pca_.k});
    for (int64_t y : in.at("reference.labels").to_integers()) {
        if (y < 0 || y >= C_)
            throw Error(in.path + ": a reference has the label " + std::to_string(y) + ", expected 0 to " +
                        std::to_string(C_ - 1) + "; fit the model again");
        reference_labels_.push_back(int32_t(y));
    }
}

}  // namespace lc

// resnet.cpp -- see resnet.h.
#include "nn/resnet.h"

#include <cmath>

#include "kernels/random.h"
#include "nn/ops.h"

namespace lc {

// ---- what there is --------------------------------------------------------------------------------------------------

ResNet::ResNet(const Backend& b, ResNetPlan plan) : b_(&b), plan_(std::move(plan)) {
    const int64_t first = plan_.widths[0];
    first_parameter_.push_back(0);
    stem_ = plan_.imagenet_stem ? make_unit("conv1", "bn1", 7, 3, first, {.stride = 2, .pad = 3})
                                : make_unit("conv1", "bn1", 3, 3, first, {.stride = 1, .pad = 1});
    int64_t in = first;
    for (size_t s = 0; s < plan_.blocks.size(); ++s) {
        first_parameter_.push_back(parameters_.size());
        std::vector<Block> blocks;
        for (int64_t i = 0; i < plan_.blocks[s]; ++i) {
            const std::string name = "layer" + std::to_string(s + 1) + "." + std::to_string(i) + ".";
            blocks.push_back(make_block(name, in, plan_.widths[s], s > 0 && i == 0 ? 2 : 1));
            in = plan_.widths[s] * (plan_.bottleneck ? 4 : 1);
        }
        stages_.push_back(std::move(blocks));
    }
    first_parameter_.push_back(parameters_.size());
    fc_weight_ = parameter(Tensor::zeros(b, {plan_.classes, in}));
    fc_bias_ = parameter(Tensor::zeros(b, {plan_.classes}));
    parameters_.emplace_back("fc.weight", fc_weight_);
    parameters_.emplace_back("fc.bias", fc_bias_);
}

ConvBn ResNet::make_unit(const std::string& conv, const std::string& bn, int64_t size, int64_t C, int64_t K,
                         Window window) {
    const std::vector<float> ones(size_t(K), 1.0f);
    ConvBn u;
    u.window = window;
    u.filters = parameter(Tensor::zeros(*b_, {size, size, C, K}));
    u.bn.eps = plan_.bn_eps;
    u.bn.gamma = parameter(Tensor::from(*b_, {K}, ones));
    u.bn.beta = parameter(Tensor::zeros(*b_, {K}));
    u.bn.running_mean = constant(Tensor::zeros(*b_, {K}));
    u.bn.running_var = constant(Tensor::from(*b_, {K}, ones));
    parameters_.emplace_back(conv + ".weight", u.filters);
    parameters_.emplace_back(bn + ".weight", u.bn.gamma);
    parameters_.emplace_back(bn + ".bias", u.bn.beta);
    statistics_.emplace_back(bn + ".running_mean", u.bn.running_mean);
    statistics_.emplace_back(bn + ".running_var", u.bn.running_var);
    return u;
}

// Every second pixel, the channels in the middle of the new ones: a 1x1 convolution with ones where channel c becomes channel
// c + (K - C) / 2.
static Var padding_filters(const Backend& b, int64_t C, int64_t K) {
    std::vector<float> w(size_t(C * K), 0.0f);
    for (int64_t c = 0; c < C; ++c) w[size_t(c * K + c + (K - C) / 2)] = 1.0f;
    return constant(Tensor::from(b, {1, 1, C, K}, w));
}

ResNet::Block ResNet::make_block(const std::string& name, int64_t in, int64_t width, int64_t stride) {
    Block block;
    block.stride = stride;
    const auto unit = [&](int i, int64_t size, int64_t C, int64_t K, int64_t s) {
        const std::string number = std::to_string(i);
        block.path.push_back(
            make_unit(name + "conv" + number, name + "bn" + number, size, C, K, {.stride = s, .pad = size / 2}));
    };
    const int64_t out = plan_.bottleneck ? 4 * width : width;
    if (plan_.bottleneck) {
        unit(1, 1, in, width, plan_.stride_first ? stride : 1);
        unit(2, 3, width, width, plan_.stride_first ? 1 : stride);
        unit(3, 1, width, out, 1);
    } else {
        unit(1, 3, in, width, stride);
        unit(2, 3, width, width, 1);
    }
    if (stride != 1 || in != out) {
        if (plan_.padded_shortcut) {
            block.padding = padding_filters(*b_, in, out);
        } else {
            block.projection = make_unit(name + "downsample.0", name + "downsample.1", 1, in, out, {.stride = stride});
        }
    }
    return block;
}

// Filters ~ N(0, 2 / fan out), so that gradients keep their variance; the head uniform within 1 / sqrt(features).
void ResNet::initialise(uint64_t seed) {
    const double limit = 1 / std::sqrt(double(plan_.features()));
    for (size_t i = 0; i < parameters_.size(); ++i) {
        const Tensor& v = parameters_[i].second->value;
        const RandomKey key = {seed, i};
        if (v.shape().size() == 4) {
            const double fan_out = double(v.shape()[0] * v.shape()[1] * v.shape()[3]);
            parameters_[i].second->value.assign(random_normal(key, v.size(), 0, std::sqrt(2 / fan_out)));
        } else if (i >= first_parameter_.back()) {
            parameters_[i].second->value.assign(random_uniform(key, v.size(), -limit, limit));
        }
    }
}

void ResNet::set_bn_eps(float eps) {
    LC_CHECK(eps > 0 && eps < 1, "batch normalisation: eps is a small positive number; found " << eps);
    plan_.bn_eps = eps;
    stem_.bn.eps = eps;
    for (std::vector<Block>& stage : stages_) {
        for (Block& block : stage) {
            for (ConvBn& unit : block.path) unit.bn.eps = eps;
            if (block.projection) block.projection->bn.eps = eps;
        }
    }
}

void ResNet::train_from(int64_t stage) {
    LC_CHECK(stage >= 0 && stage <= head(),
             "train_from: the stages are 0 (stem) to " << head() << " (head); found " << stage);
    for (size_t i = 0; i < parameters_.size(); ++i) {
        parameters_[i].second->wants_grad = i >= first_parameter_[size_t(stage)];
    }
}

Parameters ResNet::trained() const {
    Parameters p;
    for (const auto& [name, v] : parameters_) {
        if (v->wants_grad) p.emplace_back(name, v);
    }
    return p;
}

// ---- the walk -------------------------------------------------------------------------------------------------------

Var ResNet::run_block(Tape& t, const ConvBnUnit& unit, const Block& block, const Var& x) const {
    Var shortcut = x;
    if (block.projection) shortcut = unit(*block.projection, x, nullptr, false);
    if (block.padding) shortcut = conv2d(t, x, block.padding, {.stride = block.stride});
    Var h = x;
    for (size_t i = 0; i < block.path.size(); ++i) {
        const bool last = i + 1 == block.path.size();
        h = unit(block.path[i], h, last ? shortcut : nullptr, true);
    }
    return h;
}

Var ResNet::run(Tape& t, const ConvBnUnit& unit, Var x, int64_t from, int64_t to) const {
    for (int64_t stage = from; stage < std::min(to, head()); ++stage) {
        if (stage == 0) {
            x = unit(stem_, x, nullptr, true);
            if (plan_.imagenet_stem) x = maxpool(t, x, 3, {.stride = 2, .pad = 1});
            continue;
        }
        for (const Block& block : stages_[size_t(stage - 1)]) x = run_block(t, unit, block, x);
    }
    return x;
}

Var ResNet::logits(Tape& t, const Var& features, const Dropout& d) const {
    const Var kept = d.on_map ? features : dropout(t, features, d.p, d.key);
    return linear(t, kept, fc_weight_, fc_bias_);
}

ResNet::Output ResNet::classify(Tape& t, const Var& last_map, const Dropout& d) const {
    Output out;
    out.features = avgpool(t, d.on_map ? dropout(t, last_map, d.p, d.key) : last_map);
    out.logits = logits(t, out.features, d);
    return out;
}

Shape ResNet::input_of(int64_t stage, int64_t height, int64_t width) const {
    if (stage == head()) return {plan_.features()};
    if (stage == 0) return {height, width, 3};
    int64_t halvings = plan_.imagenet_stem ? 2 : 0;  // those of the stem, then one for every stage but the first
    if (stage >= 2) halvings += stage - 2;
    for (int64_t i = 0; i < halvings; ++i) height = (height + 1) / 2, width = (width + 1) / 2;
    const int64_t channels =
        stage == 1 ? plan_.widths[0] : plan_.widths[size_t(stage - 2)] * (plan_.bottleneck ? 4 : 1);
    return {height, width, channels};
}

// ---- units ----------------------------------------------------------------------------------------------------------

// gamma (conv(x) - mean) / sqrt(var + eps) + beta = conv(x) scale + (beta - mean scale), computed in double on the host.
static void fold(std::vector<float>& filters, std::vector<float>& bias, const ConvBn& u) {
    const std::vector<float> gamma = u.bn.gamma->value.to_host(), beta = u.bn.beta->value.to_host();
    const std::vector<float> mean = u.bn.running_mean->value.to_host(), var = u.bn.running_var->value.to_host();
    filters = u.filters->value.to_host();
    bias.resize(gamma.size());
    std::vector<double> scale(gamma.size());
    for (size_t k = 0; k < gamma.size(); ++k) {
        scale[k] = double(gamma[k]) / std::sqrt(double(var[k]) + double(u.bn.eps));
        bias[k] = float(double(beta[k]) - double(mean[k]) * scale[k]);
    }
    for (size_t i = 0; i < filters.size(); i += gamma.size()) {
        for (size_t k = 0; k < gamma.size(); ++k) filters[i + k] = float(double(filters[i + k]) * scale[k]);
    }
}

Var FoldedUnits::operator()(const ConvBn& u, const Var& x, const Var& residual, bool relu) {
    const Backend& k = x->value.backend();
    Conv2d shape = conv2d_shape(x->value.shape(), u.filters->value.shape(), u.window);
    Folded& f = folded_[&u];
    if (f.shape.H != shape.H || f.shape.W != shape.W || !f.filters) {
        std::vector<float> filters, bias;
        fold(filters, bias, u);
        const Tensor w = Tensor::from(k, u.filters->value.shape(), filters);
        f.shape = shape;
        f.bias = Tensor::from(k, {shape.K}, bias);
        f.filters = Tensor(k, {conv2d_prepared_floats(shape, ConvPass::forward)});
        k.conv2d_prepare(f.filters.data(), w.data(), shape, ConvPass::forward, nullptr);
        k.sync(nullptr);  // w goes
    }
    Tensor y(k, {shape.N, shape.P(), shape.Q(), shape.K});
    const float* add = residual ? residual->value.data() : nullptr;
    k.conv2d(y.data(), x->value.data(), f.filters.data(), {f.bias.data(), add, relu}, shape, nullptr);
    return constant(std::move(y));
}

ConvBnUnit training_unit(Tape& t, FoldedUnits& frozen, bool batch_statistics_everywhere) {
    return [&t, &frozen, batch_statistics_everywhere](const ConvBn& u, const Var& x, const Var& residual, bool relu_) {
        if (!u.filters->wants_grad && !batch_statistics_everywhere) return frozen(u, x, residual, relu_);
        const Var y = batchnorm(t, conv2d(t, x, u.filters, u.window), u.bn);
        if (residual) return add_relu(t, y, residual);
        return relu_ ? relu(t, y) : y;
    };
}

}  // namespace lc

// image_ops.cpp -- see image_ops.h.
#include "nn/image_ops.h"

namespace lc {
namespace {

Tensor prepared_filters(const Backend& k, const Tensor& w, const Conv2d& shape, ConvPass pass) {
    Tensor prepared(k, {conv2d_prepared_floats(shape, pass)});
    k.conv2d_prepare(prepared.data(), w.data(), shape, pass, nullptr);
    return prepared;
}

void check_images(const char* op, const Shape& x) {
    LC_CHECK(x.size() == 4,
             op << ": expected images (n, height, width, channels), found a tensor of " << x.size() << " dimensions");
}

}  // namespace

Conv2d conv2d_shape(const Shape& x, const Shape& w, Window window) {
    check_images("conv2d", x);
    LC_CHECK(w.size() == 4 && w[2] == x[3], "conv2d: images of " << x[3] << " channels need filters (R, S, " << x[3]
                                                                 << ", K); found "
                                                                 << (w.size() == 4 ? w[2] : int64_t(w.size()))
                                                                 << (w.size() == 4 ? " channels" : " dimensions"));
    return {.N = x[0],
            .H = x[1],
            .W = x[2],
            .C = x[3],
            .K = w[3],
            .R = w[0],
            .S = w[1],
            .stride = window.stride,
            .pad = window.pad};
}

Var conv2d(Tape& t, const Var& x, const Var& w, Window window) {
    const Backend& k = x->value.backend();
    const Conv2d shape = conv2d_shape(x->value.shape(), w->value.shape(), window);
    Tensor y(k, {shape.N, shape.P(), shape.Q(), shape.K});
    {
        const Tensor filters = prepared_filters(k, w->value, shape, ConvPass::forward);
        k.conv2d(y.data(), x->value.data(), filters.data(), {}, shape, nullptr);
    }
    return t.record(std::move(y), {x, w}, [=, &k](const Node& out) {
        if (w->wants_grad) {
            Tensor dw(k, w->value.shape());
            k.conv2d_bwd_filter(dw.data(), x->value.data(), out.grad.data(), shape, nullptr);
            give_grad(w, std::move(dw));
        }
        if (x->wants_grad) {
            const Tensor filters = prepared_filters(k, w->value, shape, ConvPass::bwd_data);
            Tensor dx(k, x->value.shape());
            k.conv2d_bwd_data(dx.data(), out.grad.data(), filters.data(), shape, nullptr);
            give_grad(x, std::move(dx));
        }
    });
}

Var batchnorm(Tape& t, const Var& x, const Channels& c) {
    const Backend& k = x->value.backend();
    const int64_t C = c.gamma->value.size();
    const BatchNorm shape = {.N = x->value.size() / C, .C = C, .eps = c.eps, .momentum = c.momentum};
    LC_CHECK(x->value.shape().back() == C,
             "batchnorm: expected " << C << " channels, found " << x->value.shape().back());
    Tensor y(k, x->value.shape());
    const Var mean = constant(Tensor(k, {C})), rstd = constant(Tensor(k, {C}));
    k.batchnorm(y.data(), {mean->value.data(), rstd->value.data()},
                {c.running_mean->value.data(), c.running_var->value.data()}, x->value.data(), c.gamma->value.data(),
                c.beta->value.data(), shape, nullptr);

    return t.record(std::move(y), {x, c.gamma, c.beta}, [=, &k](const Node& out) {
        Tensor dx, dgamma, dbeta;
        if (x->wants_grad) dx = Tensor(k, x->value.shape());
        if (c.gamma->wants_grad) dgamma = Tensor(k, {C}), dbeta = Tensor(k, {C});
        const auto at = [](const Tensor& v) { return v ? v.data() : nullptr; };
        k.batchnorm_bwd({at(dx), at(dgamma), at(dbeta)}, out.grad.data(), x->value.data(),
                        {mean->value.data(), rstd->value.data()}, c.gamma->value.data(), false, shape, nullptr);
        if (dx) give_grad(x, std::move(dx));
        if (dgamma) give_grad(c.gamma, std::move(dgamma));
        if (dbeta) give_grad(c.beta, std::move(dbeta));
    });
}

Var add_relu(Tape& t, const Var& x, const Var& y) {
    const Backend& k = x->value.backend();
    LC_CHECK(x->value.shape() == y->value.shape(), "add_relu: expected two tensors of one shape, found "
                                                       << x->value.size() << " and " << y->value.size() << " elements");
    Tensor sum(k, x->value.shape());
    k.add_relu(sum.data(), x->value.data(), y->value.data(), sum.size(), nullptr);

    return t.record(std::move(sum), {x, y}, [=, &k](const Node& out) {
        Tensor d(k, out.value.shape());
        k.relu_bwd(d.data(), out.grad.data(), out.value.data(), d.size(), nullptr);
        if (x->wants_grad && y->wants_grad) give_grad(x, d.clone());
        give_grad(y->wants_grad ? y : x, std::move(d));
    });
}

Var maxpool(Tape& t, const Var& x, int64_t size, Window window) {
    const Backend& k = x->value.backend();
    const Shape& s = x->value.shape();
    check_images("maxpool", s);
    const Pool shape = {s[0], s[1], s[2], s[3], size, window.stride, window.pad};
    Tensor y(k, {shape.N, shape.P(), shape.Q(), shape.C});
    const bool noted = t.training && x->wants_grad;
    const auto place = std::make_shared<Buffer<int32_t>>(k, noted ? y.size() : 0);
    k.maxpool(y.data(), noted ? place->data() : nullptr, x->value.data(), shape, nullptr);

    return t.record(std::move(y), {x}, [=, &k](const Node& out) {
        Tensor dx(k, x->value.shape());
        k.maxpool_bwd(dx.data(), out.grad.data(), place->data(), shape, nullptr);
        give_grad(x, std::move(dx));
    });
}

Var avgpool(Tape& t, const Var& x) {
    const Backend& k = x->value.backend();
    const Shape& s = x->value.shape();
    check_images("avgpool", s);
    const Pool shape = {.N = s[0], .H = s[1], .W = s[2], .C = s[3]};
    Tensor y(k, {shape.N, shape.C});
    k.avgpool(y.data(), x->value.data(), shape, nullptr);

    return t.record(std::move(y), {x}, [=, &k](const Node& out) {
        Tensor dx(k, x->value.shape());
        k.avgpool_bwd(dx.data(), out.grad.data(), shape, nullptr);
        give_grad(x, std::move(dx));
    });
}

}  // namespace lc

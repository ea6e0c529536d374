// ops.cpp -- see ops.h.
#include "nn/ops.h"

#include <array>

namespace lc {

Var linear(Tape& t, const Var& x, const Var& W, const Var& b) {
    const Backend& k = x->value.backend();
    const int64_t n = x->value.rows(), d = x->value.cols(), m = W->value.rows();
    LC_CHECK(W->value.cols() == d && b->value.size() == m,
             "linear: x has " << d << " columns, so W must be (m, " << d << ") and b (m); found W (" << m << ", "
                              << W->value.cols() << "), b (" << b->value.size() << ")");
    Tensor y(k, {n, m});
    k.gemm(y.data(), x->value.data(), W->value.data(), {.M = n, .N = m, .K = d, .trans_b = true}, nullptr);
    k.bias(y.data(), y.data(), b->value.data(), n, m, nullptr);

    return t.record(std::move(y), {x, W, b}, [=, &k](const Node& out) {
        const float* dy = out.grad.data();  // (n, m)
        if (x->wants_grad) {
            Tensor dx(k, {n, d});
            k.gemm(dx.data(), dy, W->value.data(), {.M = n, .N = d, .K = m}, nullptr);
            give_grad(x, std::move(dx));
        }
        Tensor dW(k, {m, d}), db(k, {m});
        k.gemm(dW.data(), dy, x->value.data(), {.M = m, .N = d, .K = n, .trans_a = true}, nullptr);
        k.col_reduce(db.data(), dy, n, m, Reduction::sum, nullptr);
        give_grad(W, std::move(dW));
        give_grad(b, std::move(db));
    });
}

Var relu(Tape& t, const Var& x) {
    const Backend& k = x->value.backend();
    Tensor y(k, x->value.shape());
    k.relu(y.data(), x->value.data(), y.size(), nullptr);

    return t.record(std::move(y), {x}, [=, &k](const Node& out) {
        Tensor dx(k, x->value.shape());
        k.relu_bwd(dx.data(), out.grad.data(), out.value.data(), dx.size(), nullptr);
        give_grad(x, std::move(dx));
    });
}

Var gather(const Var& x, const int32_t* index, int64_t m) {
    const Tensor& v = x->value;
    Tensor out(v.backend(), {m, v.cols()});
    v.backend().gather_rows(out.data(), v.data(), index, m, v.rows(), v.cols(), nullptr);
    return constant(std::move(out));
}

Var dropout(Tape& t, const Var& x, float p, RandomKey key) {
    if (!t.training || p == 0.0f) return x;
    const Backend& k = x->value.backend();
    Tensor y(k, x->value.shape());
    k.dropout(y.data(), x->value.data(), p, key, y.size(), nullptr);

    return t.record(std::move(y), {x}, [=, &k](const Node& out) {
        Tensor dx(k, x->value.shape());
        k.dropout(dx.data(), out.grad.data(), p, key, dx.size(), nullptr);  // the same key draws the same mask
        give_grad(x, std::move(dx));
    });
}

Var add_affine(Tape& t, const Var& a, const Var& x, const Var& w, const Var& b) {
    const Backend& k = x->value.backend();
    const int64_t n = x->value.rows(), m = x->value.cols();
    const Columns columns = {.one = w->value.size() == 1};
    LC_CHECK(!x->wants_grad, "add_affine: x is data and gets no gradient");
    Tensor y(k, x->value.shape());
    k.affine(y.data(), a->value.data(), x->value.data(), w->value.data(), b->value.data(), n, m, columns, nullptr);

    return t.record(std::move(y), {a, w, b}, [=, &k](const Node& out) {
        Tensor dw(k, w->value.shape()), db(k, b->value.shape());
        k.affine_bwd(dw.data(), db.data(), out.grad.data(), x->value.data(), n, m, columns, nullptr);
        give_grad(w, std::move(dw));
        give_grad(b, std::move(db));
        if (a->wants_grad) give_grad(a, out.grad.clone());
    });
}

Var cross_entropy(Tape& t, const Var& logits, const int32_t* labels) {
    const Backend& k = logits->value.backend();
    const int64_t n = logits->value.rows(), C = logits->value.cols();
    LC_CHECK(n >= 1, "cross_entropy: the mean over no rows does not exist");
    Tensor rows(k, {n}), mean(k, {1});
    auto gradient = std::make_shared<Tensor>();  // known with the value
    if (t.training) *gradient = Tensor(k, {n, C});
    k.cross_entropy(rows.data(), t.training ? gradient->data() : nullptr, logits->value.data(), labels, n, C,
                    float(1.0 / double(n)), nullptr);
    k.col_reduce(mean.data(), rows.data(), n, 1, Reduction::mean, nullptr);

    return t.record(std::move(mean), {logits}, [=](const Node&) { give_grad(logits, std::move(*gradient)); });
}

Var softplus(Tape& t, const Var& x) {
    const Backend& k = x->value.backend();
    Tensor y(k, x->value.shape());
    k.softplus(y.data(), x->value.data(), y.size(), nullptr);

    return t.record(std::move(y), {x}, [=, &k](const Node& out) {
        Tensor dx(k, x->value.shape());
        k.softplus_bwd(dx.data(), out.grad.data(), out.value.data(), dx.size(), nullptr);
        give_grad(x, std::move(dx));
    });
}

Smoothed smooth(Tape& t, const Var& z, const Var& gamma, const Smoothing& how) {
    const Backend& k = z->value.backend();
    const int64_t n = z->value.rows(), d = z->value.cols();
    const NwSmooth in = {.n = n,
                         .m = n,
                         .d = d,
                         .C = how.C,
                         .Q = z->value.data(),
                         .R = z->value.data(),
                         .labels = how.labels,
                         .query_labels = how.labels,
                         .gamma = gamma->value.data(),
                         .gamma_per_row = gamma->value.size() != 1,
                         .leave_one_out = true,
                         .form = how.form};
    Smoothed s;
    s.log_norm = constant(Tensor(k, {n}));
    s.log_label = t.record(Tensor(k, {n}), {z, gamma}, [](const Node&) {});  // its share flows with that of theta
    Tensor theta(k, {n, how.C});
    k.nw_smooth({theta.data(), s.log_norm->value.data(), s.log_label->value.data()}, in, nullptr);

    // Handles kept by the note; theta's own node is what it gets, so holding that too would be a cycle.
    const Var log_norm = s.log_norm, log_label = s.log_label;
    s.theta = t.record(std::move(theta), {z, gamma}, [=, &k](const Node& out) {
        const float* dlog_label = log_label->grad ? log_label->grad.data() : nullptr;
        Tensor dQ(k, {n, d}), dR(k, {n, d}), dgamma;
        if (gamma->wants_grad) dgamma = Tensor(k, gamma->value.shape());
        const NwOutput forward = {out.value.data(), log_norm->value.data(), log_label->value.data()};
        k.nw_smooth_bwd({dQ.data(), dR.data(), dgamma ? dgamma.data() : nullptr}, out.grad.data(), dlog_label, forward,
                        in, nullptr);
        if (z->wants_grad) give_grad(z, std::move(dQ));  // every row is an anchor and
        if (z->wants_grad) give_grad(z, std::move(dR));  // a reference of all others
        if (gamma->wants_grad) give_grad(gamma, std::move(dgamma));
    });
    return s;
}

Var js_ce(Tape& t, const Var& logits, const Smoothed& q, const int32_t* labels, const LossWeights& how) {
    const Backend& k = logits->value.backend();
    const int64_t n = logits->value.rows(), C = logits->value.cols();
    const JsCeLoss in = {.n = n,
                         .C = C,
                         .distance = how.distance,
                         .js_weight = how.js,
                         .ce_weight = how.ce,
                         .scale = float(1.0 / double(n)),
                         .logits = logits->value.data(),
                         .theta = q.theta->value.data(),
                         .labels = labels,
                         .log_label = how.log_space ? q.log_label->value.data() : nullptr};
    Tensor rows(k, {n, 2}), mean(k, {2});
    auto gradients = std::make_shared<std::array<Tensor, 3>>();  // of logits, theta, log_label: known with the value
    if (t.training) {
        *gradients = {Tensor(k, {n, C}), Tensor(k, {n, C}), Tensor(k, {n})};
        if (!how.log_space) (*gradients)[2] = {};
    }
    const auto& [dlogits, dtheta, dlog_label] = *gradients;
    const auto at = [](const Tensor& x) { return x ? x.data() : nullptr; };
    k.js_ce_loss(rows.data(), {at(dlogits), at(dtheta), at(dlog_label)}, in, nullptr);
    k.col_reduce(mean.data(), rows.data(), n, 2, Reduction::mean, nullptr);

    return t.record(std::move(mean), {logits, q.theta, q.log_label}, [=](const Node&) {
        auto& [to_logits, to_theta, to_log_label] = *gradients;
        if (logits->wants_grad) give_grad(logits, std::move(to_logits));
        give_grad(q.theta, std::move(to_theta));
        if (to_log_label) give_grad(q.log_label, std::move(to_log_label));
    });
}

}  // namespace lc

// trainer.cpp -- see trainer.h.
#include "calib/trainer.h"

#include <cfloat>
#include <chrono>
#include <cmath>
#include <cstdio>

#include "calib/bandwidth.h"
#include "calib/checkpoint.h"
#include "kernels/random.h"

namespace lc {
namespace {

// Streams of random numbers beside those of the initial weights.
constexpr uint64_t kShuffle = uint64_t(1) << 32, kDropout = uint64_t(2) << 32;

// One length for all, a length that the network learned, or the distance to a neighbour among the rows themselves.
Var bandwidth_of(const LocalNet::Output& out, const NetOptions& o, double gamma) {
    const Backend& b = out.z->value.backend();
    if (o.bandwidth == Bandwidth::learned) return out.gamma;
    if (o.bandwidth == Bandwidth::knn) {
        return constant(neighbour_bandwidth(out.z->value, out.z->value, o.neighbours, true));
    }
    return constant(Tensor::from(b, {1}, std::vector<float>{float(gamma)}));
}

// KC trains the estimate alone; LN and KO also pull the network's own probabilities and the estimate together.
LossWeights weights_of(const NetOptions& o) {
    const bool log_space = o.nw == NwForm::exact;
    if (o.method == Method::kc) return {.distance = o.js, .js = 0, .ce = 1, .log_space = log_space};
    return {.distance = o.js, .js = 1, .ce = o.lambda, .log_space = log_space};
}

struct Loss {
    Var root;  // (2): js, ce
    Smoothed smoothed;
};
Loss loss_of(Tape& t, const LocalNet::Output& out, const int32_t* labels, const NetOptions& o, double gamma) {
    const int64_t C = out.g->value.cols();
    Loss l;
    l.smoothed = smooth(t, out.z, bandwidth_of(out, o, gamma), {.labels = labels, .C = C, .form = o.nw});
    l.root = js_ce(t, out.g, l.smoothed, labels, weights_of(o));
    return l;
}

// The share of rows whose neighbours weigh nothing: the sum of weights is below 1e-6.
double isolated_share(const Smoothed& s, const NetOptions& o) {
    const double bound = std::log(o.nw == NwForm::exact ? 1e-6 : 2e-6);  // `authors` has added 1e-6
    int64_t isolated = 0;
    const std::vector<float> log_norm = s.log_norm->value.to_host();
    for (float l : log_norm) isolated += double(l) < bound;
    return double(isolated) / double(log_norm.size());
}

// Rows begin .. end of an epoch's order.  A last batch of one row would have no neighbour: it joins the one before.
std::vector<std::pair<int64_t, int64_t>> cut_batches(int64_t n, int64_t batch) {
    std::vector<std::pair<int64_t, int64_t>> cuts;
    for (int64_t begin = 0; begin < n; begin += batch) cuts.emplace_back(begin, std::min(n, begin + batch));
    if (cuts.size() > 1 && cuts.back().second - cuts.back().first == 1) {
        cuts.pop_back();
        cuts.back().second = n;
    }
    return cuts;
}

[[noreturn]] void refuse_divergence(int64_t epoch, size_t batch, double js, double ce, double isolated) {
    char text[400];
    std::snprintf(
        text, sizeof text,
        "training stopped: the loss is not finite in epoch %lld, batch %zu (js %g, ce %g); %.0f %% of its rows had no "
        "neighbour within reach of the bandwidth; try a larger --fit-gamma or a smaller --lr",
        static_cast<long long>(epoch), batch + 1, js, ce, 100 * isolated);
    throw Error(text);
}

// One pass over all rows in the order of this epoch.  The means go into `result`.
void run_epoch(LocalNet& net, Adam& adam, const NetData& data, const NetOptions& o, double gamma, uint64_t seed,
               int64_t epoch, Training& result) {
    const Backend& b = data.phi->value.backend();
    const std::vector<int64_t> order = random_permutation({seed, kShuffle + uint64_t(epoch)}, data.n());
    std::vector<int32_t> index(order.begin(), order.end()), labels;
    for (int64_t i : order) labels.push_back(data.labels[size_t(i)]);
    const Buffer<int32_t> device_index = to_device(b, index), device_labels = to_device(b, labels);

    const auto cuts = cut_batches(data.n(), o.batch);
    result.js = result.ce = 0;
    for (size_t batch = 0; batch < cuts.size(); ++batch) {
        const auto [begin, end] = cuts[batch];
        const int32_t* rows = device_index.data() + begin;
        const RandomKey key = {seed, kDropout + uint64_t(epoch) * cuts.size() + batch};
        Tape tape;
        const LocalNet::Output out =
            net.forward(tape, gather(data.phi, rows, end - begin), gather(data.z, rows, end - begin),
                        gather(data.g, rows, end - begin), key);
        const Loss loss = loss_of(tape, out, device_labels.data() + begin, o, gamma);
        tape.backward(loss.root);
        adam.step();

        const std::vector<float> means = loss.root->value.to_host();
        const double js = double(means[0]), ce = double(means[1]), share = double(end - begin) / double(data.n());
        const bool last = batch + 1 == cuts.size(), finite = std::isfinite(js) && std::isfinite(ce);
        if (last || !finite) result.isolated = isolated_share(loss.smoothed, o);
        if (!finite) refuse_divergence(epoch, batch, js, ce, result.isolated);
        result.js += js * share;
        result.ce += ce * share;
    }
}

// By what epochs are compared: the JS term, or the log-loss of what the method predicts, on rows that were not trained on.
double held_back_score(const LocalNet& net, const NetData& fit, const NetData& held_back, const NetOptions& o,
                       double gamma) {
    const int64_t C = held_back.g->value.cols();
    if (o.stop == Stop::js) {
        Tape tape;
        tape.training = false;
        const LocalNet::Output out = net.forward(tape, held_back.phi, held_back.z, held_back.g, {});
        return double(loss_of(tape, out, held_back.device_labels.data(), o, gamma).root->value.to_host()[0]);
    }
    NetOutput out = forward_rows(net, held_back, o, gamma);
    if (o.method != Method::ln) {
        const Backend& b = fit.phi->value.backend();
        const References references = {forward_rows(net, fit, o, gamma).z, to_device(b, fit.labels)};
        out.log_probs = kernel_log_probs(out, references, o, C);
    }
    const std::vector<float> log_probs = out.log_probs.to_host();
    double sum = 0;
    for (int64_t i = 0; i < held_back.n(); ++i) sum -= double(log_probs[size_t(i * C + held_back.labels[size_t(i)])]);
    return sum / double(held_back.n());
}

std::string describe(const Training& r, const NetOptions& o, double score) {
    char text[160];
    int used = std::snprintf(text, sizeof text, "epoch %lld of %lld, js %.4f, ce %.4f",
                             static_cast<long long>(r.epochs), static_cast<long long>(o.epochs), r.js, r.ce);
    if (o.stop != Stop::fixed) {
        std::snprintf(text + used, sizeof text - size_t(used), ", held back %s %.4f (best %.4f)",
                      o.stop == Stop::js ? "js" : "nll", score, r.best_score);
    }
    return text;
}

}  // namespace

NetOutput forward_rows(const LocalNet& net, const NetData& rows, const NetOptions& o, double gamma) {
    const Backend& b = rows.phi->value.backend();
    Tape tape;
    tape.training = false;
    const LocalNet::Output out = net.forward(tape, rows.phi, rows.z, rows.g, {});
    NetOutput result;
    result.log_probs = Tensor(b, out.g->value.shape());
    b.log_softmax(result.log_probs.data(), out.g->value.data(), rows.n(), out.g->value.cols(), nullptr);
    if (o.bandwidth != Bandwidth::knn) result.gamma = std::move(bandwidth_of(out, o, gamma)->value);
    result.z = std::move(out.z->value);
    return result;
}

Tensor kernel_log_probs(const NetOutput& queries, const References& references, const NetOptions& o, int64_t C) {
    const Backend& b = queries.z.backend();
    const int64_t n = queries.z.rows();
    const Tensor by_neighbours =
        queries.gamma ? Tensor() : neighbour_bandwidth(queries.z, references.z, o.neighbours, false);
    const Tensor& gamma = queries.gamma ? queries.gamma : by_neighbours;
    Tensor theta(b, {n, C}), log_norm(b, {n});
    b.nw_smooth({theta.data(), log_norm.data(), nullptr},
                {.n = n,
                 .m = references.z.rows(),
                 .d = queries.z.cols(),
                 .C = C,
                 .Q = queries.z.data(),
                 .R = references.z.data(),
                 .labels = references.labels.data(),
                 .gamma = gamma.data(),
                 .gamma_per_row = gamma.size() != 1,
                 .form = o.nw},
                nullptr);
    std::vector<float> log_theta = theta.to_host();  // (n, C): small, and its logarithm is not needed on the backend
    for (int64_t i = 0; i < n; ++i) {
        float* row = log_theta.data() + i * C;
        double sum = 0;
        for (int64_t c = 0; c < C; ++c) sum += double(row[c]);
        for (int64_t c = 0; c < C; ++c) row[c] = float(std::log(std::max(double(row[c]) / sum, double(FLT_MIN))));
    }
    return Tensor::from(b, {n, C}, log_theta);
}

Training train(LocalNet& net, const NetData& fit, const NetData* held_back, const NetOptions& o, double gamma,
               const Context& context, Stage stage) {
    LC_CHECK(held_back != nullptr || o.stop == Stop::fixed, "early stopping needs rows that were held back");
    Adam adam(net.parameters(), {.lr = o.lr});
    Training r;
    Checkpoint checkpoint(context, stage.index, fingerprint(o, fit, gamma, context.seed), net.parameters(), adam);
    checkpoint.take_up(r);
    const auto tell = [&](double score) {
        const double done = double(r.epochs) / double(o.epochs);
        if (context.progress) context.progress((stage.index + done) / stage.count, describe(r, o, score));
    };
    while (r.epochs < o.epochs) {
        const bool tired = r.epochs >= o.first_stop && r.epochs - r.best_epoch >= o.patience;
        if (o.stop != Stop::fixed && tired) break;
        run_epoch(net, adam, fit, o, gamma, context.seed, r.epochs, r);
        ++r.epochs;
        double score = 0;
        if (o.stop != Stop::fixed) score = held_back_score(net, fit, *held_back, o, gamma);
        if (o.stop == Stop::fixed || r.best_epoch == 0 || score < r.best_score) {
            r.best_epoch = r.epochs;
            r.best_score = score;
            if (o.stop != Stop::fixed) checkpoint.keep_best();
        }
        tell(score);
        checkpoint.write(r);
    }
    if (o.stop != Stop::fixed) checkpoint.return_to_best();
    return r;
}

}  // namespace lc

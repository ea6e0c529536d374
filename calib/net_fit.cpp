// net_fit.cpp -- fitting LN, KC and KO: split, reduce, choose the bandwidth, train, and what preset `auto` adds.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <numeric>

#include "calib/bandwidth.h"
#include "calib/checkpoint.h"
#include "calib/net_calibrator.h"
#include "calib/net_on_device.h"
#include "calib/temperature.h"
#include "kernels/random.h"

namespace lc {
namespace {

constexpr uint64_t kSplit = uint64_t(3) << 32;  // the stream of random numbers that splits the rows

// Rows of a table, in the order of `index`, in memory of their own.
struct Picked {
    std::vector<float> features, logits;
    std::vector<int32_t> labels;
    Samples samples;

    Picked(const Samples& s, std::span<const int64_t> index) {
        for (int64_t i : index) {
            features.insert(features.end(), s.features + i * s.d, s.features + (i + 1) * s.d);
            logits.insert(logits.end(), s.logits + i * s.C, s.logits + (i + 1) * s.C);
            labels.push_back(s.labels[i]);
        }
        samples = {int64_t(index.size()), s.d, s.C, features.data(), logits.data(), labels.data()};
    }
};

std::string format(const char* pattern, double a, double b = 0, double c = 0) {
    char text[200];
    std::snprintf(text, sizeof text, pattern, a, b, c);
    return text;
}

// The log-loss of rows under a temperature that was fitted on the other half of them, row by row: what a temperature is worth
// when it is not allowed to see its own rows.
std::vector<double> cross_fitted_nll(const std::vector<float>& logits, const std::vector<int32_t>& labels, int64_t C) {
    const int64_t n = int64_t(labels.size()), half = n / 2;
    std::vector<double> each(static_cast<size_t>(n));
    const auto score = [&](int64_t fit_begin, int64_t fit_end, int64_t begin, int64_t end) {
        const Temperature t =
            fit_temperature(logits.data() + fit_begin * C, labels.data() + fit_begin, fit_end - fit_begin, C);
        nll_of_logits(logits.data() + begin * C, labels.data() + begin, end - begin, C, t.beta, each.data() + begin);
    };
    score(0, half, half, n);
    score(half, n, 0, half);
    return each;
}

}  // namespace

// One fit, step by step.
struct NetCalibrator::Fitting {
    NetCalibrator& self;
    const Context& context;
    const Backend& b;
    NetOptions& o;
    std::unique_ptr<Picked> fit_rows, held_rows;  // on the host
    NetData fit, held;                            // on the backend

    Fitting(NetCalibrator& s, const Context& c) : self(s), context(c), b(*c.backend), o(s.o_) {}

    void split(const Samples& s) {
        std::vector<int64_t> order(static_cast<size_t>(s.n));
        std::iota(order.begin(), order.end(), 0);
        int64_t held_back = 0;
        if (o.held_back() > 0) {
            order = random_permutation({context.seed, kSplit}, s.n);
            held_back = std::max<int64_t>(1, int64_t(std::lround(o.held_back() * double(s.n))));
            if (s.n - held_back < 2 || held_back < 4) {
                throw Error("holding back a tenth of " + std::to_string(s.n) +
                            " rows leaves too few; bring at least 40 rows, or take --preset paper --stop fixed");
            }
        }
        const std::span<const int64_t> all = order;
        held_rows = std::make_unique<Picked>(s, all.first(size_t(held_back)));
        fit_rows = std::make_unique<Picked>(s, all.subspan(size_t(held_back)));
    }

    void reduce() {
        const Samples& s = fit_rows->samples;
        const Tensor phi = Tensor::from(b, {s.n, s.d}, {s.features, size_t(s.n * s.d)});
        self.pca_ = fit_pca(b, phi.data(), s.n, s.d, o.components, context.seed);
        const PcaTransform transform(b, self.pca_);
        fit = to_net_data(b, transform, self.pca_.k, s);
        if (held_rows->samples.n > 0) held = to_net_data(b, transform, self.pca_.k, held_rows->samples);
    }

    void choose_gamma() {
        self.gamma_ = o.gamma;
        if (o.gamma == 0) {
            if (context.progress) context.progress(0, "choosing the bandwidth");
            self.gamma_ = choose_bandwidth(fit.z->value, fit.device_labels).gamma;
        }
        self.note("gamma", self.gamma_);
    }

    // Trains from every start and keeps the best network.
    std::unique_ptr<LocalNet> train_all(const Temperature& ts) {
        std::vector<double> starts = {1.0};
        const bool second =
            o.two_starts && o.method != Method::kc && !ts.at_bound;  // kc's loss does not see the logits
        if (second) starts.push_back(ts.beta);
        std::unique_ptr<LocalNet> best;
        Training of_best;
        for (size_t i = 0; i < starts.size(); ++i) {
            const NetShape shape = {self.pca_.d, self.pca_.k, self.C_};
            auto net = std::make_unique<LocalNet>(b, shape, o, context.seed, self.gamma_, starts[i]);
            const Training t =
                train(*net, fit, held.phi ? &held : nullptr, o, self.gamma_, context, {int(i), int(starts.size())});
            if (best != nullptr && !(t.best_score < of_best.best_score)) continue;
            best = std::move(net);
            of_best = t;
            if (starts.size() > 1) start = starts[i];
        }
        report(of_best);
        return best;
    }
    double start = 1;

    void report(const Training& t) {
        self.note("epochs", double(t.epochs));
        self.note("ended", o.stop == Stop::fixed
                               ? "all epochs done"
                               : format("best epoch %.0f of %.0f", double(t.best_epoch), double(t.epochs)));
        if (o.two_starts) self.note("start", start);
        self.note("js", t.js);
        self.note("ce", t.ce);
        self.note("objective", o.method == Method::kc ? t.ce : t.js + double(o.lambda) * t.ce);
        if (o.stop != Stop::fixed) self.note(o.stop == Stop::js ? "held_back_js" : "held_back_nll", t.best_score);
        self.note("isolated", t.isolated);
        if (t.isolated > 0.1 && context.note) {
            context.note(
                format("%.0f %% of the rows have no neighbour within reach of gamma = %g; a larger --fit-gamma, or "
                       "--fit-gamma auto, would let them see some",
                       100 * t.isolated, self.gamma_));
        }
    }

    // What the method predicts for the held-back rows, as logits.
    std::vector<float> held_back_logits(const LocalNet& net) {
        NetOutput out = forward_rows(net, held, o, self.gamma_);
        if (o.method != Method::ln) {
            const References references = {forward_rows(net, fit, o, self.gamma_).z, to_device(b, fit.labels)};
            out.log_probs = kernel_log_probs(out, references, o, self.C_);
        }
        return out.log_probs.to_host();
    }

    // The final temperature, and for LN the question whether the network beats plain temperature scaling at all.
    void finish_auto(const LocalNet& net, const Temperature& ts, const Samples& all) {
        const std::vector<float> logits = held_back_logits(net);
        const int64_t n = held.n(), C = self.C_;
        self.temperature_ = fit_temperature(logits.data(), held.labels.data(), n, C).T;
        if (o.verdict) {
            const std::vector<double> ours = cross_fitted_nll(logits, held.labels, C);
            std::vector<double> theirs(ours.size());
            nll_of_logits(held_rows->logits.data(), held.labels.data(), n, C, ts.beta, theirs.data());
            double mean = 0, square = 0;
            for (size_t i = 0; i < ours.size(); ++i) mean += (ours[i] - theirs[i]) / double(n);
            for (size_t i = 0; i < ours.size(); ++i) square += std::pow(ours[i] - theirs[i] - mean, 2) / double(n - 1);
            const double error = std::sqrt(square / double(n));
            self.only_temperature_ = !(mean < 0);
            if (self.only_temperature_) self.temperature_ = fit_temperature(all.logits, all.labels, all.n, C).T;
            self.note("verdict_difference", mean);
            self.note("verdict_error", error);
            const char* said =
                self.only_temperature_
                    ? "on the held-back rows LoCal Net is not better than temperature scaling (NLL %+.4f +- %.4f): the "
                      "model gives the probabilities of temperature scaling and leaves the features as they are"
                : mean < -error ? "on the held-back rows LoCal Net beats temperature scaling (NLL %+.4f +- %.4f)"
                                : "on the held-back rows LoCal Net and temperature scaling are equal within noise (NLL "
                                  "%+.4f +- %.4f); LoCal Net is kept";
            self.note("verdict", format(said, mean, error));
            if (context.note) context.note(format(said, mean, error));
        }
        self.note("temperature", self.temperature_);
    }

    void keep(const LocalNet& net) {
        for (const auto& [name, x] : net.parameters()) self.weights_[name] = {x->value.shape(), x->value.to_host()};
        if (o.method == Method::ln) return;
        const NetData& reference = o.reference == ReferenceSet::fit ? fit : held;
        self.reference_z_ = forward_rows(net, reference, o, self.gamma_).z.to_host();
        self.reference_labels_ = reference.labels;
    }
};

void NetCalibrator::fit(const Samples& s, const Context& c) {
    check_samples(s, true, true);
    C_ = s.C;
    o_ = choose_(C_);
    check_options(o_);
    findings_.clear();
    on_device_ = nullptr;
    temperature_ = 1;
    only_temperature_ = false;

    Fitting f(*this, c);
    f.split(s);
    f.reduce();
    f.choose_gamma();
    Temperature ts;
    const Samples& rows = f.fit_rows->samples;
    if (o_.two_starts || o_.verdict) ts = fit_temperature(rows.logits, rows.labels, rows.n, rows.C);
    const std::unique_ptr<LocalNet> net = f.train_all(ts);
    if (o_.final_temperature) f.finish_auto(*net, ts, s);
    f.keep(*net);
    remove_checkpoints(c);
}

}  // namespace lc

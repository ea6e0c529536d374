// train.cpp -- see train.h.
#include "nn/train.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <memory>
#include <numbers>
#include <numeric>

#include "kernels/random.h"

namespace lc {
namespace {

constexpr const char* kSchema = "localcal.training/2";

// Streams of random numbers beside those of the initial weights.
constexpr uint64_t kShuffle = uint64_t(1) << 32, kDropout = uint64_t(2) << 32;

void add_to(ClassifierScore& sum, const ClassifierScore& mean, double weight) {
    sum.accuracy += weight * mean.accuracy;
    sum.log_loss += weight * mean.log_loss;
    sum.confidence += weight * mean.confidence;
}

void check_finite(const ClassifierScore& s, int64_t epoch) {
    if (std::isfinite(s.log_loss)) return;
    throw Error("training stopped: the loss is not finite in epoch " + std::to_string(epoch + 1) +
                "; take a smaller learning rate");
}

std::unique_ptr<Optimiser> make_optimiser(const Parameters& p, const TrainOptions& o) {
    if (o.use_sgd) return std::make_unique<Sgd>(p, o.sgd);
    return std::make_unique<Adam>(p, o.adam);
}

// How far a training is.
struct Position {
    int64_t epoch = 0, batch = 0;  // done
    ClassifierScore sum;           // over the batches of this epoch
};

// ---- checkpoints ----------------------------------------------------------------------------------------------------

void write_checkpoint(const Trainee& net, const Optimiser& optimiser, const TrainOptions& o, const Position& at) {
    if (o.checkpoint.empty()) return;
    SafetensorsWriter out;
    out.metadata = {{"schema", kSchema},
                    {"fingerprint", o.fingerprint},
                    {"epochs", std::to_string(at.epoch)},
                    {"batches", std::to_string(at.batch)}};
    out.set("accuracy", at.sum.accuracy);
    out.set("log_loss", at.sum.log_loss);
    out.set("confidence", at.sum.confidence);
    store(out, net.parameters);
    store(out, net.statistics);
    optimiser.store(out);
    out.write(o.checkpoint);  // aside, then renamed
}

// Where the checkpoint left off; the beginning where there is none of this training.
Position take_up(const Trainee& net, Optimiser& optimiser, const TrainOptions& o) {
    if (o.checkpoint.empty() || !std::filesystem::exists(o.checkpoint)) return {};
    const Safetensors in = read_safetensors(o.checkpoint);
    if (in.meta("schema") != kSchema) {
        throw Error(o.checkpoint + ": expected the checkpoint of a training (" + kSchema + "), found '" +
                    in.meta("schema") + "'; move that file away");
    }
    if (in.meta("fingerprint") != o.fingerprint) return {};
    restore(in, net.parameters);
    restore(in, net.statistics);
    optimiser.restore(in);
    return {in.meta_integer("epochs"),
            in.meta_integer("batches"),
            {in.meta_number("accuracy"), in.meta_number("log_loss"), in.meta_number("confidence")}};
}

// ---- the work -------------------------------------------------------------------------------------------------------

class Training {
  public:
    Training(const Trainee& net, const LabelledRows& fit, const TrainOptions& o)
        : net_(net),
          fit_(fit),
          o_(o),
          optimiser_(make_optimiser(net.parameters, o)),
          at_(take_up(net, *optimiser_, o)) {}

    int64_t epochs_done() const { return at_.epoch; }

    // The rest of the epoch under way, in the order of this epoch.
    ClassifierScore run_epoch() {
        const std::vector<int64_t> order = random_permutation({o_.seed, kShuffle + uint64_t(at_.epoch)}, fit_.n());
        for (; at_.batch < batches(); ++at_.batch) {
            save_now_and_then();
            const int64_t begin = at_.batch * o_.batch, end = std::min(fit_.n(), begin + o_.batch);
            const ClassifierScore s = run_batch({order.data() + begin, size_t(end - begin)});
            check_finite(s, at_.epoch);
            add_to(at_.sum, s, double(end - begin) / double(fit_.n()));
        }
        ++at_.epoch;
        at_.batch = 0;
        return std::exchange(at_.sum, {});
    }

    void save() {
        write_checkpoint(net_, *optimiser_, o_, at_);
        saved_ = Clock::now();
    }

  private:
    using Clock = std::chrono::steady_clock;

    int64_t batches() const { return (fit_.n() + o_.batch - 1) / o_.batch; }

    ClassifierScore run_batch(std::span<const int64_t> rows) {
        const int64_t step = at_.epoch * batches() + at_.batch, steps = o_.epochs * batches();
        std::vector<int32_t> labels;
        for (const int64_t i : rows) labels.push_back(fit_.labels[size_t(i)]);
        const Var x = fit_.load(rows);
        const Buffer<int32_t> device_labels = to_device(x->value.backend(), labels);
        Tape tape;
        const Var logits = net_.logits(tape, x, {o_.seed, kDropout + uint64_t(step)});
        tape.backward(cross_entropy(tape, logits, device_labels.data()));
        optimiser_->step(o_.cosine ? 0.5 * (1 + std::cos(std::numbers::pi * double(step) / double(steps))) : 1);
        if (o_.progress) {
            o_.progress(double(at_.batch + 1) / double(batches()),
                        "epoch " + std::to_string(at_.epoch + 1) + " of " + std::to_string(o_.epochs));
        }
        return score(logits->value.to_host(), labels);
    }

    void save_now_and_then() {
        if (std::chrono::duration<double>(Clock::now() - saved_).count() >= o_.checkpoint_seconds) save();
    }

    const Trainee& net_;
    const LabelledRows& fit_;
    const TrainOptions& o_;
    std::unique_ptr<Optimiser> optimiser_;
    Position at_;
    Clock::time_point saved_ = Clock::now();
};

}  // namespace

Outputs infer(const Trainee& net, const LabelledRows& rows, const Progress& progress) {
    constexpr int64_t kAtOnce = 128;
    const Trainee::Infer infer_batch = net.inference();
    std::vector<int64_t> all(static_cast<size_t>(rows.n()));
    std::iota(all.begin(), all.end(), int64_t(0));
    Outputs out;
    for (int64_t begin = 0; begin < rows.n(); begin += kAtOnce) {
        const int64_t end = std::min(rows.n(), begin + kAtOnce);
        const Outputs piece = infer_batch(rows.load({all.data() + begin, size_t(end - begin)}));
        out.features.insert(out.features.end(), piece.features.begin(), piece.features.end());
        out.logits.insert(out.logits.end(), piece.logits.begin(), piece.logits.end());
        if (progress) progress(double(end) / double(rows.n()), "row " + std::to_string(end));
    }
    return out;
}

ClassifierScore score(const std::vector<float>& logits, const std::vector<int32_t>& labels) {
    LC_CHECK(!labels.empty() && logits.size() % labels.size() == 0,
             "score: logits are (n, C) and labels (n), n >= 1; found " << logits.size() << " logits and "
                                                                       << labels.size() << " labels");
    const size_t n = labels.size(), C = logits.size() / n;
    ClassifierScore sum;
    for (size_t i = 0; i < n; ++i) {
        const float* z = logits.data() + i * C;
        const float* top = std::max_element(z, z + C);
        double total = 0;
        for (size_t c = 0; c < C; ++c) total += std::exp(double(z[c]) - double(*top));
        const double right = top - z == labels[i] ? 1 : 0;
        add_to(sum, {right, std::log(total) + double(*top) - double(z[labels[i]]), 1 / total}, 1 / double(n));
    }
    return sum;
}

void train(const Trainee& net, const LabelledRows& fit, const LabelledRows& validation, const TrainOptions& o,
           const std::function<void(const Epoch&)>& tell) {
    LC_CHECK(o.batch >= 1, "train: a batch has one row at least; found " << o.batch);
    LC_CHECK(fit.n() >= 1, "train: there are no rows to train on");
    Training training(net, fit, o);
    while (training.epochs_done() < o.epochs) {
        Epoch e = {training.epochs_done() + 1, training.run_epoch(), {}};
        if (validation.n() > 0) {
            e.validation = score(infer(net, validation).logits, validation.labels);
            check_finite(e.validation, e.number - 1);
        }
        training.save();
        if (tell) tell(e);
    }
}

// ---- multilayer perceptrons -----------------------------------------------------------------------------------------

namespace {

Trainee trainee_of(const Mlp& net) {
    const auto infer_batch = [&net](const Var& x) {
        Tape tape;
        tape.training = false;
        const Mlp::Output out = net.forward(tape, x, {});
        return Outputs{out.features->value.to_host(), out.logits->value.to_host()};
    };
    return {net.parameters(),
            {},
            [&net](Tape& t, const Var& x, RandomKey dropout) { return net.forward(t, x, dropout).logits; },
            [=] { return infer_batch; }};
}

LabelledRows rows_of(const Examples& e) {
    return {e.labels, [&e](std::span<const int64_t> rows) {
                const std::vector<int32_t> index(rows.begin(), rows.end());
                const Buffer<int32_t> on_device = to_device(e.x->value.backend(), index);
                const Var x = gather(e.x, on_device.data(), int64_t(index.size()));
                e.x->value.backend().sync(nullptr);  // the index goes
                return x;
            }};
}

}  // namespace

Outputs infer(const Mlp& net, const Var& x) {
    const Examples all = {x, std::vector<int32_t>(size_t(x->value.rows()))};
    return infer(trainee_of(net), rows_of(all));
}

void train(const Mlp& net, const Examples& fit, const Examples& validation, const TrainOptions& o,
           const std::function<void(const Epoch&)>& tell) {
    train(trainee_of(net), rows_of(fit), rows_of(validation), o, tell);
}

}  // namespace lc

// train.cpp -- see train.h.
#include "nn/train.h"

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "kernels/random.h"

namespace lc {
namespace {

constexpr const char* kSchema = "localcal.training/1";

// Streams of random numbers beside those of the initial weights.
constexpr uint64_t kShuffle = uint64_t(1) << 32, kDropout = uint64_t(2) << 32;

void add_to(Score& sum, const Score& mean, double weight) {
    sum.accuracy += weight * mean.accuracy;
    sum.log_loss += weight * mean.log_loss;
    sum.confidence += weight * mean.confidence;
}

void check_finite(const Score& s, int64_t epoch) {
    if (std::isfinite(s.log_loss)) return;
    throw Error("training stopped: the loss is not finite in epoch " + std::to_string(epoch + 1) +
                "; take a smaller learning rate");
}

// One pass over all rows in the order of this epoch.
Score run_epoch(const Mlp& net, Adam& adam, const Examples& fit, const TrainOptions& o, int64_t epoch) {
    const Backend& b = fit.x->value.backend();
    const std::vector<int64_t> order = random_permutation({o.seed, kShuffle + uint64_t(epoch)}, fit.n());
    const std::vector<int32_t> index(order.begin(), order.end());
    std::vector<int32_t> labels;
    for (int64_t i : order) labels.push_back(fit.labels[size_t(i)]);
    const Buffer<int32_t> device_index = to_device(b, index), device_labels = to_device(b, labels);

    Score sum;
    uint64_t stream = kDropout + uint64_t(epoch) * uint64_t((fit.n() + o.batch - 1) / o.batch);
    for (int64_t begin = 0; begin < fit.n(); begin += o.batch) {
        const int64_t end = std::min(fit.n(), begin + o.batch);
        Tape tape;
        const Var x = gather(fit.x, device_index.data() + begin, end - begin);
        const Var logits = net.forward(tape, x, {o.seed, stream++}).logits;
        tape.backward(cross_entropy(tape, logits, device_labels.data() + begin));
        adam.step();
        const Score batch = score(logits->value.to_host(), {labels.begin() + begin, labels.begin() + end});
        check_finite(batch, epoch);
        add_to(sum, batch, double(end - begin) / double(fit.n()));
    }
    return sum;
}

void write_checkpoint(const Mlp& net, const Adam& adam, const TrainOptions& o, int64_t epochs) {
    if (o.checkpoint.empty()) return;
    SafetensorsWriter out;
    out.metadata = {{"schema", kSchema}, {"fingerprint", o.fingerprint}, {"epochs", std::to_string(epochs)}};
    store(out, net.parameters());
    adam.store(out);
    out.write(o.checkpoint);  // aside, then renamed
}

// How many epochs the checkpoint has behind it; 0 where there is none of this training.
int64_t take_up(const Mlp& net, Adam& adam, const TrainOptions& o) {
    if (o.checkpoint.empty() || !std::filesystem::exists(o.checkpoint)) return 0;
    const Safetensors in = read_safetensors(o.checkpoint);
    if (in.meta("schema") != kSchema) {
        throw Error(o.checkpoint + ": expected the checkpoint of a training (" + kSchema + "), found '" +
                    in.meta("schema") + "'; move that file away");
    }
    if (in.meta("fingerprint") != o.fingerprint) return 0;
    restore(in, net.parameters());
    adam.restore(in);
    return in.meta_integer("epochs");
}

}  // namespace

Outputs infer(const Mlp& net, const Var& x) {
    constexpr int64_t kRows = 1024;
    const Backend& b = x->value.backend();
    const int64_t n = x->value.rows(), d = x->value.cols();
    Outputs all;
    for (int64_t begin = 0; begin < n; begin += kRows) {
        const int64_t rows = std::min(kRows, n - begin);
        Tensor piece(b, {rows, d});
        b.copy(piece.data(), x->value.data() + begin * d, size_t(rows * d) * sizeof(float), Copy::on_device, nullptr);
        Tape tape;
        tape.training = false;
        const Mlp::Output out = net.forward(tape, constant(std::move(piece)), {});
        const std::vector<float> features = out.features->value.to_host(), logits = out.logits->value.to_host();
        all.features.insert(all.features.end(), features.begin(), features.end());
        all.logits.insert(all.logits.end(), logits.begin(), logits.end());
    }
    return all;
}

Score score(const std::vector<float>& logits, const std::vector<int32_t>& labels) {
    LC_CHECK(!labels.empty() && logits.size() % labels.size() == 0,
             "score: logits are (n, C) and labels (n), n >= 1; found " << logits.size() << " logits and "
                                                                       << labels.size() << " labels");
    const size_t n = labels.size(), C = logits.size() / n;
    Score sum;
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

void train(const Mlp& net, const Examples& fit, const Examples& validation, const TrainOptions& o,
           const std::function<void(const Epoch&)>& tell) {
    LC_CHECK(o.batch >= 1, "train: a batch has one row at least; found " << o.batch);
    Adam adam(net.parameters(), o.adam);
    for (int64_t epoch = take_up(net, adam, o); epoch < o.epochs; ++epoch) {
        Epoch e = {epoch + 1, run_epoch(net, adam, fit, o, epoch), {}};
        e.validation = score(infer(net, validation.x).logits, validation.labels);
        check_finite(e.validation, epoch);
        write_checkpoint(net, adam, o, e.number);
        if (tell) tell(e);
    }
}

}  // namespace lc

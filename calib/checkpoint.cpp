// checkpoint.cpp -- see checkpoint.h.
#include "calib/checkpoint.h"

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>

#include "data/hash.h"

namespace lc {
namespace {

constexpr const char* kSchema = "localcal.checkpoint/1";
constexpr int kStages = 2;

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

std::string path_of(const std::string& checkpoint, int stage) {
    return checkpoint.empty() || stage == 0 ? checkpoint : checkpoint + "." + std::to_string(stage + 1);
}

}  // namespace

std::string fingerprint(const NetOptions& o, const NetData& fit, double gamma, uint64_t seed) {
    std::string text = method_name(o);
    for (const auto& [name, value] : to_text(o)) text += " " + name + "=" + value;
    const std::vector<float> g = fit.g->value.to_host();
    const std::string data = Hash().add(fit.labels).add(g).text();
    return text + " rows=" + std::to_string(fit.n()) + " features=" + std::to_string(fit.phi->value.cols()) +
           " gamma=" + std::to_string(gamma) + " seed=" + std::to_string(seed) + " data=" + data +
           " device=" + fit.phi->value.backend().name;
}

Checkpoint::Checkpoint(const Context& context, int stage, std::string fingerprint, Parameters net, Adam& adam)
    : path_(path_of(context.checkpoint, stage)),
      fingerprint_(std::move(fingerprint)),
      net_(std::move(net)),
      adam_(adam),
      last_(now()) {
    const char* seconds = std::getenv("LC_CHECKPOINT_SECONDS");
    every_ = seconds != nullptr ? std::atof(seconds) : 2.0;
    for (const auto& [name, x] : net_) best_.emplace_back(name, constant(x->value.clone()));
}

void Checkpoint::keep_best() {
    for (size_t i = 0; i < net_.size(); ++i) best_[i].second->value = net_[i].second->value.clone();
}

void Checkpoint::return_to_best() {
    for (size_t i = 0; i < net_.size(); ++i) net_[i].second->value = best_[i].second->value.clone();
}

void Checkpoint::write(const Training& r) {
    if (path_.empty() || now() - last_ < every_) return;
    SafetensorsWriter out;
    out.metadata = {{"schema", kSchema}, {"fingerprint", fingerprint_}};
    out.metadata["epochs"] = std::to_string(r.epochs);
    out.metadata["best_epoch"] = std::to_string(r.best_epoch);
    out.set("best_score", r.best_score);
    out.set("js", r.js);
    out.set("ce", r.ce);
    out.set("isolated", r.isolated);
    store(out, net_, "net.");
    store(out, best_, "best.");
    adam_.store(out);
    out.write(path_);
    last_ = now();
}

void Checkpoint::take_up(Training& r) {
    if (path_.empty() || !std::filesystem::exists(path_)) return;
    const Safetensors in = read_safetensors(path_);
    if (in.meta("schema") != kSchema) {
        throw Error(path_ + ": expected a checkpoint (" + kSchema + "), found '" + in.meta("schema") +
                    "'; name another file with --checkpoint");
    }
    if (in.meta("fingerprint") != fingerprint_) {
        throw Error(path_ +
                    ": the checkpoint belongs to another run (other rows, options, seed or device); delete it, or name "
                    "another file with --checkpoint");
    }
    restore(in, net_, "net.");
    restore(in, best_, "best.");
    adam_.restore(in);
    r.epochs = in.meta_integer("epochs");
    r.best_epoch = in.meta_integer("best_epoch");
    r.best_score = in.meta_number("best_score");
    r.js = in.meta_number("js");
    r.ce = in.meta_number("ce");
    r.isolated = in.meta_number("isolated");
}

void remove_checkpoints(const Context& context) {
    if (context.checkpoint.empty()) return;
    for (int stage = 0; stage < kStages; ++stage) std::filesystem::remove(path_of(context.checkpoint, stage));
}

}  // namespace lc

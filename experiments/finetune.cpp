// finetune.cpp -- the program: trains a residual network on labelled images, or the last part of a pretrained one.
//
// Files of --out: trunk-HASH.npy (what the frozen part gives, kept for further runs), training.checkpoint while it trains,
// and last classifier.safetensors, whose fingerprint says what it was made of: where it fits the options, nothing is left
// to do.
#include "nn/finetune.h"

#include <chrono>
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "experiments/finetune_job.h"
#include "experiments/progress.h"
#include "nn/resnet_weights.h"

namespace lc::cli {
namespace {

namespace fs = std::filesystem;

// ---- training -------------------------------------------------------------------------------------------------------

TrainOptions train_options(const Job& job, uint64_t seed) {
    const FinetuneSettings& o = job.o;
    TrainOptions t = {.epochs = o.epochs, .batch = o.batch};
    t.use_sgd = o.optimiser == "sgd";
    t.adam = {.lr = o.rate()};
    t.sgd = {.lr = o.rate(), .momentum = float(o.momentum), .weight_decay = float(o.weight_decay)};
    t.cosine = o.schedule == "cosine";
    t.seed = seed;
    t.checkpoint = (fs::path(o.out) / "training.checkpoint").string();
    t.fingerprint = job.fingerprint;
    return t;
}

std::vector<Epoch> train_with_progress(const Job& job, const Trainee& trainee, const Parts& parts, TrainOptions t,
                                       bool quiet) {
    const auto start = std::chrono::steady_clock::now();
    auto line = std::make_unique<ProgressLine>(quiet);  // one for each epoch
    t.progress = [&](double fraction, std::string_view note) { line->callback()(fraction, note); };
    std::vector<Epoch> epochs;
    train(trainee, parts.train, parts.validation, t, [&](const Epoch& e) {
        line = std::make_unique<ProgressLine>(quiet);
        epochs.push_back(e);
        if (quiet) return;
        const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - start;
        const double left = passed.count() / double(epochs.size()) * double(job.o.epochs - e.number);
        std::fprintf(stderr, "epoch %2lld of %lld   train %s right, log-loss %.4f   validation %s, %.4f   %s left\n",
                     static_cast<long long>(e.number), static_cast<long long>(job.o.epochs),
                     percent(e.fit.accuracy).c_str(), e.fit.log_loss, percent(e.validation.accuracy).c_str(),
                     e.validation.log_loss, format_seconds(left).c_str());
    });
    return epochs;
}

// ---- what is left behind --------------------------------------------------------------------------------------------

struct Result {
    int64_t train_rows = 0, validation_rows = 0;
    ClassifierScore validation;
};

void write_classifier(const Job& job, const std::string& path, const Result& r) {
    SafetensorsWriter out;
    store_weights(out, *job.net);
    store(out, job.o.pictures);
    out.metadata["schema"] = "localcal.network/1";
    out.metadata["fingerprint"] = job.fingerprint;
    out.metadata["classes"] = std::to_string(job.net->plan().classes);
    out.metadata["split"] = std::to_string(job.o.train_share) + ":" + std::to_string(job.o.validation_share);
    out.metadata["train.rows"] = std::to_string(r.train_rows);
    out.metadata["validation.rows"] = std::to_string(r.validation_rows);
    out.set("validation.accuracy", r.validation.accuracy);
    out.set("validation.log_loss", r.validation.log_loss);
    out.set("validation.confidence", r.validation.confidence);
    out.write(path);
    fs::remove(fs::path(job.o.out) / "training.checkpoint");
}

void report(const Job& job, const std::string& path, const Result& r, bool trained, const Common& common) {
    if (common.json) {
        return print_json({{"schema", "localcal.finetune/1"},
                           {"program", kProgram},
                           {"classifier", path},
                           {"network", job.net->plan().name},
                           {"train", job.o.train},
                           {"epochs", job.o.epochs},
                           {"seed", common.seed},
                           {"trained", trained},
                           {"train_rows", r.train_rows},
                           {"validation",
                            {{"n", r.validation_rows},
                             {"accuracy", r.validation.accuracy},
                             {"log_loss", r.validation.log_loss},
                             {"confidence", r.validation.confidence}}}});
    }
    std::string text = job.net->plan().name + ", " + std::to_string(job.net->plan().classes) + " classes, trained on " +
                       std::to_string(r.train_rows) + " images\n";
    if (r.validation_rows > 0) {
        text += "on " + std::to_string(r.validation_rows) + " others it is right on " + percent(r.validation.accuracy) +
                " and sure of " + percent(r.validation.confidence) + "\n";
    }
    print(text + (trained ? "wrote " : "nothing to do: ") + path + "\nnext: extract --model " + path +
          " --data ... -o cal.npz\n");
}

void run_finetune(const Common& common, const FinetuneSettings& o) {
    std::error_code error;
    fs::create_directories(o.out, error);
    if (!fs::is_directory(o.out)) {
        throw Error("expected a folder that can be made after --out, found '" + o.out + "' (" + error.message() +
                    "); name another one");
    }
    std::string why;
    const Backend& b = choose_backend(common.device, &why);
    const Job job = make_job(b, o, common.seed);
    const std::string path = (fs::path(o.out) / "classifier.safetensors").string();
    Result r = {int64_t(job.train.size()), int64_t(job.validation.size()), {}};
    if (fs::exists(path)) {
        const Safetensors in = read_safetensors(path);
        if (in.metadata.contains("fingerprint") && in.meta("fingerprint") == job.fingerprint) {
            r.validation = {in.meta_number("validation.accuracy"), in.meta_number("validation.log_loss"),
                            in.meta_number("validation.confidence")};
            return report(job, path, r, false, common);
        }
    }
    if (!common.quiet) std::fprintf(stderr, "%s\n%s\n", why.c_str(), job.images->description().c_str());
    const Parts parts = parts_of(job, common.quiet);
    const Trainee trainee = trainee_of(*job.net, job.cut,
                                       {.dropout = float(o.dropout),
                                        .dropout_on_map = o.dropout_at == "map",
                                        .batch_statistics_everywhere = o.bn == "authors"});
    train_with_progress(job, trainee, parts, train_options(job, common.seed), common.quiet);
    if (!job.validation.empty()) {
        r.validation = score(infer(trainee, parts.validation).logits, parts.validation.labels);
    }
    write_classifier(job, path, r);
    report(job, path, r, true, common);
}

// ---- options --------------------------------------------------------------------------------------------------------

void add_split(Options& options, FinetuneSettings& o) {
    const auto take = [&o](const std::string& s) {
        const size_t colon = s.find(':');
        if (colon == std::string::npos) {
            throw Error("--split: expected two shares in percent as 45:10, found '" + s + "'");
        }
        o.train_share = int64_t(parse_integer("--split", s.substr(0, colon), 1, 100));
        o.validation_share = int64_t(parse_integer("--split", s.substr(colon + 1), 0, 99));
    };
    options.add_option("--split", take, "percent of the rows to train on and to validate on, by a fixed seed (45:10)")
        .type_name("A:B");
}

void add_options(Options& options, FinetuneSettings& o) {
    options
        .add_option("--data", o.data, "labelled images: cifar10:FOLDER:train, npz:FILE:train, a folder of folders, ...")
        .required();
    options.add_option("--out", o.out, "folder for the results; made where it is missing").required().type_name("DIR");
    options.add_option("--network", o.network,
                       "resnet18 ... resnet152, for CIFAR resnet20 ... resnet110; :he, :a (resnet50)");
    options.add_option("--weights", o.weights, "pretrained: .pth, .safetensors, TensorFlow.js; the head is made anew")
        .type_name("FILE");
    add_choice(options, "--train", o.train, {"head", "last", "all"},
               "the head: a linear probe; last stage and head; everything (last)");
    add_choice(options, "--bn", o.bn, {"frozen", "authors"},
               "frozen stages by their running statistics, or all by the batch's (frozen)");
    add_picture_options(options, o.pictures);
    add_split(options, o);
    add_count(options, "--limit", o.limit, 1, 1'000'000'000, "use at most N rows of every part: a quick try (all)");
    add_count(options, "--epochs", o.epochs, 1, 100000, "passes over the training rows (9)");
    add_count(options, "--batch", o.batch, 2, 1 << 20, "rows of a step (128)");
    options.add_option("--dropout", o.dropout, "share of the features dropped while training (0.2)");
    add_choice(options, "--dropout-at", o.dropout_at, {"features", "map"},
               "behind or in front of the mean over the map (features)");
    add_choice(options, "--optimiser", o.optimiser, {"adam", "sgd"}, "sgd has momentum (adam)");
    options.add_option("--lr", o.lr, "learning rate (adam 3e-4, sgd 0.1)").positive();
    options.add_option("--momentum", o.momentum, "of sgd (0.9)");
    options.add_option("--weight-decay", o.weight_decay, "of sgd (0)");
    add_choice(options, "--schedule", o.schedule, {"constant", "cosine"}, "of the learning rate (constant)");
    add_choice(options, "--cache", o.cache, {"f16", "f32", "none"},
               "how the frozen part's outputs are kept in --out (f16)");
}

const Command kFinetune = {
    "finetune", "train the last part of a pretrained residual network on your images, or a small one from scratch",
    "  $ finetune --weights resnet50.pth --data cifar10:cifar-10-batches-bin:train --size 64 --out run\n"
    "  $ extract --model run/classifier.safetensors --data cifar10:cifar-10-batches-bin:test -o cal.npz\n"
    "  $ extract --model run/classifier.safetensors --data cifar10:cifar-10-batches-bin:train --part rest -o test.npz\n"
    "  $ localcal compare --cal cal.npz --test test.npz\n"
    "\n"
    "The frozen part of the network is a fixed function of the image, so it is computed once and kept in --out; every\n"
    "epoch after that costs the trained part alone.  45 % of the rows are trained on, 10 % validate, and the rest is\n"
    "left for judging calibration (extract --part rest).\n"
    "\n"
    "From scratch: --network resnet20 --train all --optimiser sgd --weight-decay 1e-4 --schedule cosine --normalise "
    "cifar10\n"
    "\n"
    "A run that was interrupted goes on where it was, with the same result bit for bit; one that has nothing left to "
    "do\n"
    "says so.  classifier.safetensors has PyTorch's names and layouts.",
    [](Options& options, const Common& common) -> std::function<void()> {
        auto o = std::make_shared<FinetuneSettings>();
        add_options(options, *o);
        return [o, &common] { run_finetune(common, *o); };
    }};

}  // namespace
}  // namespace lc::cli

int main(int argc, char** argv) {
    using namespace lc::cli;
    return run_program(
        "finetune", [](std::vector<std::string> args) { run_command(kFinetune, "finetune", std::move(args)); }, argc,
        argv);
}

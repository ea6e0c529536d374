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

#include "data/hash.h"
#include "data/row_cache.h"
#include "data/split.h"
#include "experiments/network_options.h"
#include "experiments/progress.h"
#include "nn/resnet_weights.h"

namespace lc::cli {
namespace {

namespace fs = std::filesystem;

struct Settings {
    std::string data, out, network = "resnet50", weights;
    std::string train = "last", bn = "frozen", dropout_at = "features", cache = "f16";
    std::string optimiser = "adam", schedule = "constant";
    PictureOptions pictures;
    int64_t epochs = 9, batch = 128, train_share = 45, validation_share = 10, limit = 0;
    double dropout = 0.2, lr = 0, momentum = 0.9, weight_decay = 0;

    float rate() const { return float(lr > 0 ? lr : optimiser == "adam" ? 3e-4 : 0.1); }
};

// ---- what is trained on what ----------------------------------------------------------------------------------------

struct Job {
    const Backend& b;
    const Settings& o;
    std::unique_ptr<ImageSource> images;
    std::vector<int64_t> train, validation;  // rows of images
    ImagePipeline pipeline;
    std::unique_ptr<ResNet> net;
    int64_t cut = 0;          // in front of the stage that training begins with
    std::string trunk_text;   // what decides the outputs of the trunk
    std::string fingerprint;  // what decides the result
};

void check_options(const Settings& o) {
    if (o.weights.empty() && o.train != "all") {
        throw Error("expected --weights FILE for the part that is not trained, or --train all, found --train " +
                    o.train);
    }
    if (o.bn == "authors" && o.train == "head") {
        throw Error(
            "--bn authors takes batch statistics in every stage, so it has no meaning with --train head; "
            "choose --train last");
    }
    if (o.dropout_at == "map" && o.train == "head") {
        throw Error("--dropout-at map needs the last stage in training, found --train head; choose --train last");
    }
    const auto share = [](const char* option, double x) {
        if (x >= 0 && x < 1) return;
        throw Error(std::string(option) + ": expected a number from 0 to below 1, found " + std::to_string(x));
    };
    share("--dropout", o.dropout);
    share("--momentum", o.momentum);
    share("--weight-decay", o.weight_decay);
}

std::vector<int64_t> limited(std::vector<int64_t> rows, int64_t limit) {
    if (limit > 0 && int64_t(rows.size()) > limit) rows.resize(size_t(limit));
    return rows;
}

int64_t cut_of(const Settings& o, const ResNet& net) {
    if (o.train == "all" || o.bn == "authors") return 0;
    return o.train == "head" ? net.head() : net.last_stage();
}

std::string hash_text(const std::string& text) { return Hash().add_bytes(std::as_bytes(std::span(text))).text(); }

Job make_job(const Backend& b, const Settings& o, uint64_t seed) {
    check_options(o);
    Job job = {b, o, open_images(o.data), {}, {}, {}, {}, 0, {}, {}};
    if (job.images->classes() < 2) {
        throw Error("--data " + o.data + ": expected labelled images of two classes or more, found " +
                    job.images->description() + "; a folder needs one sub-folder per class");
    }
    const Split split = split_rows(job.images->size(), o.train_share, o.validation_share);
    job.train = limited(split.train, o.limit);
    job.validation = limited(split.validation, o.limit);
    if (job.train.empty())
        throw Error("--data " + o.data + ": no images are left to train on; give more, or raise --split");

    job.net = std::make_unique<ResNet>(b, resnet_plan(o.network, job.images->classes()));
    job.pipeline = pipeline_of(o.pictures, job.net->plan());
    job.net->initialise(seed);
    std::string weights_hash = "none";
    if (!o.weights.empty()) {
        const Weights weights = read_weights(o.weights);
        weights_hash = hash_of(weights);
        load_weights(*job.net, weights, {.head = false});
    }
    job.net->train_from(o.train == "all" ? 0 : o.train == "head" ? job.net->head() : job.net->last_stage());
    job.cut = cut_of(o, *job.net);

    std::ostringstream trunk, all;
    trunk << "trunk/1 " << job.net->plan().name << " cut=" << job.cut << " weights=" << weights_hash
          << " data=" << job.images->hash() << " split=" << o.train_share << ":" << o.validation_share
          << " limit=" << o.limit << " input=" << text_of(job.pipeline) << " device=" << b.name;
    all << "finetune/1 train=" << o.train << " bn=" << o.bn << " dropout=" << o.dropout << "@" << o.dropout_at
        << " epochs=" << o.epochs << " batch=" << o.batch << " " << o.optimiser << " lr=" << o.rate()
        << " momentum=" << o.momentum << " decay=" << o.weight_decay << " " << o.schedule << " seed=" << seed
        << " cache=" << (job.cut == 0 ? "none" : o.cache) << " | " << trunk.str();
    job.trunk_text = trunk.str(), job.fingerprint = all.str();
    return job;
}

// ---- the frozen part, once ------------------------------------------------------------------------------------------

// The outputs of the trunk for all rows, the training rows first.  With --cache none they are kept in memory.
struct TrunkOutputs {
    std::shared_ptr<RowCache> file;
    std::vector<float> memory;
    Shape row;
    int64_t row_size = 0;

    Var load(const Backend& b, std::span<const int64_t> rows, int64_t offset) const {
        std::vector<int64_t> places(rows.begin(), rows.end());
        for (int64_t& p : places) p += offset;
        std::vector<float> x(places.size() * size_t(row_size));
        if (file) file->read(x.data(), places);
        for (size_t i = 0; !file && i < places.size(); ++i) {
            std::copy_n(memory.begin() + places[i] * row_size, row_size, x.begin() + int64_t(i) * row_size);
        }
        Shape shape = {int64_t(places.size())};
        shape.insert(shape.end(), row.begin(), row.end());
        return constant(Tensor::from(b, shape, x));
    }
};

template <class Take>
void pass_trunk(const Job& job, const std::vector<int64_t>& rows, int64_t from, const Progress& progress,
                const Take& take) {
    constexpr int64_t kAtOnce = 32;
    Trunk trunk(*job.net, job.cut);
    const int64_t n = int64_t(rows.size());
    for (int64_t begin = from; begin < n; begin += kAtOnce) {
        const int64_t end = std::min(n, begin + kAtOnce);
        const std::span<const int64_t> some(rows.data() + begin, size_t(end - begin));
        take(trunk(load_images(job.b, *job.images, some, job.pipeline))->value.to_host(), end - begin);
        if (progress) progress(double(end) / double(n), "frozen part, image " + std::to_string(end));
    }
}

TrunkOutputs trunk_outputs(const Job& job, bool quiet) {
    std::vector<int64_t> rows = job.train;
    rows.insert(rows.end(), job.validation.begin(), job.validation.end());
    TrunkOutputs out;
    out.row = job.net->input_of(job.cut, job.pipeline.height, job.pipeline.width);
    out.row_size = count_of(out.row);
    ProgressLine line(quiet);
    if (job.o.cache == "none") {
        pass_trunk(job, rows, 0, line.callback(), [&](const std::vector<float>& x, int64_t) {
            out.memory.insert(out.memory.end(), x.begin(), x.end());
        });
        return out;
    }
    const std::string name = "trunk-" + hash_text(job.trunk_text + " type=" + job.o.cache) + ".npy";
    const std::string path = (fs::path(job.o.out) / name).string();
    if (!fs::exists(path)) {
        RowCacheWriter writer(path, int64_t(rows.size()), out.row,
                              job.o.cache == "f32" ? CacheType::f32 : CacheType::f16);
        if (!quiet && writer.rows_done() > 0) {
            std::fprintf(stderr, "the frozen part goes on at image %lld\n", static_cast<long long>(writer.rows_done()));
        }
        pass_trunk(job, rows, writer.rows_done(), line.callback(),
                   [&](const std::vector<float>& x, int64_t count) { writer.append(x.data(), count); });
        writer.commit();
    }
    out.file = std::make_shared<RowCache>(path);
    if (out.file->size() != int64_t(rows.size()) || out.file->row_shape() != out.row) {
        refuse(path, "expected " + std::to_string(rows.size()) + " rows " + shape_text(out.row) +
                         ", found others; remove it");
    }
    return out;
}

// ---- training -------------------------------------------------------------------------------------------------------

std::vector<int32_t> labels_of(const ImageSource& images, const std::vector<int64_t>& rows) {
    std::vector<int32_t> labels;
    for (const int64_t i : rows) labels.push_back(images.label(i));
    return labels;
}

struct Parts {
    Rows train, validation;
};

Parts parts_of(const Job& job, bool quiet) {
    Parts p;
    p.train.labels = labels_of(*job.images, job.train);
    p.validation.labels = labels_of(*job.images, job.validation);
    if (job.cut == 0) {
        const auto from = [&job](const std::vector<int64_t>& all) {
            return [&job, &all](std::span<const int64_t> rows) {
                std::vector<int64_t> places;
                for (const int64_t r : rows) places.push_back(all[size_t(r)]);
                return load_images(job.b, *job.images, places, job.pipeline);
            };
        };
        p.train.load = from(job.train), p.validation.load = from(job.validation);
        return p;
    }
    const auto trunk = std::make_shared<TrunkOutputs>(trunk_outputs(job, quiet));
    const int64_t behind = int64_t(job.train.size());
    p.train.load = [trunk, &job](std::span<const int64_t> rows) { return trunk->load(job.b, rows, 0); };
    p.validation.load = [trunk, &job, behind](std::span<const int64_t> rows) {
        return trunk->load(job.b, rows, behind);
    };
    return p;
}

TrainOptions train_options(const Job& job, uint64_t seed) {
    const Settings& o = job.o;
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
    Score validation;
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

void run_finetune(const Common& common, const Settings& o) {
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

void add_split(Options& options, Settings& o) {
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

void add_options(Options& options, Settings& o) {
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
        auto o = std::make_shared<Settings>();
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

// fashion.cpp -- the program: a small classifier of our own on Fashion-MNIST, and what calibration needs of it.
//
// Files of --out: training.checkpoint while it trains, then cal.npz and test.npz, and last classifier.safetensors, whose
// fingerprint says what all three were made of: where it fits the options, nothing is left to do.
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "data/npy.h"
#include "experiments/cli.h"
#include "experiments/fashion_data.h"
#include "experiments/progress.h"
#include "nn/train.h"

namespace lc::cli {
namespace {

constexpr int64_t kHidden = 256, kFeatures = 64, kBatch = 128;
constexpr float kDropout = 0.0f, kRate = 1e-3f;

struct FashionOptions {
    std::string images = "/usr/share/datasets/fashion-mnist", out;
    int64_t epochs = 20, limit = 0;
};

struct Files {
    std::string calibration, test, classifier, checkpoint;
};
Files files_in(const std::string& folder) {
    std::error_code error;
    std::filesystem::create_directories(folder, error);
    if (!std::filesystem::is_directory(folder)) {
        throw Error("expected a folder that can be made after --out, found '" + folder + "' (" + error.message() +
                    "); name another one");
    }
    const auto in = [&](const char* name) { return (std::filesystem::path(folder) / name).string(); };
    return {in("cal.npz"), in("test.npz"), in("classifier.safetensors"), in("training.checkpoint")};
}

// A text that differs whenever the results would.
std::string fingerprint(const Common& common, const FashionOptions& o, const FashionParts& parts, const Backend& b) {
    std::ostringstream text;
    text << "fashion/1 hidden=" << kHidden << " features=" << kFeatures << " dropout=" << kDropout << " lr=" << kRate
         << " batch=" << kBatch << " epochs=" << o.epochs << " limit=" << o.limit << " seed=" << common.seed
         << " data=" << parts.hash << " device=" << b.name;
    return text.str();
}

// ---- what is reported: every part, its rows and its score ------------------------------------------------------------

struct Part {
    std::string name;
    int64_t rows = 0;
    ClassifierScore score = {};
};
using Report = std::vector<Part>;

void store(SafetensorsWriter& out, const Report& report) {
    for (const Part& p : report) {
        out.metadata[p.name + ".rows"] = std::to_string(p.rows);
        out.set(p.name + ".accuracy", p.score.accuracy);
        out.set(p.name + ".confidence", p.score.confidence);
        out.set(p.name + ".log_loss", p.score.log_loss);
    }
}

Report restore_report(const Safetensors& in) {
    Report report;
    for (const std::string name : {"train", "validation", "calibration", "test"}) {
        const auto number = [&](const char* what) { return in.meta_number(name + what); };
        report.push_back(
            {name, in.meta_integer(name + ".rows"), {number(".accuracy"), number(".log_loss"), number(".confidence")}});
    }
    return report;
}

void print_report(const Report& report, const Files& files) {
    std::vector<std::vector<std::string>> rows = {{"part", "rows", "right", "sure", "log-loss"}};
    for (const Part& p : report) {
        char loss[32];
        std::snprintf(loss, sizeof loss, "%.4f", p.score.log_loss);
        rows.push_back({p.name, std::to_string(p.rows), percent(p.score.accuracy), percent(p.score.confidence), loss});
    }
    const ClassifierScore& test = report.back().score;
    print(table(rows) + "\nOn images it has never seen the classifier gives its answers a probability of " +
          percent(test.confidence) + " on average, and " + percent(test.accuracy) +
          "\nof them are right.  Calibration is there to make the two agree, everywhere and not only on average.\n\n" +
          "wrote " + files.calibration + ", " + files.test + " (features, logits, labels) and " + files.classifier +
          "\n");
}

void print_json_report(const Common& common, const FashionOptions& o, const Report& report, bool trained) {
    nlohmann::ordered_json j = {{"schema", "localcal.fashion/1"},
                                {"program", kProgram},
                                {"out", o.out},
                                {"epochs", o.epochs},
                                {"seed", common.seed},
                                {"trained", trained}};
    for (const Part& p : report) {
        j["parts"][p.name] = {{"n", p.rows},
                              {"accuracy", p.score.accuracy},
                              {"confidence", p.score.confidence},
                              {"log_loss", p.score.log_loss}};
    }
    print_json(j);
}

// ---- the work -------------------------------------------------------------------------------------------------------

Var to_var(const Backend& b, const ImageRows& rows) {
    return constant(Tensor::from(b, {rows.n, rows.d}, rows.scaled()));
}

void train_with_progress(const Mlp& net, const Backend& b, const FashionParts& parts, const TrainOptions& o,
                         bool quiet) {
    const Examples fit = {to_var(b, parts.train), parts.train.labels};
    const Examples validation = {to_var(b, parts.validation), parts.validation.labels};
    const auto start = std::chrono::steady_clock::now();
    int64_t done = 0;  // in this run
    train(net, fit, validation, o, [&](const Epoch& e) {
        if (quiet) return;
        const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - start;
        const double left = passed.count() / double(++done) * double(o.epochs - e.number);
        std::fprintf(stderr, "epoch %2lld of %lld   train %s right, log-loss %.4f   validation %s, %.4f   %s left\n",
                     static_cast<long long>(e.number), static_cast<long long>(o.epochs),
                     percent(e.fit.accuracy).c_str(), e.fit.log_loss, percent(e.validation.accuracy).c_str(),
                     e.validation.log_loss, format_seconds(left).c_str());
    });
}

void write_outputs(const std::string& path, const Outputs& out, const std::vector<int32_t>& labels) {
    const int64_t n = int64_t(labels.size());
    const std::vector<int64_t> wide(labels.begin(), labels.end());
    NpzWriter npz(path);
    npz.add("features", {n, int64_t(out.features.size()) / n}, out.features.data());
    npz.add("logits", {n, int64_t(out.logits.size()) / n}, out.logits.data());
    npz.add("labels", {n}, wide.data());
    npz.commit();
}

Report write_results(const Mlp& net, const Backend& b, const FashionParts& parts, const Files& files,
                     const std::string& made_of) {
    std::filesystem::remove(files.classifier);  // it speaks for the other two, and comes last
    Report report;
    const auto run = [&](const char* name, const ImageRows& rows, const std::string& path) {
        const Outputs out = infer(net, to_var(b, rows));
        report.push_back({name, rows.n, score(out.logits, rows.labels)});
        if (!path.empty()) write_outputs(path, out, rows.labels);
    };
    run("train", parts.train, "");
    run("validation", parts.validation, "");
    run("calibration", parts.calibration, files.calibration);
    run("test", parts.test, files.test);
    SafetensorsWriter out;
    out.metadata = {{"schema", "localcal.classifier/1"}, {"fingerprint", made_of}};
    store(out, report);
    lc::store(out, net.parameters());
    out.write(files.classifier);
    std::filesystem::remove(files.checkpoint);
    return report;
}

void run_fashion(const Common& common, const FashionOptions& o) {
    const Backend& b = choose_backend(common.device);
    const FashionParts parts = read_fashion(o.images, o.limit);
    const Files files = files_in(o.out);
    const std::string made_of = fingerprint(common, o, parts, b);
    const Mlp net(b, {parts.train.d, kHidden, kFeatures, kFashionClasses}, kDropout, common.seed);

    bool trained = false;
    if (std::filesystem::exists(files.classifier)) {
        const Safetensors in = read_safetensors(files.classifier);
        trained = in.metadata.contains("fingerprint") && in.meta("fingerprint") == made_of;
        const bool complete = std::filesystem::exists(files.calibration) && std::filesystem::exists(files.test);
        if (trained && complete) {
            if (common.json) return print_json_report(common, o, restore_report(in), false);
            return print(o.out + " holds everything for these options; nothing to do\n");
        }
        if (trained) restore(in, net.parameters());
    }
    if (!trained) {
        if (!common.quiet) {
            std::fprintf(stderr, "training %lld-%lld-%lld-%lld on %lld images of Fashion-MNIST\n",
                         static_cast<long long>(parts.train.d), static_cast<long long>(kHidden),
                         static_cast<long long>(kFeatures), static_cast<long long>(kFashionClasses),
                         static_cast<long long>(parts.train.n));
        }
        train_with_progress(net, b, parts,
                            {.epochs = o.epochs,
                             .batch = kBatch,
                             .adam = {.lr = kRate},
                             .seed = common.seed,
                             .checkpoint = files.checkpoint,
                             .fingerprint = made_of},
                            common.quiet);
    }
    const Report report = write_results(net, b, parts, files, made_of);
    if (common.json) return print_json_report(common, o, report, !trained);
    print_report(report, files);
}

const Command kFashion = {
    "fashion", "train a small classifier on Fashion-MNIST and write what calibration needs of it",
    "  $ fashion --out demo\n"
    "  $ localcal compare --cal demo/cal.npz --test demo/test.npz\n"
    "\n"
    "The network is a multilayer perceptron: 784 pixels, ReLU layers of 256 and 64, 10 classes.  It is trained by\n"
    "Adam on the cross-entropy for a fixed number of epochs, far beyond the best log-loss on images it has not seen,\n"
    "as networks are when accuracy counts: afterwards it is surer of its answers than it is right.\n"
    "\n"
    "The official training set is split by a seed that never changes: 45 % to train, 10 % to validate, 45 % into\n"
    "test.npz.  The official test set goes into cal.npz.  Both hold `features` (n, 64), the last hidden layer,\n"
    "`logits` (n, 10) and `labels` (n).  classifier.safetensors holds the weights, named as PyTorch's Sequential\n"
    "names them.\n"
    "\n"
    "A run that was interrupted goes on after its last epoch, with the same result bit for bit; one that has nothing\n"
    "left to do says so.",
    [](Options& options, const Common& common) -> std::function<void()> {
        auto o = std::make_shared<FashionOptions>();
        options.add_option("--out", o->out, "folder for the results; made where it is missing")
            .required()
            .type_name("DIR");
        options.add_option("--images", o->images, "folder of the four IDX files (" + o->images + ")").type_name("DIR");
        options
            .add_option(
                "--epochs", [o](const std::string& s) { o->epochs = int64_t(parse_integer("--epochs", s, 1, 10000)); },
                "passes over the training rows (" + std::to_string(o->epochs) + ")")
            .type_name("N");
        options
            .add_option(
                "--limit", [o](const std::string& s) { o->limit = int64_t(parse_integer("--limit", s, 20, 1000000)); },
                "use at most N rows of every part: a quick try (all of them)")
            .type_name("N");
        return [o, &common] { run_fashion(common, *o); };
    }};

}  // namespace
}  // namespace lc::cli

int main(int argc, char** argv) {
    using namespace lc::cli;
    return run_program(
        "fashion", [](std::vector<std::string> args) { run_command(kFashion, "fashion", std::move(args)); }, argc,
        argv);
}

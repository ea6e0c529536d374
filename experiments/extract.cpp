// extract.cpp -- the program: what calibration needs of a network: pooled features, logits and labels of images.
//
// Rows are kept beside the output while they are computed (OUTPUT.HASH.npy.partial), so that an interrupted run goes on; the
// output itself is written whole, at the end.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <numeric>

#include "data/hash.h"
#include "data/row_cache.h"
#include "data/split.h"
#include "experiments/network_options.h"
#include "experiments/progress.h"
#include "nn/finetune.h"
#include "nn/resnet_weights.h"

namespace lc::cli {
namespace {

namespace fs = std::filesystem;

struct Settings {
    std::string model, network, weights, data, part = "all", output;
    PictureOptions pictures;
    int64_t batch = 32, limit = 0;
};

// ---- the network ----------------------------------------------------------------------------------------------------

struct Network {
    std::unique_ptr<ResNet> net;
    PictureOptions pictures;
    std::string hash;  // of its weights
    int64_t train_share = 45, validation_share = 10;
};

Network open_network(const Backend& b, const Settings& o) {
    if (o.model.empty() == o.weights.empty()) {
        throw Error("expected --model FILE of finetune, or --weights FILE with --network NAME; found " +
                    std::string(o.model.empty() ? "neither" : "both"));
    }
    const Weights file = read_weights(o.model.empty() ? o.weights : o.model);
    const auto meta = [&](const char* key) {
        const auto found = file.metadata.find(key);
        return found == file.metadata.end() ? std::string() : found->second;
    };
    Network n;
    n.pictures = o.pictures;
    std::string name = o.network;
    if (!o.model.empty()) {
        name = meta("network");
        if (meta("schema") != "localcal.network/1" || name.empty()) {
            refuse(o.model,
                   "expected a classifier.safetensors that finetune wrote, found other weights; give them as "
                   "--weights with --network NAME");
        }
        restore(n.pictures, file.metadata);
        const std::string split = meta("split");
        if (std::sscanf(split.c_str(), "%ld:%ld", &n.train_share, &n.validation_share) != 2) {
            refuse(o.model, "expected its split as 45:10, found '" + split + "'");
        }
    }
    if (name.empty())
        throw Error("expected --network NAME beside --weights: a file does not say which network it is of");
    const int64_t classes = classes_in(file);
    if (classes == 0) refuse(file.path, "expected weights with a head (fc.weight, fc.bias), found none");
    n.net = std::make_unique<ResNet>(b, resnet_plan(name, classes));
    load_weights(*n.net, file, {});
    n.hash = hash_of(file);
    return n;
}

std::vector<int64_t> rows_of(const ImageSource& images, const Settings& o, const Network& n) {
    std::vector<int64_t> rows(static_cast<size_t>(images.size()));
    std::iota(rows.begin(), rows.end(), int64_t(0));
    if (o.part != "all") {
        const Split split = split_rows(images.size(), n.train_share, n.validation_share);
        rows = o.part == "train" ? split.train : o.part == "validation" ? split.validation : split.rest;
    }
    if (o.limit > 0 && int64_t(rows.size()) > o.limit) rows.resize(size_t(o.limit));
    if (rows.empty()) throw Error("--data " + o.data + ": there are no images in --part " + o.part);
    return rows;
}

// ---- the work -------------------------------------------------------------------------------------------------------

// Features and logits side by side, (n, d + C), one piece after the other.
void compute_rows(RowCacheWriter& out, const Backend& b, const Network& n, const ImageSource& images,
                  const std::vector<int64_t>& rows, int64_t batch, const Progress& progress) {
    const int64_t d = n.net->plan().features(), C = n.net->plan().classes;
    const ImagePipeline pipeline = pipeline_of(n.pictures, n.net->plan());
    Trunk trunk(*n.net, n.net->head());
    Tape tape;
    tape.training = false;
    for (int64_t begin = out.rows_done(); begin < int64_t(rows.size()); begin = out.rows_done()) {
        const int64_t count = std::min(batch, int64_t(rows.size()) - begin);
        const Var x = load_images(b, images, {rows.data() + begin, size_t(count)}, pipeline);
        const Var features = trunk(x), logits = n.net->logits(tape, features, {});
        const std::vector<float> f = features->value.to_host(), z = logits->value.to_host();
        std::vector<float> both;
        for (int64_t i = 0; i < count; ++i) {
            both.insert(both.end(), f.begin() + i * d, f.begin() + (i + 1) * d);
            both.insert(both.end(), z.begin() + i * C, z.begin() + (i + 1) * C);
        }
        out.append(both.data(), count);
        if (progress) progress(double(begin + count) / double(rows.size()), "image " + std::to_string(begin + count));
    }
    out.commit();
}

// Columns [from, to) of the kept rows, streamed into one array of the output.
void copy_columns(NpzWriter& npz, const char* name, const RowCache& rows, int64_t from, int64_t to) {
    constexpr int64_t kAtOnce = 1024;
    const int64_t width = rows.row_shape().at(0);
    std::vector<float> piece, columns;
    std::vector<int64_t> places;
    npz.begin(name, {rows.size(), to - from});
    for (int64_t begin = 0; begin < rows.size(); begin += kAtOnce) {
        const int64_t count = std::min(kAtOnce, rows.size() - begin);
        places.resize(size_t(count));
        std::iota(places.begin(), places.end(), begin);
        piece.resize(size_t(count * width));
        rows.read(piece.data(), places);
        columns.clear();
        for (int64_t i = 0; i < count; ++i) {
            columns.insert(columns.end(), piece.begin() + i * width + from, piece.begin() + i * width + to);
        }
        npz.append(columns.data(), int64_t(columns.size()));
    }
    npz.end();
}

struct Summary {
    int64_t n = 0, d = 0, C = 0;
    bool labelled = false;
    ClassifierScore score;
};

Summary write_output(const std::string& path, const RowCache& rows, const std::vector<int64_t>& labels, int64_t d,
                     int64_t C) {
    NpzWriter npz(path);
    copy_columns(npz, "features", rows, 0, d);
    copy_columns(npz, "logits", rows, d, d + C);
    const bool labelled = !labels.empty() && labels[0] >= 0;
    if (labelled) npz.add("labels", {rows.size()}, labels.data());
    npz.commit();
    Summary s = {rows.size(), d, C, labelled, {}};
    const bool fits = labelled && *std::max_element(labels.begin(), labels.end()) < C;
    if (fits) {
        std::map<std::string, NpyArray> back = read_npz(path);
        s.score = score(back.at("logits").to_floats(), {labels.begin(), labels.end()});
    } else {
        s.labelled = false;
    }
    return s;
}

// The five most probable classes of the first few images, for the eye.
void print_top_classes(const RowCache& rows, const ImageSource& images, const std::vector<int64_t>& which, int64_t d,
                       int64_t C) {
    constexpr int64_t kShown = 5;
    std::vector<std::vector<std::string>> table_rows = {{"image", "class", "probability"}};
    for (int64_t i = 0; i < std::min<int64_t>(kShown, rows.size()); ++i) {
        std::vector<float> row(size_t(d + C));
        const std::vector<int64_t> place = {i};
        rows.read(row.data(), place);
        const float* z = row.data() + d;
        std::vector<int64_t> order(static_cast<size_t>(C));
        std::iota(order.begin(), order.end(), int64_t(0));
        const int64_t shown = std::min<int64_t>(kShown, C);
        std::partial_sort(order.begin(), order.begin() + shown, order.end(),
                          [&](int64_t a, int64_t b) { return z[a] > z[b]; });
        double total = 0;
        for (int64_t c = 0; c < C; ++c) total += std::exp(double(z[c]) - double(z[order[0]]));
        for (int64_t k = 0; k < shown; ++k) {
            char p[32];
            std::snprintf(p, sizeof p, "%.4f", std::exp(double(z[order[size_t(k)]]) - double(z[order[0]])) / total);
            table_rows.push_back(
                {k == 0 ? printable(images.name(which[size_t(i)])) : "", std::to_string(order[size_t(k)]), p});
        }
    }
    print(table(table_rows));
}

void run_extract(const Common& common, const Settings& o) {
    std::string why;
    const Backend& b = choose_backend(common.device, &why);
    const Network n = open_network(b, o);
    const std::unique_ptr<ImageSource> images = open_images(o.data);
    const std::vector<int64_t> rows = rows_of(*images, o, n);
    const int64_t d = n.net->plan().features(), C = n.net->plan().classes;
    if (!common.quiet) std::fprintf(stderr, "%s\n%s\n", why.c_str(), images->description().c_str());

    const std::string made_of = "extract/1 " + n.hash + " " + images->hash() + " " + o.part + " " +
                                std::to_string(rows.size()) + " " + text_of(pipeline_of(n.pictures, n.net->plan())) +
                                " " + b.name;
    const std::string kept = o.output + "." + Hash().add_bytes(std::as_bytes(std::span(made_of))).text() + ".npy";
    if (!fs::exists(kept)) {
        RowCacheWriter writer(kept, int64_t(rows.size()), {d + C}, CacheType::f32);
        ProgressLine line(common.quiet);
        compute_rows(writer, b, n, *images, rows, o.batch, line.callback());
    }
    std::vector<int64_t> labels;
    for (const int64_t i : rows) labels.push_back(images->label(i));
    const RowCache cache(kept);
    const Summary s = write_output(o.output, cache, labels, d, C);
    if (common.json) {
        nlohmann::ordered_json j = {{"schema", "localcal.extract/1"},
                                    {"program", kProgram},
                                    {"output", o.output},
                                    {"network", n.net->plan().name},
                                    {"n", s.n},
                                    {"features", s.d},
                                    {"classes", s.C}};
        if (s.labelled) {
            j["accuracy"] = s.score.accuracy, j["log_loss"] = s.score.log_loss, j["confidence"] = s.score.confidence;
        }
        print_json(j);
    } else {
        if (!s.labelled) print_top_classes(cache, *images, rows, d, C);
        print((s.labelled ? "right on " + percent(s.score.accuracy) + ", sure of " + percent(s.score.confidence) +
                                ", log-loss " + std::to_string(s.score.log_loss) + "\n"
                          : std::string()) +
              "wrote " + o.output + ": features " + shape_text({s.n, s.d}) + ", logits " + shape_text({s.n, s.C}) +
              (s.labelled ? ", labels\n" : "\n"));
    }
    fs::remove(kept);
}

const Command kExtract = {
    "extract", "features, logits and labels of images, as calibration wants them",
    "  $ extract --model run/classifier.safetensors --data cifar10:cifar-10-batches-bin:test -o cal.npz\n"
    "  $ extract --weights resnet20.th --network resnet20:a --normalise cifar10 --data "
    "cifar10:cifar-10-batches-bin:test \\\n"
    "            -o resnet20.npz\n"
    "  $ extract --weights resnet50.pth --network resnet50 --fit crop --data photograph.jpg -o photograph.npz\n"
    "\n"
    "`features` (n, d) are the mean over the last map, `logits` (n, C) what the head makes of them.  With --model the\n"
    "size, fit and normalisation are those the classifier was trained with; --part picks rows by its own split: "
    "train,\n"
    "validation, or rest, which it has never seen.  A run that was interrupted goes on where it was.",
    [](Options& options, const Common& common) -> std::function<void()> {
        auto o = std::make_shared<Settings>();
        options.add_option("--model", o->model, "a classifier.safetensors of finetune").type_name("FILE");
        options.add_option("--weights", o->weights, "or pretrained weights: .pth, .safetensors, TensorFlow.js")
            .type_name("FILE");
        options.add_option("--network", o->network,
                           "and the network they are of: resnet50, resnet50:he, resnet20:a, ...");
        options.add_option("--data", o->data, "images: cifar10:FOLDER:test, npz:FILE:test, a folder, a file")
            .required();
        add_choice(options, "--part", o->part, {"all", "train", "validation", "rest"},
                   "rows by the model's split (all)");
        options.add_option("-o,--output", o->output, "the .npz to write").required().type_name("FILE");
        add_picture_options(options, o->pictures);
        add_count(options, "--batch", o->batch, 1, 4096, "images at a time (32)");
        add_count(options, "--limit", o->limit, 1, 1'000'000'000, "the first N images only");
        return [o, &common] { run_extract(common, *o); };
    }};

}  // namespace
}  // namespace lc::cli

int main(int argc, char** argv) {
    using namespace lc::cli;
    return run_program(
        "extract", [](std::vector<std::string> args) { run_command(kExtract, "extract", std::move(args)); }, argc,
        argv);
}

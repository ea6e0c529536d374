// finetune_job.cpp -- see finetune_job.h.
#include "experiments/finetune_job.h"

#include <filesystem>
#include <sstream>

#include "data/hash.h"
#include "data/row_cache.h"
#include "data/split.h"
#include "experiments/progress.h"
#include "nn/finetune.h"
#include "nn/resnet_weights.h"

namespace lc::cli {
namespace {

namespace fs = std::filesystem;

// ---- what is trained on what ----------------------------------------------------------------------------------------

void check_options(const FinetuneSettings& o) {
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

int64_t cut_of(const FinetuneSettings& o, const ResNet& net) {
    if (o.train == "all" || o.bn == "authors") return 0;
    return o.train == "head" ? net.head() : net.last_stage();
}

std::string hash_text(const std::string& text) { return Hash().add_bytes(std::as_bytes(std::span(text))).text(); }

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

std::vector<int32_t> labels_of(const ImageSource& images, const std::vector<int64_t>& rows) {
    std::vector<int32_t> labels;
    for (const int64_t i : rows) labels.push_back(images.label(i));
    return labels;
}

}  // namespace

Job make_job(const Backend& b, const FinetuneSettings& o, uint64_t seed) {
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

}  // namespace lc::cli

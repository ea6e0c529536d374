// finetune_job.h -- what finetune trains on what: images, their split, the network, and the frozen part's outputs.
#pragma once
#include <memory>

#include "experiments/network_options.h"
#include "nn/train.h"

namespace lc::cli {

// Options of the program.
struct FinetuneSettings {
    std::string data, out, network = "resnet50", weights;
    std::string train = "last", bn = "frozen", dropout_at = "features", cache = "f16";
    std::string optimiser = "adam", schedule = "constant";
    PictureOptions pictures;
    int64_t epochs = 9, batch = 128, train_share = 45, validation_share = 10, limit = 0;
    double dropout = 0.2, lr = 0, momentum = 0.9, weight_decay = 0;

    float rate() const { return float(lr > 0 ? lr : optimiser == "adam" ? 3e-4 : 0.1); }
};

struct Job {
    const Backend& b;
    const FinetuneSettings& o;
    std::unique_ptr<ImageSource> images;
    std::vector<int64_t> train, validation;  // rows of images
    ImagePipeline pipeline;
    std::unique_ptr<ResNet> net;
    int64_t cut = 0;          // in front of the stage that training begins with
    std::string trunk_text;   // what decides the outputs of the trunk
    std::string fingerprint;  // what decides the result
};

// Refuses what does not go together.  The network is initialised by the seed, and pretrained where weights were given.
Job make_job(const Backend& b, const FinetuneSettings& o, uint64_t seed);

struct Parts {
    LabelledRows train, validation;
};

// Rows of the training and of the validation part as the trained part takes them: images, or what the frozen part makes of
// them.  The latter is computed here, once, or found in the output folder.
Parts parts_of(const Job& job, bool quiet);

}  // namespace lc::cli

// network_options.h -- what finetune and extract have in common: which images, how they are fitted, which network.
#pragma once
#include "data/image_batch.h"
#include "data/safetensors.h"
#include "data/weights.h"
#include "experiments/cli.h"
#include "nn/resnet.h"

namespace lc::cli {

// How images become what the network takes.  A trained classifier remembers it in its metadata.
struct PictureOptions {
    int64_t size = 0;            // pixels; 0: 224, or 32 for CIFAR networks
    std::string fit, normalise;  // empty: "stretch" and "imagenet"
};
void add_picture_options(Options& options, PictureOptions& o);
ImagePipeline pipeline_of(const PictureOptions& o, const ResNetPlan& plan);
void store(SafetensorsWriter& out, const PictureOptions& o);
void restore(PictureOptions& o, const std::map<std::string, std::string>& metadata);  // what was not given

// An option that takes a whole number from low to high, and one that takes one of a few words.
void add_count(Options& options, const std::string& name, int64_t& value, int64_t low, int64_t high,
               const std::string& help);
void add_choice(Options& options, const std::string& name, std::string& value, const std::vector<std::string>& words,
                const std::string& help);

std::string hash_of(const Weights& weights);
std::string text_of(const ImagePipeline& p);  // differs whenever the numbers would

// Those rows of a set of images, as a batch on the backend.                                        (rows, h, w, 3)
Var load_images(const Backend& b, const ImageSource& images, std::span<const int64_t> rows, const ImagePipeline& p);

}  // namespace lc::cli

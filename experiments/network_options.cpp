// network_options.cpp -- see network_options.h.
#include "experiments/network_options.h"

#include <algorithm>
#include <cstdio>

#include "data/hash.h"
#include "kernels/check.h"

namespace lc::cli {

void add_count(Options& options, const std::string& name, int64_t& value, int64_t low, int64_t high,
               const std::string& help) {
    const auto take = [&value, name, low, high](const std::string& s) {
        value = int64_t(parse_integer(name, s, uint64_t(low), uint64_t(high)));
    };
    options.add_option(name, take, help).type_name("N");
}

void add_choice(Options& options, const std::string& name, std::string& value, const std::vector<std::string>& words,
                const std::string& help) {
    std::string all;
    for (const std::string& w : words) all += (all.empty() ? "" : "|") + w;
    const auto take = [&value, name, words, all](const std::string& s) {
        if (std::find(words.begin(), words.end(), s) == words.end()) {
            throw Error(name + ": expected " + all + ", found '" + s + "'" + did_you_mean(s, words));
        }
        value = s;
    };
    options.add_option(name, take, help).type_name(all);
}

void add_picture_options(Options& options, PictureOptions& o) {
    add_count(options, "--size", o.size, 8, 4096,
              "height and width that images are resized to (224; CIFAR networks: 32)");
    add_choice(options, "--fit", o.fit, {"stretch", "crop"},
               "to that size whatever the proportions, or the middle, as for ImageNet (stretch)");
    options.add_option("--normalise", o.normalise, "unit, imagenet, caffe, cifar10 or cifar100 (imagenet)")
        .type_name("NAME");
}

ImagePipeline pipeline_of(const PictureOptions& o, const ResNetPlan& plan) {
    const int64_t size = o.size != 0 ? o.size : plan.imagenet_stem ? 224 : 32;
    return {.height = size,
            .width = size,
            .fit = o.fit == "crop" ? Fit::crop : Fit::stretch,
            .shorter_side = size * 256 / 224,
            .normalisation = named_normalisation(o.normalise.empty() ? "imagenet" : o.normalise)};
}

void store(SafetensorsWriter& out, const PictureOptions& o) {
    out.metadata["input.size"] = std::to_string(o.size);
    out.metadata["input.fit"] = o.fit;
    out.metadata["input.normalise"] = o.normalise;
}

void restore(PictureOptions& o, const std::map<std::string, std::string>& metadata) {
    const auto text = [&](const char* key) {
        const auto found = metadata.find(key);
        return found == metadata.end() ? std::string() : found->second;
    };
    const std::string size = text("input.size");
    if (o.size == 0 && !size.empty()) o.size = int64_t(parse_integer("input.size", size, 0, 4096));
    if (o.fit.empty()) o.fit = text("input.fit");
    if (o.normalise.empty()) o.normalise = text("input.normalise");
}

std::string hash_of(const Weights& weights) {
    Hash h;
    for (const SafeTensor& t : weights.tensors) {
        h.add_bytes(std::as_bytes(std::span(t.name)));
        h.add(t.shape);
        h.add_bytes(t.bytes);
    }
    return h.text();
}

std::string text_of(const ImagePipeline& p) {
    std::ostringstream text;
    text << p.height << "x" << p.width << (p.fit == Fit::crop ? " crop " : " stretch ") << p.shorter_side;
    const Normalisation& n = p.normalisation;
    text << " " << n.divisor << (n.bgr ? " bgr" : " rgb");
    for (int c = 0; c < 3; ++c) text << " " << n.mean[size_t(c)] << "/" << n.deviation[size_t(c)];
    return text.str();
}

Var load_images(const Backend& b, const ImageSource& images, std::span<const int64_t> rows, const ImagePipeline& p) {
    std::vector<float> x(rows.size() * size_t(p.height * p.width * 3));
    load_batch(x.data(), images, {rows.begin(), rows.end()}, p);
    return constant(Tensor::from(b, {int64_t(rows.size()), p.height, p.width, 3}, x));
}

}  // namespace lc::cli

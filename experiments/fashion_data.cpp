// fashion_data.cpp -- see fashion_data.h.
#include "experiments/fashion_data.h"

#include <algorithm>
#include <filesystem>

#include "data/file.h"
#include "data/hash.h"
#include "data/idx.h"
#include "data/split.h"

namespace lc {
namespace {

std::string file_in(const std::string& folder, const std::string& name) {
    for (const char* ending : {".gz", ""}) {
        const std::string path = (std::filesystem::path(folder) / (name + ending)).string();
        if (std::filesystem::exists(path)) return path;
    }
    refuse(folder, "expected the four files of Fashion-MNIST, found no " + name +
                       ".gz; install the Debian package dataset-fashion-mnist, or name the folder with --images");
}

// The rows of the training set ("train") or test set ("t10k").
ImageRows read_rows(const std::string& folder, const std::string& set) {
    const std::string image_file = file_in(folder, set + "-images-idx3-ubyte");
    const std::string label_file = file_in(folder, set + "-labels-idx1-ubyte");
    IdxImages images = read_idx_images(image_file);
    ImageRows rows = {images.n, images.height * images.width, std::move(images.pixels), read_idx_labels(label_file)};
    if (rows.n < 20 || rows.d < 1) {
        refuse(image_file, "expected 20 images or more, found " + std::to_string(rows.n) + " of " +
                               std::to_string(rows.d) + " pixels; copy the file again");
    }
    if (int64_t(rows.labels.size()) != rows.n) {
        refuse(label_file, "expected a label for each of " + std::to_string(rows.n) + " images, found " +
                               std::to_string(rows.labels.size()) + "; the two files do not belong together");
    }
    const int32_t most = *std::max_element(rows.labels.begin(), rows.labels.end());
    if (most >= kFashionClasses) {
        refuse(label_file, "expected labels 0 to 9, found " + std::to_string(most) + "; this is another data set");
    }
    return rows;
}

ImageRows pick(const ImageRows& all, const std::vector<int64_t>& places, int64_t limit) {
    const int64_t n = limit > 0 ? std::min(limit, int64_t(places.size())) : int64_t(places.size());
    ImageRows part = {n, all.d, {}, {}};
    part.pixels.reserve(size_t(n * all.d));
    for (int64_t i = 0; i < n; ++i) {
        const auto row = all.pixels.begin() + places[size_t(i)] * all.d;
        part.pixels.insert(part.pixels.end(), row, row + all.d);
        part.labels.push_back(all.labels[size_t(places[size_t(i)])]);
    }
    return part;
}

}  // namespace

std::vector<float> ImageRows::scaled() const {
    std::vector<float> x(pixels.size());
    std::transform(pixels.begin(), pixels.end(), x.begin(), [](uint8_t p) { return float(p) / 255.0f; });
    return x;
}

FashionParts read_fashion(const std::string& folder, int64_t limit) {
    const ImageRows official = read_rows(folder, "train"), held_out = read_rows(folder, "t10k");
    if (official.d != held_out.d) {
        refuse(folder, "expected images of one size, found " + std::to_string(official.d) + " pixels to train on and " +
                           std::to_string(held_out.d) + " to test on; the files do not belong together");
    }
    const Split split = split_rows(official.n);
    std::vector<int64_t> all(static_cast<size_t>(held_out.n));
    for (size_t i = 0; i < all.size(); ++i) all[i] = int64_t(i);
    return {pick(official, split.train, limit), pick(official, split.validation, limit), pick(held_out, all, limit),
            pick(official, split.rest, limit),
            Hash().add(official.pixels).add(official.labels).add(held_out.pixels).add(held_out.labels).text()};
}

}  // namespace lc

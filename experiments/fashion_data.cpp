// fashion_data.cpp -- see fashion_data.h.
#include "experiments/fashion_data.h"

#include <algorithm>

#include "data/file.h"
#include "data/hash.h"
#include "data/idx.h"
#include "data/split.h"

namespace lc {
namespace {

// The rows of the training set ("train") or test set ("t10k").
ImageRows read_rows(const std::string& folder, const std::string& set) {
    IdxSet x = read_idx_set(folder, set, kFashionClasses);
    ImageRows rows = {x.images.n, x.images.height * x.images.width, std::move(x.images.pixels), std::move(x.labels)};
    if (rows.n < 20 || rows.d < 1) {
        refuse(folder, "expected 20 images or more in every part, found " + std::to_string(rows.n) + " of " +
                           std::to_string(rows.d) + " pixels in " + set + "; copy the files again");
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

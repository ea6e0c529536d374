// images.cpp -- sets that lie in memory as one array, and the choice among all of images.h.
#include "data/images.h"

#include <algorithm>
#include <filesystem>
#include <span>

#include "data/cifar.h"
#include "data/file.h"
#include "data/hash.h"
#include "data/idx.h"
#include "data/npy.h"

namespace lc {
namespace {

struct ImageArray {
    int64_t n = 0, height = 0, width = 0, channels = 0;  // 1 or 3
    std::span<const uint8_t> pixels;                     // (n, height, width, channels)
    std::shared_ptr<const void> keeps_alive;
    std::vector<int32_t> labels;  // (n)
    int64_t classes = 0;
};

class ArrayImages : public ImageSource {
  public:
    ArrayImages(std::string what, ImageArray array) : what_(std::move(what)), a_(std::move(array)) {}

    int64_t size() const override { return a_.n; }
    int64_t classes() const override { return a_.classes; }
    int32_t label(int64_t i) const override { return a_.labels.at(size_t(i)); }
    std::string name(int64_t i) const override { return what_ + ", image " + std::to_string(i); }
    std::string hash() const override {
        const std::vector<int64_t> shape = {a_.n, a_.height, a_.width, a_.channels, a_.classes};
        return Hash().add(shape).add(a_.labels).add_bytes(std::as_bytes(a_.pixels)).text();
    }
    std::string description() const override {
        return std::to_string(a_.n) + " images of " + std::to_string(a_.width) + " x " + std::to_string(a_.height) +
               " in " + std::to_string(a_.classes) + " classes";
    }
    Image image(int64_t i) const override {
        const size_t count = size_t(a_.height * a_.width);
        const std::span<const uint8_t> from =
            a_.pixels.subspan(size_t(i) * count * size_t(a_.channels), count * size_t(a_.channels));
        Image out = {a_.height, a_.width, {}};
        if (a_.channels == 3) {
            out.pixels.assign(from.begin(), from.end());
        } else {
            out.pixels.resize(3 * count);
            for (size_t p = 0; p < count; ++p) std::fill_n(out.pixels.begin() + int64_t(3 * p), 3, from[p]);
        }
        return out;
    }

  private:
    std::string what_;
    ImageArray a_;
};

// Keeps the vector that `pixels` shows.
ImageArray array_of(std::vector<uint8_t> pixels, std::vector<int32_t> labels, int64_t height, int64_t width,
                    int64_t channels, int64_t classes) {
    const auto kept = std::make_shared<const std::vector<uint8_t>>(std::move(pixels));
    return {int64_t(labels.size()), height, width, channels, *kept, kept, std::move(labels), classes};
}

bool is_file(const std::string& path) {
    std::error_code unreadable;
    return std::filesystem::is_regular_file(path, unreadable);
}

struct Place {  // what stands behind "cifar10:"
    std::string path, split;
};

Place split_place(const std::string& what, const std::string& rest, const char* splits) {
    const size_t colon = rest.rfind(':');
    if (colon == std::string::npos || colon == 0) {
        refuse(what, std::string("expected a place and ") + splits + " at its end, as in " +
                         what.substr(0, what.find(':')) + ":PLACE:test");
    }
    return {rest.substr(0, colon), rest.substr(colon + 1)};
}

ImageArray open_cifar(Cifar kind, const std::string& what, const std::string& rest) {
    CifarImages x;
    if (is_file(rest)) {
        x = read_cifar_file(kind, rest);
    } else {
        const Place place = split_place(what, rest, ":train or :test");
        x = read_cifar(kind, place.path, place.split);
    }
    return array_of(std::move(x.pixels), std::move(x.labels), kCifarSide, kCifarSide, 3, kind == Cifar::ten ? 10 : 100);
}

ImageArray open_fashion(const std::string& what, const std::string& rest) {
    const Place place = split_place(what, rest, ":train or :test");
    if (place.split != "train" && place.split != "test") {
        refuse(what, "expected train or test, found '" + place.split + "'");
    }
    IdxSet set = read_idx_set(place.path, place.split == "train" ? "train" : "t10k", 10);
    return array_of(std::move(set.images.pixels), std::move(set.labels), set.images.height, set.images.width, 1, 10);
}

const NpyArray& member(const std::map<std::string, NpyArray>& arrays, const std::string& name, const Place& place) {
    const auto found = arrays.find(name);
    if (found != arrays.end()) return found->second;
    std::string names;
    for (const auto& [other, array] : arrays) names += (names.empty() ? "" : ", ") + other;
    refuse(place.path, "expected an array " + name + ", found " + (names.empty() ? "none" : names) +
                           "; choose :train, :val or :test by what is there");
}

// Labels of (n, 1) or (n), in [0, 2^15): more classes than that are a mistake.
std::vector<int32_t> npz_labels(const NpyArray& a) {
    if (a.shape.size() != 1 && !(a.shape.size() == 2 && a.shape[1] == 1)) {
        refuse(a.source, "expected one label per image, (n, 1), found " + a.shape_text() +
                             "; sets with several labels per image are not for this program");
    }
    std::vector<int32_t> labels;
    for (const int64_t y : a.to_integers()) {
        if (y < 0 || y >= 1 << 15) {
            refuse(a.source, "expected labels 0, 1, 2, ..., found " + std::to_string(y) + " at row " +
                                 std::to_string(labels.size()));
        }
        labels.push_back(int32_t(y));
    }
    return labels;
}

ImageArray open_npz(const std::string& what, const std::string& rest) {
    const Place place = split_place(what, rest, ":train, :val or :test");
    const auto arrays = read_npz(place.path);
    const NpyArray& x = member(arrays, place.split + "_images", place);
    const bool colour = x.shape.size() == 4 && x.shape[3] == 3;
    if ((x.shape.size() != 3 && !colour) || x.dtype() != "uint8" || x.fortran_order || x.count() == 0) {
        refuse(x.source,
               "expected images of bytes, uint8 (n, height, width) or (n, height, width, 3) in C order, found " +
                   x.dtype() + " " + x.shape_text() + (x.fortran_order ? " in Fortran order" : ""));
    }
    ImageArray a = {x.shape[0], x.shape[1], x.shape[2], colour ? 3 : 1, {}, x.keeps_alive, {}, 0};
    a.pixels = {reinterpret_cast<const uint8_t*>(x.bytes.data()), x.bytes.size()};
    a.labels = npz_labels(member(arrays, place.split + "_labels", place));
    if (int64_t(a.labels.size()) != a.n) {
        refuse(place.path, "expected a label for each of " + std::to_string(a.n) + " images, found " +
                               std::to_string(a.labels.size()));
    }
    for (const char* split : {"train", "val", "test"}) {  // one part may lack a class that the others have
        const auto found = arrays.find(std::string(split) + "_labels");
        if (found == arrays.end()) continue;
        for (const int32_t y : npz_labels(found->second)) a.classes = std::max(a.classes, int64_t(y) + 1);
    }
    return a;
}

}  // namespace

std::unique_ptr<ImageSource> open_images(const std::string& what) {
    const size_t colon = what.find(':');
    const std::string kind = colon == std::string::npos ? "" : what.substr(0, colon);
    const std::string rest = kind.empty() ? "" : what.substr(colon + 1);
    const auto array = [&](ImageArray a) { return std::make_unique<ArrayImages>(what, std::move(a)); };
    if (kind == "cifar10") return array(open_cifar(Cifar::ten, what, rest));
    if (kind == "cifar100") return array(open_cifar(Cifar::hundred, what, rest));
    if (kind == "npz") return array(open_npz(what, rest));
    if (kind == "fashion") return array(open_fashion(what, rest));
    return open_image_files(what);
}

}  // namespace lc

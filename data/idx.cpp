// idx.cpp -- see idx.h.
#include "data/idx.h"

#include <cstring>
#include <filesystem>
#include <memory>

#include "data/file.h"
#include "data/inflate.h"

namespace lc {
namespace {

using Bytes = std::span<const std::byte>;

constexpr size_t kMaxDimensions = 8;  // images have three

bool looks_like_gzip(Bytes b) { return b.size() >= 2 && b[0] == std::byte(0x1f) && b[1] == std::byte(0x8b); }

[[noreturn]] void damaged(const std::string& source, const std::string& what) {
    refuse(source, "the gzip file is damaged: " + what + "; copy it again");
}

uint64_t big_endian(Bytes b) {
    uint64_t value = 0;
    for (const std::byte x : b) value = value << 8 | uint64_t(x);
    return value;
}

// The bytes after the header, and the header's dimensions, which must be as many.
IdxArray parse_plain(Bytes b, const std::string& source) {
    if (b.size() < 4) refuse(source, "expected an IDX file, found " + std::to_string(b.size()) + " bytes");
    if (b[0] != std::byte(0) || b[1] != std::byte(0)) {
        refuse(source, "expected an IDX file, which begins with two zero bytes, found something else; see what it is");
    }
    if (b[2] != std::byte(8)) {
        refuse(source, "expected unsigned bytes (type 8), found type " + std::to_string(int(b[2])) +
                           "; images and labels of MNIST's kind have type 8");
    }
    const size_t dimensions = size_t(b[3]), header = 4 + 4 * dimensions;
    if (dimensions < 1 || dimensions > kMaxDimensions || b.size() < header) {
        refuse(source, "expected an IDX header of 1 to " + std::to_string(kMaxDimensions) + " dimensions, found " +
                           std::to_string(dimensions) + " in a file of " + std::to_string(b.size()) +
                           " bytes; the file is damaged or cut short: copy it again");
    }
    IdxArray a;
    const uint64_t found = b.size() - header;
    uint64_t claimed = 1;
    std::string text;
    for (size_t k = 0; k < dimensions; ++k) {
        const uint64_t size = big_endian(b.subspan(4 + 4 * k, 4));
        a.shape.push_back(int64_t(size));
        text += (k == 0 ? "" : " x ") + std::to_string(size);
        claimed = size != 0 && claimed > UINT64_MAX / size ? UINT64_MAX : claimed * size;
    }
    if (claimed != found) {
        refuse(source, "expected the " + text + " bytes that the header says, found " + std::to_string(found) +
                           "; the file is damaged or cut short: copy it again");
    }
    a.values.resize(found);
    if (found > 0) std::memcpy(a.values.data(), b.data() + header, found);
    return a;
}

void check_dimensions(const IdxArray& a, size_t wanted, const char* what, const std::string& source) {
    if (a.shape.size() == wanted) return;
    refuse(source, std::string("expected ") + what + ", an IDX file of " + std::to_string(wanted) +
                       (wanted == 1 ? " dimension" : " dimensions") + ", found " + std::to_string(a.shape.size()) +
                       "; give the file of " + what);
}

std::string file_in(const std::string& folder, const std::string& name) {
    for (const char* ending : {".gz", ""}) {
        const std::string path = (std::filesystem::path(folder) / (name + ending)).string();
        std::error_code unreadable;
        if (std::filesystem::exists(path, unreadable)) return path;
    }
    refuse(folder, "expected the four files of Fashion-MNIST or another set of its kind, found no " + name +
                       ".gz; install the Debian package dataset-fashion-mnist, or name the folder that has them");
}

}  // namespace

IdxArray parse_idx(Bytes file, const std::string& source) {
    if (!looks_like_gzip(file)) return parse_plain(file, source);
    constexpr size_t kSmallest = 18;  // header and trailer
    if (file.size() < kSmallest) damaged(source, "it is cut short");
    uint32_t size;  // little endian, at the end; of what is there modulo 4 GiB, which images do not reach
    std::memcpy(&size, file.data() + file.size() - sizeof size, sizeof size);
    const std::shared_ptr<std::byte[]> unpacked = inflate_all(file, size, Wrapping::gzip, source, damaged);
    return parse_plain({unpacked.get(), size}, source);
}

IdxArray read_idx(const std::string& path) {
    const MappedFile file(path);
    return parse_idx(file.bytes(), path);
}

IdxImages read_idx_images(const std::string& path) {
    IdxArray a = read_idx(path);
    check_dimensions(a, 3, "images", path);
    return {a.shape[0], a.shape[1], a.shape[2], std::move(a.values)};
}

std::vector<int32_t> read_idx_labels(const std::string& path) {
    const IdxArray a = read_idx(path);
    check_dimensions(a, 1, "labels", path);
    return {a.values.begin(), a.values.end()};
}

IdxSet read_idx_set(const std::string& folder, const std::string& set, int64_t classes) {
    const std::string image_file = file_in(folder, set + "-images-idx3-ubyte");
    const std::string label_file = file_in(folder, set + "-labels-idx1-ubyte");
    IdxSet x = {read_idx_images(image_file), read_idx_labels(label_file)};
    if (x.images.pixels.empty()) refuse(image_file, "expected images, found none; copy the file again");
    if (int64_t(x.labels.size()) != x.images.n) {
        refuse(label_file, "expected a label for each of " + std::to_string(x.images.n) + " images, found " +
                               std::to_string(x.labels.size()) + "; the two files do not belong together");
    }
    for (const int32_t y : x.labels) {
        if (y < classes) continue;
        refuse(label_file, "expected labels 0 to " + std::to_string(classes - 1) + ", found " + std::to_string(y) +
                               "; this is another data set");
    }
    return x;
}

}  // namespace lc

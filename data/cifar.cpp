// cifar.cpp -- see cifar.h.
#include "data/cifar.h"

#include <filesystem>

#include "data/file.h"

namespace lc {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kPlane = kCifarSide * kCifarSide, kPixels = 3 * kPlane;

int label_bytes(Cifar kind) { return kind == Cifar::ten ? 1 : 2; }
const char* name_of(Cifar kind) { return kind == Cifar::ten ? "CIFAR-10" : "CIFAR-100"; }

int32_t label_of(Cifar kind, const uint8_t* record, int64_t i, const std::string& source) {
    const int coarse = kind == Cifar::ten ? 0 : record[0], label = record[label_bytes(kind) - 1];
    const int classes = kind == Cifar::ten ? 10 : 100;
    if (label < classes && coarse < 20) return label;
    refuse(source,
           std::string("expected labels of ") + name_of(kind) + ", found " +
               (label < classes ? std::to_string(coarse) + " among the 20 coarse ones" : std::to_string(label)) +
               " at image " + std::to_string(i) + "; this is another data set, or the file is damaged");
}

bool there(const fs::path& path) {
    std::error_code unreadable;  // as good as absent
    return fs::exists(path, unreadable);
}

std::vector<std::string> files_of(Cifar kind, const std::string& split) {
    if (kind == Cifar::hundred) return {split + ".bin"};
    if (split == "test") return {"test_batch.bin"};
    std::vector<std::string> names;
    for (int b = 1; b <= 5; ++b) names.push_back("data_batch_" + std::to_string(b) + ".bin");
    return names;
}

}  // namespace

CifarImages parse_cifar(Cifar kind, std::span<const std::byte> file, const std::string& source) {
    const int64_t header = label_bytes(kind), record = header + kPixels, size = int64_t(file.size());
    if (size == 0 || size % record != 0) {
        refuse(source, std::string("expected ") + name_of(kind) + " records of " + std::to_string(record) +
                           " bytes, found " + std::to_string(size) +
                           " bytes, which is no multiple; the file is cut short or another kind: copy it again");
    }
    CifarImages x;
    x.n = size / record;
    x.pixels.resize(size_t(x.n * kPixels));
    x.labels.resize(size_t(x.n));
    const auto* from = reinterpret_cast<const uint8_t*>(file.data());
    uint8_t* to = x.pixels.data();
    for (int64_t i = 0; i < x.n; ++i, from += record) {
        x.labels[size_t(i)] = label_of(kind, from, i, source);
        const uint8_t* red = from + header;
        for (int64_t p = 0; p < kPlane; ++p, to += 3) {
            to[0] = red[p], to[1] = red[p + kPlane], to[2] = red[p + 2 * kPlane];
        }
    }
    return x;
}

CifarImages read_cifar_file(Cifar kind, const std::string& path) {
    const MappedFile file(path);
    return parse_cifar(kind, file.bytes(), path);
}

CifarImages read_cifar(Cifar kind, const std::string& where, const std::string& split) {
    if (split != "train" && split != "test") {
        refuse(where, std::string("expected train or test of ") + name_of(kind) + ", found '" + split + "'");
    }
    const std::vector<std::string> names = files_of(kind, split);
    fs::path folder = where;
    const fs::path inner = folder / (kind == Cifar::ten ? "cifar-10-batches-bin" : "cifar-100-binary");
    if (!there(folder / names[0]) && there(inner)) folder = inner;
    if (!there(folder / names[0])) {
        refuse(where, std::string("expected the folder of ") + name_of(kind) + "'s binary version, found no " +
                          names[0] + "; unpack " +
                          (kind == Cifar::ten ? "cifar-10-binary.tar.gz" : "cifar-100-binary.tar.gz") +
                          " and name the folder that it makes");
    }
    CifarImages all;
    int64_t each = 0;
    for (const std::string& name : names) {
        const std::string path = (folder / name).string();
        const CifarImages part = read_cifar_file(kind, path);
        if (each != 0 && part.n != each) {
            refuse(path, "expected " + std::to_string(each) + " images as in the other batches, found " +
                             std::to_string(part.n) + "; the file is cut short: copy it again");
        }
        each = part.n;
        all.n += part.n;
        all.pixels.insert(all.pixels.end(), part.pixels.begin(), part.pixels.end());
        all.labels.insert(all.labels.end(), part.labels.begin(), part.labels.end());
    }
    return all;
}

}  // namespace lc

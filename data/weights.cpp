// weights.cpp -- which format is it?
#include "data/weights.h"

#include <algorithm>
#include <cstring>
#include <filesystem>

#include "data/tfjs.h"
#include "data/torch_file.h"
#include "data/zip.h"

namespace lc {

namespace {

Weights from_safetensors(std::shared_ptr<MappedFile> file) {
    Safetensors in = parse_safetensors(file->bytes(), file->path(), file);
    return {in.path, "safetensors", std::move(in.metadata), std::move(in.tensors), std::move(file)};
}

bool begins(std::span<const std::byte> bytes, size_t at, std::string_view text) {
    return bytes.size() >= at + text.size() && std::memcmp(bytes.data() + at, text.data(), text.size()) == 0;
}

}  // namespace

const SafeTensor* Weights::find(const std::string& name) const {
    const auto found =
        std::find_if(tensors.begin(), tensors.end(), [&](const SafeTensor& t) { return t.name == name; });
    return found == tensors.end() ? nullptr : &*found;
}

Weights read_weights(const std::string& path, const std::string& or_else) {
    std::error_code ignored;
    if (std::filesystem::is_directory(path, ignored)) {
        const std::filesystem::path model = std::filesystem::path(path) / "model.json";
        if (std::filesystem::exists(model, ignored)) return read_tfjs(model.string());
        refuse(path, "expected a file, found a folder without TensorFlow.js' model.json");
    }
    const auto file = std::make_shared<MappedFile>(path);
    const std::span<const std::byte> bytes = file->bytes();
    if (looks_like_torch(bytes, path)) return parse_torch(bytes, path, file);
    const bool has_length = bytes.size() > 8 && bytes[7] == std::byte(0);  // as safetensors; text holds no zero
    if (begins(bytes, 0, "{") && !has_length) return read_tfjs(path);
    if (begins(bytes, 8, "{")) return from_safetensors(file);

    std::string found = bytes.empty() ? "an empty file; check its name" : "other bytes; check its name";
    if (looks_like_zip(bytes)) found = "a zip archive without data.pkl; check its name";
    if (begins(bytes, 257, "ustar"))
        found = "a tar archive, as PyTorch wrote before 2017; load and save it with a PyTorch of today";
    if (begins(bytes, 0, "\x89HDF")) found = "HDF5, as Keras writes; save the weights as .safetensors";
    refuse(path,
           "expected " + or_else + "weights (.safetensors, PyTorch's .pth, TensorFlow.js' model.json), found " + found);
}

}  // namespace lc

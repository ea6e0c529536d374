// tfjs.cpp -- see tfjs.h.
#include "data/tfjs.h"

#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>

#include "data/element.h"
#include "data/json_format.h"

namespace lc {

namespace {

using nlohmann::json;
using Bytes = std::span<const std::byte>;
using Shards = std::function<Bytes(const std::string& name)>;

constexpr JsonFormat kFormat{"model.json", 64, 20'000'000};  // networks within networks nest

[[noreturn]] void damaged(const std::string& source, const std::string& expected_and_found) {
    kFormat.damaged(source, expected_and_found);
}

// All files of a group, one after another.
struct Group {
    std::shared_ptr<std::byte[]> bytes;
    size_t size = 0;
};
Group join(const json& paths, const Shards& shard, std::set<std::string>& seen, const std::string& path) {
    Group group;
    std::vector<Bytes> pieces;
    for (const json& item : paths) {
        if (!item.is_string()) damaged(path, "texts as paths, found another value");
        const std::string& name = item.get_ref<const std::string&>();
        const std::filesystem::path relative(name);
        bool inside = !name.empty() && name.find('\0') == std::string::npos && relative.is_relative();
        for (const auto& part : relative) inside &= part != "..";
        if (!inside) refuse(path, "expected files beside or below model.json, found '" + name + "'");
        if (!seen.insert(relative.lexically_normal().string()).second) {
            damaged(path, "every file once, found '" + name + "' twice");
        }
        pieces.push_back(shard(name));
        group.size += pieces.back().size();
    }
    group.bytes.reset(new std::byte[group.size]);
    size_t at = 0;
    for (const Bytes piece : pieces) {
        if (!piece.empty()) std::memcpy(group.bytes.get() + at, piece.data(), piece.size());
        at += piece.size();
    }
    return group;
}

struct Dtype {
    const char *theirs, *ours;
    Element element;
};
const Dtype& dtype_of(const json& weight, const std::string& source) {
    static constexpr Dtype kDtypes[] = {{"float32", "F32", Element::f32},
                                        {"int32", "I32", Element::i32},
                                        {"uint8", "U8", Element::u8},
                                        {"bool", "BOOL", Element::boolean}};
    if (weight.contains("quantization")) {
        refuse(source, "expected plain numbers, found quantised ones; convert the model without --quantize options");
    }
    const std::string& name = kFormat.text(weight, "dtype", source);
    for (const Dtype& d : kDtypes) {
        if (name == d.theirs) return d;
    }
    refuse(source, "expected dtype float32, int32, uint8 or bool, found '" + name + "'; convert it first");
}

SafeTensor read_weight(const json& weight, Bytes& rest, const std::string& path) {
    SafeTensor t;
    t.name = kFormat.text(weight, "name", path);
    t.source = path + ": " + t.name;
    const Dtype& dtype = dtype_of(weight, t.source);
    t.dtype = dtype.ours;
    t.shape = kFormat.sizes(weight, "shape", t.source);
    int64_t size = t.count();
    if (size < 0 || __builtin_mul_overflow(size, size_of(dtype.element), &size) || uint64_t(size) > rest.size()) {
        damaged(t.source, "as many bytes as shape and dtype need, found " + std::to_string(rest.size()) + " left");
    }
    t.bytes = rest.first(size_t(size));
    rest = rest.subspan(size_t(size));
    return t;
}

// The epsilon of the batch normalisations, which is no weight but part of what the weights mean: all that there are, as text.
std::string epsilons(const json& model) {
    static const json::json_pointer kLayers("/modelTopology/model_config/config/layers"), kClass("/class_name"),
        kEpsilon("/config/epsilon");
    std::set<std::string> found;
    if (model.contains(kLayers) && model.at(kLayers).is_array()) {
        for (const json& layer : model.at(kLayers)) {
            if (!layer.contains(kClass) || layer.at(kClass) != "BatchNormalization") continue;
            if (layer.contains(kEpsilon)) found.insert(layer.at(kEpsilon).dump(-1, ' ', true).substr(0, 40));
        }
    }
    std::string text;
    for (const std::string& e : found) text += (text.empty() ? "" : ", ") + e;
    return text;
}

}  // namespace

Weights parse_tfjs(Bytes text, const std::string& path, const Shards& shard) {
    const json model = kFormat.parse({reinterpret_cast<const char*>(text.data()), text.size()}, path);
    Weights result = {path, "tfjs", {}, {}, {}};
    const auto groups = std::make_shared<std::vector<Group>>();
    std::set<std::string> files, names;
    for (const json& entry : kFormat.array(model, "weightsManifest", path)) {
        groups->push_back(join(kFormat.array(entry, "paths", path), shard, files, path));
        Bytes rest(groups->back().bytes.get(), groups->back().size);
        for (const json& weight : kFormat.array(entry, "weights", path)) {
            result.tensors.push_back(read_weight(weight, rest, path));
            const std::string& name = result.tensors.back().name;
            if (!names.insert(name).second) damaged(path, "every name once, found '" + name + "' twice");
        }
        if (!rest.empty())
            damaged(path, "as many bytes as the weights need, found " + std::to_string(rest.size()) + " more");
    }
    for (const auto& [key, value] : model.items()) {
        if (value.is_string()) result.metadata[key] = value;
    }
    if (const std::string eps = epsilons(model); !eps.empty()) result.metadata["bn_eps"] = eps;
    result.keeps_alive = groups;
    return result;
}

Weights read_tfjs(const std::string& model_json) {
    const MappedFile json(model_json);
    const std::filesystem::path folder = std::filesystem::path(model_json).parent_path();
    std::vector<MappedFile> open;
    return parse_tfjs(json.bytes(), model_json,
                      [&](const std::string& name) { return open.emplace_back((folder / name).string()).bytes(); });
}

}  // namespace lc

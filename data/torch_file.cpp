// torch_file.cpp -- the two containers of torch_file.h: where the pickle and the storages lie.
#include "data/torch_file.h"

#include <algorithm>
#include <cstring>

#include "data/torch_tensors.h"
#include "data/zip.h"

namespace lc {

namespace {

using Kind = PickleValue::Kind;
using Bytes = std::span<const std::byte>;

constexpr const char* kPickleName = "data.pkl";

[[noreturn]] void damaged(const std::string& source, const std::string& expected_and_found) {
    refuse(source, "expected " + expected_and_found + "; the file is damaged: copy it again");
}

[[noreturn]] void refuse_big_endian(const std::string& path) {
    refuse(path, "expected numbers in little-endian order, found big endian; load and save it on another machine");
}

// ---- zip ------------------------------------------------------------------------------------------------------------
class Archive {
  public:
    Archive(Bytes file, const std::string& path) : file_(file), path_(path) {
        for (ZipEntry& e : zip_entries(file, path)) {
            std::string name = e.name;
            entries_.emplace(std::move(name), std::move(e));
        }
        for (const auto& [name, entry] : entries_) {
            if (!name.ends_with(std::string("/") + kPickleName)) continue;
            if (!folder_.empty())
                refuse(path, "expected one data.pkl, found '" + folder_ + kPickleName + "' and '" + name + "'");
            folder_ = name.substr(0, name.size() - std::strlen(kPickleName));
        }
    }
    bool has(const std::string& name) const { return entries_.count(folder_ + name) > 0; }
    // Where it lies in the file.  The checksum is verified, once: many tensors may share a storage.
    Bytes bytes(const std::string& name) {
        const auto found = entries_.find(folder_ + name);
        if (found == entries_.end()) damaged(path_, "the entry '" + folder_ + name + "', found none");
        const auto known = checked_.find(name);
        if (known != checked_.end()) return known->second;
        if (found->second.deflated) {
            refuse(path_, "expected '" + found->first +
                              "' uncompressed, as torch.save writes it, found it deflated; unzip the file and zip it "
                              "again with zip -0");
        }
        return checked_[name] = unpack(file_, found->second, path_).bytes;
    }

  private:
    Bytes file_;
    const std::string& path_;
    std::string folder_;
    std::map<std::string, ZipEntry> entries_;
    std::map<std::string, Bytes> checked_;
};

Weights parse_zip(Bytes file, const std::string& path, std::shared_ptr<const void> keeps_alive) {
    Archive archive(file, path);
    if (archive.has("constants.pkl")) {
        refuse(path,
               "expected weights, found a TorchScript program; load it and save its state_dict, "
               "torch.save(model.state_dict(), ...)");
    }
    if (archive.has("byteorder")) {
        const Bytes order = archive.bytes("byteorder");
        if (std::string_view(reinterpret_cast<const char*>(order.data()), order.size()) != "little")
            refuse_big_endian(path);
    }
    const Pickle pickle = unpickle(archive.bytes(kPickleName), torch_globals(), path);
    const auto storage = [&](const StorageId& id) {
        const std::string name = "data/" + std::string(id.key);
        const Bytes bytes = archive.bytes(name);
        if (bytes.size() != uint64_t(id.count) * uint64_t(id.itemsize)) {
            damaged(path, std::to_string(uint64_t(id.count) * uint64_t(id.itemsize)) + " bytes in '" + name +
                              "', found " + std::to_string(bytes.size()));
        }
        return bytes;
    };
    return torch_weights(pickle, storage, file.size(), path, std::move(keeps_alive));
}

// ---- the older format -------------------------------------------------------------------------------------------------
constexpr std::string_view kMagic("\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19", 10);
constexpr int64_t kVersion = 1001;

Pickle next(Bytes& rest, const std::string& path) {
    Pickle pickle = unpickle(rest, torch_globals(), path);
    rest = rest.subspan(pickle.size);
    return pickle;
}

void check_machine(const Pickle& facts, const std::string& path) {
    if (facts.root().kind != Kind::dict) damaged(path, "a dictionary of facts about the machine, found another value");
    for (size_t i = 0; i < facts.root().items.size(); i += 2) {
        const PickleValue &key = facts.item(facts.root(), i), &value = facts.item(facts.root(), i + 1);
        if (key.text == "little_endian" && value.integer == 0) refuse_big_endian(path);
    }
}

using Storages = std::map<std::string_view, std::pair<StorageId, Bytes>>;

Storages named_storages(const Pickle& object, const std::string& path) {
    Storages all;
    for (const PickleValue& v : object.values) {
        if (v.kind != Kind::persistent) continue;
        const StorageId id = storage_id(object, v, path);
        const StorageId& first = all.emplace(id.key, std::pair(id, Bytes())).first->second.first;
        if (first.dtype != id.dtype || first.count != id.count) {
            damaged(path, "one type and size for the storage '" + std::string(id.key) + "', found two");
        }
    }
    return all;
}

// For every key in the list: how many elements, and then the elements.
void read_storages(const Pickle& keys, Bytes rest, Storages& storages, const std::string& path) {
    if (keys.root().kind != Kind::list) damaged(path, "a list of storages, found another value");
    for (size_t i = 0; i < keys.root().items.size(); ++i) {
        const std::string key(keys.item(keys.root(), i).text);
        const auto found = storages.find(key);
        if (found == storages.end()) damaged(path, "storages that tensors have, found '" + key + "'");
        auto& [id, bytes] = found->second;
        if (bytes.data() != nullptr) damaged(path, "every storage once, found '" + key + "' twice");
        int64_t count = 0;
        if (rest.size() < sizeof count) damaged(path, "the storage '" + key + "', found the file's end");
        std::memcpy(&count, rest.data(), sizeof count);
        rest = rest.subspan(sizeof count);
        if (count != id.count)
            damaged(path, std::to_string(id.count) + " elements in the storage '" + key + "', found " +
                              std::to_string(count));
        const uint64_t size = uint64_t(count) * uint64_t(id.itemsize);
        if (size > rest.size())
            damaged(path,
                    std::to_string(size) + " bytes of the storage '" + key + "', found " + std::to_string(rest.size()));
        bytes = rest.first(size);
        rest = rest.subspan(size);
    }
    if (!rest.empty())
        refuse(path, "expected the file's end after its storages, found " + std::to_string(rest.size()) +
                         " bytes; it holds more than one object, or is damaged: save the weights alone");
}

Weights parse_legacy(Bytes file, const std::string& path, std::shared_ptr<const void> keeps_alive) {
    Bytes rest = file;
    const Pickle magic = next(rest, path);
    if (magic.root().kind != Kind::big_integer || magic.root().text != kMagic) {
        refuse(
            path,
            "expected a file by torch.save, found another pickle; save the weights with torch.save or as .safetensors");
    }
    const Pickle version = next(rest, path);
    if (version.root().kind != Kind::integer || version.root().integer != kVersion)
        damaged(path, "version 1001 of PyTorch's older format, found another");
    check_machine(next(rest, path), path);
    const Pickle object = next(rest, path);
    const Pickle keys = next(rest, path);
    Storages storages = named_storages(object, path);
    read_storages(keys, rest, storages, path);
    const auto storage = [&](const StorageId& id) {
        const Bytes bytes = storages.at(id.key).second;
        if (bytes.data() == nullptr) damaged(path, "the storage '" + std::string(id.key) + "', found none");
        return bytes;
    };
    return torch_weights(object, storage, file.size(), path, std::move(keeps_alive));
}

}  // namespace

bool looks_like_torch(Bytes file, const std::string& path) {
    if (!looks_like_zip(file)) return file.size() >= 2 && file[0] == std::byte(0x80) && file[1] <= std::byte(5);
    const std::vector<ZipEntry> entries = zip_entries(file, path);
    return std::any_of(entries.begin(), entries.end(),
                       [](const ZipEntry& e) { return e.name.ends_with(std::string("/") + kPickleName); });
}

Weights parse_torch(Bytes file, const std::string& path, std::shared_ptr<const void> keeps_alive) {
    const bool zip = looks_like_zip(file);
    Weights result = (zip ? parse_zip : parse_legacy)(file, path, std::move(keeps_alive));
    result.format = zip ? "torch zip" : "torch legacy";
    return result;
}

}  // namespace lc

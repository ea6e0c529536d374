// safetensors.cpp -- the header is read, then believed only where it agrees with the file (format: safetensors.h).
#include "data/safetensors.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <nlohmann/json.hpp>
#include <optional>

#include "data/element.h"
#include "data/json_format.h"
#include "data/npy.h"
#include "kernels/check.h"

namespace lc {

namespace {

using nlohmann::json;

constexpr JsonFormat kFormat{".safetensors", 3, 100'000'000};  // as long as the format's own reader allows
constexpr const char* kMetadata = "__metadata__";

struct Dtype {
    const char* name;
    Element element;
};
constexpr Dtype kDtypes[] = {{"F64", Element::f64},     {"F32", Element::f32}, {"F16", Element::f16},
                             {"BF16", Element::bf16},   {"I64", Element::i64}, {"I32", Element::i32},
                             {"I16", Element::i16},     {"I8", Element::i8},   {"U64", Element::u64},
                             {"U32", Element::u32},     {"U16", Element::u16}, {"U8", Element::u8},
                             {"BOOL", Element::boolean}};

std::optional<Element> element_of(const std::string& dtype) {
    for (const Dtype& d : kDtypes) {
        if (dtype == d.name) return d.element;
    }
    return std::nullopt;
}

[[noreturn]] void damaged(const std::string& source, const std::string& expected_and_found) {
    kFormat.damaged(source, expected_and_found);
}

SafeTensor read_tensor(const std::string& name, const json& entry, std::span<const std::byte> data,
                       const std::string& path) {
    SafeTensor t;
    t.name = name;
    t.source = path + ": " + name;
    if (!entry.is_object()) damaged(t.source, "dtype, shape and data_offsets, found none");
    t.dtype = kFormat.text(entry, "dtype", t.source);
    t.shape = kFormat.sizes(entry, "shape", t.source);
    const std::vector<int64_t> offsets = kFormat.sizes(entry, "data_offsets", t.source);
    if (offsets.size() != 2) damaged(t.source, "two data_offsets, found " + std::to_string(offsets.size()));
    const uint64_t begin = uint64_t(offsets[0]), end = uint64_t(offsets[1]);
    if (begin > end || end > data.size()) {
        damaged(t.source, "data_offsets within 0:" + std::to_string(data.size()) + ", found " + std::to_string(begin) +
                              ":" + std::to_string(end));
    }
    t.bytes = data.subspan(begin, end - begin);

    const std::optional<Element> type = element_of(t.dtype);
    if (!type)
        refuse(t.source, "expected a dtype such as F32, F16, BF16 or I64, found '" + t.dtype + "'; convert it first");
    int64_t size = t.count();
    if (size < 0 || __builtin_mul_overflow(size, size_of(*type), &size) || uint64_t(size) != t.bytes.size()) {
        damaged(t.source, "as many bytes as shape and dtype need, found " + std::to_string(t.bytes.size()));
    }
    return t;
}

// The format allows neither gaps nor overlaps: every byte of the data belongs to one tensor.
void check_layout(const std::vector<SafeTensor>& sorted, std::span<const std::byte> data, const std::string& path) {
    const std::byte* at = data.data();
    for (const SafeTensor& t : sorted) {
        if (t.bytes.data() != at) {
            damaged(t.source, "its data at byte " + std::to_string(at - data.data()) +
                                  ", where the last ended, found " + std::to_string(t.bytes.data() - data.data()));
        }
        at += t.bytes.size();
    }
    if (at != data.data() + data.size()) {
        damaged(path, std::to_string(at - data.data()) + " bytes of data, found " + std::to_string(data.size()));
    }
}

template <class To>
std::vector<To> to_vector(const SafeTensor& t, const char* wanted, bool right_type) {
    if (!right_type) refuse(t.source, std::string("expected ") + wanted + ", found dtype " + t.dtype);
    const Element type = *element_of(t.dtype);
    std::vector<To> out(size_t(t.count()));
    const int64_t bad = convert(type, false, t.bytes.data(), size_of(type), int64_t(out.size()), out.data());
    if (bad >= 0) {
        refuse(t.source, std::string("expected ") + wanted + ", found a value beyond their range at element " +
                             std::to_string(bad));
    }
    return out;
}

bool is_float(const SafeTensor& t) { return t.dtype.find('F') != std::string::npos; }

}  // namespace

int64_t SafeTensor::count() const { return count_of(shape.data(), shape.size()); }
std::vector<float> SafeTensor::to_floats() const {
    return to_vector<float>(*this, "floating-point numbers", is_float(*this));
}
std::vector<double> SafeTensor::to_doubles() const { return to_vector<double>(*this, "numbers", true); }
std::vector<int64_t> SafeTensor::to_integers() const {
    return to_vector<int64_t>(*this, "64-bit integers", !is_float(*this));
}

const SafeTensor* Safetensors::find(const std::string& name) const {
    const auto found =
        std::find_if(tensors.begin(), tensors.end(), [&](const SafeTensor& t) { return t.name == name; });
    return found == tensors.end() ? nullptr : &*found;
}

const SafeTensor& Safetensors::at(const std::string& name) const {
    if (const SafeTensor* found = find(name)) return *found;
    std::string there;
    for (const SafeTensor& t : tensors) there += (there.empty() ? "" : ", ") + t.name;
    refuse(path, "expected a tensor '" + name + "', found " + (there.empty() ? "none" : "only " + there));
}

const SafeTensor& Safetensors::at(const std::string& name, const std::vector<int64_t>& shape) const {
    const SafeTensor& t = at(name);
    if (t.shape == shape) return t;
    refuse(path, "expected '" + name + "' of shape " + shape_text(shape) + ", found " + shape_text(t.shape) +
                     "; the file belongs to another configuration");
}

const std::string& Safetensors::meta(const std::string& key) const {
    const auto found = metadata.find(key);
    if (found != metadata.end()) return found->second;
    std::string there;
    for (const auto& [k, text] : metadata) there += (there.empty() ? "" : ", ") + k;
    refuse(path, "expected metadata '" + key + "', found " + (there.empty() ? "none" : "only " + there));
}

template <class Number>
static Number number_of(const Safetensors& in, const std::string& key, const char* what) {
    const std::string& text = in.meta(key);
    Number value{};
    const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (failure == std::errc() && end == text.data() + text.size()) return value;
    refuse(in.path, "expected " + std::string(what) + " as metadata '" + key + "', found '" + text + "'");
}
int64_t Safetensors::meta_integer(const std::string& key) const {
    return number_of<int64_t>(*this, key, "a whole number");
}
double Safetensors::meta_number(const std::string& key) const { return number_of<double>(*this, key, "a number"); }

void SafetensorsWriter::set(const std::string& key, double number) {
    char text[32];
    metadata[key] = std::string(text, std::to_chars(text, text + sizeof text, number).ptr);
}

Safetensors parse_safetensors(std::span<const std::byte> bytes, const std::string& path,
                              std::shared_ptr<MappedFile> file) {
    uint64_t length = 0;
    if (bytes.size() < 8) damaged(path, "8 bytes for the header's length, found " + std::to_string(bytes.size()));
    std::memcpy(&length, bytes.data(), 8);
    if (length > bytes.size() - 8) {
        damaged(path, "a header within the file, found a length of " + std::to_string(length));
    }
    const json header = kFormat.parse({reinterpret_cast<const char*>(bytes.data()) + 8, length}, path);
    const std::span<const std::byte> data = bytes.subspan(8 + length);

    Safetensors result;
    result.path = path;
    result.file = std::move(file);
    for (const auto& [name, entry] : header.items()) {
        if (name != kMetadata) {
            result.tensors.push_back(read_tensor(name, entry, data, path));
            continue;
        }
        if (!entry.is_object()) damaged(path, "an object as metadata, found another value");
        for (const auto& [key, text] : entry.items()) {
            if (!text.is_string()) damaged(path, "text as metadata '" + key + "', found another value");
            result.metadata[key] = text;
        }
    }
    std::sort(result.tensors.begin(), result.tensors.end(), [](const SafeTensor& a, const SafeTensor& b) {
        return std::pair(a.bytes.data(), a.bytes.size()) < std::pair(b.bytes.data(), b.bytes.size());
    });
    check_layout(result.tensors, data, path);
    return result;
}

Safetensors read_safetensors(const std::string& path) {
    const auto file = std::make_shared<MappedFile>(path);
    return parse_safetensors(file->bytes(), path, file);
}

void SafetensorsWriter::add(const std::string& name, const char* dtype, const std::vector<int64_t>& shape,
                            const void* x) {
    LC_CHECK(name != kMetadata, "a tensor cannot have the name " << kMetadata);
    for (const Item& item : items_) LC_CHECK(item.name != name, "give the tensor '" << name << "' once");
    for (int64_t size : shape) LC_CHECK(size >= 0, "sizes of '" << name << "' are not negative; found " << size);
    const int64_t count = count_of(shape.data(), shape.size());
    LC_CHECK(count >= 0, "the product of the shape of '" << name << "' fits 64 bits");
    const std::byte* begin = static_cast<const std::byte*>(x);
    items_.push_back({name, dtype, shape, {begin, begin + count * size_of(*element_of(dtype))}});
}
void SafetensorsWriter::add(const std::string& name, const std::vector<int64_t>& shape, const float* x) {
    add(name, "F32", shape, x);
}
void SafetensorsWriter::add(const std::string& name, const std::vector<int64_t>& shape, const double* x) {
    add(name, "F64", shape, x);
}
void SafetensorsWriter::add(const std::string& name, const std::vector<int64_t>& shape, const int32_t* x) {
    add(name, "I32", shape, x);
}
void SafetensorsWriter::add(const std::string& name, const std::vector<int64_t>& shape, const int64_t* x) {
    add(name, "I64", shape, x);
}

void SafetensorsWriter::write(const std::string& path) const {
    std::vector<const Item*> order;
    for (const Item& item : items_) order.push_back(&item);
    const auto width = [](const Item* item) { return size_of(*element_of(item->dtype)); };
    std::stable_sort(order.begin(), order.end(), [&](const Item* a, const Item* b) { return width(a) > width(b); });

    nlohmann::ordered_json header = nlohmann::ordered_json::object();
    if (!metadata.empty()) header[kMetadata] = metadata;
    uint64_t offset = 0;
    for (const Item* item : order) {
        const uint64_t end = offset + item->bytes.size();
        header[item->name] = {{"dtype", item->dtype}, {"shape", item->shape}, {"data_offsets", {offset, end}}};
        offset = end;
    }
    const auto replace = nlohmann::ordered_json::error_handler_t::replace;  // a path in an odd encoding ends no run
    std::string text = header.dump(-1, ' ', false, replace);
    text.append(63 - (8 + text.size() + 63) % 64, ' ');
    const uint64_t length = text.size();
    AtomicFile out(path);
    out.write(&length, 8);
    out.write(text.data(), text.size());
    for (const Item* item : order) out.write(item->bytes.data(), item->bytes.size());
    out.commit();
}

}  // namespace lc

// safetensors.h -- named tensors and text metadata in one file: weights, fitted calibrators, checkpoints.
//
//     SafetensorsWriter out;
//     out.metadata["schema"] = "localcal.calibrator/1";
//     out.add("w1", {64, 2048}, w1.data());
//     out.write("model.safetensors");                     atomic
//     Safetensors in = read_safetensors("model.safetensors");
//     const SafeTensor& w1 = in.at("w1");                 refuses a missing name, listing those that are there
//
// Format (huggingface.co/docs/safetensors): 8 bytes little-endian length N, N bytes of JSON, then the data:
//     {"__metadata__": {"key": "text"}, "name": {"dtype": "F32", "shape": [64, 8], "data_offsets": [begin, end]}, ...}
// Reads    F64 F32 F16 BF16 I64 I32 I16 I8 U64 U32 U16 U8 BOOL.
// Writes   F32 F64 I32 I64.  The data start at a multiple of 64 bytes and every tensor at a multiple of its type's
//          size: gaps are not allowed, so wide types come first, else in the order of add().
// Hostile  a header longer than the file or than 100 MB, offsets that overlap, leave gaps or end before or beyond the
//          file, a size that is not shape x dtype, names that repeat, JSON too deep: refused with one sentence.
#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "data/file.h"

namespace lc {

struct SafeTensor {
    std::string name, dtype;  // "F32"
    std::vector<int64_t> shape;
    std::span<const std::byte> bytes;
    std::string source;  // "model.safetensors: w1", for messages

    int64_t count() const;
    std::vector<float> to_floats() const;      // from any float dtype; F64 beyond the range of float is refused
    std::vector<double> to_doubles() const;    // from any dtype
    std::vector<int64_t> to_integers() const;  // from any integer dtype and BOOL
};

struct Safetensors {
    std::string path;
    std::map<std::string, std::string> metadata;
    std::vector<SafeTensor> tensors;   // in the order of their data
    std::shared_ptr<MappedFile> file;  // keeps the bytes alive

    const SafeTensor& at(const std::string& name) const;
    const SafeTensor& at(const std::string& name, const std::vector<int64_t>& shape) const;  // refuses another shape
    const SafeTensor* find(const std::string& name) const;
    const std::string& meta(const std::string& key) const;  // refuses a missing key
    int64_t meta_integer(const std::string& key) const;     // and a text that is no number
    double meta_number(const std::string& key) const;
};
Safetensors read_safetensors(const std::string& path);
// The same from memory, which must outlive the result unless `file` owns it.
Safetensors parse_safetensors(std::span<const std::byte> bytes, const std::string& path,
                              std::shared_ptr<MappedFile> file = nullptr);

class SafetensorsWriter {
  public:
    std::map<std::string, std::string> metadata;
    void set(const std::string& key, double number);  // metadata that reads back as the same number
    void add(const std::string& name, const std::vector<int64_t>& shape, const float* x);
    void add(const std::string& name, const std::vector<int64_t>& shape, const double* x);
    void add(const std::string& name, const std::vector<int64_t>& shape, const int32_t* x);
    void add(const std::string& name, const std::vector<int64_t>& shape, const int64_t* x);
    void write(const std::string& path) const;

  private:
    void add(const std::string& name, const char* dtype, const std::vector<int64_t>& shape, const void* x);
    struct Item {
        std::string name, dtype;
        std::vector<int64_t> shape;
        std::vector<std::byte> bytes;
    };
    std::vector<Item> items_;
};

}  // namespace lc

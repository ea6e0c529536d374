// npz.cpp -- several arrays in one file: .npz is a zip archive of .npy files (npy.h, zip.h).
#include "data/element.h"
#include "data/npy.h"
#include "data/zip.h"
#include "kernels/check.h"

namespace lc {

bool looks_like_zip(const MappedFile& file) { return looks_like_zip(file.bytes()); }

std::map<std::string, NpyArray> parse_npz(std::span<const std::byte> file, const std::string& source,
                                          std::shared_ptr<const void> keeps_alive) {
    std::map<std::string, NpyArray> arrays;
    for (const ZipEntry& entry : zip_entries(file, source)) {
        if (!entry.name.ends_with(".npy")) {
            refuse(source, "expected a .npz archive of .npy arrays, found '" + entry.name +
                               "' in it; write it with numpy.savez");
        }
        const std::string name = entry.name.substr(0, entry.name.size() - 4);
        ZipData data = unpack(file, entry, source);
        if (data.keeps_alive == nullptr) data.keeps_alive = keeps_alive;
        arrays[name] = parse_npy(data.bytes, source + ": " + name, std::move(data.keeps_alive));
    }
    return arrays;
}

std::map<std::string, NpyArray> read_npz(const std::string& path) {
    const auto file = std::make_shared<MappedFile>(path);
    return parse_npz(file->bytes(), path, file);
}

struct NpzWriter::Implementation {
    ZipWriter zip;

    void begin(const std::string& name, const std::string& descr, const std::vector<int64_t>& shape, int itemsize) {
        const int64_t count = count_of(shape.data(), shape.size());
        LC_CHECK(count >= 0, name << ": expected a shape whose product fits 64 bits; found " << shape_text(shape));
        const std::string header = npy_header(descr, shape);
        zip.begin(name + ".npy", header.size() + uint64_t(count) * uint64_t(itemsize));
        zip.append(header.data(), header.size());
    }
    void add(const std::string& name, const std::string& descr, const std::vector<int64_t>& shape, int itemsize,
             const void* x) {
        begin(name, descr, shape, itemsize);
        zip.append(x, size_t(count_of(shape.data(), shape.size()) * itemsize));
        zip.end();
    }
};

NpzWriter::NpzWriter(const std::string& path) : implementation_(new Implementation{ZipWriter(path)}) {}
NpzWriter::~NpzWriter() = default;

void NpzWriter::add(const std::string& name, const std::vector<int64_t>& shape, const float* x) {
    implementation_->add(name, "<f4", shape, 4, x);
}
void NpzWriter::add(const std::string& name, const std::vector<int64_t>& shape, const int64_t* x) {
    implementation_->add(name, "<i8", shape, 8, x);
}
void NpzWriter::begin(const std::string& name, const std::vector<int64_t>& shape) {
    implementation_->begin(name, "<f4", shape, 4);
}
void NpzWriter::append(const float* x, int64_t count) { implementation_->zip.append(x, size_t(count) * sizeof(float)); }
void NpzWriter::end() { implementation_->zip.end(); }
void NpzWriter::commit() { implementation_->zip.commit(); }

}  // namespace lc

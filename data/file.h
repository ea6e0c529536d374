// file.h -- reading and writing files so that nothing half-done is ever seen.
//
//     MappedFile in("features.npy");                  read-only view of the bytes; an empty file is an empty view
//     AtomicFile out("model.safetensors");            writes model.safetensors.<unique>.partial beside it
//     out.write(bytes, count);
//     out.commit();                                   flushed to disk, renamed; without commit() nothing stays behind
//
// A file that the user named and that cannot be opened, or holds what it should not, is an lc::Error (exit code 2) with
// the path, the reason and what to do.  A disk that fails or fills up while writing is a std::runtime_error (exit 1).
#pragma once
#include <cstddef>
#include <span>
#include <string>

namespace lc {

// Throws lc::Error("dump.npz: expected ..., found ...; what to do").
[[noreturn]] void refuse(const std::string& source, const std::string& sentence);

class MappedFile {
  public:
    explicit MappedFile(const std::string& path);
    ~MappedFile();
    MappedFile(MappedFile&& other) noexcept;
    MappedFile& operator=(MappedFile&& other) noexcept;
    const std::string& path() const { return path_; }
    std::span<const std::byte> bytes() const { return {data_, size_}; }

  private:
    std::string path_;
    const std::byte* data_ = nullptr;
    size_t size_ = 0;
};

class AtomicFile {
  public:
    explicit AtomicFile(const std::string& path);  // refuses folders and devices; a symbolic link is followed
    ~AtomicFile();
    AtomicFile(const AtomicFile&) = delete;
    AtomicFile& operator=(const AtomicFile&) = delete;
    void write(const void* bytes, size_t count);
    void write_at(size_t offset, const void* bytes, size_t count);  // over what was written before: headers known last
    void commit();

  private:
    [[noreturn]] void fail(const char* doing) const;
    void close_and_remove();

    std::string path_, partial_;
    int descriptor_ = -1;
};

}  // namespace lc

// zip.h -- the part of the zip format that .npz files (and PyTorch's .pth) use: stored and deflated entries, zip64.
//
//     [local header, name, data] ...  central directory: one record per entry  end record
//
// A reader starts at the end record and believes the central directory.  Entries of 4 GiB and more have their sizes and
// places in "zip64" extra fields, and a directory beyond 4 GiB has an end record of its own.
//
//     for (const ZipEntry& e : zip_entries(file.bytes(), file.path())) {
//         ZipData d = unpack(file.bytes(), e, file.path());
//     }
//
// Hostile  an entry that claims more than deflate can pack is refused before memory is asked for (inflate.h), and so
//          are entries that together claim more than the file has.  Every entry is checked against its CRC-32.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "data/file.h"

namespace lc {

struct ZipEntry {
    std::string name;
    bool deflated = false;
    uint32_t crc = 0;
    uint64_t packed_size = 0, size = 0;  // bytes in the file, bytes unpacked
    uint64_t local_header = 0;           // where it begins in the file
};

struct ZipData {
    std::span<const std::byte> bytes;
    std::shared_ptr<const void> keeps_alive;  // null where `bytes` lie in the archive itself (stored entries)
};

bool looks_like_zip(std::span<const std::byte> archive);
std::vector<ZipEntry> zip_entries(std::span<const std::byte> archive, const std::string& source);
ZipData unpack(std::span<const std::byte> archive, const ZipEntry& entry, const std::string& source);

// Stored entries whose data start at multiples of 64 bytes, so that a reader can map the file and use it in place.  The
// same calls write the same bytes: no dates, no owner.
class ZipWriter {
  public:
    static constexpr uint64_t kZip64 = 0xffffffff;                              // what 32 bits cannot say
    explicit ZipWriter(const std::string& path, uint64_t zip64_from = kZip64);  // tests need zip64 in small files
    void begin(const std::string& name, uint64_t size);
    void append(const void* bytes, size_t count);
    void end();
    void commit();

  private:
    void write(const std::string& bytes);

    AtomicFile file_;
    std::string path_;
    uint64_t zip64_from_, offset_ = 0, remaining_ = 0;
    bool open_ = false;
    std::vector<ZipEntry> entries_;
};

}  // namespace lc

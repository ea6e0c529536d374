// zip_writer.cpp -- stored entries, aligned, with zip64 where a number needs it (the format: zip.h).
#include <algorithm>
#include <zlib.h>

#include "data/zip.h"
#include "kernels/check.h"

namespace lc {

namespace {

constexpr uint64_t kAlignment = 64;
constexpr uint16_t kPadding = 0xd935;  // id of an extra field that only aligns; zipalign's, which readers pass over

template <class T>
void put(std::string& out, T value) {  // little endian
    out.append(reinterpret_cast<const char*>(&value), sizeof value);
}

uint32_t low(uint64_t value, bool zip64) { return zip64 ? uint32_t(ZipWriter::kZip64) : uint32_t(value); }

// What the two records of an entry have in common: version ... packed size, size, length of the name.
void put_common(std::string& out, const ZipEntry& e, bool zip64) {
    const bool ascii = std::none_of(e.name.begin(), e.name.end(), [](char c) { return c & 0x80; });
    put<uint16_t>(out, zip64 ? 45 : 20);      // version needed
    put<uint16_t>(out, ascii ? 0 : 1 << 11);  // bit 11: the name is UTF-8
    put<uint16_t>(out, 0);                    // stored
    put<uint32_t>(out, 0x00210000);           // 1 January 1980, midnight: the format's first moment
    put<uint32_t>(out, e.crc);
    put<uint32_t>(out, low(e.size, zip64));  // packed
    put<uint32_t>(out, low(e.size, zip64));
    put<uint16_t>(out, uint16_t(e.name.size()));
}

std::string local_header(const ZipEntry& e, bool zip64) {
    std::string out;
    put<uint32_t>(out, 0x04034b50);
    put_common(out, e, zip64);
    std::string extra;
    if (zip64) {
        put<uint16_t>(extra, 1);
        put<uint16_t>(extra, 16);
        put<uint64_t>(extra, e.size);
        put<uint64_t>(extra, e.size);
    }
    const uint64_t fixed = e.local_header + 30 + e.name.size() + extra.size() + 4;
    const uint64_t padding = (kAlignment - fixed % kAlignment) % kAlignment;
    put<uint16_t>(extra, kPadding);
    put<uint16_t>(extra, uint16_t(padding));
    extra.append(padding, '\0');
    put<uint16_t>(out, uint16_t(extra.size()));
    return out + e.name + extra;
}

std::string central_record(const ZipEntry& e, uint64_t zip64_from) {
    const bool zip64 = e.size >= zip64_from || e.local_header >= zip64_from;
    std::string out;
    put<uint32_t>(out, 0x02014b50);
    put<uint16_t>(out, 3 << 8 | 45);  // made by: Unix, version 4.5
    put_common(out, e, zip64);
    put<uint16_t>(out, zip64 ? 4 + 3 * 8 : 0);  // extra field
    put<uint16_t>(out, 0);                      // comment
    put<uint16_t>(out, 0);                      // disk
    put<uint16_t>(out, 0);                      // internal attributes
    put<uint32_t>(out, 0100644u << 16);         // a file, -rw-r--r--
    put<uint32_t>(out, low(e.local_header, zip64));
    out += e.name;
    if (!zip64) return out;
    put<uint16_t>(out, 1);
    put<uint16_t>(out, 3 * 8);
    put<uint64_t>(out, e.size);
    put<uint64_t>(out, e.size);
    put<uint64_t>(out, e.local_header);
    return out;
}

std::string end_records(uint64_t entries, uint64_t directory, uint64_t size, uint64_t zip64_from) {
    const bool zip64 = entries >= 0xffff || directory >= zip64_from || size >= zip64_from;
    std::string out;
    if (zip64) {
        put<uint32_t>(out, 0x06064b50);
        put<uint64_t>(out, 44);  // bytes after this
        put<uint16_t>(out, 3 << 8 | 45);
        put<uint16_t>(out, 45);
        put<uint64_t>(out, 0);  // this disk, disk of the directory
        put<uint64_t>(out, entries);
        put<uint64_t>(out, entries);
        put<uint64_t>(out, size);
        put<uint64_t>(out, directory);
        put<uint32_t>(out, 0x07064b50);  // where the record above is
        put<uint32_t>(out, 0);
        put<uint64_t>(out, directory + size);
        put<uint32_t>(out, 1);
    }
    put<uint32_t>(out, 0x06054b50);
    put<uint32_t>(out, 0);
    for (int i = 0; i < 2; ++i) put<uint16_t>(out, zip64 ? 0xffff : uint16_t(entries));
    put<uint32_t>(out, low(size, zip64));
    put<uint32_t>(out, low(directory, zip64));
    put<uint16_t>(out, 0);
    return out;
}

}  // namespace

ZipWriter::ZipWriter(const std::string& path, uint64_t zip64_from)
    : file_(path), path_(path), zip64_from_(zip64_from) {}

void ZipWriter::write(const std::string& bytes) {
    file_.write(bytes.data(), bytes.size());
    offset_ += bytes.size();
}

void ZipWriter::begin(const std::string& name, uint64_t size) {
    LC_CHECK(!open_, path_ << ": end '" << entries_.back().name << "' before '" << name << "' begins");
    LC_CHECK(!name.empty() && name.size() < 60000, path_ << ": a name has 1 to 59999 bytes, found " << name.size());
    for (const ZipEntry& e : entries_) LC_CHECK(e.name != name, path_ << ": give '" << name << "' once");
    ZipEntry e;
    e.name = name;
    e.packed_size = e.size = remaining_ = size;
    e.local_header = offset_;
    entries_.push_back(e);
    write(local_header(e, size >= zip64_from_));
    open_ = true;
}

void ZipWriter::append(const void* bytes, size_t count) {
    LC_CHECK(open_ && count <= remaining_, path_ << ": append what begin() said, " << remaining_ << " bytes are left");
    if (count == 0) return;  // crc32 takes a null pointer for "start again"
    file_.write(bytes, count);
    ZipEntry& e = entries_.back();
    e.crc = uint32_t(crc32_z(e.crc, static_cast<const Bytef*>(bytes), count));
    offset_ += count;
    remaining_ -= count;
}

void ZipWriter::end() {
    LC_CHECK(open_ && remaining_ == 0, path_ << ": append " << remaining_ << " more bytes before end()");
    const std::string header = local_header(entries_.back(), entries_.back().size >= zip64_from_);
    file_.write_at(entries_.back().local_header, header.data(), header.size());  // the checksum is known now
    open_ = false;
}

void ZipWriter::commit() {
    LC_CHECK(!open_, path_ << ": end '" << entries_.back().name << "' before commit()");
    const uint64_t directory = offset_;
    for (const ZipEntry& e : entries_) write(central_record(e, zip64_from_));
    write(end_records(entries_.size(), directory, offset_ - directory, zip64_from_));
    file_.commit();
}

}  // namespace lc

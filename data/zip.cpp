// zip.cpp -- reading: end record, central directory, one entry.  Writing is in zip_writer.cpp; the format is described
// in PKWARE's APPNOTE.TXT.
#include "data/zip.h"

#include <algorithm>
#include <cstring>
#include <set>
#include <zlib.h>

#include "data/inflate.h"

namespace lc {

namespace {

using Bytes = std::span<const std::byte>;

constexpr uint32_t kLocal = 0x04034b50, kCentral = 0x02014b50, kEnd = 0x06054b50, kEnd64 = 0x06064b50,
                   kLocator64 = 0x07064b50;
constexpr size_t kLocalSize = 30, kCentralSize = 46, kEndSize = 22, kEnd64Size = 56, kLocator64Size = 20;

template <class T>
T load(Bytes bytes, size_t offset) {  // little endian; the caller has checked the bounds
    T value;
    std::memcpy(&value, bytes.data() + offset, sizeof value);
    return value;
}

// `size` bytes at `offset`, or a refusal: all offsets in a zip file come from the file itself.
Bytes part(Bytes archive, uint64_t offset, uint64_t size, const std::string& source) {
    if (offset > archive.size() || size > archive.size() - offset) {
        refuse(source, "expected " + std::to_string(size) + " bytes of the zip archive at " + std::to_string(offset) +
                           ", found the file's end at " + std::to_string(archive.size()) +
                           "; the file is damaged or cut short: copy it again");
    }
    return archive.subspan(offset, size);
}

[[noreturn]] void damaged(const std::string& source, const std::string& what) {
    refuse(source, "the zip archive is damaged: " + what + "; copy the file again");
}

size_t find_end_record(Bytes archive, const std::string& source) {  // it ends with a comment of up to 65535 bytes
    if (archive.size() >= kEndSize) {
        const size_t last = archive.size() - kEndSize, first = last - std::min<size_t>(last, 65535);
        for (size_t at = last + 1; at-- > first;) {
            if (load<uint32_t>(archive, at) == kEnd && load<uint16_t>(archive, at + 20) == last - at) return at;
        }
    }
    refuse(source, "expected a zip archive, found no end record; the file is cut short: copy it again");
}

struct Directory {
    uint64_t entries, size, offset;
};

Directory find_directory(Bytes archive, const std::string& source) {
    const size_t end = find_end_record(archive, source);
    const Bytes record = archive.subspan(end, kEndSize);
    const bool has_locator = end >= kLocator64Size && load<uint32_t>(archive, end - kLocator64Size) == kLocator64;
    if (!has_locator) {
        if (load<uint16_t>(record, 4) != 0) damaged(source, "it is one part of several");
        return {load<uint16_t>(record, 10), load<uint32_t>(record, 12), load<uint32_t>(record, 16)};
    }
    const Bytes end64 = part(archive, load<uint64_t>(archive, end - kLocator64Size + 8), kEnd64Size, source);
    if (load<uint32_t>(end64, 0) != kEnd64) damaged(source, "its zip64 end record is not where it should be");
    return {load<uint64_t>(end64, 32), load<uint64_t>(end64, 40), load<uint64_t>(end64, 48)};
}

// The extra field holds those of size, packed size and offset that are 0xffffffff in the record, in this order.
void read_zip64(Bytes extra, ZipEntry& e, const std::string& source) {
    uint64_t* const wanted[] = {&e.size, &e.packed_size, &e.local_header};
    while (extra.size() >= 4) {
        const size_t id = load<uint16_t>(extra, 0), size = load<uint16_t>(extra, 2);
        if (size > extra.size() - 4) damaged(source, "an extra field is longer than its record");
        Bytes field = extra.subspan(4, size);
        extra = extra.subspan(4 + size);
        if (id != 1) continue;
        for (uint64_t* value : wanted) {
            if (*value != ZipWriter::kZip64) continue;
            if (field.size() < 8) damaged(source, "a zip64 field is too short");
            *value = load<uint64_t>(field, 0);
            field = field.subspan(8);
        }
    }
}

ZipEntry read_record(Bytes record, size_t name_size, size_t extra_size, const std::string& source) {
    ZipEntry e;
    e.name.assign(reinterpret_cast<const char*>(record.data()) + kCentralSize, name_size);
    const uint16_t flags = load<uint16_t>(record, 8), method = load<uint16_t>(record, 10);
    if (flags & 1) refuse(source, "'" + e.name + "' is encrypted; write the file without a password");
    if (method != 0 && method != 8) {
        refuse(source, "expected '" + e.name + "' stored or deflated (0 or 8), found compression method " +
                           std::to_string(method) + "; write it with numpy.savez, or torch.save for weights");
    }
    e.deflated = method == 8;
    e.crc = load<uint32_t>(record, 16);
    e.packed_size = load<uint32_t>(record, 20);
    e.size = load<uint32_t>(record, 24);
    e.local_header = load<uint32_t>(record, 42);
    read_zip64(record.subspan(kCentralSize + name_size, extra_size), e, source);
    return e;
}

}  // namespace

bool looks_like_zip(Bytes archive) {
    if (archive.size() < 4) return false;
    const uint32_t signature = load<uint32_t>(archive, 0);
    return signature == kLocal || signature == kEnd;  // the latter: an archive without entries
}

std::vector<ZipEntry> zip_entries(Bytes archive, const std::string& source) {
    const Directory directory = find_directory(archive, source);
    Bytes rest = part(archive, directory.offset, directory.size, source);
    std::vector<ZipEntry> entries;
    std::set<std::string> names;
    uint64_t unclaimed = archive.size();
    for (uint64_t i = 0; i < directory.entries; ++i) {
        if (rest.size() < kCentralSize || load<uint32_t>(rest, 0) != kCentral) {
            damaged(source, "its directory lists " + std::to_string(i) + " entries, not the " +
                                std::to_string(directory.entries) + " that it claims");
        }
        const size_t name = load<uint16_t>(rest, 28), extra = load<uint16_t>(rest, 30);
        const size_t size = kCentralSize + name + extra + load<uint16_t>(rest, 32);  // the last: a comment
        entries.push_back(read_record(part(rest, 0, size, source), name, extra, source));
        rest = rest.subspan(size);
        const ZipEntry& e = entries.back();
        if (!names.insert(e.name).second) refuse(source, "expected every name once, found '" + e.name + "' twice");
        if (e.packed_size > unclaimed) damaged(source, "its entries claim more bytes than the file has");
        unclaimed -= e.packed_size;
    }
    return entries;
}

ZipData unpack(Bytes archive, const ZipEntry& e, const std::string& source) {
    const std::string where = source + ": " + e.name;
    const Bytes header = part(archive, e.local_header, kLocalSize, where);
    if (load<uint32_t>(header, 0) != kLocal) damaged(where, "there is no entry where the directory says");
    // The name and the extra field may differ in length from those in the directory; only here is where the data start.
    const uint64_t start =
        e.local_header + kLocalSize + load<uint16_t>(header, 26) + uint64_t(load<uint16_t>(header, 28));
    const Bytes packed = part(archive, start, e.packed_size, where);
    ZipData data = {packed, nullptr};
    if (e.deflated) {
        std::shared_ptr<std::byte[]> out = inflate_all(packed, e.size, Wrapping::none, where, damaged);
        data = {{out.get(), e.size}, out};
    } else if (e.size != e.packed_size) {
        damaged(where, "it is stored but claims two sizes");
    }
    const uLong crc = crc32_z(0, reinterpret_cast<const Bytef*>(data.bytes.data()), data.bytes.size());
    if (crc != e.crc) damaged(where, "its checksum does not match");
    return data;
}

}  // namespace lc

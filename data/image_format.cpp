// image_format.cpp -- see image_format.h.
#include "data/image_format.h"

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <zlib.h>

#include "data/file.h"

namespace lc {
namespace {

using Bytes = std::span<const std::byte>;

bool begins_with(Bytes file, std::string_view magic) {
    return file.size() >= magic.size() && std::memcmp(file.data(), magic.data(), magic.size()) == 0;
}

// Reads a file from front to back; what lies beyond its end refuses it.
class Walk {
  public:
    Walk(Bytes file, const std::string& source, const char* format) : rest_(file), source_(source), format_(format) {}

    [[noreturn]] void damaged(const std::string& why) const {
        refuse(source_, std::string("expected a whole ") + format_ + " file, found that " + why +
                            "; it is damaged: copy it again or leave it out");
    }
    Bytes take(uint64_t count) {
        if (count > rest_.size()) damaged("it is cut short");
        const Bytes taken = rest_.first(size_t(count));
        rest_ = rest_.subspan(size_t(count));
        return taken;
    }
    uint8_t byte() { return uint8_t(take(1)[0]); }
    uint32_t big(int count) {
        uint32_t x = 0;
        for (const std::byte b : take(uint64_t(count))) x = x << 8 | uint32_t(b);
        return x;
    }
    uint32_t little(int count) {
        uint32_t x = 0;
        const Bytes taken = take(uint64_t(count));
        for (int i = count; i-- > 0;) x = x << 8 | uint32_t(taken[size_t(i)]);
        return x;
    }

  private:
    Bytes rest_;
    std::string source_;
    const char* format_;
};

// The next 0xff with something behind it that is neither a stuffed 0, a restart marker, nor a fill byte: those are in
// the midst of packed data.  Bytes before it that belong nowhere are passed over, as every decoder does.
uint8_t next_marker(Walk& w) {
    for (;;) {
        if (w.byte() != 0xff) continue;
        uint8_t marker = w.byte();
        while (marker == 0xff) marker = w.byte();
        if (marker != 0 && !(marker >= 0xd0 && marker <= 0xd7)) return marker;
    }
}

// A table of codes: a byte, how many codes there are of each of 16 lengths, a byte per code.  stb 2.27, which Debian 12
// has, writes beyond its memory where there are more than 256.
void check_codes(const Walk& w, Bytes tables) {
    while (!tables.empty()) {
        size_t size = 17;
        for (size_t i = 1; i < 17 && i < tables.size(); ++i) size += size_t(tables[i]);
        if (size > 17 + 256 || size > tables.size()) w.damaged("it has more codes than there can be");
        tables = tables.subspan(size);
    }
}

void check_jpeg(Walk w) {
    constexpr uint8_t kStartOfScan = 0xda, kCodes = 0xc4, kEnd = 0xd9;
    w.take(2);  // start of image
    bool scanned = false;
    for (uint8_t marker = next_marker(w); marker != kEnd; marker = next_marker(w)) {
        const uint32_t length = w.big(2);  // counts itself
        if (length < 2) w.damaged("a segment is shorter than its own length");
        const Bytes segment = w.take(length - 2);
        if (marker == kCodes) check_codes(w, segment);
        scanned |= marker == kStartOfScan;
    }
    if (!scanned) w.damaged("it has no picture in it");
}

// Deflate packs at most 1032 : 1, so the dimensions in the header say how long the file must at least be.
void check_png_size(Walk& w, Bytes header, size_t file_size) {
    Walk h(header, "", "PNG");
    if (header.size() != 13) w.damaged("its header has " + std::to_string(header.size()) + " bytes, not 13");
    const uint64_t width = h.big(4), height = h.big(4);
    const uint32_t depth = h.byte(), colour = h.byte();
    const uint64_t channels = colour == 2 ? 3 : colour == 4 ? 2 : colour == 6 ? 4 : 1;
    if (depth > 16 || width > INT32_MAX || height > INT32_MAX) w.damaged("its header makes no sense");
    const uint64_t row = (width * channels * depth + 7) / 8;  // < 2^31 * 4 * 16
    if (row > 0 && height > 1032 * uint64_t(file_size) / row) {
        w.damaged("it claims more pixels than its bytes can hold");
    }
}

void check_png(Walk w, size_t file_size) {
    w.take(8);  // magic
    for (bool first = true;; first = false) {
        const uint32_t length = w.big(4);
        const Bytes type = w.take(4), data = w.take(length);
        const std::string_view name(reinterpret_cast<const char*>(type.data()), 4);
        uint32_t sum = uint32_t(crc32(0, reinterpret_cast<const Bytef*>(type.data()), 4));
        if (length > 0) sum = uint32_t(crc32(sum, reinterpret_cast<const Bytef*>(data.data()), uInt(length)));
        const bool critical = (name[0] & 0x20) == 0;  // a capital letter; others do not change the pixels
        if (w.big(4) != sum && critical) w.damaged("a checksum is wrong");
        if (first && name == "IHDR") check_png_size(w, data, file_size);
        if (name == "IEND") return;
    }
}

void check_gif(Walk w) {
    const auto skip_table = [&w](uint8_t flags) { w.take((flags & 0x80) != 0 ? 3u << ((flags & 7) + 1) : 0); };
    const auto skip_blocks = [&w] {
        for (uint8_t size = w.byte(); size != 0; size = w.byte()) w.take(size);
    };
    w.take(6 + 4);  // magic, dimensions
    const uint8_t flags = w.byte();
    w.take(2);
    skip_table(flags);
    for (;;) {
        constexpr uint8_t kExtension = '!', kFrame = ',';
        const uint8_t kind = w.byte();
        if (kind != kExtension && kind != kFrame) w.damaged("it has no picture in it");
        w.take(kind == kExtension ? 1 : 8);  // what extension; where the frame lies
        if (kind == kFrame) {
            skip_table(w.byte());
            w.take(1);  // size of the first codes
        }
        skip_blocks();
        if (kind == kFrame) return;
    }
}

void check_bmp(Walk w, uint64_t file_size) {
    w.take(10);  // magic, size and reserved bytes, which writers do not agree about
    const uint64_t offset = w.little(4);
    const uint32_t header = w.little(4);
    const bool old = header == 12;
    const int64_t width = old ? w.little(2) : int32_t(w.little(4));
    const int64_t height = old ? w.little(2) : std::abs(int64_t(int32_t(w.little(4))));  // negative: top row first
    w.take(2);
    const int64_t bits = w.little(2);
    if (!old && w.little(4) % 3 != 0) w.damaged("it is packed, which is not read");  // 0 and 3 are plain
    if (width < 1 || height < 1 || bits > 32) w.damaged("its header makes no sense");
    const uint64_t row = uint64_t(width * bits + 31) / 32 * 4;
    if (offset + row * uint64_t(height) > file_size) w.damaged("it is cut short");  // < 2^33 * 2^31
}

}  // namespace

ImageFormat image_format(Bytes file) {
    if (begins_with(file, "\xff\xd8\xff")) return ImageFormat::jpeg;
    if (begins_with(file, "\x89PNG\r\n\x1a\n")) return ImageFormat::png;
    if (begins_with(file, "GIF87a") || begins_with(file, "GIF89a")) return ImageFormat::gif;
    if (begins_with(file, "BM")) return ImageFormat::bmp;
    if (begins_with(file, "P5") || begins_with(file, "P6")) return ImageFormat::pnm;
    return ImageFormat::other;
}

void check_whole_image(ImageFormat format, Bytes file, const std::string& source) {
    if (format == ImageFormat::jpeg) check_jpeg({file, source, "JPEG"});
    if (format == ImageFormat::png) check_png({file, source, "PNG"}, file.size());
    if (format == ImageFormat::gif) check_gif({file, source, "GIF"});
    if (format == ImageFormat::bmp) check_bmp({file, source, "BMP"}, file.size());
}

}  // namespace lc

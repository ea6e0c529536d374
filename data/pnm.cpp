// pnm.cpp -- see pnm.h.
#include "data/pnm.h"

#include <cctype>
#include <string_view>

#include "data/file.h"

namespace lc {
namespace {

// The number that `text` begins with, behind white space and comments; takes it away.  -1 where there is none.
int64_t take_number(std::string_view& text) {
    while (!text.empty() && (std::isspace(static_cast<unsigned char>(text[0])) || text[0] == '#')) {
        const size_t end = text[0] == '#' ? text.find('\n') : 0;
        text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    }
    int64_t number = -1;
    for (; !text.empty() && std::isdigit(static_cast<unsigned char>(text[0])); text.remove_prefix(1)) {
        number = 10 * (number < 0 ? 0 : number) + (text[0] - '0');
        if (number > INT32_MAX) return -1;
    }
    return number;
}

}  // namespace

Image parse_pnm(std::span<const std::byte> file, const std::string& source) {
    std::string_view text(reinterpret_cast<const char*>(file.data()), file.size());
    const int64_t channels = text.starts_with("P6") ? 3 : 1;
    text.remove_prefix(2);
    const int64_t width = take_number(text), height = take_number(text), levels = take_number(text);
    if (width < 1 || height < 1 || levels != 255 || text.empty()) {
        refuse(source, "expected a PGM or PPM header of width, height and 255, found another; save it as PNG");
    }
    text.remove_prefix(1);
    const uint64_t there = text.size(), row = uint64_t(width * channels);
    if (uint64_t(height) > there / row) {
        refuse(source, "expected " + std::to_string(height) + " rows of " + std::to_string(row) + " bytes, found " +
                           std::to_string(there) + " bytes in all; the file is cut short: copy it again");
    }
    Image image = {height, width, std::vector<uint8_t>(size_t(height * width * 3))};
    for (size_t i = 0; i < image.pixels.size(); ++i) image.pixels[i] = uint8_t(text[channels == 3 ? i : i / 3]);
    return image;
}

}  // namespace lc

// fuzz_image.cpp -- libFuzzer target: bytes are refused with lc::Error, or decode to as many pixels as they claim, and to the
// same ones every time.
#include <cstdio>
#include <cstdlib>
#include <vector>
#include <zlib.h>

#include "data/decode.h"
#include "data/image_format.h"
#include "kernels/check.h"

namespace {

void demand(bool condition, const char* what) {
    if (condition) return;
    std::fprintf(stderr, "fuzz_image: %s\n", what);
    std::abort();
}

// A mutation never gets the checksums of a PNG right, and would show nothing behind them: set them right.
void mend_png(std::vector<uint8_t>& file) {
    for (size_t at = 8; file.size() - at >= 12;) {
        const size_t length = size_t(file[at]) << 24 | file[at + 1] << 16 | file[at + 2] << 8 | file[at + 3];
        if (length > file.size() - at - 12) return;
        const uint32_t sum = uint32_t(crc32(0, &file[at + 4], uInt(4 + length)));
        for (size_t i = 0; i < 4; ++i) file[at + 8 + length + i] = uint8_t(sum >> (24 - 8 * i));
        at += 12 + length;
    }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    constexpr int64_t kMost = 1 << 16;  // larger images take longer and show nothing else
    std::vector<uint8_t> bytes(data, data + size);
    const std::span<const std::byte> file = std::as_bytes(std::span(bytes));
    if (lc::image_format(file) == lc::ImageFormat::png) mend_png(bytes);
    lc::Image image;
    try {
        image = lc::decode_image(file, "fuzz", kMost);
    } catch (const lc::Error&) {
        return 0;
    }
    demand(image.height >= 1 && image.width >= 1 && image.height * image.width <= kMost, "dimensions out of bounds");
    demand(int64_t(image.pixels.size()) == image.height * image.width * 3, "pixels do not fill the dimensions");
    demand(image.pixels == lc::decode_image(file, "fuzz", kMost).pixels, "the same file gives two pictures");
    return 0;
}

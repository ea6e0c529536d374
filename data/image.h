// image.h -- a picture in memory: bytes from 0 to 255, red, green and blue beside each other.
#pragma once
#include <cstdint>
#include <vector>

namespace lc {

struct Image {
    int64_t height = 0, width = 0;
    std::vector<uint8_t> pixels;  // (height, width, 3), RGB
};

}  // namespace lc

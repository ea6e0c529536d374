// decode_stb.cpp -- stb_image behind decode.h: the only file that knows it, and where its code is compiled.
#include <climits>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "data/decode.h"
#include "data/file.h"

// Damaged files leave parts of a picture unwritten: zeros are the same every time, what malloc finds is not.
#define STBI_MALLOC(size)           std::calloc(1, size)
#define STBI_REALLOC(pointer, size) std::realloc(pointer, size)
#define STBI_FREE(pointer)          std::free(pointer)
// Damaged files fail two of its assertions (a code that belongs to another symbol, a BMP mask with gaps), which end in
// wrong pixels and nothing worse; a program must not abort over them.
#define STBI_ASSERT(condition) static_cast<void>(0)
#define STB_IMAGE_IMPLEMENTATION
#define STB_IMAGE_STATIC
#define STBI_ONLY_JPEG
#define STBI_ONLY_PNG
#define STBI_ONLY_BMP
#define STBI_ONLY_GIF
#define STBI_NO_STDIO
#define STBI_NO_LINEAR
#define STBI_NO_FAILURE_STRINGS  // reasons in words for programmers; none of them tells a user more than "damaged"
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wall"
#pragma GCC diagnostic ignored "-Wextra"
#pragma GCC diagnostic ignored "-Wunused-function"
#ifdef __clang__  // sums and shifts of damaged coefficients overflow into wrong pixels; memory is still watched
    #pragma clang attribute push(__attribute__((no_sanitize("shift", "signed-integer-overflow"))), apply_to = function)
#else
    #pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif
#include <stb/stb_image.h>
#ifdef __clang__
    #pragma clang attribute pop
#endif
#pragma GCC diagnostic pop

namespace lc {

Image decode_by_stb(std::span<const std::byte> file, const std::string& source, int64_t most_pixels) {
    const auto* bytes = reinterpret_cast<const stbi_uc*>(file.data());
    const int size = int(file.size());
    int width = 0, height = 0, channels = 0;
    const bool known = file.size() <= INT_MAX && stbi_info_from_memory(bytes, size, &width, &height, &channels) == 1;
    if (known) check_pixels(height, width, most_pixels, source);
    const std::unique_ptr<stbi_uc, decltype(&std::free)> rgb(
        known ? stbi_load_from_memory(bytes, size, &width, &height, &channels, 3) : nullptr, &std::free);
    if (rgb == nullptr) {
        refuse(source,
               "expected an image that stb_image can decode, found one that is damaged or of a rare kind; save "
               "it again, for example as PNG, or leave it out");
    }
    Image image = {height, width, std::vector<uint8_t>(size_t(height) * size_t(width) * 3)};
    std::memcpy(image.pixels.data(), rgb.get(), image.pixels.size());
    return image;
}

}  // namespace lc

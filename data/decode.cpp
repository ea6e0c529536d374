// decode.cpp -- see decode.h.
#include "data/decode.h"

#include "data/file.h"
#include "data/image_format.h"
#include "data/pnm.h"

namespace lc {

Decoder opencv_decoder = nullptr;

void check_pixels(int64_t height, int64_t width, int64_t most_pixels, const std::string& source) {
    if (height >= 1 && width >= 1 && width <= most_pixels / height) return;
    refuse(source, "expected an image of 1 to " + std::to_string(most_pixels) + " pixels, found " +
                       std::to_string(width) + " x " + std::to_string(height) + "; make it smaller or leave it out");
}

Image decode_image(std::span<const std::byte> file, const std::string& source, int64_t most_pixels) {
    const ImageFormat format = image_format(file);
    Image image;
    if (format == ImageFormat::pnm) {
        image = parse_pnm(file, source);
    } else if (format != ImageFormat::other) {
        check_whole_image(format, file, source);
        image = decode_by_stb(file, source, most_pixels);
    } else if (opencv_decoder != nullptr) {
        image = opencv_decoder(file, source);
    } else {
        refuse(source,
               "expected a JPEG, PNG, BMP, GIF, PGM or PPM image, found " +
                   std::string(file.empty() ? "an empty file" : "something else") +
                   "; leave it out, or where it is WebP or TIFF, run `third_party/install full` and build again");
    }
    check_pixels(image.height, image.width, most_pixels, source);
    return image;
}

Image read_image(const std::string& path) {
    const MappedFile file(path);
    return decode_image(file.bytes(), path);
}

}  // namespace lc

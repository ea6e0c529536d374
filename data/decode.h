// decode.h -- image files to pixels.
//
//     Image photo = read_image("china.jpg");
//
// The first bytes decide, never the name: JPEG, PNG, BMP and the first frame of GIF are decoded by stb_image, PGM and PPM
// by pnm.h, everything else (WebP, TIFF, ...) by OpenCV in programs that are linked with decode_opencv.cpp.  So what
// both could decode comes out the same with and without OpenCV.
//
// Pixels   RGB; grey is copied to three channels, transparency is dropped, 16 bits become 8.  The orientation that a
//          camera notes in EXIF is not applied: PIL's convert("RGB") does not either, and networks were trained so.
// Exact    PNG, BMP, GIF and PNM.  JPEG decoders round differently: PIL and OpenCV (libjpeg-turbo) differ by 3 levels at
//          most and 0.03 on average from what stb makes of photographs.
// Hostile  files that are cut short (image_format.h) and images of more pixels than `most_pixels` are refused before
//          memory is allocated for them; in formats left to OpenCV its own limit, 2^30, holds before and ours after.
#pragma once
#include <cstddef>
#include <span>
#include <string>

#include "data/image.h"

namespace lc {

constexpr int64_t kMostPixels = int64_t(64) << 20;

Image read_image(const std::string& path);
Image decode_image(std::span<const std::byte> file, const std::string& source, int64_t most_pixels = kMostPixels);

// stb alone; the file is known to be whole.
Image decode_by_stb(std::span<const std::byte> file, const std::string& source, int64_t most_pixels);

// For what no other decoder here knows; null in programs without OpenCV.  decode_opencv.cpp sets it before main().
using Decoder = Image (*)(std::span<const std::byte> file, const std::string& source);
extern Decoder opencv_decoder;

void check_pixels(int64_t height, int64_t width, int64_t most_pixels, const std::string& source);

}  // namespace lc

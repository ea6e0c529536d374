// image_format.h -- which image format a file has, by its first bytes, and whether it is whole.
//
// Decoders are lenient: a JPEG, BMP or GIF that was cut short comes out as a picture that is grey or black from somewhere
// on, and stb checks no checksums.  A network would take that for the real thing, so the files are walked through first:
//
//     JPEG    segments up to the end marker, with at least one scan         PNG    chunks up to IEND, their checksums,
//     GIF     blocks up to the end of the first frame                              no more pixels than deflate can pack
//     BMP     all rows are in the file; not packed (RLE)
#pragma once
#include <cstddef>
#include <span>
#include <string>

namespace lc {

enum class ImageFormat { jpeg, png, gif, bmp, pnm, other };

ImageFormat image_format(std::span<const std::byte> file);

// Refuses with one sentence; pnm.h and other decoders look for themselves.
void check_whole_image(ImageFormat format, std::span<const std::byte> file, const std::string& source);

}  // namespace lc

// pnm.h -- binary PGM (P5, grey) and PPM (P6, colour) of 255 levels, the plainest image files there are.
//
// Format   P5 or P6, width, height and 255, apart by white space and #-comments; one white space; the bytes, row by row.
// Hostile  more pixels claimed than bytes are there is refused before anything is allocated.
#pragma once
#include <cstddef>
#include <span>
#include <string>

#include "data/image.h"

namespace lc {

Image parse_pnm(std::span<const std::byte> file, const std::string& source);

}  // namespace lc

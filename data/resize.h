// resize.h -- images made larger and smaller as PIL and torchvision do it, bit for bit.
//
//     Image x = resize_bilinear(image, 224, 224);                         Image.resize((224, 224), BILINEAR)
//     Image y = center_crop(resize_shorter_side(image, 256), 224, 224);   Resize(256), CenterCrop(224): ImageNet's way
//
// Bilinear here is a triangle of weights around the centre of an output pixel.  It reaches one input pixel far where
// images grow, and as far as an output pixel is wide where they shrink: antialiased, unlike OpenCV's and PyTorch's default.
//
//     out[x] = ( sum over i of w[i] in[i] + 2^21 ) >> 22     w[i] = round(2^22 t_i / sum t),  t_i = 1 - |i + 1/2 - c| / s
//     c = (x + 1/2) in_size/out_size,   s = max(1, in_size/out_size),   i with |i + 1/2 - c| < s
//
// Rows first, then columns, with bytes between the two.  A side that keeps its length is left as it is.  That is Pillow up to
// version 12, which the networks' images went through; version 13 takes columns first where the height shrinks much more
// than the width, and there its bytes differ by 1 at most.
#pragma once
#include "data/image.h"

namespace lc {

Image resize_bilinear(const Image& image, int64_t height, int64_t width);

// The shorter side gets this length, the other one keeps the proportion, rounded down.
Image resize_shorter_side(const Image& image, int64_t side);

// The middle; where the border is odd, its half is rounded to the even number, as Python does.
Image center_crop(const Image& image, int64_t height, int64_t width);

}  // namespace lc

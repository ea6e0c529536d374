#!/usr/bin/env python3
"""Writes tests/golden/resize.h: what Pillow makes of generated images.  usage: tests/golden/resize.py  (Pillow below 13: resize.h)

An image is made from its sizes alone, the same here and in tests/test_resize.cpp.  Of a result there are FNV-1a of all bytes
and the middle row's first pixels, so that a difference can be seen and not only known.
"""
import pathlib

import numpy as np
import PIL
from PIL import Image

SIZES = [  # height, width -> height, width
    (32, 32, 224, 224), (32, 32, 64, 64), (28, 28, 64, 64), (28, 28, 224, 224), (64, 64, 32, 32), (427, 640, 224, 224),
    (427, 640, 256, 383), (224, 224, 224, 224), (32, 32, 32, 64), (32, 32, 64, 32), (37, 53, 19, 71), (101, 7, 13, 29), (5, 3, 4, 2),
    (1, 1, 1, 1), (1, 1, 5, 7), (1, 9, 3, 3), (9, 1, 3, 3), (40, 40, 1, 1), (3, 2000, 3, 1), (2, 2, 3, 3), (7, 5, 7, 1), (13, 17, 12, 16),
]
SHORTER = [(427, 640, 256, 224), (640, 427, 232, 224), (32, 32, 256, 224), (300, 301, 64, 57), (53, 37, 40, 33)]
KEPT = 5  # pixels of the middle row


def picture(height, width):
    y, x, c = np.mgrid[0:height, 0:width, 0:3].astype(np.uint64)
    noise = ((y * 2654435761 + x * 40503 + c * 69069 + height * 31 + width) * 2246822519 % 2**32) >> 24
    smooth = (3 * x + 5 * y + 85 * c) % 256
    return np.where((y // 8 + x // 8) % 2 == 0, noise, smooth).astype(np.uint8)


def fnv(data):
    h = 0xCBF29CE484222325
    for b in data:
        h = (h ^ b) * 0x100000001B3 % 2**64
    return h


def entry(sizes, result):
    row = result[result.shape[0] // 2, :KEPT].ravel().tolist()
    return f"    {{{', '.join(map(str, sizes))}, 0x{fnv(result.tobytes()):016x}u, {{{', '.join(map(str, row))}}}}},\n"


def stretched(height, width, to_height, to_width):
    image = Image.fromarray(picture(height, width))
    return np.asarray(image.resize((to_width, to_height), Image.Resampling.BILINEAR))


def cropped(height, width, side, crop):
    """What torchvision's Resize(side) and CenterCrop(crop) do to a PIL image."""
    short, long = min(height, width), max(height, width)
    other = int(side * long / short)
    x = stretched(height, width, *((other, side) if width <= height else (side, other)))
    top, left = (int(round((n - crop) / 2.0)) for n in x.shape[:2])
    return x[top:top + crop, left:left + crop]


def main():
    out = f"// resize.h -- made by tests/golden/resize.py with Pillow {PIL.__version__}.\n#pragma once\n#include <cstdint>\n#include <vector>\n\n"
    out += "namespace golden {\n\nstruct Resized {\n    int64_t height, width, a, b;  // b: the width, or what is cut out\n"
    out += "    uint64_t hash;                // FNV-1a\n    std::vector<int> middle_row;  // its first pixels\n};\n\n"
    for name, sizes, function in (("kStretched", SIZES, stretched), ("kCropped", SHORTER, cropped)):
        out += f"const std::vector<Resized> {name} = {{\n" + "".join(entry(s, function(*s)) for s in sizes) + "};\n\n"
    pathlib.Path(__file__).with_suffix(".h").write_text(out + "}  // namespace golden\n")


if __name__ == "__main__":
    main()

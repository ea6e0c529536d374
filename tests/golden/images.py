#!/usr/bin/env python3
"""Writes tests/golden/images.h: small image files by Pillow, and what its convert("RGB") gives.  usage: tests/golden/images.py

Bytes are in hexadecimal.  Files of one picture without loss share their pixels, so that little is written.
"""
import io
import pathlib

import numpy as np
import PIL
from PIL import Image

HEIGHT, WIDTH = 11, 13


def picture():
    y, x = np.mgrid[0:HEIGHT, 0:WIDTH]
    smooth = np.stack([20 * x, 23 * y, 9 * (x + y)], axis=2)
    smooth[4:8, 5:10] = (200, 30, 60)  # an edge, for the chroma
    return Image.fromarray(smooth.astype(np.uint8))


def files():
    rgb = picture()
    grey = rgb.convert("L")
    half = Image.fromarray(np.full((HEIGHT, WIDTH), 77, np.uint8))
    rotated = Image.Exif()
    rotated[0x0112] = 6
    yield "jpeg_444", rgb, "JPEG", {"quality": 90, "subsampling": 0}
    yield "jpeg_420", rgb, "JPEG", {"quality": 90, "subsampling": 2}
    yield "jpeg_progressive", rgb, "JPEG", {"quality": 90, "progressive": True}
    yield "jpeg_restarts", rgb, "JPEG", {"quality": 90, "restart_marker_blocks": 1}
    yield "jpeg_grey", grey, "JPEG", {"quality": 90}
    yield "jpeg_cmyk", rgb.convert("CMYK"), "JPEG", {"quality": 95}
    yield "jpeg_on_its_side", rgb, "JPEG", {"quality": 90, "subsampling": 0, "exif": rotated}
    yield "png", rgb, "PNG", {}
    yield "png_alpha", Image.merge("RGBA", (*rgb.split(), half)), "PNG", {}
    yield "png_grey", grey, "PNG", {}
    yield "png_grey_alpha", Image.merge("LA", (grey, half)), "PNG", {}
    yield "png_palette", rgb.quantize(16), "PNG", {}
    yield "png_two_colours", grey.convert("1"), "PNG", {}
    yield "gif", rgb.quantize(32), "GIF", {}
    yield "gif_frames", rgb.quantize(8), "GIF", {"save_all": True, "append_images": [half]}
    yield "bmp", rgb, "BMP", {}
    yield "bmp_grey", grey, "BMP", {}
    yield "ppm", rgb, "PPM", {}
    yield "pgm", grey, "PPM", {}
    yield "webp", rgb, "WEBP", {"lossless": True}
    yield "webp_alpha", Image.merge("RGBA", (*rgb.split(), half)), "WEBP", {"lossless": True, "exact": True}
    yield "tiff", rgb, "TIFF", {"compression": "tiff_lzw"}
    yield "tiff_grey", grey, "TIFF", {}


def text(data):
    digits = data.hex()
    return "\n        ".join(f'"{digits[i:i + 100]}"' for i in range(0, len(digits), 100))


def main():
    out = f"// images.h -- made by tests/golden/images.py with Pillow {PIL.__version__}.\n#pragma once\n#include <string>\n#include <vector>\n\n"
    out += "namespace golden {\n\nstruct ImageFile {\n    std::string name, file, pixels;  // hexadecimal\n};\n\n"
    out += f"constexpr int kImageHeight = {HEIGHT}, kImageWidth = {WIDTH};\n\n"
    known, rows = {}, ""
    for name, image, kind, options in files():
        buffer = io.BytesIO()
        image.save(buffer, kind, **options)
        pixels = Image.open(buffer).convert("RGB").tobytes()
        if pixels not in known:
            known[pixels] = "kPixels" + str(len(known))
            out += f"const std::string {known[pixels]} =\n        {text(pixels)};\n"
        rows += f'    {{"{name}", {text(buffer.getvalue())}, {known[pixels]}}},\n'
    out += "\nconst std::vector<ImageFile> kImageFiles = {\n" + rows + "};\n\n}  // namespace golden\n"
    pathlib.Path(__file__).with_suffix(".h").write_text(out)


if __name__ == "__main__":
    main()

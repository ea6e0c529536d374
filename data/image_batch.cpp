// image_batch.cpp -- see image_batch.h.
#include "data/image_batch.h"

#include <algorithm>

#include "data/file.h"
#include "data/parallel_try.h"
#include "data/resize.h"
#include "kernels/check.h"

namespace lc {
namespace {

void check(const ImagePipeline& p) {
    constexpr int64_t kMost = 4096;  // four times what any network takes
    LC_CHECK(p.height >= 1 && p.width >= 1 && p.height <= kMost && p.width <= kMost,
             "images: height and width are 1 to " << kMost << "; found " << p.height << " x " << p.width);
    LC_CHECK(
        p.fit == Fit::stretch || (p.shorter_side >= std::max(p.height, p.width) && p.shorter_side <= kMost),
        "images: the shorter side is at least what is cut out, and at most " << kMost << "; found " << p.shorter_side);
}

}  // namespace

Image fit_image(const Image& image, const ImagePipeline& p, const std::string& name) {
    if (p.fit == Fit::stretch) return resize_bilinear(image, p.height, p.width);
    const int64_t shorter = std::min(image.height, image.width), longer = std::max(image.height, image.width);
    if (longer / shorter > 16) {  // else a long thin image would grow to gigabytes
        refuse(name, "expected sides of 1 : 16 at most where the middle is cut out, found " +
                         std::to_string(image.width) + " x " + std::to_string(image.height) + "; leave it out");
    }
    return center_crop(resize_shorter_side(image, p.shorter_side), p.height, p.width);
}

void load_batch(float* out, const ImageSource& images, const std::vector<int64_t>& rows, const ImagePipeline& p) {
    check(p);
    for (const int64_t row : rows) {
        LC_CHECK(row >= 0 && row < images.size(), "images: rows are 0 to " << images.size() - 1 << "; found " << row);
    }
    const Normaliser normalise(p.normalisation);
    const int64_t each = p.height * p.width * 3;
    parallel_try(int64_t(rows.size()), [&](int64_t i) {
        const int64_t row = rows[size_t(i)];
        normalise(out + i * each, fit_image(images.image(row), p, images.name(row)).pixels);
    });
}

}  // namespace lc

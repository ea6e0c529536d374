// resize.cpp -- see resize.h.
//
// Idea     along rows, a vector of four lanes is a pixel, read and written with one byte of its neighbour, which the
//          neighbour then overwrites.  Along columns, vectors run along the row.
// Numbers  weights in double, in Pillow's order of operations; then integers, which no order changes.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "data/resize.cpp"
#include "data/resize.h"

#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#ifndef LC_DATA_RESIZE_TAPS
    #define LC_DATA_RESIZE_TAPS
namespace lc {

constexpr int kShift = 22;

struct Taps {                      // what an output pixel is made of
    int64_t stride = 0;            // weights per output
    std::vector<int64_t> first;    // (outputs): the first input
    std::vector<int64_t> count;    // (outputs)
    std::vector<int32_t> weights;  // (outputs, stride)
};

}  // namespace lc
#endif

HWY_BEFORE_NAMESPACE();
namespace lc::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

// A row of pixels; both rows have one byte more than their pixels need.
void resize_row(uint8_t* out, const uint8_t* in, const Taps& taps) {
    const hn::CappedTag<int32_t, 4> d;
    const hn::Rebind<uint8_t, decltype(d)> d8;
    const int64_t width = int64_t(taps.first.size()), lanes = int64_t(hn::Lanes(d));
    for (int64_t x = 0; x < width; ++x) {
        const int32_t* w = taps.weights.data() + x * taps.stride;
        for (int64_t c = 0; c < 3; c += lanes) {  // once, but where a vector has one lane
            const uint8_t* from = in + 3 * taps.first[size_t(x)] + c;
            auto sum = hn::Set(d, 1 << (kShift - 1));
            for (int64_t k = 0; k < taps.count[size_t(x)]; ++k) {
                const auto pixel = hn::PromoteTo(d, hn::LoadU(d8, from + 3 * k));
                sum = hn::Add(sum, hn::Mul(pixel, hn::Set(d, w[k])));
            }
            hn::StoreU(hn::DemoteTo(d8, hn::ShiftRight<kShift>(sum)), d8, out + 3 * x + c);
        }
    }
}

// One output row of `bytes` bytes; input rows are as long.
void resize_columns(uint8_t* out, const uint8_t* in, int64_t bytes, const int32_t* w, int64_t count) {
    const hn::ScalableTag<int32_t> d;
    const hn::Rebind<uint8_t, decltype(d)> d8;
    const int64_t lanes = int64_t(hn::Lanes(d));
    const auto vector_at = [&](int64_t b) HWY_ATTR {
        auto sum = hn::Set(d, 1 << (kShift - 1));
        for (int64_t k = 0; k < count; ++k) {
            const auto pixels = hn::PromoteTo(d, hn::LoadU(d8, in + k * bytes + b));
            sum = hn::Add(sum, hn::Mul(pixels, hn::Set(d, w[k])));
        }
        hn::StoreU(hn::DemoteTo(d8, hn::ShiftRight<kShift>(sum)), d8, out + b);
    };
    int64_t b = 0;
    for (; b + lanes <= bytes; b += lanes) vector_at(b);
    if (b == bytes) return;
    if (bytes >= lanes) return vector_at(bytes - lanes);  // over some bytes that are done already
    for (; b < bytes; ++b) {
        int32_t sum = 1 << (kShift - 1);
        for (int64_t k = 0; k < count; ++k) sum += in[k * bytes + b] * w[k];
        out[b] = uint8_t(sum >> kShift);
    }
}

}  // namespace
}  // namespace lc::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
    #include <algorithm>
    #include <cmath>
    #include <cstring>

    #include "kernels/check.h"

namespace lc {
HWY_EXPORT(resize_row);
HWY_EXPORT(resize_columns);

namespace {

Taps triangle_taps(int64_t in, int64_t out) {
    const double scale = double(in) / double(out), reach = std::max(scale, 1.0), inverse = 1.0 / reach;
    Taps taps;
    taps.stride = 2 * int64_t(std::ceil(reach)) + 1;
    taps.weights.resize(size_t(out * taps.stride));
    std::vector<double> t(static_cast<size_t>(taps.stride));
    for (int64_t x = 0; x < out; ++x) {
        const double centre = (double(x) + 0.5) * scale;
        const int64_t first = std::max(int64_t(0), int64_t(centre - reach + 0.5));
        const int64_t count = std::min(in, int64_t(centre + reach + 0.5)) - first;
        double sum = 0;
        for (int64_t k = 0; k < count; ++k) {
            const double distance = std::fabs((double(k + first) - centre + 0.5) * inverse);
            t[size_t(k)] = distance < 1.0 ? 1.0 - distance : 0.0;
            sum += t[size_t(k)];
        }
        int32_t* w = taps.weights.data() + x * taps.stride;
        for (int64_t k = 0; k < count; ++k) w[k] = int32_t(0.5 + t[size_t(k)] / sum * (1 << kShift));
        taps.first.push_back(first);
        taps.count.push_back(count);
    }
    return taps;
}

Image resize_rows(const Image& in, int64_t width) {
    const Taps taps = triangle_taps(in.width, width);
    Image out = {in.height, width, std::vector<uint8_t>(size_t(in.height * width * 3 + 1))};
    std::vector<uint8_t> row(size_t(in.width * 3 + 1));
    for (int64_t y = 0; y < in.height; ++y) {
        std::memcpy(row.data(), in.pixels.data() + y * in.width * 3, size_t(in.width * 3));
        HWY_DYNAMIC_DISPATCH(resize_row)(out.pixels.data() + y * width * 3, row.data(), taps);
    }
    out.pixels.pop_back();
    return out;
}

Image resize_columns(const Image& in, int64_t height) {
    const Taps taps = triangle_taps(in.height, height);
    const int64_t bytes = in.width * 3;
    Image out = {height, in.width, std::vector<uint8_t>(size_t(height * bytes))};
    for (int64_t y = 0; y < height; ++y) {
        HWY_DYNAMIC_DISPATCH(resize_columns)
        (out.pixels.data() + y * bytes, in.pixels.data() + taps.first[size_t(y)] * bytes, bytes,
         taps.weights.data() + y * taps.stride, taps.count[size_t(y)]);
    }
    return out;
}

void check_sizes(const char* what, const Image& image, int64_t height, int64_t width) {
    constexpr int64_t kMost = 1 << 16;
    LC_CHECK(
        image.height >= 1 && image.width >= 1 && image.pixels.size() == size_t(image.height) * size_t(image.width) * 3,
        what << ": an image has (height, width, 3) bytes; found " << image.pixels.size() << " for " << image.height
             << " x " << image.width);
    LC_CHECK(height >= 1 && width >= 1 && height <= kMost && width <= kMost,
             what << ": sides are 1 to " << kMost << " pixels long; found " << height << " x " << width);
}

}  // namespace

Image resize_bilinear(const Image& image, int64_t height, int64_t width) {
    check_sizes("resize_bilinear", image, height, width);
    if (image.width == width) return image.height == height ? image : resize_columns(image, height);
    Image rows = resize_rows(image, width);
    return image.height == height ? rows : resize_columns(rows, height);
}

Image resize_shorter_side(const Image& image, int64_t side) {
    check_sizes("resize_shorter_side", image, side, side);
    const int64_t shorter = std::min(image.height, image.width), longer = std::max(image.height, image.width);
    const int64_t other = int64_t(double(side * longer) / double(shorter));
    return image.width <= image.height ? resize_bilinear(image, other, side) : resize_bilinear(image, side, other);
}

Image center_crop(const Image& image, int64_t height, int64_t width) {
    check_sizes("center_crop", image, height, width);
    LC_CHECK(height <= image.height && width <= image.width, "center_crop: the part must fit into the image; found "
                                                                 << height << " x " << width << " of " << image.height
                                                                 << " x " << image.width);
    const auto half = [](int64_t border) { return int64_t(std::nearbyint(double(border) / 2)); };
    const int64_t top = half(image.height - height), left = half(image.width - width);
    Image out = {height, width, std::vector<uint8_t>(size_t(height * width * 3))};
    for (int64_t y = 0; y < height; ++y) {
        std::memcpy(out.pixels.data() + y * width * 3, image.pixels.data() + ((top + y) * image.width + left) * 3,
                    size_t(width * 3));
    }
    return out;
}

}  // namespace lc
#endif  // HWY_ONCE

// Resizing and normalisation: the bytes of Pillow, the floats of torchvision.
#include <gtest/gtest.h>

#include "data/hash.h"
#include "data/normalise.h"
#include "data/resize.h"
#include "tests/file_bytes.h"
#include "tests/golden/resize.h"

namespace {

using lc::Image;

// The same pictures as in tests/golden/resize.py: noise and slopes, as on a chessboard.
Image picture(int64_t height, int64_t width) {
    Image image = {height, width, {}};
    for (int64_t y = 0; y < height; ++y) {
        for (int64_t x = 0; x < width; ++x) {
            for (int64_t c = 0; c < 3; ++c) {
                const uint64_t mixed = uint64_t(y) * 2654435761u + uint64_t(x) * 40503 + uint64_t(c) * 69069;
                const uint32_t noise = uint32_t((mixed + uint64_t(height * 31 + width)) * 2246822519u) >> 24;
                const bool rough = (y / 8 + x / 8) % 2 == 0;
                image.pixels.push_back(uint8_t(rough ? noise : uint32_t(3 * x + 5 * y + 85 * c)));
            }
        }
    }
    return image;
}

void expect_golden(const Image& found, const golden::Resized& want) {
    const auto row = found.pixels.begin() + found.height / 2 * found.width * 3;
    const size_t kept = want.middle_row.size();
    EXPECT_EQ(std::vector<int>(row, row + int64_t(kept)), want.middle_row);
    char text[17];
    std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(want.hash));
    EXPECT_EQ(lc::Hash().add_bytes(std::as_bytes(std::span(found.pixels))).text(), text)
        << want.height << " x " << want.width << " -> " << want.a << ", " << want.b;
}

TEST(Resize, gives_the_bytes_of_pillow) {
    for (const golden::Resized& want : golden::kStretched) {
        const Image found = lc::resize_bilinear(picture(want.height, want.width), want.a, want.b);
        EXPECT_EQ(found.height, want.a);
        EXPECT_EQ(found.width, want.b);
        expect_golden(found, want);
    }
}

TEST(Resize, shorter_side_and_middle_as_torchvision) {
    for (const golden::Resized& want : golden::kCropped) {
        const Image side = lc::resize_shorter_side(picture(want.height, want.width), want.a);
        EXPECT_EQ(std::min(side.height, side.width), want.a);
        expect_golden(lc::center_crop(side, want.b, want.b), want);
    }
}

TEST(Resize, refuses_what_makes_no_image) {
    const Image image = picture(4, 6);
    for (const int64_t bad : {0, -1, 1 << 17}) {
        EXPECT_THROW(lc::resize_bilinear(image, bad, 4), lc::Error);
        EXPECT_THROW(lc::resize_bilinear(image, 4, bad), lc::Error);
        EXPECT_THROW(lc::resize_shorter_side(image, bad), lc::Error);
    }
    EXPECT_THROW(lc::resize_bilinear({4, 6, std::vector<uint8_t>(71)}, 2, 2), lc::Error);
    EXPECT_THROW(lc::resize_bilinear({}, 2, 2), lc::Error);
    EXPECT_THROW(lc::center_crop(image, 5, 6), lc::Error);
    EXPECT_THROW(lc::center_crop(image, 4, 7), lc::Error);
}

// Calculated in float32 by torch: ToTensor, then Normalize.
TEST(Normalise, numbers_of_each_name) {
    const std::vector<uint8_t> pixels = {0, 128, 255, 10, 20, 30};
    std::vector<float> out(6);
    const auto apply = [&](const char* name) { lc::Normaliser(lc::named_normalisation(name))(out.data(), pixels); };
    apply("unit");
    EXPECT_EQ(out, (std::vector<float>{0, 128.0f / 255, 1, 10.0f / 255, 20.0f / 255, 30.0f / 255}));
    apply("imagenet");
    for (size_t i = 0; i < 6; ++i) {
        const float mean[] = {0.485f, 0.456f, 0.406f}, deviation[] = {0.229f, 0.224f, 0.225f};
        EXPECT_EQ(out[i], (float(pixels[i]) / 255.0f - mean[i % 3]) / deviation[i % 3]);
    }
    const std::vector<float> imagenet = out;
    EXPECT_NEAR(out[0], -2.117904, 1e-6);
    EXPECT_NEAR(out[2], 2.64, 1e-6);
    apply("cifar10");
    EXPECT_EQ(out, imagenet);
    apply("cifar100");
    EXPECT_NEAR(out[0], -0.5070 / 0.2673, 1e-6);
    EXPECT_NEAR(out[1], (128 / 255.0 - 0.4865) / 0.2564, 1e-6);
    EXPECT_NEAR(out[5], (30 / 255.0 - 0.4409) / 0.2761, 1e-6);
    apply("caffe");  // blue first
    EXPECT_EQ(out, (std::vector<float>{255 - 103.939f, 128 - 116.779f, 0 - 123.68f, 30 - 103.939f, 20 - 116.779f,
                                       10 - 123.68f}));
}

TEST(Normalise, unknown_names_are_refused_with_the_known) {
    const std::string text = lc::refusal([] { lc::named_normalisation("image-net"); });
    EXPECT_NE(text.find("unit, imagenet, caffe, cifar10, cifar100, found 'image-net'"), std::string::npos) << text;
    EXPECT_THROW(lc::Normaliser({.name = "", .divisor = 0}), lc::Error);
    EXPECT_THROW(lc::Normaliser({.name = "", .deviation = {1, 0, 1}}), lc::Error);
}

}  // namespace

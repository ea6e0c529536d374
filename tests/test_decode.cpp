// Image files: what Pillow sees in them is what we see; what is damaged is refused.
#include <map>
#include <zlib.h>

#include "data/decode.h"
#include "tests/file_bytes.h"
#include "tests/golden/images.h"

namespace {

using lc::as_bytes;
using lc::Image;
using lc::refusal;

std::string from_hex(const std::string& digits) {
    std::string bytes;
    for (size_t i = 0; i < digits.size(); i += 2) bytes += char(std::stoi(digits.substr(i, 2), nullptr, 16));
    return bytes;
}

const std::string& file_named(const std::string& name) {
    static std::map<std::string, std::string> files;
    if (files.empty()) {
        for (const golden::ImageFile& f : golden::kImageFiles) files[f.name] = from_hex(f.file);
    }
    return files.at(name);
}

bool is_for_opencv(const std::string& name) { return name.starts_with("webp") || name.starts_with("tiff"); }

int worst_difference(const Image& image, const std::string& pixels) {
    EXPECT_EQ(image.pixels.size(), pixels.size());
    int worst = 0;
    for (size_t i = 0; i < std::min(pixels.size(), image.pixels.size()); ++i) {
        worst = std::max(worst, std::abs(int(image.pixels[i]) - int(uint8_t(pixels[i]))));
    }
    return worst;
}

void expect_as_pillow(const golden::ImageFile& f, const Image& image) {
    EXPECT_EQ(image.height, golden::kImageHeight) << f.name;
    EXPECT_EQ(image.width, golden::kImageWidth) << f.name;
    const bool lossy = f.name.starts_with("jpeg");
    EXPECT_LE(worst_difference(image, from_hex(f.pixels)), lossy ? 3 : 0) << f.name;
}

std::string refused(const std::string& bytes, int64_t most_pixels = lc::kMostPixels) {
    const std::string text = refusal([&] { lc::decode_image(as_bytes(bytes), "a file", most_pixels); });
    EXPECT_EQ(text.find("a file: expected "), 0u) << text;
    EXPECT_EQ(text.find('\n'), std::string::npos) << text;
    return text;
}

std::string big(uint32_t x) { return {char(x >> 24), char(x >> 16), char(x >> 8), char(x)}; }

std::string png_chunk(const std::string& type, const std::string& data) {
    const std::string body = type + data;
    return big(uint32_t(data.size())) + body +
           big(uint32_t(crc32(0, reinterpret_cast<const Bytef*>(body.data()), uInt(body.size()))));
}

std::string png_claiming(uint32_t width, uint32_t height, size_t padding) {
    return "\x89PNG\r\n\x1a\n" + png_chunk("IHDR", big(width) + big(height) + std::string{8, 2, 0, 0, 0}) +
           png_chunk("tEXt", std::string(padding, 'x')) + png_chunk("IDAT", "") + png_chunk("IEND", "");
}

TEST(Decode, files_of_every_kind_as_pillow_sees_them) {
    for (const golden::ImageFile& f : golden::kImageFiles) {
        if (!is_for_opencv(f.name)) expect_as_pillow(f, lc::decode_image(as_bytes(from_hex(f.file)), f.name));
    }
}

TEST(Decode, opencv_decodes_what_stb_does_not) {
    const std::string& webp = file_named("webp");
    if (lc::opencv_decoder == nullptr) {
        EXPECT_NE(refused(webp).find("third_party/install full"), std::string::npos);
        GTEST_SKIP() << "needs OpenCV: third_party/install full";
    }
    for (const golden::ImageFile& f : golden::kImageFiles) {
        if (is_for_opencv(f.name)) expect_as_pillow(f, lc::decode_image(as_bytes(from_hex(f.file)), f.name));
    }
    for (size_t size = 0; size < webp.size(); size += 7) refused(webp.substr(0, size));
    EXPECT_NE(refused(webp, 100).find("13 x 11"), std::string::npos);
}

// The one decoder must not see another picture than the other: this is also the test of grey, alpha and orientation.
TEST(Decode, both_decoders_agree) {
    if (lc::opencv_decoder == nullptr) GTEST_SKIP() << "needs OpenCV: third_party/install full";
    for (const golden::ImageFile& f : golden::kImageFiles) {
        if (f.name.starts_with("gif")) continue;  // OpenCV 4.6 does not read it
        expect_as_pillow(f, lc::opencv_decoder(as_bytes(file_named(f.name)), f.name));
    }
}

TEST(Decode, files_cut_short_anywhere_are_refused) {
    for (const golden::ImageFile& f : golden::kImageFiles) {
        if (is_for_opencv(f.name) || f.name == "gif_frames") continue;  // the second frame may be missing
        const std::string& whole = file_named(f.name);
        const bool gif = f.name == "gif";  // what comes behind the first frame, one byte, is not needed
        for (size_t size = 0; size < whole.size() - (gif ? 1 : 0); ++size) {
            const std::string text = refusal([&] { lc::decode_image(as_bytes(whole.substr(0, size)), f.name); });
            ASSERT_NE(text, "nothing was refused") << f.name << ", " << size << " of " << whole.size() << " bytes";
        }
    }
}

TEST(Decode, a_flipped_bit_in_a_png_is_noticed) {
    std::string png = file_named("png");
    for (size_t i = 8; i < png.size(); i += 11) {
        png[i] = char(png[i] ^ 16);
        refused(png);
        png[i] = char(png[i] ^ 16);
    }
}

// More than 256 codes make stb 2.27 write beyond its memory.
TEST(Decode, jpeg_codes_beyond_the_alphabet_are_refused) {
    std::string jpeg = file_named("jpeg_444");
    const size_t table = jpeg.find("\xff\xc4");
    jpeg[table + 4 + 16] = char(255);  // codes of 16 bits
    EXPECT_NE(refused(jpeg).find("more codes than there can be"), std::string::npos);
    const std::string codes = std::string(14, '\0') + char(255) + char(2) + std::string(257, 'x');
    const std::string segment = "\xff\xc4" + big(uint32_t(2 + 1 + codes.size())).substr(2) + '\0' + codes;
    EXPECT_NE(refused(std::string(file_named("jpeg_444")).insert(2, segment)).find("more codes"), std::string::npos);
}

TEST(Decode, huge_dimensions_are_refused_before_memory_is_asked_for) {
    EXPECT_NE(refused(png_claiming(60000, 60000, 0)).find("more pixels than its bytes"), std::string::npos);
    EXPECT_NE(refused(png_claiming(0xffffffff, 0xffffffff, 0)).find("no sense"), std::string::npos);
    EXPECT_NE(refused(png_claiming(9000, 9000, 300000)).find("9000 x 9000"), std::string::npos);
    std::string jpeg = file_named("jpeg_444");
    const size_t frame = jpeg.find("\xff\xc0");
    jpeg.replace(frame + 5, 4, "\xff\xff\xff\xff");
    EXPECT_NE(refused(jpeg).find("65535 x 65535"), std::string::npos);
    std::string bmp = file_named("bmp");
    bmp.replace(18, 8, lc::little(int32_t(INT32_MAX)) + lc::little(int32_t(INT32_MIN)));
    EXPECT_NE(refused(bmp).find("cut short"), std::string::npos);
    EXPECT_NE(refused("P6 2000000000 2000000000 255\nx").find("cut short"), std::string::npos);
    EXPECT_NE(refused("P6 99999999999999999999 1 255\nx").find("header"), std::string::npos);
    EXPECT_NE(refused(file_named("png"), 142).find("1 to 142 pixels, found 13 x 11"), std::string::npos);
    EXPECT_EQ(lc::decode_image(as_bytes(file_named("png")), "a file", 143).width, 13);
}

TEST(Decode, what_is_no_image_is_refused) {
    EXPECT_NE(refused("").find("an empty file"), std::string::npos);
    refused("hello");
    refused(std::string(1000, '\0'));
    refused("\xff\xd8\xff");
    refused("\xff\xd8\xff\xd9");
    refused("GIF89a");
    refused("BM");
    refused("P5");
    refused("P6 1 1 65535\nabcdef");
    refused("P6 0 1 255\n");
}

TEST(Decode, comments_in_a_pgm) {
    const Image x = lc::decode_image(as_bytes(std::string("P5 # a comment\n#another\n 2\t1\r\n255 ab")), "a file");
    EXPECT_EQ(std::string(x.pixels.begin(), x.pixels.end()), "aaabbb");
}

}  // namespace

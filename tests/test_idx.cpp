// IDX files: what is read, and what is refused.
#include <zlib.h>

#include "data/idx.h"
#include "tests/file_bytes.h"

namespace {

using lc::refusal;

std::string big(uint32_t x) { return {char(x >> 24), char(x >> 16), char(x >> 8), char(x)}; }

std::string idx(const std::vector<uint32_t>& shape, const std::string& data, char type = 8) {
    std::string s = {0, 0, type, char(shape.size())};
    for (const uint32_t d : shape) s += big(d);
    return s + data;
}

std::string gzip(const std::string& plain) {
    z_stream z = {};
    EXPECT_EQ(deflateInit2(&z, 9, Z_DEFLATED, 16 + MAX_WBITS, 9, Z_DEFAULT_STRATEGY), Z_OK);
    std::string out(deflateBound(&z, plain.size()), '\0');
    z.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(plain.data()));
    z.avail_in = uInt(plain.size());
    z.next_out = reinterpret_cast<Bytef*>(out.data());
    z.avail_out = uInt(out.size());
    EXPECT_EQ(deflate(&z, Z_FINISH), Z_STREAM_END);
    out.resize(z.total_out);
    deflateEnd(&z);
    return out;
}

class Idx : public lc::FolderTest {};

const std::string kPixels = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, char(255)};

void expect_refused(const std::string& bytes, const std::string& says) {
    const std::string found = refusal([&] { lc::parse_idx(lc::as_bytes(bytes), "made up"); });
    EXPECT_NE(found.find(says), std::string::npos) << found;
    EXPECT_EQ(found.find("made up: "), 0u) << found;
}

TEST_F(Idx, images_and_labels_plain_and_packed) {
    const std::string images = idx({2, 2, 3}, kPixels), labels = idx({4}, std::string{3, 0, 9, char(200)});
    for (const bool packed : {false, true}) {
        const auto file = [&](const char* name, const std::string& s) { return write(name, packed ? gzip(s) : s); };
        const lc::IdxImages x = lc::read_idx_images(file("images", images));
        EXPECT_EQ(x.n, 2);
        EXPECT_EQ(x.height, 2);
        EXPECT_EQ(x.width, 3);
        EXPECT_EQ(std::string(x.pixels.begin(), x.pixels.end()), kPixels);
        EXPECT_EQ(lc::read_idx_labels(file("labels", labels)), (std::vector<int32_t>{3, 0, 9, 200}));
    }
}

TEST_F(Idx, no_images_are_no_images) {
    const lc::IdxImages x = lc::read_idx_images(write("none", idx({0, 28, 28}, "")));
    EXPECT_EQ(x.n, 0);
    EXPECT_TRUE(x.pixels.empty());
}

TEST_F(Idx, images_are_no_labels) {
    const std::string images = write("images", idx({2, 2, 3}, kPixels)), labels = write("labels", idx({1}, "a"));
    EXPECT_NE(refusal([&] { lc::read_idx_labels(images); }).find("expected labels"), std::string::npos);
    EXPECT_NE(refusal([&] { lc::read_idx_images(labels); }).find("found 1"), std::string::npos);
    EXPECT_NE(refusal([&] { lc::read_idx_images(path("nothing")); }).find("nothing"), std::string::npos);
}

TEST_F(Idx, headers_that_lie_are_refused) {
    expect_refused("", "found 0 bytes");
    expect_refused(std::string(3, '\0'), "found 3 bytes");
    expect_refused("PK\3\4", "two zero bytes");
    expect_refused(std::string{0, 1} + idx({1}, "a").substr(2), "two zero bytes");
    expect_refused(idx({1}, "abcd", 0x0d), "found type 13");
    expect_refused(idx({}, ""), "found 0 in a file of 4 bytes");
    expect_refused(idx(std::vector<uint32_t>(9, 1), "a"), "found 9");
    expect_refused(idx({2, 2, 3}, "").substr(0, 15), "found 3 in a file of 15 bytes");
    expect_refused(idx({2, 2, 3}, kPixels + "x"), "2 x 2 x 3 bytes that the header says, found 13");
    expect_refused(idx({2, 2, 3}, kPixels.substr(1)), "found 11");
}

// Products beyond 64 bits, and one that comes back to the right number: 2^32 * 2^32 * ... = 0, + 12.
TEST_F(Idx, sizes_that_overflow_are_refused) {
    const uint32_t most = 0xffffffff, half = 0x80000000;
    expect_refused(idx({most}, kPixels), "found 12");
    expect_refused(idx({most, most, most}, kPixels), "found 12");
    expect_refused(idx({half, half, 4}, ""), "found 0");  // 2^64
    EXPECT_TRUE(lc::parse_idx(lc::as_bytes(idx({most, most, most, 0}, "")), "made up").values.empty());
}

TEST_F(Idx, damaged_gzip_is_refused_wherever_it_ends) {
    const std::string good = gzip(idx({2, 2, 3}, kPixels));
    EXPECT_EQ(lc::parse_idx(lc::as_bytes(good), "made up").values.size(), 12u);
    for (size_t size = 2; size < good.size(); ++size) expect_refused(good.substr(0, size), "gzip file is damaged");
    expect_refused(good + "x", "gzip file is damaged");
    expect_refused(good + good, "gzip file is damaged");
    std::string other = good;
    other[good.size() - 5] ^= 1;  // the checksum
    expect_refused(other, "does not unpack");
    other = good;
    other[good.size() - 1] = char(0xff);  // 4 GB
    expect_refused(other, "more than deflate can pack");
    expect_refused(gzip(""), "found 0 bytes");
}

// The Debian package dataset-fashion-mnist, where it is installed.
TEST_F(Idx, fashion_mnist) {
    const std::string folder = "/usr/share/datasets/fashion-mnist/";
    if (!std::filesystem::exists(folder)) GTEST_SKIP() << "needs the package dataset-fashion-mnist";
    const lc::IdxImages x = lc::read_idx_images(folder + "t10k-images-idx3-ubyte.gz");
    const std::vector<int32_t> y = lc::read_idx_labels(folder + "t10k-labels-idx1-ubyte.gz");
    EXPECT_EQ(x.n, 10000);
    EXPECT_EQ(x.height, 28);
    EXPECT_EQ(x.width, 28);
    ASSERT_EQ(y.size(), 10000u);
    std::vector<int> count(10);
    for (const int32_t c : y) ++count.at(size_t(c));
    EXPECT_EQ(count, std::vector<int>(10, 1000));
}

}  // namespace

// Sets of images: CIFAR, MedMNIST, IDX, folders; and batches made of them.
#include <fstream>
#include <omp.h>

#include "data/cifar.h"
#include "data/image_batch.h"
#include "data/images.h"
#include "data/npy.h"
#include "data/zip.h"
#include "tests/file_bytes.h"

namespace {

namespace fs = std::filesystem;
using lc::open_images;
using lc::refusal;

// Record i: its label(s), then red is i, green 100 + row, blue the column.
std::string cifar_record(const std::string& labels, int i) {
    std::string record = labels;
    for (int c = 0; c < 3; ++c) {
        for (int p = 0; p < 1024; ++p) record += char(c == 0 ? i : c == 1 ? 100 + p / 32 : p % 32);
    }
    return record;
}

std::string ppm(int height, int width, char value) {
    return "P6 " + std::to_string(width) + " " + std::to_string(height) + " 255\n" +
           std::string(size_t(height * width * 3), value);
}

class Images : public lc::FolderTest {
  protected:
    void expect_refused(const std::string& what, const std::string& says) const {
        const std::string text = refusal([&] { open_images(what); });
        EXPECT_NE(text.find(says), std::string::npos) << what << "\n" << text;
        EXPECT_NE(text.find("expected "), std::string::npos) << text;
    }
    std::string write_in(const std::string& folder, const std::string& name, const std::string& bytes) const {
        fs::create_directories(path(folder));
        return write(folder + "/" + name, bytes);
    }
    void write_cifar10(const std::string& folder) const {
        for (int b = 1; b <= 5; ++b) {
            write_in(folder, "data_batch_" + std::to_string(b) + ".bin",
                     cifar_record(std::string(1, char(b)), b) + cifar_record(std::string(1, '\0'), 10 * b));
        }
        write_in(folder, "test_batch.bin", cifar_record(std::string(1, '\x09'), 77));
    }
};

TEST_F(Images, cifar10) {
    write_cifar10("c");
    const auto train = open_images("cifar10:" + path("c") + ":train"),
               test = open_images("cifar10:" + path("c") + ":test");
    ASSERT_EQ(train->size(), 10);
    EXPECT_EQ(train->classes(), 10);
    EXPECT_EQ(train->label(4), 3);  // the third batch's first
    EXPECT_EQ(train->label(5), 0);
    const lc::Image x = train->image(5);
    ASSERT_EQ(x.pixels.size(), 3072u);
    EXPECT_EQ(x.height, 32);
    const size_t p = (7 * 32 + 9) * 3;
    EXPECT_EQ(std::vector<int>(&x.pixels[p], &x.pixels[p] + 3), (std::vector<int>{30, 107, 9}));
    EXPECT_EQ(test->size(), 1);
    EXPECT_EQ(test->label(0), 9);
    EXPECT_EQ(test->description(), "1 images of 32 x 32 in 10 classes");
    EXPECT_NE(train->hash(), test->hash());
    const auto file = open_images("cifar10:" + path("c/test_batch.bin"));
    EXPECT_EQ(file->hash(), test->hash()) << "one file, or the folder that it is in";
    fs::create_directories(path("above"));
    fs::rename(path("c"), path("above/cifar-10-batches-bin"));
    EXPECT_EQ(open_images("cifar10:" + path("above") + ":test")->hash(), test->hash());
}

TEST_F(Images, cifar100_has_fine_labels) {
    const std::string two = cifar_record("\x13\x63", 1) + cifar_record(std::string(2, '\0'), 2);
    write_in("c", "train.bin", two);
    write_in("c", "test.bin", cifar_record(std::string("\x05\x07"), 3));
    const auto train = open_images("cifar100:" + path("c") + ":train");
    ASSERT_EQ(train->size(), 2);
    EXPECT_EQ(train->classes(), 100);
    EXPECT_EQ(train->label(0), 99);
    EXPECT_EQ(train->image(1).pixels[0], 2);
    EXPECT_EQ(open_images("cifar100:" + path("c") + ":test")->label(0), 7);
}

TEST_F(Images, cifar_files_that_are_refused) {
    write_cifar10("c");
    const std::string where = "cifar10:" + path("c"), good = cifar_record(std::string(1, '\1'), 1);
    expect_refused(where, ":train or :test");
    expect_refused(where + ":val", "found 'val'");
    expect_refused("cifar10:" + path("nowhere") + ":test", "test_batch.bin");
    expect_refused("cifar100:" + path("c") + ":test", "test.bin");
    expect_refused("cifar100:" + path("c/test_batch.bin"), "records of 3074 bytes, found 3073");
    write("c/test_batch.bin", good.substr(1));
    expect_refused(where + ":test", "found 3072 bytes");
    write("c/test_batch.bin", "");
    expect_refused(where + ":test", "found 0 bytes");
    write("c/test_batch.bin", good + cifar_record("\x0a", 1));
    expect_refused(where + ":test", "found 10 at image 1");
    write("c/data_batch_5.bin", good);
    expect_refused(where + ":train", "expected 2 images as in the other batches, found 1");
    fs::remove(path("c/data_batch_5.bin"));
    expect_refused(where + ":train", "data_batch_5.bin");
    expect_refused("cifar100:" + write("x.bin", cifar_record("\x14\x01", 1)), "found 20 among the 20 coarse ones");
    expect_refused("cifar100:" + write("x.bin", cifar_record("\x01\x64", 1)), "found 100 at image 0");
}

struct Array {
    std::string name, descr;
    std::vector<int64_t> shape;
    std::string bytes;
};

void write_npz(const std::string& path, const std::vector<Array>& arrays) {
    lc::ZipWriter out(path);
    for (const Array& a : arrays) {
        const std::string npy = lc::npy_header(a.descr, a.shape) + a.bytes;
        out.begin(a.name + ".npy", npy.size());
        out.append(npy.data(), npy.size());
        out.end();
    }
    out.commit();
}

TEST_F(Images, npz_of_medmnist) {
    write_npz(path("m.npz"), {{"train_images", "|u1", {2, 1, 2}, "abcd"},
                              {"train_labels", "|u1", {2, 1}, {0, 1}},
                              {"val_images", "|u1", {1, 1, 2, 3}, "rgbRGB"},
                              {"val_labels", "<i8", {1}, lc::little(int64_t(4))}});
    const auto train = open_images("npz:" + path("m.npz") + ":train"),
               val = open_images("npz:" + path("m.npz") + ":val");
    EXPECT_EQ(train->size(), 2);
    EXPECT_EQ(train->classes(), 5) << "a class may be absent from one part";
    EXPECT_EQ(train->label(1), 1);
    const std::vector<uint8_t> grey = train->image(1).pixels, colour = val->image(0).pixels;
    EXPECT_EQ(std::string(grey.begin(), grey.end()), "cccddd");
    EXPECT_EQ(std::string(colour.begin(), colour.end()), "rgbRGB");
    EXPECT_EQ(val->label(0), 4);
    expect_refused("npz:" + path("m.npz") + ":test", "expected an array test_images, found train_images, train_labels");
    expect_refused("npz:" + path("m.npz"), ":train, :val or :test");
    expect_refused("npz:" + path("none.npz") + ":train", "readable file");
}

TEST_F(Images, npz_that_is_refused) {
    const auto refused = [&](const Array& images, const Array& labels, const std::string& says) {
        write_npz(path("m.npz"), {images, labels});
        expect_refused("npz:" + path("m.npz") + ":test", says);
    };
    const Array images = {"test_images", "|u1", {2, 1, 1}, "ab"}, labels = {"test_labels", "|u1", {2, 1}, {0, 1}};
    refused({"test_images", "<f4", {1, 1, 1}, "abcd"}, labels, "float32");
    refused({"test_images", "|u1", {1, 1, 1, 2}, "ab"}, labels, "(1, 1, 1, 2)");
    refused({"test_images", "|u1", {0, 28, 28}, ""}, labels, "(0, 28, 28)");
    refused(images, {"test_labels", "|u1", {2, 2}, "abcd"}, "several labels");
    refused(images, {"test_labels", "|u1", {1, 1}, "\1"}, "for each of 2 images, found 1");
    refused(images, {"test_labels", "|i1", {2, 1}, "\1\xff"}, "found -1 at row 1");
    refused(images, {"test_labels", "<i4", {2}, lc::little(int32_t(0)) + lc::little(INT32_MAX)}, "2147483647");
    refused(images, {"labels", "|u1", {2}, "ab"}, "test_labels");
}

TEST_F(Images, fashion) {
    const auto idx = [](char dimensions, const std::string& rest) { return std::string{0, 0, 8, dimensions} + rest; };
    const std::string one = {0, 0, 0, 1}, two = {0, 0, 0, 2};
    write_in("f", "t10k-images-idx3-ubyte", idx(3, two + one + two + "abcd"));
    write_in("f", "t10k-labels-idx1-ubyte", idx(1, two + "\3\11"));
    const auto x = open_images("fashion:" + path("f") + ":test");
    EXPECT_EQ(x->size(), 2);
    EXPECT_EQ(x->classes(), 10);
    EXPECT_EQ(x->label(1), 9);
    const std::vector<uint8_t> pixels = x->image(1).pixels;
    EXPECT_EQ(std::string(pixels.begin(), pixels.end()), "cccddd");
    expect_refused("fashion:" + path("f") + ":train", "train-images-idx3-ubyte");
    expect_refused("fashion:" + path("f") + ":val", "found 'val'");
    write("f/t10k-labels-idx1-ubyte", idx(1, two + "\3\12"));
    expect_refused("fashion:" + path("f") + ":test", "expected labels 0 to 9, found 10");
    write("f/t10k-labels-idx1-ubyte", idx(1, one + "\3"));
    expect_refused("fashion:" + path("f") + ":test", "found 1; the two files");
}

TEST_F(Images, a_folder_per_class) {
    write_in("d/zebra", "2.ppm", ppm(1, 2, 'a'));
    write_in("d/zebra", "10.PPM", ppm(3, 1, 'b'));
    write_in("d/cat/more", "a.pgm", "P5 1 1 255\nx");
    write_in("d/cat", "b.ppm", ppm(1, 1, 'c'));
    write_in("d/cat", "notes.txt", "no image");
    write_in("d/cat", ".hidden.ppm", "no image");
    write_in("d", "README", "no image");
    const auto x = open_images(path("d"));
    ASSERT_EQ(x->size(), 4);
    EXPECT_EQ(x->class_names(), (std::vector<std::string>{"cat", "zebra"}));
    std::vector<std::string> names;
    std::vector<int32_t> labels;
    for (int64_t i = 0; i < 4; ++i) names.push_back(x->name(i)), labels.push_back(x->label(i));
    EXPECT_EQ(names, (std::vector<std::string>{"cat/b.ppm", "cat/more/a.pgm", "zebra/10.PPM", "zebra/2.ppm"}));
    EXPECT_EQ(labels, (std::vector<int32_t>{0, 0, 1, 1}));
    EXPECT_EQ(x->image(2).height, 3);
    EXPECT_EQ(x->description(), "4 image files in 2 classes (2 other files passed over)");

    const std::string before = x->hash();
    fs::copy(path("d"), path("e"), fs::copy_options::recursive);
    EXPECT_EQ(open_images(path("e"))->hash(), before) << "a copy holds the same data";
    write("e/zebra/2.ppm", ppm(1, 2, 'A'));
    EXPECT_NE(open_images(path("e"))->hash(), before) << "as long as before, but other pixels";
    fs::rename(path("d/cat"), path("d/lynx"));
    EXPECT_NE(open_images(path("d"))->hash(), before);
}

TEST_F(Images, without_labels) {
    write_in("d", "b.ppm", ppm(1, 1, 'b'));
    write_in("d", "a.ppm", ppm(1, 1, 'a'));
    fs::create_directories(path("d/empty"));
    const auto x = open_images(path("d")), one = open_images(path("d/b.ppm"));
    EXPECT_EQ(x->size(), 2);
    EXPECT_EQ(x->classes(), 0);
    EXPECT_EQ(x->label(0), -1);
    EXPECT_EQ(x->image(0).pixels[0], 'a');
    EXPECT_EQ(one->size(), 1);
    EXPECT_EQ(one->name(0), "b.ppm");
    EXPECT_EQ(one->image(0).pixels[0], 'b');
    EXPECT_EQ(one->description(), "1 image file without labels");
}

TEST_F(Images, folders_that_are_refused) {
    fs::create_directories(path("d/empty"));
    expect_refused(path("d"), "found no image in it");
    expect_refused(path("nothing"), "readable file");
    expect_refused("", "readable file");
    expect_refused("imagenet:here:test", "readable file");
    write_in("d/cat", "a.ppm", ppm(1, 1, 'a'));
    expect_refused(path("d"), "found none in empty");
    fs::remove(path("d/empty"));
    EXPECT_EQ(open_images(path("d"))->size(), 1);
    write_in("d", "b.ppm", ppm(1, 1, 'b'));
    expect_refused(path("d"), "found cat/a.ppm and b.ppm");
}

TEST_F(Images, a_batch_is_what_its_images_are) {
    for (int i = 0; i < 7; ++i) write_in("d", std::to_string(i) + ".ppm", ppm(3 + i, 9 - i, char(10 * i)));
    const auto x = open_images(path("d"));
    lc::ImagePipeline p = {.height = 4, .width = 5, .normalisation = lc::named_normalisation("caffe")};
    const std::vector<int64_t> rows = {6, 0, 0, 3};
    std::vector<float> out(4 * 4 * 5 * 3), again(out.size());
    lc::load_batch(out.data(), *x, rows, p);
    for (size_t k = 0; k < rows.size(); ++k) {
        EXPECT_EQ(out[k * 60], float(10 * rows[k]) - 103.939f);
        EXPECT_EQ(out[k * 60 + 59], float(10 * rows[k]) - 123.68f);
    }
    const int threads = omp_get_max_threads();
    omp_set_num_threads(threads == 1 ? 3 : 1);
    lc::load_batch(again.data(), *x, rows, p);
    omp_set_num_threads(threads);
    EXPECT_EQ(out, again);
    lc::load_batch(nullptr, *x, {}, p);
    EXPECT_THROW(lc::load_batch(out.data(), *x, {7}, p), lc::Error);
    EXPECT_THROW(lc::load_batch(out.data(), *x, {-1}, p), lc::Error);
    p.fit = lc::Fit::crop;
    p.shorter_side = 4;
    EXPECT_THROW(lc::load_batch(out.data(), *x, rows, p), lc::Error) << "five do not fit into four";
}

TEST_F(Images, a_batch_cut_out_of_the_middle) {
    std::string bytes;
    for (int i = 0; i < 8 * 16; ++i) bytes += char(i % 16 * 16);  // the column
    write_in("d", "a.pgm", "P5 16 8 255\n" + bytes);
    const lc::ImagePipeline p = {4, 4, lc::Fit::crop, 8, lc::named_normalisation("unit")};
    std::vector<float> out(48);
    lc::load_batch(out.data(), *open_images(path("d")), {0}, p);
    for (size_t i = 0; i < 48; ++i) EXPECT_EQ(out[i], float((6 + i / 3 % 4) * 16) / 255.0f);
    write("d/a.pgm", "P5 17 1 255\n" + bytes);
    const std::string text = refusal([&] { lc::load_batch(out.data(), *open_images(path("d")), {0}, p); });
    EXPECT_NE(text.find("a.pgm: expected sides"), std::string::npos) << text;
}

TEST_F(Images, the_first_bad_file_of_a_batch_is_named) {
    for (int i = 0; i < 40; ++i) {
        write_in("d", "x" + std::to_string(100 + i) + ".ppm", i % 10 == 7 ? "P6 nonsense" : ppm(2, 2, 'a'));
    }
    const auto x = open_images(path("d"));
    std::vector<int64_t> rows(40);
    for (size_t i = 0; i < rows.size(); ++i) rows[i] = 39 - int64_t(i);
    std::vector<float> out(40 * 12);
    const lc::ImagePipeline p = {2, 2, lc::Fit::stretch, 0, lc::named_normalisation("unit")};
    for (int repeat = 0; repeat < 20; ++repeat) {
        const std::string text = refusal([&] { lc::load_batch(out.data(), *x, rows, p); });
        ASSERT_NE(text.find("x137.ppm: expected"), std::string::npos) << text;
    }
    fs::permissions(path("d/x139.ppm"), fs::perms::none);
    if (std::ifstream(path("d/x139.ppm"))) return;  // nothing is unreadable to root
    EXPECT_NE(refusal([&] { x->hash(); }).find("x139.ppm"), std::string::npos);
}

// Official files, where LOCALCAL_IMAGES names a folder with cifar-10-batches-bin or cifar-100-binary in it.
struct RealImages : ::testing::TestWithParam<std::pair<const char*, const char*>> {};

TEST_P(RealImages, cifar) {
    const auto [set, below] = GetParam();
    const char* folder = std::getenv("LOCALCAL_IMAGES");
    if (folder == nullptr || !std::filesystem::exists(std::filesystem::path(folder) / below)) {
        GTEST_SKIP() << "needs CIFAR's binary version: set LOCALCAL_IMAGES to the folder above " << below;
    }
    for (const std::string split : {":train", ":test"}) {
        const auto x = open_images(std::string(set) + ":" + folder + split);
        ASSERT_EQ(x->size(), split == ":train" ? 50000 : 10000);
        std::vector<int64_t> count(static_cast<size_t>(x->classes()));
        for (int64_t i = 0; i < x->size(); ++i) ++count.at(size_t(x->label(i)));
        EXPECT_EQ(count, std::vector<int64_t>(count.size(), x->size() / x->classes())) << "equally many of each";
    }
}

INSTANTIATE_TEST_SUITE_P(All, RealImages,
                         ::testing::Values(std::pair{"cifar10", "cifar-10-batches-bin"},
                                           std::pair{"cifar100", "cifar-100-binary"}),
                         [](const auto& info) { return std::string(info.param.first); });

}  // namespace

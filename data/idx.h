// idx.h -- IDX files, plain or .gz: the images and labels of MNIST and its relatives.
//
//     IdxImages x = read_idx_images("train-images-idx3-ubyte.gz");
//     std::vector<int32_t> y = read_idx_labels("train-labels-idx1-ubyte.gz");
//
// Format   0, 0, type, dimensions (a byte each); every dimension as 32 bits, big endian; the data, last index fastest.
//          Type 8 is the unsigned byte, the only one that images and labels come in.
// Hostile  a header whose dimensions are not those of the bytes that follow is refused, and nothing is allocated by what
//          a header claims: plain files are as long as they are, and inflate.h bounds what a .gz unpacks to.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace lc {

struct IdxArray {
    std::vector<int64_t> shape;
    std::vector<uint8_t> values;
};
IdxArray read_idx(const std::string& path);
IdxArray parse_idx(std::span<const std::byte> file, const std::string& source);  // the same from memory

struct IdxImages {
    int64_t n = 0, height = 0, width = 0;
    std::vector<uint8_t> pixels;  // (n, height, width)
};
IdxImages read_idx_images(const std::string& path);             // refuses what has not three dimensions
std::vector<int32_t> read_idx_labels(const std::string& path);  // (n); refuses what has not one

struct IdxSet {
    IdxImages images;
    std::vector<int32_t> labels;  // one per image, in [0, classes)
};
// The training set ("train") or test set ("t10k") in a folder with the four files of MNIST and its relatives.
IdxSet read_idx_set(const std::string& folder, const std::string& set, int64_t classes);

}  // namespace lc

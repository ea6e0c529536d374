// fashion_data.h -- Fashion-MNIST in four parts: to train and to validate a classifier, to calibrate it, to judge both.
//
//     official training set (60,000), shuffled by a seed that never changes:  45 % train, 10 % validation, 45 % test
//     official test set (10,000):                                             calibration
//
// So no image serves twice, and there are more rows to judge by than to calibrate with.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace lc {

struct ImageRows {
    int64_t n = 0, d = 0;         // d = height * width
    std::vector<uint8_t> pixels;  // (n, d)
    std::vector<int32_t> labels;  // (n)

    std::vector<float> scaled() const;  // (n, d): pixels in [0, 1]
};

struct FashionParts {
    ImageRows train, validation, calibration, test;
    std::string hash;  // of everything in the files
};

constexpr int64_t kFashionClasses = 10;

// From the four IDX files, plain or .gz.  limit > 0: at most so many rows of every part.
FashionParts read_fashion(const std::string& folder, int64_t limit = 0);

}  // namespace lc

// split.h -- which rows of a training set serve for what, by a seed that never changes.
//
//     45 % train a classifier, 10 % validate it, the others are left to judge its calibration: no image serves twice
#pragma once
#include <cstdint>
#include <vector>

namespace lc {

struct Split {
    std::vector<int64_t> train, validation, rest;  // rows, shuffled
};
Split split_rows(int64_t n, int64_t train_percent = 45, int64_t validation_percent = 10);

}  // namespace lc

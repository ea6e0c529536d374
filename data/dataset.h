// dataset.h -- what calibration works on: the outputs of a classifier on n samples, checked once, here.
//
//     DatasetArrays arrays;                               those that there are; `features`, `logits`, ... of a .npz
//     arrays.logits = read_npy("logits.npy");
//     Dataset data = make_dataset(arrays, {.features = false, .labels = false}, {0, 5000});
//
// Refused, with the place and what to do: NaN and infinities; labels that are no whole numbers in [0, C); fewer than
// two samples (one, where no labels are needed) or classes; arrays of different lengths; probabilities outside [0, 1]
// or whose rows do not sum to 1 (within 1e-6 and 1e-3: float16 files are welcome).  Logits and probabilities are never guessed: logits that look like
// probabilities (all rows in [0, 1] and summing to 1) are refused, and where both are given they must agree.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "data/npy.h"

namespace lc {

struct Dataset {
    int64_t n = 0, C = 0, d = 0;  // samples, classes, features per sample
    std::vector<float> features;  // (n, d), empty if there are none
    std::vector<float> logits;    // (n, C); ln(max(p, FLT_MIN)) where only probabilities were given
    std::vector<double> probs;    // (n, C) as given, where there are no logits; else empty
    std::vector<int32_t> labels;  // (n), empty if there are none
    std::string source;           // "dump.npz", for messages and metadata
};

struct Needs {  // what the caller cannot do without; labels that are needed must show at least two classes
    bool features = false, labels = false;
};

struct Rows {  // [begin, end); end = -1: to the last
    int64_t begin = 0, end = -1;
};

struct DatasetArrays {
    std::optional<NpyArray> features;  // (n, d)
    std::optional<NpyArray> logits;    // (n, C)
    std::optional<NpyArray> probs;     // (n, C)
    std::optional<NpyArray> labels;    // (n) or (n, 1)
};

// Takes features, logits, probs and labels, or netcal's predictions (probs) and ground_truth (labels); other names may
// be there too.
DatasetArrays pick_arrays(const std::map<std::string, NpyArray>& arrays, const std::string& source);

// What can be refused without reading the arrays: those that are missing, lengths that differ, rows that are not there.
// Settles where the rows end.
void check_dataset(const DatasetArrays& arrays, Needs needs, Rows& rows, const std::string& source);

Dataset make_dataset(const DatasetArrays& arrays, Needs needs, Rows rows, const std::string& source);

}  // namespace lc

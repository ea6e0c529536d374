// tfjs.h -- weights of TensorFlow.js: model.json, and beside it the files that hold the numbers.
//
// Format   model.json: {"weightsManifest": [{"paths": ["group1-shard1of2.bin", ...],
//                                            "weights": [{"name": "conv1/kernel", "shape": [7, 7, 3, 64],
//                                                         "dtype": "float32"}, ...]}, ...], ...}
//          The weights of a group lie one after another in its files, which are one text cut into pieces: a tensor may
//          begin in one and end in the next.
//          Keras models say more: metadata["bn_eps"] is the epsilon of their batch normalisations.
// Reads    float32, int32, uint8, bool.  Quantised weights, strings and complex numbers are refused by name.
// Hostile  names that leave the folder, files or weights that repeat, sizes that do not add up: refused.  Memory is
//          asked for by the size of the files that are there, not by what model.json claims.
#pragma once
#include <functional>

#include "data/weights.h"

namespace lc {

Weights read_tfjs(const std::string& model_json);

// The same from memory; `shard` gives the bytes of a file by its name, and they need not outlive the call.
Weights parse_tfjs(std::span<const std::byte> json, const std::string& path,
                   const std::function<std::span<const std::byte>(const std::string& name)>& shard);

}  // namespace lc

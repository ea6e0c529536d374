// weights.h -- pretrained weights: the named tensors of any file that they come in.
//
//     Weights w = read_weights("resnet50.pth");
//     const SafeTensor* kernel = w.find("conv1.weight");      nullptr where there is none
//
// Formats  safetensors (safetensors.h); PyTorch's .pth, .pt, .th, the zip and the older one (torch_file.h);
//          TensorFlow.js, model.json and its shards (tfjs.h).  Told apart by their first bytes, whatever their names.
// A tensor is contiguous, row-major, little endian, of a dtype of safetensors.  Most lie where the file is mapped.
#pragma once
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "data/safetensors.h"

namespace lc {

struct Weights {
    std::string path, format;                     // "safetensors", "torch zip", "torch legacy", "tfjs"
    std::map<std::string, std::string> metadata;  // numbers and texts found beside the tensors ("epoch": "161")
    std::vector<SafeTensor> tensors;              // in the file's order, every name once
    std::shared_ptr<const void> keeps_alive;      // what the tensors' bytes lie in

    const SafeTensor* find(const std::string& name) const;
};

// A folder is the model.json in it.  `or_else` is what a refusal says was expected too, such as "arrays or ".
Weights read_weights(const std::string& path, const std::string& or_else = "");

}  // namespace lc

// input.h -- INPUT, the same for every command that reads samples:
//
//     --data FILE.npz                               arrays features, logits or probs, labels
//     --features F --logits F | --probs F --labels F                 a file each: .npy, or .npz with one array
//     --rows A:B                                    rows A to B-1 of either
#pragma once
#include <string>

#include "data/dataset.h"

namespace CLI {
class App;
}

namespace lc::cli {

struct InputOptions {
    std::string data, features, logits, probs, labels, rows;
};

void add_input_options(CLI::App& app, InputOptions& options);
Dataset load(const InputOptions& options, Needs needs);

// "100:200", "100:" or ":200"; "" is all of them.
Rows parse_rows(const std::string& text);

}  // namespace lc::cli

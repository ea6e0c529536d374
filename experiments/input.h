// input.h -- INPUT, the same for every command that reads samples:
//
//     --data FILE.npz                               arrays features, logits or probs, labels
//     --features F --logits F | --probs F --labels F                 a file each: .npy, or .npz with one array
//     --rows A:B                                    rows A to B-1 of either
#pragma once
#include <string>

#include "data/dataset.h"
#include "experiments/options.h"

namespace lc::cli {

struct InputOptions {
    std::string data, features, logits, probs, labels, rows;
};

void add_input_options(Options& options, InputOptions& o);
Dataset load(const InputOptions& options, Needs needs);

// The same in pieces, for input that is larger than memory: files are mapped, and a piece is what is read.
struct InputRows {
    DatasetArrays arrays;
    Needs needs;
    Rows rows;  // with their end
    std::string source;

    int64_t size() const { return rows.end - rows.begin; }
    Dataset piece(int64_t begin, int64_t end) const {  // of size()
        return make_dataset(arrays, needs, {rows.begin + begin, rows.begin + end}, source);
    }
};
InputRows open_input(const InputOptions& options, Needs needs);

// "100:200", "100:" or ":200"; "" is all of them.
Rows parse_rows(const std::string& text);

}  // namespace lc::cli

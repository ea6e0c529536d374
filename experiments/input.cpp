// input.cpp -- from the options of INPUT to a Dataset (what is accepted: data/dataset.h).
#include "experiments/input.h"

#include "experiments/cli.h"
#include "kernels/check.h"

namespace lc::cli {

namespace {

std::optional<NpyArray> read_one(const char* option, const std::string& path) {
    if (path.empty()) return std::nullopt;
    if (!looks_like_zip(MappedFile(path))) return read_npy(path);
    auto arrays = read_npz(path);
    if (arrays.size() == 1) return arrays.begin()->second;
    throw Error(std::string(option) + " takes a .npy file or a .npz file with one array; found " +
                std::to_string(arrays.size()) + " arrays in '" + path + "'; use --data, or save the one by itself");
}

DatasetArrays read_data(const std::string& path) {
    if (!looks_like_zip(MappedFile(path))) {
        throw Error("--data takes a .npz file with logits or probs and, where needed, features and labels; found '" +
                    path + "', which is no zip archive; a .npy file goes to --features, --logits, --probs or --labels");
    }
    return pick_arrays(read_npz(path), path);
}

// Says which option is missing or too many, before any file is read.
void check_given(const InputOptions& o, Needs needs) {
    const bool separate = !(o.features + o.logits + o.probs + o.labels).empty();
    if (!o.data.empty() && separate) {
        throw Error("expected either --data FILE.npz or one file per array, found both; keep one of them");
    }
    if (o.data.empty() && !separate) {
        throw Error("expected input, found none; give --data FILE.npz, or --logits F with --features F and --labels F");
    }
    if (!o.data.empty()) return;
    if (o.logits.empty() == o.probs.empty()) {
        throw Error(std::string("expected --logits F or --probs F, found ") +
                    (o.logits.empty() ? "neither; give one" : "both; keep one"));
    }
    if (needs.features && o.features.empty()) throw Error("expected --features F, found none; they are needed here");
    if (needs.labels && o.labels.empty()) throw Error("expected --labels F, found none; they are needed here");
}

}  // namespace

void add_input_options(Options& options, InputOptions& o) {
    const auto add = [&](const char* name, std::string& value, const char* help, const char* type) {
        options.add_option(name, value, help).type_name(type).group("Input");
    };
    add("--data", o.data, ".npz with features, logits or probs, labels (or netcal's names)", "FILE");
    add("--features", o.features, "(n, d), instead of --data: .npy, or .npz with one array", "FILE");
    add("--logits", o.logits, "(n, C)", "FILE");
    add("--probs", o.probs, "(n, C), instead of --logits", "FILE");
    add("--labels", o.labels, "(n), from 0 to C-1", "FILE");
    add("--rows", o.rows, "only rows A to B-1", "A:B");
}

Rows parse_rows(const std::string& text) {
    if (text.empty()) return {};
    const size_t colon = text.find(':');
    if (colon == std::string::npos || text.size() == 1) {
        throw Error("--rows takes A:B, which means rows A to B-1; found '" + text + "'");
    }
    const std::string first = text.substr(0, colon), last = text.substr(colon + 1);
    Rows rows;
    if (!first.empty()) rows.begin = int64_t(parse_integer("--rows", first, 0, INT64_MAX));
    if (!last.empty()) rows.end = int64_t(parse_integer("--rows", last, 0, INT64_MAX));
    return rows;
}

InputRows open_input(const InputOptions& o, Needs needs) {
    check_given(o, needs);
    InputRows input = {{}, needs, parse_rows(o.rows), o.data.empty() ? o.logits + o.probs : o.data};
    if (!o.data.empty()) {
        input.arrays = read_data(o.data);
    } else {
        input.arrays.features = read_one("--features", o.features);
        input.arrays.logits = read_one("--logits", o.logits);
        input.arrays.probs = read_one("--probs", o.probs);
        input.arrays.labels = read_one("--labels", o.labels);
    }
    check_dataset(input.arrays, needs, input.rows, input.source);
    return input;
}

Dataset load(const InputOptions& o, Needs needs) {
    const InputRows input = open_input(o, needs);
    return input.piece(0, input.size());
}

}  // namespace lc::cli

// samples.h -- what commands that fit or apply calibrators share.
#pragma once
#include <cstdio>

#include "calib/calibrator.h"
#include "data/file.h"
#include "experiments/cli.h"
#include "experiments/input.h"

namespace lc::cli {

// A view of a data set as calib/ takes it.
inline Samples samples_of(const Dataset& data) {
    return {data.n,
            data.d,
            data.C,
            data.features.empty() ? nullptr : data.features.data(),
            data.logits.data(),
            data.labels.empty() ? nullptr : data.labels.data(),
            data.probs.empty() ? nullptr : data.probs.data()};
}

// Refuses an output that could not be written, before the long work and not after it.
inline void check_writable(const std::string& path) { AtomicFile probe(path); }

// Sentences for a person, on standard error.
inline std::function<void(const std::string&)> notes(const Common& common) {
    if (common.quiet) return {};
    return [](const std::string& text) { std::fprintf(stderr, "note: %s\n", text.c_str()); };
}

}  // namespace lc::cli

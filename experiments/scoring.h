// scoring.h -- how models are scored, the same for every command that does it: the options of cli, and the rows, spaces and
// bandwidth they lead to.
//
//     --gamma X|auto  --pca K|none  --bins 15  --min-bin N  --weights uniform|prior|FILE
//     --modes authors|paper|corrected,  and one by one --lce --mlce --ecce --nll --self
//     --space own|common|both  --bootstrap N  --null N
#pragma once
#include <nlohmann/json_fwd.hpp>

#include "data/dataset.h"
#include "experiments/cli.h"
#include "metrics/scorecard.h"
#include "nn/pca.h"

namespace lc::cli {

struct ScoringOptions {
    std::string gamma = "auto", pca = "50", weights = "uniform", modes = "authors", space = "both";
    std::string lce, mlce, ecce, nll, self;  // empty: as --modes says
    int64_t bins = 15, min_bin = -1;         // -1: as --lce says
    int64_t bootstrap = 1000, null = 200;
};
void add_scoring_options(CLI::App& app, ScoringOptions& o);

// The options as enums, and as text for outputs: every choice by name.
struct ScoringChoice {
    ScoreOptions score;
    std::vector<std::pair<std::string, std::string>> modes;  // "lce" -> "authors", ...
    bool from_logits = false;                                // nll
};
ScoringChoice choose_scoring(const ScoringOptions& o, const Common& common);

// The space in which neighbours are near: the features, reduced.
struct CommonSpace {
    Tensor z;                 // (n, k)
    std::string description;  // "64 features reduced to 50 by PCA of these rows"
    int64_t reduced_to = 0;   // 0: as they are
};
CommonSpace common_space(const Backend& b, const Dataset& data, const Predictions& uncalibrated,
                         const ScoringOptions& o, const Pca* fitted, const Progress& progress);

// What the classifier itself says, before any calibration.
Predictions uncalibrated(const Dataset& data);

std::vector<double> class_weights(const ScoringOptions& o, const Dataset& data);

// --gamma X, or the scoring bandwidth of the uncalibrated model; notes what a person should know.
ScoringBandwidth choose_gamma(const ScoringOptions& o, const Tensor& z, const Predictions& uncalibrated,
                              const LocalOptions& local, const Common& common, const Progress& progress);

nlohmann::ordered_json score_json(const Score& s);

}  // namespace lc::cli

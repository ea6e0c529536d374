// scoring.h -- how models are scored, the same for every command that does it: the options of cli, and the rows, spaces and
// bandwidth they lead to.
//
//     --gamma X|auto  --pca K|none  --bins 15  --min-bin N  --weights uniform|prior|FILE
//     --modes authors|paper|corrected,  and one by one --lce --mlce --ecce --nll --self
//     --space own|common|both  --bootstrap N  --null N
#pragma once
#include <nlohmann/json_fwd.hpp>

#include "calib/calibrator.h"
#include "data/dataset.h"
#include "experiments/cli.h"
#include "experiments/input.h"
#include "metrics/scorecard.h"
#include "nn/pca.h"

namespace lc::cli {

struct ScoringOptions {
    std::string gamma = "auto", pca = "50", weights = "uniform", modes = "authors", space = "both";
    std::string lce, mlce, ecce, nll, self;  // empty: as --modes says
    int64_t bins = 15, min_bin = -1;         // -1: as --lce says
    int64_t bootstrap = 1000, null = 200;
};
void add_scoring_options(Options& options, ScoringOptions& o);
void add_gamma_option(Options& options, ScoringOptions& o);
void add_noise_options(Options& options, ScoringOptions& o);

// The options as enums, and as text for outputs: every choice by name.
struct ScoringChoice {
    CardOptions card;
    std::vector<std::pair<std::string, std::string>> modes;  // "lce" -> "authors", ...
};
ScoringChoice choose_scoring(const ScoringOptions& o, const Common& common);

// Rows, ready to be scored: what the classifier says, what a calibrator makes of it, and where neighbours are near.
struct Scored {
    Dataset data;
    std::string device, method = "nc";
    ScoringChoice choice;
    Predictions before, after;  // as the classifier gave them; as they are scored
    Tensor common, own;         // (n, k): the classifier's features, reduced; the method's own, where it has some
    std::string space;          // what `common` is: "64 features reduced to 50 by PCA of these rows"
    int64_t pca = 0;            // dimensions it was reduced to; 0: as they are
    ScoringBandwidth gamma;     // median_n_eff is 0 where --gamma gave it
};
Scored prepare_scoring(const Common& common, const InputOptions& input, const std::string& model,
                       const ScoringOptions& o, const Progress& progress);

// The same in two steps, for several calibrators of the same rows: what does not depend on them, and what one of them
// makes of the rows.
struct GivenPca {
    const Pca* pca = nullptr;  // null: a PCA of the rows, where they have more features than --pca
    const char* whose = "";    // for people: "the model"
};
Scored prepare_rows(const Common& common, Dataset data, const ScoringOptions& o, const GivenPca& given,
                    const Progress& progress);
void apply_model(Scored& s, const Calibrator& c, const Progress& progress = {});

// "dump.npz: 10000 rows, 10 classes; method ts", and how neighbours were found: the first lines of every table.
std::string heading(const Scored& s);

nlohmann::ordered_json scored_json(const Scored& s, const ScoringOptions& o, const char* schema);  // all but results
nlohmann::ordered_json score_json(const CardScore& s);

}  // namespace lc::cli

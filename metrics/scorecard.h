// scorecard.h -- every metric of one model at once, global and local, each with its noise: what `localcal eval` prints.
#pragma once
#include "metrics/local.h"
#include "metrics/null.h"
#include "metrics/scores.h"

namespace lc {

struct CardOptions {
    ScoreOptions global;  // metrics of the probabilities alone; its distances are found where none are given
    LocalOptions local;
    LceMode lce = LceMode::kept_rows;
    MlceMode mlce = MlceMode::class_mean;
    int64_t bootstrap = 1000;  // replicates behind an interval; 0: none
    int64_t null = 200;        // sets of labels drawn from p; 0: none
    uint64_t seed = 0;
};

struct CardScore : Score {  // interval: 95 %
    std::optional<NullScore> null = {};
    std::optional<double> p = {};  // where the metric has a P-value of its own
};

struct Scorecard {
    std::vector<CardScore> scores;          // in the order they are printed
    std::optional<LocalErrors> local, own;  // in the common space, and in the method's own
    Nll nll;

    const CardScore* find(const std::string& name) const;
};

// `common`: the classifier's features, the same for every method; `own`: the method's own features.  Either may be null.
// A bootstrap redraws rows as anchors; their local errors stay those of the whole sample.
Scorecard score_card(const Predictions& s, const Tensor* common, const Tensor* own, const CardOptions& o,
                     const Progress& progress = {});

}  // namespace lc

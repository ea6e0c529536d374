// scorecard.h -- every metric of one model at once, each with its noise: what `localcal eval` and `compare` print.
#pragma once
#include <optional>

#include "metrics/bootstrap.h"
#include "metrics/ecce.h"
#include "metrics/ece.h"
#include "metrics/local.h"
#include "metrics/null.h"
#include "metrics/proper.h"

namespace lc {

enum class EcceChoice { authors, paper, range };  // range: the bin-free ecce_r, class-wise

struct ScoreOptions {
    LocalOptions local;
    LceMode lce = LceMode::kept_rows;
    MlceMode mlce = MlceMode::class_mean;
    EcceChoice ecce = EcceChoice::authors;
    NllMode nll = NllMode::authors;
    std::vector<double> weights;  // (C); empty: uniform
    int64_t bootstrap = 0;        // replicates behind an interval; 0: none
    int64_t null = 0;             // sets of labels drawn from p; 0: none
    uint64_t seed = 0;
};

struct Score {
    std::string name;
    double value = 0;
    std::optional<Interval> interval;  // 95 %, percentiles of the bootstrap
    std::optional<NullScore> null;
    std::optional<double> p;  // where the metric has a P-value of its own
};

struct Scorecard {
    std::vector<Score> scores;              // in the order they are printed
    std::optional<LocalErrors> local, own;  // in the common space, and in the method's own
    LocalCounts counts;                     // of the common space
    Nll nll;

    const Score* find(const std::string& name) const;
};

// `common`: the classifier's features, the same for every method; `own`: the method's own features.  Either may be null.
Scorecard score(const Predictions& s, const Tensor* common, const Tensor* own, const ScoreOptions& o,
                const Progress& progress = {});

}  // namespace lc

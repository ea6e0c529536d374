// scores.h -- every global metric of a set of predictions by name, with its bootstrap interval.
//
//     for (const Score& m : score(s, {}, {.replicates = 1000, .seed = 1})) print(m.name, m.value, m.interval);
//
//     acc nll brier                    proper.h
//     ece mce ece_top mce_top          ece.h
//     ece_multi                        ece.h, unless multi_bins = 0
//     ecce                             ecce.h, class-wise
//     ecce_r ecce_mad                  ecce.h, range and largest absolute value, top label
//     piece                            proximity.h, where distances to neighbours are given
#pragma once
#include <optional>
#include <string>

#include "metrics/bootstrap.h"
#include "metrics/ecce.h"
#include "metrics/proper.h"
#include "metrics/proximity.h"

namespace lc {

struct ScoreOptions {
    Binning binning = {};
    std::vector<double> weights = {};  // of the classes; empty: uniform
    NllMode nll = NllMode::authors;
    double nll_floor = FLT_MIN;
    EcceMode ecce = EcceMode::authors;
    int64_t multi_bins = 15;            // per axis of ece_multi; 0 leaves it out
    std::vector<double> distance = {};  // (n), of neighbour_distance; empty: no piece
    int64_t proximity_bins = 10;
};

// Sorts and bins once; then each set of counts costs one pass.  Keeps a reference to the predictions.
class Scorer {
  public:
    Scorer(const Predictions& s, ScoreOptions options);
    const std::vector<std::string>& names() const { return names_; }
    std::vector<double> operator()(Counts counts = {}) const;  // in the order of names()

  private:
    const Predictions& s_;
    ScoreOptions o_;
    std::vector<std::string> names_;
    std::vector<double> hit_, nll_, brier_;  // (n)
    std::vector<int32_t> bin_;               // (n, C)
    Outcomes top_;
    std::vector<int32_t> top_bin_, proximity_cell_;  // (n)
    CumulativeWalk top_walk_;
    std::vector<CumulativeWalk> class_walks_;  // (C), for EcceMode::range
    std::optional<Cells> cells_;
};

struct Score {
    std::string name;
    double value = 0;
    std::optional<Interval> interval = {};
};
std::vector<Score> score(const Predictions& s, const ScoreOptions& options);
std::vector<Score> score(const Predictions& s, const ScoreOptions& options, const BootstrapOptions& bootstrap);

}  // namespace lc

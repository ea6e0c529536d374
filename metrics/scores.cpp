// scores.cpp -- see scores.h.
#include "metrics/scores.h"

#include "metrics/ece.h"

namespace lc {

Scorer::Scorer(const Predictions& s, ScoreOptions options)
    : s_(s), o_(std::move(options)), top_(top_label(s)), top_walk_(top_) {
    if (o_.weights.empty()) o_.weights = uniform_weights(s.C);
    check_weights(o_.weights, s.C);
    hit_ = each_hit(s);
    nll_ = each_nll(s, o_.nll, o_.nll_floor);
    brier_ = each_brier(s);
    bin_ = assign_bins_by_class(s, o_.binning);
    top_bin_ = assign_bins(top_.confidence, o_.binning);
    names_ = {"acc", "nll", "brier", "ece", "mce", "ece_top", "mce_top", "ecce", "ecce_r", "ecce_mad"};
    if (o_.ecce == EcceMode::range) {
        for (int64_t c = 0; c < s.C; ++c) class_walks_.emplace_back(class_outcomes(s, c));
    }
    if (o_.multi_bins > 0) {
        cells_ = simplex_cells(s, o_.multi_bins);
        names_.push_back("ece_multi");
    }
    if (!o_.distance.empty()) {
        proximity_cell_ = proximity_cells(top_, o_.distance, {o_.binning, o_.proximity_bins});
        names_.push_back("piece");
    }
}

std::vector<double> Scorer::operator()(Counts counts) const {
    const std::vector<double> one = {1.0};  // the weight of a single 'class'
    const BinTable table = tabulate(s_, bin_, o_.binning.bins, counts);
    const BinTable top = tabulate(top_, top_bin_, o_.binning.bins, counts);
    const CumulativeWalk::Extremes e = top_walk_(counts);
    double cumulative = 0;
    if (o_.ecce == EcceMode::range) {
        for (size_t c = 0; c < class_walks_.size(); ++c) cumulative += o_.weights[c] * class_walks_[c](counts).range;
    } else {
        cumulative = ecce(table, o_.weights, o_.ecce);
    }
    std::vector<double> values = {mean_of(hit_, counts),
                                  mean_of(nll_, counts),
                                  mean_of(brier_, counts),
                                  ece(table, o_.weights),
                                  mce(table, o_.weights),
                                  ece(top, one),
                                  mce(top, one),
                                  cumulative,
                                  e.range,
                                  e.max_abs};
    if (cells_) values.push_back(ece_multi(s_, *cells_, o_.weights, counts));
    if (!proximity_cell_.empty()) {
        const ProximityBinning binning = {o_.binning, o_.proximity_bins};
        values.push_back(ece(tabulate(top_, proximity_cell_, binning.cells(), counts), one));
    }
    return values;
}

std::vector<Score> score(const Predictions& s, const ScoreOptions& options) {
    const Scorer scorer(s, options);
    const std::vector<double> values = scorer();
    std::vector<Score> scores;
    for (size_t k = 0; k < values.size(); ++k) scores.push_back({scorer.names()[k], values[k]});
    return scores;
}

std::vector<Score> score(const Predictions& s, const ScoreOptions& options, const BootstrapOptions& resampling) {
    const Scorer scorer(s, options);
    const std::vector<double> values = scorer();
    const std::vector<Interval> intervals = bootstrap(s.n, std::cref(scorer), resampling);
    std::vector<Score> scores;
    for (size_t k = 0; k < values.size(); ++k) scores.push_back({scorer.names()[k], values[k], intervals[k]});
    return scores;
}

}  // namespace lc

// scorecard.cpp -- see scorecard.h.
#include "metrics/scorecard.h"

#include <algorithm>
#include <cmath>

#include "metrics/proximity.h"

namespace lc {
namespace {

// |error| of the kept entries, class by class, for rows that count several times or not at all.
std::vector<double> local_replicate(const LocalErrors& e, const ScoreOptions& o, Counts counts) {
    const size_t C = size_t(e.C);
    std::vector<double> sum(C), rows(C), most(C);
    double row_most = 0;
    for (int64_t i = 0; i < e.n; ++i) {
        const double times = count_of_row(counts, i);
        if (times == 0) continue;
        const float* const error = e.error.data() + i * e.C;
        const float* const weight = e.weight.data() + i * e.C;
        double row = 0;
        for (size_t c = 0; c < C; ++c) {
            const double x = std::abs(double(error[c]));
            sum[c] += times * x;
            rows[c] += weight[c] > 0 ? times : 0.0;
            most[c] = std::max(most[c], x);
            row += x;
        }
        row_most = std::max(row_most, row);
    }
    double lce = 0, mean_most = 0;
    for (size_t c = 0; c < C; ++c) {
        const double n = o.lce == LceMode::all_rows ? double(e.n) : rows[c];
        if (n > 0) lce += o.weights[c] * sum[c] / n;
        mean_most += o.weights[c] * most[c];
    }
    const double mlce = o.mlce == MlceMode::row_l1    ? row_most
                        : o.mlce == MlceMode::largest ? *std::max_element(most.begin(), most.end())
                                                      : mean_most;
    return {lce, mlce};
}

// Everything that a replicate needs, prepared once: per-row scores, bins, orders.
class Board {
  public:
    Board(const Predictions& s, const ScoreOptions& o, const LocalErrors* local, const LocalErrors* own,
          const std::vector<double>& distance)
        : s_(s),
          o_(o),
          local_(local),
          own_(own),
          top_(top_label(s)),
          binning_{o.local.bins, false},
          bin_(assign_bins_by_class(s, binning_)),
          top_bin_(assign_bins(top_.confidence, binning_)),
          hit_(each_hit(s)),
          nll_(each_nll(s, o.nll)),
          brier_(each_brier(s)),
          top_walk_(top_) {
        if (o.ecce == EcceChoice::range) {
            for (int64_t c = 0; c < s.C; ++c) walks_.emplace_back(class_outcomes(s, c));
        }
        if (!distance.empty()) {
            cells_ = proximity_cells(top_, distance, proximity_);
        }
    }

    std::vector<std::string> names() const {
        std::vector<std::string> n = {"acc",     "nll",     "brier", "ece",    "mce",
                                      "ece_top", "mce_top", "ecce",  "ecce_r", "ecce_mad"};
        if (!cells_.empty()) n.push_back("piece");
        if (local_ != nullptr) n.insert(n.end(), {"lce", "mlce"});
        if (own_ != nullptr) n.insert(n.end(), {"lce_own", "mlce_own"});
        return n;
    }

    // One number for each name; empty counts: the sample itself.
    std::vector<double> operator()(Counts counts) const {
        const BinTable table = tabulate(s_, bin_, o_.local.bins, counts);
        const BinTable top = tabulate(top_, top_bin_, o_.local.bins, counts);
        const std::vector<double> one = {1.0};
        const CumulativeWalk::Extremes walk = top_walk_(counts);
        std::vector<double> v = {mean_of(hit_, counts),
                                 mean_of(nll_, counts),
                                 mean_of(brier_, counts),
                                 ece(table, o_.weights),
                                 mce(table, o_.weights),
                                 ece(top, one),
                                 mce(top, one),
                                 ecce_of(table, counts),
                                 walk.range,
                                 walk.max_abs};
        if (!cells_.empty()) v.push_back(ece(tabulate(top_, cells_, proximity_.cells(), counts), one));
        for (const LocalErrors* e : {local_, own_}) {
            if (e == nullptr) continue;
            const std::vector<double> both = local_replicate(*e, o_, counts);
            v.insert(v.end(), both.begin(), both.end());
        }
        return v;
    }

  private:
    double ecce_of(const BinTable& table, Counts counts) const {
        if (o_.ecce != EcceChoice::range) {
            return ecce(table, o_.weights, o_.ecce == EcceChoice::paper ? EcceMode::paper : EcceMode::authors);
        }
        double sum = 0;
        for (size_t c = 0; c < walks_.size(); ++c) sum += o_.weights[c] * walks_[c](counts).range;
        return sum;
    }

    const Predictions& s_;
    const ScoreOptions& o_;
    const LocalErrors *local_, *own_;
    Outcomes top_;
    Binning binning_;
    std::vector<int32_t> bin_, top_bin_, cells_;  // (n, C), (n), (n)
    std::vector<double> hit_, nll_, brier_;       // (n)
    CumulativeWalk top_walk_;
    std::vector<CumulativeWalk> walks_;  // by class, where ecce asks for them
    ProximityBinning proximity_;
};

void add_nulls(Scorecard& card, const Predictions& s, const Tensor* common, const Tensor* own, const ScoreOptions& o,
               const Progress& progress) {
    const std::vector<int32_t> labels = draw_labels(s, o.null, o.seed);
    const auto set = [&](const std::string& name, const std::vector<double>& null) {
        for (Score& score : card.scores) {
            if (score.name == name) score.null = against_null(score.value, null);
        }
    };
    const BinnedNull binned = binned_null(s, o.weights, o.local.bins, labels);
    set("ece", binned.ece);
    set("ece_top", binned.ece_top);
    if (card.local) {
        const Progress part = part_of(progress, 0, card.own ? 0.5 : 1.0);
        const LocalNull null = local_null(*common, s, *card.local, o.weights, o.lce, o.mlce, labels, part);
        set("lce", null.lce);
        set("mlce", null.mlce);
    }
    if (card.own) {
        const Progress part = part_of(progress, card.local ? 0.5 : 0.0, 1.0);
        const LocalNull null = local_null(*own, s, *card.own, o.weights, o.lce, o.mlce, labels, part);
        set("lce_own", null.lce);
        set("mlce_own", null.mlce);
    }
}

}  // namespace

const Score* Scorecard::find(const std::string& name) const {
    const auto at = std::find_if(scores.begin(), scores.end(), [&](const Score& s) { return s.name == name; });
    return at == scores.end() ? nullptr : &*at;
}

Scorecard score(const Predictions& s, const Tensor* common, const Tensor* own, const ScoreOptions& options,
                const Progress& progress) {
    ScoreOptions o = options;
    if (o.weights.empty()) o.weights = uniform_weights(s.C);
    check_weights(o.weights, s.C);
    if (o.nll == NllMode::logits && s.log_p.empty()) o.nll = NllMode::floor;

    Scorecard card;
    card.nll = nll(s, o.nll);
    std::vector<double> distance;
    if (common != nullptr) {
        card.local = local_errors(*common, s, o.local, part_of(progress, 0.0, 0.1));
        card.counts = counts_of(*card.local);
        if (s.n > 1) distance = neighbour_distance(*common);
    }
    if (own != nullptr) card.own = local_errors(*own, s, o.local, part_of(progress, 0.1, 0.2));

    const Board board(s, o, card.local ? &*card.local : nullptr, card.own ? &*card.own : nullptr, distance);
    const std::vector<std::string> names = board.names();
    const std::vector<double> values = board({});
    for (size_t k = 0; k < names.size(); ++k) card.scores.push_back({names[k], values[k], {}, {}, {}});
    if (o.bootstrap >= 2) {
        const auto intervals =
            bootstrap(s.n, [&](Counts counts) { return board(counts); },
                      {.replicates = o.bootstrap, .seed = o.seed, .progress = part_of(progress, 0.2, 0.6)});
        for (size_t k = 0; k < intervals.size(); ++k) card.scores[k].interval = intervals[k];
    }
    const CumulativeError walk = cumulative_error(top_label(s));
    for (Score& score : card.scores) {
        if (score.name == "ecce_r") score.p = walk.p_range;
        if (score.name == "ecce_mad") score.p = walk.p_max_abs;
    }
    if (o.null >= 1) add_nulls(card, s, common, own, o, part_of(progress, 0.6, 1.0));
    return card;
}

}  // namespace lc

// scorecard.cpp -- see scorecard.h.
#include "metrics/scorecard.h"

#include <algorithm>
#include <cmath>

namespace lc {
namespace {

// LCE and MLCE of rows that count several times or not at all.
std::vector<double> local_scores(const LocalErrors& e, const CardOptions& o, const std::vector<double>& weights,
                                 Counts counts) {
    const size_t C = size_t(e.C);
    std::vector<double> sum(C), rows(C), most(C);
    double row_most = 0;
    for (int64_t i = 0; i < e.n; ++i) {
        const double times = count_of_row(counts, i);
        if (times == 0) continue;
        const float *const error = e.error.data() + i * e.C, *const weight = e.weight.data() + i * e.C;
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
    if (o.lce == LceMode::all_rows) rows.assign(C, double(e.n));
    double lce = 0;
    for (size_t c = 0; c < C; ++c) lce += rows[c] > 0 ? weights[c] * sum[c] / rows[c] : 0;
    return {lce, mlce_of(most, row_most, weights, o.mlce)};
}

void add_nulls(Scorecard& card, const Predictions& s, const Tensor* common, const Tensor* own, const CardOptions& o,
               const Progress& progress) {
    const std::vector<int32_t> labels = draw_labels(s, o.null, o.seed);
    const auto set = [&](const std::string& name, const std::vector<double>& null) {
        for (CardScore& score : card.scores) {
            if (score.name == name) score.null = against_null(score.value, null);
        }
    };
    const BinnedNull binned = binned_null(s, o.global.weights, o.global.binning, labels);
    set("ece", binned.ece);
    set("ece_top", binned.ece_top);
    const auto add = [&](const std::optional<LocalErrors>& e, const Tensor* z, const std::string& suffix, double begin,
                         double end) {
        if (!e) return;
        const LocalNull null =
            local_null(*z, s, *e, o.global.weights, o.lce, o.mlce, labels, part_of(progress, begin, end));
        set("lce" + suffix, null.lce);
        set("mlce" + suffix, null.mlce);
    };
    add(card.local, common, "", 0, card.own ? 0.5 : 1.0);
    add(card.own, own, "_own", card.local ? 0.5 : 0.0, 1.0);
}

}  // namespace

const CardScore* Scorecard::find(const std::string& name) const {
    const auto at = std::find_if(scores.begin(), scores.end(), [&](const CardScore& s) { return s.name == name; });
    return at == scores.end() ? nullptr : &*at;
}

Scorecard score_card(const Predictions& s, const Tensor* common, const Tensor* own, const CardOptions& options,
                     const Progress& progress) {
    CardOptions o = options;
    if (o.global.weights.empty()) o.global.weights = uniform_weights(s.C);
    if (o.global.nll == NllMode::logits && s.log_p.empty()) o.global.nll = NllMode::floor;

    Scorecard card;
    card.nll = nll(s, o.global.nll, o.global.nll_floor);
    if (common != nullptr) {
        card.local = local_errors(*common, s, o.local, part_of(progress, 0.0, 0.1));
        if (s.n > 1 && o.global.distance.empty()) o.global.distance = neighbour_distance(*common);
    }
    if (own != nullptr) card.own = local_errors(*own, s, o.local, part_of(progress, 0.1, 0.2));

    const Scorer global(s, o.global);
    const auto all = [&](Counts counts) {
        std::vector<double> v = global(counts);
        for (const auto* e : {&card.local, &card.own}) {
            if (!*e) continue;
            for (const double x : local_scores(**e, o, o.global.weights, counts)) v.push_back(x);
        }
        return v;
    };
    std::vector<std::string> names = global.names();
    if (card.local) names.insert(names.end(), {"lce", "mlce"});
    if (card.own) names.insert(names.end(), {"lce_own", "mlce_own"});
    const std::vector<double> values = all({});
    for (size_t k = 0; k < names.size(); ++k) card.scores.push_back({{names[k], values[k], {}}, {}, {}});

    if (o.bootstrap >= 2) {
        const auto intervals =
            bootstrap(s.n, all, {.replicates = o.bootstrap, .seed = o.seed, .progress = part_of(progress, 0.2, 0.6)});
        for (size_t k = 0; k < intervals.size(); ++k) card.scores[k].interval = intervals[k];
    }
    const CumulativeError walk = cumulative_error(top_label(s));
    for (CardScore& score : card.scores) {
        if (score.name == "ecce_r") score.p = walk.p_range;
        if (score.name == "ecce_mad") score.p = walk.p_max_abs;
    }
    if (o.null >= 1) add_nulls(card, s, common, own, o, part_of(progress, 0.6, 1.0));
    return card;
}

}  // namespace lc

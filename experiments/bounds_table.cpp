// bounds_table.cpp -- see bounds_table.h.
#include "experiments/bounds_table.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "experiments/cli.h"
#include "metrics/ece.h"
#include "metrics/proximity.h"

namespace lc::cli {
namespace {

// n_eff and spread of every row and class, all bins, the row itself among its neighbours: the setting of the theorems.
struct Neighbours {
    std::vector<int32_t> bin;
    std::vector<float> n_eff, spread;
    double lce = 0;
};

Neighbours neighbours_of(const Tensor& z, const Predictions& s, const CardOptions& o) {
    LocalOptions all = o.local;
    all.min_bin = 0, all.include_self = true;
    std::vector<float> logits;
    for (const double p : s.p) logits.push_back(float(std::log(std::max(p, 1e-12))));
    Neighbours r;
    LocalErrors e = local_errors_with_spread(z, s, all, logits, r.spread);
    r.lce = lce_of(e, o.global.weights, LceMode::all_rows);
    r.bin = std::move(e.bin), r.n_eff = std::move(e.n_eff);
    return r;
}

std::string number(double x) {
    char text[32];
    std::snprintf(text, sizeof text, "%.4f", x);
    return text;
}

}  // namespace

std::vector<Bound> evaluate_bounds(const Tensor& z, const Predictions& s, const LocalCalibration& local,
                                   const CardOptions& o) {
    const Premise premise = {.epsilon = local.epsilon, .plug_in = true};
    const std::vector<double>& pi = o.global.weights;
    const BinTable table = tabulate(s, assign_bins_by_class(s, o.global.binning), o.global.binning.bins);
    const Neighbours r = neighbours_of(z, s, o);
    const Neighbourhoods near = {s.n, s.C, r.bin, r.n_eff, r.spread};
    std::vector<Bound> bounds = {theorem_2(ece(table, pi), table, pi, premise),
                                 theorem_2_finite(ece(table, pi), table, near, pi, premise),
                                 ecce_bound(ecce(table, pi, EcceMode::paper), table, pi, premise),
                                 theorem_3(r.lce, near, pi, premise), theorem_3_tight(r.lce, near, pi, premise)};
    const ProximityHalves halves = proximity_halves(s, neighbour_distance(z), o.global.binning);
    if (!halves.near.empty() && !halves.far.empty()) {
        const GroupMeans a = group_means(s, halves.near), b = group_means(s, halves.far);
        bounds.push_back(proximity_bias_published(a, b, premise));
        bounds.push_back(proximity_bias(a, b, premise));
    }
    return bounds;
}

std::string bounds_table(const std::vector<Bound>& bounds) {
    const std::string plug_in = kPlugInNote;
    std::vector<std::vector<std::string>> rows = {{"bound", "measured", "at most", "holds", "terms"}};
    std::string notes;
    bool estimated = false;  // said once, not for each of them
    for (const Bound& b : bounds) {
        std::string terms, note = b.note;
        for (const auto& [name, value] : b.terms)
            terms += (terms.empty() ? "" : " + ") + number(value) + " (" + name + ")";
        rows.push_back({b.name, number(b.measured), number(b.bound), b.holds() ? "yes" : "no", terms});
        if (note.starts_with(plug_in)) {
            estimated = true;
            note = note.substr(std::min(note.size(), plug_in.size() + 2));  // and "; "
        }
        if (!note.empty()) notes += "  " + b.name + ": " + note + "\n";
    }
    if (estimated) notes = "  all: " + plug_in + "\n" + notes;
    return table(rows) + (notes.empty() ? "" : "\n" + notes);
}

nlohmann::ordered_json bounds_json(const std::vector<Bound>& bounds) {
    nlohmann::ordered_json j;
    for (const Bound& b : bounds) {
        nlohmann::ordered_json terms;
        for (const auto& [name, value] : b.terms) terms[name] = value;
        j[b.name] = {{"measured", b.measured}, {"bound", b.bound}, {"holds", b.holds()},
                     {"proven", b.proven},     {"terms", terms},   {"note", b.note}};
    }
    return j;
}

}  // namespace lc::cli

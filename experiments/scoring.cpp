// scoring.cpp -- see scoring.h.
#include "experiments/scoring.h"

#include <CLI/CLI.hpp>
#include <cmath>
#include <nlohmann/json.hpp>

#include "data/npy.h"
#include "experiments/samples.h"

namespace lc::cli {
namespace {

[[noreturn]] void refuse(const std::string& option, const std::string& expected, const std::string& found) {
    throw Error(option + ": expected " + expected + ", found '" + found + "'; see --help");
}

// The value of a choice: the option itself, or what --modes stands for.
std::string pick(const std::string& option, const std::string& own, const std::string& by_modes,
                 const std::vector<std::string>& known) {
    const std::string value = own.empty() ? by_modes : own;
    if (std::find(known.begin(), known.end(), value) != known.end()) return value;
    std::string list;
    for (const std::string& k : known) list += (list.empty() ? "" : ", ") + k;
    refuse(option, "one of " + list, value);
}

double positive_number(const std::string& option, const std::string& text) {
    size_t used = 0;
    double x = 0;
    try {
        x = std::stod(text, &used);
    } catch (const std::exception&) {
        used = 0;
    }
    if (used == 0 || used != text.size() || !std::isfinite(x) || x <= 0)
        refuse(option, "auto or a length above 0", text);
    return x;
}

// Rows as neighbours: ln p where there are no features, with a floor that keeps zeros finite.
std::vector<float> log_probabilities(const Predictions& s) {
    std::vector<float> x;
    x.reserve(s.p.size());
    for (const double p : s.p) x.push_back(float(std::log(std::max(p, 1e-12))));
    return x;
}

}  // namespace

void add_scoring_options(CLI::App& app, ScoringOptions& o) {
    app.add_option("--gamma", o.gamma, "bandwidth of the neighbourhoods; auto: the smallest with a median n_eff of 100")
        ->type_name("X|auto");
    app.add_option("--pca", o.pca, "dimensions the features are reduced to (a model brings its own)")
        ->type_name("K|none");
    app.add_option("--bins", o.bins, "bins of probability");
    app.add_option("--min-bin", o.min_bin, "local errors leave out bins with so many rows or fewer")->type_name("N");
    app.add_option("--weights", o.weights, "how classes are averaged: equally, by their frequency, or as a file says")
        ->type_name("uniform|prior|FILE");
    app.add_option("--modes", o.modes, "definitions: authors (as published numbers), paper, corrected")
        ->type_name("authors|paper|corrected");
    app.add_option("--lce", o.lce, "the local error alone")->type_name("authors|paper|corrected");
    app.add_option("--mlce", o.mlce, "mean of class maxima, largest row, largest entry")
        ->type_name("authors|paper|max");
    app.add_option("--ecce", o.ecce, "mean or sum over bins, or the range without bins")
        ->type_name("authors|paper|range");
    app.add_option("--nll", o.nll, "ln(p + 1e-12), by the logits, or ln max(p, 1e-38)")
        ->type_name("authors|logits|floor");
    app.add_option("--self", o.self, "is a row its own neighbour?")->type_name("include|exclude");
    app.add_option("--space", o.space, "where neighbours are near: the classifier's features, the method's own, both")
        ->type_name("own|common|both");
    app.add_option("--bootstrap", o.bootstrap, "replicates behind the 95 % intervals; 0: none")->type_name("N");
    app.add_option("--null", o.null, "sets of labels drawn from p to see what chance gives; 0: none")->type_name("N");
}

ScoringChoice choose_scoring(const ScoringOptions& o, const Common& common) {
    pick("--modes", o.modes, "", {"authors", "paper", "corrected"});
    pick("--space", o.space, "", {"own", "common", "both"});
    const bool paper = o.modes == "paper", corrected = o.modes == "corrected";
    const std::string lce = pick("--lce", o.lce, o.modes, {"authors", "paper", "corrected"});
    const std::string mlce = pick("--mlce", o.mlce, corrected ? "max" : o.modes, {"authors", "paper", "max"});
    const std::string ecce = pick("--ecce", o.ecce, corrected ? "range" : o.modes, {"authors", "paper", "range"});
    const std::string nll =
        pick("--nll", o.nll, paper || corrected ? "logits" : "authors", {"authors", "logits", "floor"});
    const std::string self = pick("--self", o.self, lce == "corrected" ? "exclude" : "include", {"include", "exclude"});
    const auto at_least = [](const std::string& option, int64_t least, int64_t most, int64_t found) {
        if (found < least || found > most) {
            refuse(option, "a number from " + std::to_string(least) + " to " + std::to_string(most),
                   std::to_string(found));
        }
    };
    at_least("--bins", 1, kMostBins, o.bins);
    if (o.min_bin != -1) at_least("--min-bin", 0, int64_t(1) << 40, o.min_bin);
    at_least("--bootstrap", 0, 1000000, o.bootstrap);
    at_least("--null", 0, 100000, o.null);

    ScoringChoice c;
    c.score.local = {.bins = o.bins,
                     .min_bin = o.min_bin >= 0   ? o.min_bin
                                : lce == "paper" ? 0
                                                 : 20,
                     .include_self = self == "include"};
    c.score.lce = lce == "paper" ? LceMode::all_rows : LceMode::kept_rows;
    c.score.mlce = mlce == "authors" ? MlceMode::class_mean : mlce == "paper" ? MlceMode::row_l1 : MlceMode::largest;
    c.score.ecce = ecce == "authors" ? EcceChoice::authors : ecce == "paper" ? EcceChoice::paper : EcceChoice::range;
    c.score.nll = nll == "authors" ? NllMode::authors : nll == "logits" ? NllMode::logits : NllMode::floor;
    c.score.bootstrap = o.bootstrap;
    c.score.null = o.null;
    c.score.seed = common.seed;
    c.modes = {{"lce", lce}, {"mlce", mlce}, {"ecce", ecce}, {"nll", nll}, {"self", self}};
    return c;
}

Predictions uncalibrated(const Dataset& data) {
    if (!data.probs.empty()) return predictions_from_probs(data.probs.data(), data.labels.data(), data.n, data.C);
    return predictions_from_logits(data.logits.data(), data.labels.data(), data.n, data.C);
}

CommonSpace common_space(const Backend& b, const Dataset& data, const Predictions& s, const ScoringOptions& o,
                         const Pca* fitted, const Progress& progress) {
    const bool have = !data.features.empty();
    const std::vector<float> logs = have ? std::vector<float>() : log_probabilities(s);
    const std::vector<float>& x = have ? data.features : logs;
    const int64_t d = have ? data.d : data.C;
    const std::string what =
        have ? std::to_string(d) + " features" : "no features: ln p serves, " + std::to_string(d) + " of them";
    const int64_t k = o.pca == "none" ? d : int64_t(parse_integer("--pca", o.pca, 1, 4096));
    Tensor rows = Tensor::from(b, {data.n, d}, x);
    if (fitted == nullptr && d <= k) return {std::move(rows), what + ", as they are", 0};
    const Pca pca = fitted != nullptr ? *fitted : fit_pca(b, rows.data(), data.n, d, k, 0, progress);
    if (pca.d != d) throw Error("the model reduces " + std::to_string(pca.d) + " features, found " + what);
    Tensor z(b, {data.n, pca.k});
    PcaTransform(b, pca)(z.data(), rows.data(), data.n);
    return {std::move(z),
            what + " reduced to " + std::to_string(pca.k) + " by PCA of " + (fitted ? "the model" : "these rows"),
            pca.k};
}

std::vector<double> class_weights(const ScoringOptions& o, const Dataset& data) {
    if (o.weights == "uniform") return uniform_weights(data.C);
    if (o.weights == "prior") return prior_weights(data.labels.data(), data.n, data.C);
    std::vector<double> w = read_npy(o.weights).to_doubles();
    check_weights(w, data.C);
    return w;
}

ScoringBandwidth choose_gamma(const ScoringOptions& o, const Tensor& z, const Predictions& s, const LocalOptions& local,
                              const Common& common, const Progress& progress) {
    if (o.gamma != "auto") return {positive_number("--gamma", o.gamma), 0, true};
    const ScoringBandwidth g = scoring_bandwidth(z, s, local, progress);
    if (!g.reached && notes(common)) {
        notes(common)("no bandwidth gives a median n_eff of 100, the largest of the grid has " +
                      std::to_string(int64_t(g.median_n_eff)) + "; local errors are mostly noise, score more rows");
    }
    return g;
}

nlohmann::ordered_json score_json(const Score& s) {
    nlohmann::ordered_json j = {{"value", s.value}};
    if (s.interval) j["low"] = s.interval->low, j["high"] = s.interval->high;
    if (s.null) {
        j["null"] = s.null->mean;
        j["excess"] = s.null->excess;
        j["z"] = s.null->z;
        j["p"] = s.null->p;
    } else if (s.p) {
        j["p"] = *s.p;
    }
    return j;
}

}  // namespace lc::cli

// scoring.cpp -- see scoring.h.
#include "experiments/scoring.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "calib/calibrator.h"
#include "data/npy.h"
#include "experiments/samples.h"
#include "nn/pca.h"

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

Predictions uncalibrated(const Dataset& data) {
    if (!data.probs.empty()) return predictions_from_probs(data.probs.data(), data.labels.data(), data.n, data.C);
    return predictions_from_logits(data.logits.data(), data.labels.data(), data.n, data.C);
}

// The classifier's features: by a PCA that is given, by one of these rows, or as they are where they are few.
void set_common_space(Scored& s, const Backend& b, const ScoringOptions& o, const GivenPca& given) {
    const Pca* const fitted = given.pca;
    const bool have = !s.data.features.empty();
    const std::vector<float> logs = have ? std::vector<float>() : log_probabilities(s.before);
    const int64_t n = s.data.n, d = have ? s.data.d : s.data.C;
    const int64_t k = o.pca == "none" ? d : int64_t(parse_integer("--pca", o.pca, 1, 4096));
    s.space = have ? std::to_string(d) + " features" : "no features, so ln p serves: " + std::to_string(d);
    s.common = Tensor::from(b, {n, d}, have ? s.data.features : logs);
    if (fitted == nullptr && d <= k) {
        s.space += " as they are";
        return;
    }
    const Pca pca = fitted != nullptr ? *fitted : fit_pca(b, s.common.data(), n, d, k);
    if (pca.d != d) throw Error("the model reduces " + std::to_string(pca.d) + " features, found " + s.space);
    Tensor z(b, {n, pca.k});
    PcaTransform(b, pca)(z.data(), s.common.data(), n);
    s.common = std::move(z);
    s.pca = pca.k;
    s.space +=
        " reduced to " + std::to_string(pca.k) + " by PCA of " + (fitted != nullptr ? given.whose : "these rows");
}

std::vector<double> class_weights(const ScoringOptions& o, const Dataset& data) {
    if (o.weights == "uniform") return uniform_weights(data.C);
    if (o.weights == "prior") return prior_weights(data.labels.data(), data.n, data.C);
    std::vector<double> w = read_npy(o.weights).to_doubles();
    check_weights(w, data.C);
    return w;
}

ScoringBandwidth choose_gamma(const Scored& s, const ScoringOptions& o, const Common& common,
                              const Progress& progress) {
    if (o.gamma != "auto") return {positive_number("--gamma", o.gamma), 0, true};
    const ScoringBandwidth g = scoring_bandwidth(s.common, s.before, s.choice.card.local, progress);
    if (!g.reached && notes(common)) {
        notes(common)("no bandwidth gives a median n_eff of 100, the largest of the grid has " +
                      std::to_string(int64_t(g.median_n_eff)) + "; local errors are mostly noise, score more rows");
    }
    return g;
}

}  // namespace

void add_scoring_options(Options& options, ScoringOptions& o) {
    options.add_option("--pca", o.pca, "dimensions the features are reduced to (a model brings its own)")
        .type_name("K|none");
    options.add_option("--bins", o.bins, "bins of probability");
    options.add_option("--min-bin", o.min_bin, "local errors leave out bins with so many rows or fewer").type_name("N");
    options
        .add_option("--weights", o.weights, "how classes are averaged: equally, by their frequency, or as a file says")
        .type_name("uniform|prior|FILE");
    options.add_option("--modes", o.modes, "definitions: authors (as published numbers), paper, corrected")
        .type_name("authors|paper|corrected");
    options.add_option("--lce", o.lce, "the local error alone").type_name("authors|paper|corrected");
    options.add_option("--mlce", o.mlce, "mean of class maxima, largest row, largest entry")
        .type_name("authors|paper|max");
    options.add_option("--ecce", o.ecce, "mean or sum over bins, or the range without bins")
        .type_name("authors|paper|range");
    options.add_option("--nll", o.nll, "ln(p + 1e-12), by the logits, or ln max(p, 1e-38)")
        .type_name("authors|logits|floor");
    options.add_option("--self", o.self, "is a row its own neighbour?").type_name("include|exclude");
    options
        .add_option("--space", o.space, "where neighbours are near: the classifier's features, the method's own, both")
        .type_name("own|common|both");
}

void add_gamma_option(Options& options, ScoringOptions& o) {
    options
        .add_option("--gamma", o.gamma,
                    "bandwidth of the neighbourhoods; auto: the smallest with a median n_eff of 100")
        .type_name("X|auto");
}

void add_noise_options(Options& options, ScoringOptions& o) {
    options.add_option("--bootstrap", o.bootstrap, "replicates behind the 95 % intervals; 0: none").type_name("N");
    options.add_option("--null", o.null, "sets of labels drawn from p to see what chance gives; 0: none")
        .type_name("N");
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
    c.card.local = {.bins = o.bins,
                    .min_bin = o.min_bin >= 0   ? o.min_bin
                               : lce == "paper" ? 0
                                                : 20,
                    .include_self = self == "include"};
    c.card.global.binning.bins = o.bins;
    c.card.lce = lce == "paper" ? LceMode::all_rows : LceMode::kept_rows;
    c.card.mlce = mlce == "authors" ? MlceMode::class_mean : mlce == "paper" ? MlceMode::row_l1 : MlceMode::largest;
    c.card.global.ecce = ecce == "authors" ? EcceMode::authors : ecce == "paper" ? EcceMode::paper : EcceMode::range;
    c.card.global.nll = nll == "authors" ? NllMode::authors : nll == "logits" ? NllMode::logits : NllMode::floor;
    c.card.bootstrap = o.bootstrap;
    c.card.null = o.null;
    c.card.seed = common.seed;
    c.modes = {{"lce", lce}, {"mlce", mlce}, {"ecce", ecce}, {"nll", nll}, {"self", self}};
    return c;
}

void apply_model(Scored& s, const Calibrator& c, const Progress& progress) {
    const Samples samples = samples_of(s.data);
    check_fits(c, samples, s.data.source);
    const Backend& b = s.common.backend();
    const Prediction p = c.predict(samples, {.backend = &b, .seed = s.choice.card.seed, .progress = progress});
    s.method = c.method();
    s.after = predictions_from_probs(p.probs.data(), s.data.labels.data(), p.n, p.C);
    const bool finite = std::all_of(p.log_probs.begin(), p.log_probs.end(), [](double x) { return std::isfinite(x); });
    if (finite) s.after.log_p = p.log_probs;  // a class without neighbours has p = 0
    s.own = p.features.empty() ? Tensor() : Tensor::from(b, {p.n, p.k}, p.features);
}

Scored prepare_rows(const Common& common, Dataset data, const ScoringOptions& o, const GivenPca& given,
                    const Progress& progress) {
    Scored s;
    s.choice = choose_scoring(o, common);
    const Backend& b = choose_backend(common.device);
    s.device = b.name;
    s.data = std::move(data);
    s.choice.card.global.weights = class_weights(o, s.data);
    s.before = uncalibrated(s.data);
    set_common_space(s, b, o, given);
    s.gamma = choose_gamma(s, o, common, progress);
    s.choice.card.local.gamma = s.gamma.gamma;
    s.after = s.before;
    return s;
}

Scored prepare_scoring(const Common& common, const InputOptions& input, const std::string& model,
                       const ScoringOptions& o, const Progress& progress) {
    choose_scoring(o, common);  // bad options are refused before anything is read
    const std::unique_ptr<Calibrator> c = model.empty() ? nullptr : load_calibrator(model);
    Dataset data = load(input, {.features = c && c->features_expected() > 0, .labels = true});
    Scored s = prepare_rows(common, std::move(data), o, {c ? c->reduction() : nullptr, "the model"}, progress);
    if (c) apply_model(s, *c);
    return s;
}

std::string heading(const Scored& s) {
    std::string text = s.data.source + ": " + std::to_string(s.data.n) + " rows, " + std::to_string(s.data.C) +
                       " classes; method " + s.method + "\nneighbours: " + s.space + "; gamma " +
                       fixed(s.gamma.gamma, 4);
    if (s.gamma.median_n_eff > 0) text += ", found by median n_eff " + fixed(s.gamma.median_n_eff, 0);
    text += "\ndefinitions:";
    for (const auto& [name, mode] : s.choice.modes) text += " " + name + "=" + mode;
    return text + "\n";
}

nlohmann::ordered_json scored_json(const Scored& s, const ScoringOptions& o, const char* schema) {
    nlohmann::ordered_json modes;
    for (const auto& [name, mode] : s.choice.modes) modes[name] = mode;
    const CardOptions& c = s.choice.card;
    return {{"schema", schema},
            {"program", kProgram},
            {"device", s.device},
            {"method", s.method},
            {"source", s.data.source},
            {"n", s.data.n},
            {"classes", s.data.C},
            {"options",
             {{"gamma", s.gamma.gamma},
              {"pca", s.pca},
              {"space", s.space},
              {"bins", c.local.bins},
              {"min_bin", c.local.min_bin},
              {"weights", o.weights},
              {"bootstrap", c.bootstrap},
              {"null", c.null},
              {"seed", c.seed},
              {"modes", modes}}}};
}

nlohmann::ordered_json score_json(const CardScore& s) {
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

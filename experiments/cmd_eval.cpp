// cmd_eval.cpp -- localcal eval: how good the probabilities of a model are, everywhere and locally.
#include <CLI/CLI.hpp>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "calib/calibrator.h"
#include "experiments/bounds_table.h"
#include "experiments/input.h"
#include "experiments/progress.h"
#include "experiments/samples.h"
#include "experiments/scoring.h"

namespace lc::cli {
namespace {

struct EvalOptions {
    InputOptions input;
    ScoringOptions scoring;
    std::string model, out;
    bool bounds = false;
};

// Everything about one evaluation that is printed or written.
struct Evaluation {
    Dataset data;
    std::string device, method = "nc", space;
    ScoringChoice choice;
    ScoringBandwidth gamma;
    Predictions predictions;
    Scorecard card;
    LocalCalibration local;
    std::vector<Bound> bounds;
    int64_t pca = 0;
};

Predictions predictions_of(const Calibrator& c, const Dataset& data, const Context& context, std::vector<float>& own) {
    const Samples samples = samples_of(data);
    check_fits(c, samples, data.source);
    Prediction p = c.predict(samples, context);
    Predictions s = predictions_from_probs(p.probs.data(), data.labels.data(), data.n, data.C);
    s.log_p.assign(p.log_probs.begin(), p.log_probs.end());
    own = std::move(p.features);
    return s;
}

Evaluation evaluate(const Common& common, const EvalOptions& o, const Progress& progress) {
    Evaluation e;
    e.choice = choose_scoring(o.scoring, common);
    const std::unique_ptr<Calibrator> c = o.model.empty() ? nullptr : load_calibrator(o.model);
    const Backend& b = choose_backend(common.device);
    e.device = b.name;
    e.data = load(o.input, {.features = c && c->features_expected() > 0, .labels = true});
    e.choice.score.weights = class_weights(o.scoring, e.data);

    const Predictions before = uncalibrated(e.data);
    CommonSpace space = common_space(b, e.data, before, o.scoring, c ? c->reduction() : nullptr, {});
    e.space = space.description, e.pca = space.reduced_to;
    e.gamma = choose_gamma(o.scoring, space.z, before, e.choice.score.local, common, part_of(progress, 0.0, 0.1));
    e.choice.score.local.gamma = e.gamma.gamma;
    std::vector<float> own;
    if (c) e.method = c->method();
    e.predictions = c ? predictions_of(*c, e.data, {.backend = &b, .seed = common.seed}, own) : before;

    const bool want_common = o.scoring.space != "own" || own.empty();
    Tensor own_space;
    if (!own.empty() && o.scoring.space != "common") {
        own_space = Tensor::from(b, {e.data.n, int64_t(own.size()) / e.data.n}, own);
    }
    e.card = score(e.predictions, want_common ? &space.z : nullptr, own_space ? &own_space : nullptr, e.choice.score,
                   part_of(progress, 0.1, 0.9));
    if (e.data.n > 1) e.local = local_calibration(space.z, e.predictions, e.gamma.gamma);
    if (o.bounds) e.bounds = evaluate_bounds(space.z, e.data, e.predictions, e.local, e.choice.score);
    return e;
}

std::string fixed(double x, int digits) {
    char text[64];
    std::snprintf(text, sizeof text, "%.*f", digits, x);
    return text;
}

std::vector<std::string> score_row(const Score& s) {
    std::vector<std::string> row = {s.name, fixed(s.value, 5), "", "", "", "", ""};
    if (s.interval) row[2] = fixed(s.interval->low, 5) + " " + fixed(s.interval->high, 5);
    if (s.null) {
        row[3] = fixed(s.null->mean, 5);
        row[4] = fixed(s.null->excess, 5);
        row[5] = fixed(s.null->z, 1);
        row[6] = fixed(s.null->p, 3);
    } else if (s.p) {
        row[6] = fixed(*s.p, 3);
    }
    return row;
}

// One sentence about the local error, for somebody who sees the table for the first time.
std::string verdict(const Evaluation& e) {
    const Score* const lce = e.card.find("lce");
    if (lce == nullptr || !lce->null) return "";
    const std::string size = fixed(lce->null->excess, 4);
    if (lce->null->p > 0.05) return "\nThe local error is what chance alone gives: nothing is wrong that these rows could show.\n";
    return "\nThe local error is " + size + " above what chance alone gives (z = " + fixed(lce->null->z, 1) +
           "): probabilities are off in some neighbourhoods.\n`localcal explain` shows where, `localcal fit` repairs them.\n";
}

void print_table(const Evaluation& e) {
    std::string text = e.data.source + ": " + std::to_string(e.data.n) + " rows, " + std::to_string(e.data.C) +
                       " classes; method " + e.method + "\nneighbours: " + e.space + ", gamma " + fixed(e.gamma.gamma, 4);
    if (e.card.local) text += ", median n_eff " + fixed(e.card.counts.median_n_eff, 0);
    text += "\ndefinitions:";
    for (const auto& [name, mode] : e.choice.modes) text += " " + name + "=" + mode;
    if (e.card.nll.floor > 0) text += "; nll has a floor";
    std::vector<std::vector<std::string>> rows = {{"metric", "value", "95 % interval", "by chance", "excess", "z", "P"}};
    for (const Score& s : e.card.scores) rows.push_back(score_row(s));
    text += "\n\n" + table(rows);
    if (e.card.nll.impossible > 0) {
        text += "\n" + std::to_string(e.card.nll.impossible) + " rows have a label of probability 0; they decide the nll.\n";
    }
    if (e.card.counts.dropped + e.card.counts.isolated > 0) {
        text += "\nLocal errors leave out " + std::to_string(e.card.counts.dropped) + " of " +
                std::to_string(e.card.counts.entries) + " entries in small bins, and " +
                std::to_string(e.card.counts.isolated) + " without neighbours.\n";
    }
    text += verdict(e);
    if (!e.bounds.empty()) text += "\n" + bounds_table(e.bounds);
    print(text);
}

nlohmann::ordered_json to_json(const Evaluation& e, const ScoringOptions& o) {
    nlohmann::ordered_json j = {{"schema", "localcal.eval/1"}, {"program", kProgram},   {"device", e.device},
                                {"method", e.method},          {"source", e.data.source}, {"n", e.data.n},
                                {"classes", e.data.C}};
    nlohmann::ordered_json modes;
    for (const auto& [name, mode] : e.choice.modes) modes[name] = mode;
    const ScoreOptions& s = e.choice.score;
    j["options"] = {{"gamma", e.gamma.gamma}, {"pca", e.pca},         {"bins", s.local.bins},
                    {"min_bin", s.local.min_bin}, {"weights", o.weights}, {"space", e.space},
                    {"bootstrap", s.bootstrap}, {"null", s.null},       {"seed", s.seed},
                    {"modes", modes}};
    nlohmann::ordered_json metrics;
    for (const Score& score : e.card.scores) metrics[score.name] = score_json(score);
    metrics["nll"]["floor"] = e.card.nll.floor;
    metrics["nll"]["impossible"] = e.card.nll.impossible;
    if (e.card.local) {
        metrics["n_eff"] = {{"median", e.card.counts.median_n_eff},
                            {"dropped", e.card.counts.dropped},
                            {"isolated", e.card.counts.isolated},
                            {"profile", nlohmann::ordered_json::array()}};
        for (const ProfileGroup& g : n_eff_profile(*e.card.local)) {
            metrics["n_eff"]["profile"].push_back(
                {{"low", g.n_eff_low}, {"high", g.n_eff_high}, {"entries", g.entries}, {"mean_error", g.mean_error}});
        }
    }
    if (e.local.n > 0) {
        metrics["local_calibration"] = {{"epsilon", e.local.epsilon},
                                        {"largest", e.local.largest},
                                        {"median", e.local.quantiles[0]},
                                        {"q90", e.local.quantiles[1]},
                                        {"q95", e.local.quantiles[2]},
                                        {"q99", e.local.quantiles[3]}};
    }
    j["metrics"] = std::move(metrics);
    if (!e.bounds.empty()) j["bounds"] = bounds_json(e.bounds);
    return j;
}

void write_files(const Evaluation& e, const std::string& folder, const nlohmann::ordered_json& j) {
    const std::string results = j.dump(2) + "\n";
    AtomicFile json(folder + "/metrics.json");
    json.write(results.data(), results.size());
    NpzWriter rows(folder + "/per_sample.npz");
    const std::vector<float> p(e.predictions.p.begin(), e.predictions.p.end());
    rows.add("probs", {e.data.n, e.data.C}, p.data());
    rows.add("labels", {e.data.n}, e.data.labels.data());
    if (e.card.local) {
        rows.add("local_error", {e.data.n, e.data.C}, e.card.local->error.data());
        rows.add("n_eff", {e.data.n, e.data.C}, e.card.local->n_eff.data());
        rows.add("bin", {e.data.n, e.data.C}, e.card.local->bin.data());
    }
    if (e.local.n > 0) {
        rows.add("theta", {e.data.n, e.data.C}, e.local.theta.data());
        rows.add("theta_l1", {e.data.n}, e.local.l1.data());
    }
    rows.commit();
    json.commit();
}

void eval(const Common& common, const EvalOptions& o) {
    if (!o.out.empty()) {
        std::filesystem::create_directories(o.out);
        check_writable(o.out + "/metrics.json");
    }
    Evaluation e;
    {
        ProgressLine line(common.quiet);
        e = evaluate(common, o, line.callback());
    }
    const nlohmann::ordered_json j = to_json(e, o.scoring);
    if (!o.out.empty()) write_files(e, o.out, j);
    if (common.json) return print_json(j);
    print_table(e);
}

}  // namespace

extern const Command eval_command = {
    "eval", "every metric of a model, global and local, each with its noise",
    "  $ localcal eval --data test.npz                               the classifier as it is\n"
    "  $ localcal eval --data test.npz --model model.safetensors     after calibration\n"
    "\n"
    "Reading the table: `value` is the metric, `95 % interval` how much it would move with other rows, `by chance` what\n"
    "a perfectly calibrated model of these probabilities would show, `excess` the difference, z and P how surprising it\n"
    "is.  Local errors (lce, mlce) compare probabilities with what happens among near neighbours of the same bin; with a\n"
    "model that has a feature space of its own, lce_own is the published figure and lce the one that compares methods.\n"
    "--out DIR writes metrics.json and per_sample.npz (local_error, n_eff, theta, ...).",
    [](CLI::App& app, const Common& common) -> std::function<void()> {
        auto o = std::make_shared<EvalOptions>();
        add_input_options(app, o->input);
        app.add_option("--model", o->model, "a file that `localcal fit` wrote: score what it makes of the rows");
        app.add_option("--out", o->out, "a folder for metrics.json and per_sample.npz");
        app.add_flag("--bounds", o->bounds, "also evaluate the bounds of the theory, term by term");
        add_scoring_options(app, o->scoring);
        return [o, &common] { eval(common, *o); };
    }};

}  // namespace lc::cli

// cmd_eval.cpp -- localcal eval: how good the probabilities of a model are, everywhere and locally.
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
    Scored scored;
    Scorecard card;
    LocalCounts counts;
    LocalCalibration local;
    std::vector<Bound> bounds;
};

Evaluation evaluate(const Common& common, const EvalOptions& o, const Progress& progress) {
    Evaluation e;
    e.scored = prepare_scoring(common, o.input, o.model, o.scoring, part_of(progress, 0.0, 0.1));
    const Scored& s = e.scored;
    const bool in_own = s.own && o.scoring.space != "common", in_common = !in_own || o.scoring.space != "own";
    e.card = score_card(s.after, in_common ? &s.common : nullptr, in_own ? &s.own : nullptr, s.choice.card,
                        part_of(progress, 0.1, 0.9));
    if (e.card.local) e.counts = counts_of(*e.card.local);
    e.local = local_calibration(s.common, s.after, s.gamma.gamma);
    if (o.bounds) e.bounds = evaluate_bounds(s.common, s.after, e.local, s.choice.card);
    return e;
}

std::string probability(double p) { return p < 0.0005 ? "<0.001" : fixed(p, 3); }

std::vector<std::string> score_row(const CardScore& s) {
    std::vector<std::string> row = {s.name, fixed(s.value, 5), "", "", "", "", ""};
    if (s.interval) row[2] = fixed(s.interval->low, 5) + " " + fixed(s.interval->high, 5);
    if (s.null) {
        row[3] = fixed(s.null->mean, 5);
        row[4] = fixed(s.null->excess, 5);
        row[5] = fixed(s.null->z, 1);
        row[6] = probability(s.null->p);
    } else if (s.p) {
        row[6] = probability(*s.p);
    }
    return row;
}

// One sentence about the local error, for somebody who sees the table for the first time.
std::string verdict(const Evaluation& e) {
    const CardScore* const lce = e.card.find("lce");
    if (lce == nullptr || !lce->null) return "";
    const std::string size = fixed(lce->null->excess, 4);
    if (lce->null->p > 0.05)
        return "\nThe local error is what chance alone gives: nothing is wrong that these rows could show.\n";
    return "\nThe local error is " + size + " above what chance alone gives (z = " + fixed(lce->null->z, 1) +
           "): probabilities are off in some neighbourhoods.\n`localcal explain` shows where" +
           (e.scored.method == "nc" ? ", `localcal fit` repairs them" : "") + ".\n";
}

void print_table(const Evaluation& e) {
    std::vector<std::vector<std::string>> rows = {
        {"metric", "value", "95 % interval", "by chance", "excess", "z", "P"}};
    for (const CardScore& s : e.card.scores) rows.push_back(score_row(s));
    std::string text = heading(e.scored) + "\n" + table(rows);
    if (e.card.local) text += "\nmedian n_eff " + fixed(e.counts.median_n_eff, 0) + "; ";
    text += "p differs from the labels around a row (theta) by " + fixed(e.local.quantiles[0], 3) + " in the median, " +
            fixed(e.local.epsilon, 3) + " at most (l1)\n";
    if (e.card.nll.impossible > 0) {
        text +=
            std::to_string(e.card.nll.impossible) + " rows have a label of probability 0, on which the nll depends\n";
    }
    if (e.counts.dropped + e.counts.isolated > 0) {
        text += "local errors leave out " + std::to_string(e.counts.dropped) + " of " +
                std::to_string(e.counts.entries) + " entries in small bins, and " + std::to_string(e.counts.isolated) +
                " without neighbours\n";
    }
    text += verdict(e);
    if (!e.bounds.empty()) text += "\n" + bounds_table(e.bounds);
    print(text);
}

nlohmann::ordered_json to_json(const Evaluation& e, const ScoringOptions& o) {
    nlohmann::ordered_json j = scored_json(e.scored, o, "localcal.eval/1"), metrics;
    for (const CardScore& score : e.card.scores) metrics[score.name] = score_json(score);
    metrics["nll"]["floor"] = e.card.nll.floor;
    metrics["nll"]["impossible"] = e.card.nll.impossible;
    if (e.card.local) {
        metrics["n_eff"] = {{"median", e.counts.median_n_eff},
                            {"dropped", e.counts.dropped},
                            {"isolated", e.counts.isolated},
                            {"profile", nlohmann::ordered_json::array()}};
        for (const ProfileGroup& g : n_eff_profile(*e.card.local)) {
            metrics["n_eff"]["profile"].push_back(
                {{"low", g.n_eff_low}, {"high", g.n_eff_high}, {"entries", g.entries}, {"mean_error", g.mean_error}});
        }
    }
    const std::vector<double>& q = e.local.quantiles;
    metrics["local_calibration"] = {{"epsilon", e.local.epsilon},
                                    {"largest", e.local.largest},
                                    {"median", q[0]},
                                    {"q90", q[1]},
                                    {"q95", q[2]},
                                    {"q99", q[3]}};
    j["metrics"] = std::move(metrics);
    if (!e.bounds.empty()) j["bounds"] = bounds_json(e.bounds);
    return j;
}

void write_files(const Evaluation& e, const std::string& folder, const nlohmann::ordered_json& j) {
    const Scored& s = e.scored;
    std::filesystem::create_directories(folder);
    const std::vector<int64_t> shape = {s.data.n, s.data.C}, labels(s.data.labels.begin(), s.data.labels.end());
    const std::vector<float> p(s.after.p.begin(), s.after.p.end()), l1(e.local.l1.begin(), e.local.l1.end());
    NpzWriter rows(folder + "/per_sample.npz");
    rows.add("probs", shape, p.data());
    rows.add("labels", {s.data.n}, labels.data());
    rows.add("theta", shape, e.local.theta.data());
    rows.add("theta_l1", {s.data.n}, l1.data());
    const auto add_errors = [&](const std::optional<LocalErrors>& errors, const std::string& suffix) {
        if (!errors) return;
        const std::vector<int64_t> bins(errors->bin.begin(), errors->bin.end());
        rows.add("local_error" + suffix, shape, errors->error.data());
        rows.add("n_eff" + suffix, shape, errors->n_eff.data());
        rows.add("bin" + suffix, shape, bins.data());
    };
    add_errors(e.card.local, "");
    add_errors(e.card.own, "_own");
    const std::string results = j.dump(2) + "\n";
    AtomicFile json(folder + "/metrics.json");
    json.write(results.data(), results.size());
    rows.commit();
    json.commit();
}

void eval(const Common& common, const EvalOptions& o) {
    if (!o.out.empty() && std::filesystem::exists(o.out) && !std::filesystem::is_directory(o.out)) {
        throw Error("--out: expected a folder, or a name for a new one, found the file '" + o.out +
                    "'; choose another");
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
    "Reading the table: `value` is the metric, `95 % interval` how much it would move with other rows, `by chance` "
    "what\n"
    "a perfectly calibrated model of these probabilities would show, `excess` the difference, z and P how surprising "
    "it\n"
    "is.  (Repeated rows make errors larger, so the value of an ECE may lie below its own interval.)\n"
    "Local errors (lce, mlce) compare probabilities with what happens among near neighbours of the same bin; with "
    "a\n"
    "model that has a feature space of its own, lce_own is the published figure and lce the one that compares "
    "methods.\n"
    "--out DIR writes metrics.json and per_sample.npz (local_error, n_eff, theta, ...).",
    [](Options& options, const Common& common) -> std::function<void()> {
        auto o = std::make_shared<EvalOptions>();
        add_input_options(options, o->input);
        options.add_option("--model", o->model, "a file that `localcal fit` wrote: score what it makes of the rows");
        options.add_option("--out", o->out, "a folder for metrics.json and per_sample.npz");
        options.add_flag("--bounds", o->bounds, "also evaluate the bounds of the theory, term by term");
        add_scoring_options(options, o->scoring);
        add_gamma_option(options, o->scoring);
        add_noise_options(options, o->scoring);
        return [o, &common] { eval(common, *o); };
    }};

}  // namespace lc::cli

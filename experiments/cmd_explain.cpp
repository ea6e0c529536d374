// cmd_explain.cpp -- localcal explain: the neighbourhoods in which the probabilities are most wrong.
#include <nlohmann/json.hpp>

#include "experiments/progress.h"
#include "experiments/scoring.h"
#include "metrics/neighbourhoods.h"

namespace lc::cli {
namespace {

struct ExplainCommand {
    InputOptions input;
    ScoringOptions scoring;
    ExplainOptions what;
    std::string model;
};

nlohmann::ordered_json to_json(const Neighbourhood& w) {
    nlohmann::ordered_json j = {
        {"row", w.row},     {"class", w.c},     {"bin", w.bin}, {"mean_p", w.mean_p}, {"frequency", w.frequency},
        {"error", w.error}, {"n_eff", w.n_eff}, {"z", w.z}};
    for (const Neighbour& m : w.members) {
        j["members"].push_back({{"row", m.row}, {"weight", m.weight}, {"p", m.p}, {"label", m.label}});
    }
    return j;
}

// "5 (0.91) 3* (0.88)": labels of the heaviest neighbours, a star where it is the class in question.
std::string members_text(const Neighbourhood& w) {
    std::string text;
    for (const Neighbour& m : w.members)
        text += (text.empty() ? "" : " ") + std::to_string(m.row) + (m.label == w.c ? "*" : "");
    return text;
}

void explain(const Common& common, const ExplainCommand& o) {
    Scored s;
    std::vector<Neighbourhood> worst;
    {
        ProgressLine line(common.quiet);
        const Progress progress = line.callback();
        s = prepare_scoring(common, o.input, o.model, o.scoring, part_of(progress, 0.0, 0.4));
        const Tensor& z = o.scoring.space == "own" && s.own ? s.own : s.common;
        const LocalErrors e = local_errors(z, s.after, s.choice.card.local, part_of(progress, 0.4, 0.6));
        worst = worst_neighbourhoods(z, s.after, e, o.what, part_of(progress, 0.6, 1.0));
    }
    if (common.json) {
        nlohmann::ordered_json j = scored_json(s, o.scoring, "localcal.explain/1");
        j["neighbourhoods"] = nlohmann::ordered_json::array();
        for (const Neighbourhood& w : worst) j["neighbourhoods"].push_back(to_json(w));
        return print_json(j);
    }
    if (worst.empty()) {
        return print(heading(s) + "\nno neighbourhood has " + fixed(o.what.least_n_eff, 0) +
                     " neighbours; take a larger --gamma or more rows\n");
    }
    std::vector<std::vector<std::string>> rows = {
        {"row", "class", "model says", "happens", "error", "n_eff", "z", "nearest rows (* has the class)"}};
    for (const Neighbourhood& w : worst) {
        rows.push_back({std::to_string(w.row), std::to_string(w.c), fixed(w.mean_p, 3), fixed(w.frequency, 3),
                        fixed(w.error, 3), fixed(w.n_eff, 0), fixed(w.z, 1), members_text(w)});
    }
    print(
        heading(s) + "\n" + table(rows) +
        "\nAround such a row the model gives the class the probability `model says`, and the labels show it with the\n"
        "frequency `happens`; z is the difference in standard deviations, for labels drawn from the model's own p.\n");
}

}  // namespace

extern const Command explain_command = {
    "explain", "the neighbourhoods in which probabilities are most wrong",
    "  $ localcal explain --data test.npz --top 20\n"
    "\n"
    "Each line is a place in feature space and a class: what the model says there, what happens there, how many\n"
    "neighbours that rests on, and which rows they are.  Places near one that is listed already are left out.",
    [](Options& options, const Common& common) -> std::function<void()> {
        auto o = std::make_shared<ExplainCommand>();
        add_input_options(options, o->input);
        options.add_option("--model", o->model, "a file that `localcal fit` wrote: explain what it makes of the rows");
        options.add_option("--top", o->what.top, "how many places").range(1, 1000000);
        options.add_option("--members", o->what.members, "how many neighbours of each").range(0, 1000000);
        options.add_option("--least-n-eff", o->what.least_n_eff, "smaller neighbourhoods are not looked at").positive();
        add_scoring_options(options, o->scoring);
        add_gamma_option(options, o->scoring);
        return [o, &common] { explain(common, *o); };
    }};

}  // namespace lc::cli

// cmd_sweep.cpp -- localcal sweep: how the local errors depend on the bandwidth.
#include <nlohmann/json.hpp>

#include "experiments/progress.h"
#include "experiments/scoring.h"

namespace lc::cli {
namespace {

struct SweepOptions {
    InputOptions input;
    ScoringOptions scoring;
    std::string model;
    std::vector<double> gammas;
};

void run_sweep(const Common& common, SweepOptions o) {
    std::sort(o.gammas.begin(), o.gammas.end());
    if (o.gammas.size() > 64)
        throw Error("--gammas: expected at most 64 bandwidths, found " + std::to_string(o.gammas.size()));
    o.scoring.gamma = std::to_string(o.gammas.front());  // none has to be found
    Scored s;
    std::vector<SweepLine> lines;
    {
        ProgressLine line(common.quiet);
        s = prepare_scoring(common, o.input, o.model, o.scoring, {});
        const CardOptions& c = s.choice.card;
        const bool own = o.scoring.space == "own" && s.own;
        lines =
            sweep(own ? s.own : s.common, s.after, c.local, o.gammas, c.global.weights, c.lce, c.mlce, line.callback());
    }
    if (common.json) {
        nlohmann::ordered_json j = scored_json(s, o.scoring, "localcal.sweep/1");
        j["options"].erase("gamma");
        for (const SweepLine& l : lines) {
            j["sweep"].push_back({{"gamma", l.gamma},
                                  {"lce", l.lce},
                                  {"mlce", l.mlce},
                                  {"n_eff", l.median_n_eff},
                                  {"isolated", l.isolated}});
        }
        return print_json(j);
    }
    std::vector<std::vector<std::string>> rows = {{"gamma", "lce", "mlce", "median n_eff", "without neighbours"}};
    for (const SweepLine& l : lines) {
        rows.push_back({fixed(l.gamma, 4), fixed(l.lce, 6), fixed(l.mlce, 5), fixed(l.median_n_eff, 1),
                        std::to_string(l.isolated)});
    }
    print(s.data.source + ": " + std::to_string(s.data.n) + " rows, " + std::to_string(s.data.C) + " classes; method " +
          s.method + "\nneighbours: " + s.space + "\n\n" + table(rows) +
          "\nSmall bandwidths compare a row with itself, large ones with its whole bin; 100 neighbours are a fair "
          "size.\n");
}

}  // namespace

extern const Command sweep_command = {
    "sweep", "local errors for a list of bandwidths",
    "  $ localcal sweep --data test.npz --gammas 1,3,10,30\n"
    "\n"
    "One walk over all pairs of rows serves every bandwidth.  As gamma grows the local error becomes the class-wise "
    "ECE;\n"
    "as it shrinks, and a row is its own neighbour, it becomes the mean of |p - y|, whatever the model.",
    [](Options& options, const Common& common) -> std::function<void()> {
        auto o = std::make_shared<SweepOptions>();
        add_input_options(options, o->input);
        options.add_option("--gammas", o->gammas, "the bandwidths").required().delimiter(',').positive();
        options.add_option("--model", o->model, "a file that `localcal fit` wrote: score what it makes of the rows");
        add_scoring_options(options, o->scoring);
        return [o, &common] { run_sweep(common, *o); };
    }};

}  // namespace lc::cli

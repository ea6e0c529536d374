// cmd_compare.cpp -- localcal compare: every method on the same rows, one table.
#include <nlohmann/json.hpp>

#include "data/file.h"
#include "experiments/comparison.h"
#include "experiments/progress.h"

namespace lc::cli {
namespace {

struct CompareOptions {
    std::string cal, test, methods, out;
    ScoringOptions scoring;
};

// "dump.npz", "dump.npz:0:5000"; a drive's or a name's own colons stay with it.
InputOptions parse_input(const std::string& option, const std::string& text) {
    InputOptions in;
    const auto is_number = [](const std::string& s) { return s.find_first_not_of("0123456789") == std::string::npos; };
    const size_t last = text.rfind(':'),
                 first = last == std::string::npos || last == 0 ? last : text.rfind(':', last - 1);
    in.data = text;
    if (first != std::string::npos && first != last && is_number(text.substr(last + 1)) &&
        is_number(text.substr(first + 1, last - first - 1))) {
        in.data = text.substr(0, first);
        in.rows = text.substr(first + 1);
    }
    if (in.data.empty()) throw Error(option + ": expected FILE.npz or FILE.npz:A:B, found '" + text + "'");
    return in;
}

std::vector<std::string> split(const std::string& list) {
    std::vector<std::string> words;
    std::string word;
    for (const char c : list + ",") {
        if (c != ',') {
            word += c;
        } else if (!word.empty()) {
            words.push_back(std::move(word));
            word.clear();
        }
    }
    return words;
}

nlohmann::ordered_json to_json(const Comparison& c, const ScoringOptions& o) {
    nlohmann::ordered_json j = scored_json(c.test, o, "localcal.compare/1");
    j.erase("method");
    j["cal"] = {{"source", c.cal_source}, {"n", c.cal_rows}};
    j["methods"] = nlohmann::ordered_json::object();
    for (const Compared& m : c.methods) {
        nlohmann::ordered_json row;
        if (!m.refused.empty()) {
            row["refused"] = m.refused;
        } else {
            for (const CardScore& score : m.card.scores) row["metrics"][score.name] = score_json(score);
            row["metrics"]["nll"]["floor"] = m.card.nll.floor;
            row["seconds"] = m.seconds;
            row["flips"] = m.flips;
            row["keeps_order"] = m.keeps_order;
            row["impossible"] = m.impossible;
            for (const Finding& f : m.findings) {
                row["fit"][f.name] = f.is_number ? nlohmann::ordered_json(f.number) : nlohmann::ordered_json(f.text);
            }
        }
        j["methods"][m.method] = std::move(row);
    }
    return j;
}

std::string to_text(const Comparison& c) {
    const Scored& s = c.test;
    std::string text =
        "fitted on " + c.cal_source + ": " + std::to_string(c.cal_rows) + " rows\nscored on " + heading(s);
    const size_t method = text.find("; method nc");
    if (method != std::string::npos) text.erase(method, std::string("; method nc").size());
    return text + "\n" + comparison_table(c) + "* the best of its column; lower is better for all but acc\n\n" +
           comparison_verdict(c);
}

void run(const Common& common, const CompareOptions& o) {
    const CompareRequest request = {parse_input("--cal", o.cal), parse_input("--test", o.test), split(o.methods),
                                    o.out};
    Comparison c;
    {
        ProgressLine line(common.quiet);
        c = compare(common, request, o.scoring, line.callback());
    }
    const nlohmann::ordered_json j = to_json(c, o.scoring);
    if (!o.out.empty()) {
        const std::string results = j.dump(2) + "\n";
        AtomicFile file(o.out + "/compare.json");
        file.write(results.data(), results.size());
        file.commit();
    }
    if (common.json) return print_json(j);
    print(to_text(c));
}

}  // namespace

extern const Command compare_command = {
    "compare", "fit every method, evaluate every method, one table",
    "  $ localcal compare --cal validation.npz --test test.npz\n"
    "  $ localcal compare --cal dump.npz:0:5000 --test dump.npz:5000:10000 --methods nc,ts,ln --out results\n"
    "\n"
    "All methods are fitted on the rows of --cal and scored on those of --test, in one feature space and with one\n"
    "bandwidth (lce, mlce).  lce_excess is what is left of lce above chance, drawn --null times: a model that is too\n"
    "sure makes less noise, so compare this one.  lce_own is the local error in the space that a method itself has\n"
    "made, which published tables show and a method can lower by shrinking that space.  `flips` counts rows whose\n"
    "most probable class is not the classifier's any more.\n"
    "--out DIR keeps every fitted model (for `localcal apply`) and compare.json; a rerun takes the models up again.",
    [](Options& options, const Common& common) -> std::function<void()> {
        auto o = std::make_shared<CompareOptions>();
        o->scoring.bootstrap = 0, o->scoring.null = 20;
        options.add_option("--cal", o->cal, "rows to fit on: .npz with features, logits or probs, labels")
            .type_name("FILE.npz[:A:B]")
            .required();
        options.add_option("--test", o->test, "rows to score").type_name("FILE.npz[:A:B]").required();
        options.add_option("--methods", o->methods, "as `localcal fit --method` takes them; all, where none are given")
            .type_name("a,b,...");
        options.add_option("--out", o->out, "a folder for the fitted models and compare.json");
        add_scoring_options(options, o->scoring);
        add_gamma_option(options, o->scoring);
        add_noise_options(options, o->scoring);
        return [o, &common] { run(common, *o); };
    }};

}  // namespace lc::cli

// cmd_fit.cpp -- localcal fit: a calibrator from labelled rows, into one file.
#include <chrono>
#include <nlohmann/json.hpp>

#include "calib/methods.h"
#include "experiments/cli.h"
#include "experiments/input.h"
#include "experiments/progress.h"
#include "experiments/samples.h"

namespace lc::cli {
namespace {

// A choice of LN, KC, KO, MS or DC: the option's name, what it takes, what it does.
struct Choice {
    const char *name, *takes, *what;
};
const Choice kChoices[] = {
    {"setting", "cifar10|cifar100|tissuemnist", "hidden, dropout and epochs of the paper for that data set"},
    {"nw", "paper|authors", "how the kernel estimate is normalised"},
    {"js", "categorical|classwise", "which Jensen-Shannon distance is trained"},
    {"affine", "scalar|vector", "entries of the skip connections' weight and bias"},
    {"stop", "fixed|js|nll", "run all epochs, or stop by rows that are held back"},
    {"reference", "fit|validation", "kc, ko: the rows that predictions compare with"},
    {"bandwidth", "fixed|knn|learned", "one length, or one per row: by its neighbours, or learned"},
    {"fit-gamma", "X|auto", "the bandwidth, a length in the reduced feature space"},
    {"hidden", "N", "width of the hidden layer"},
    {"dropout", "P", "share of the hidden layer that is dropped"},
    {"epochs", "N", "passes over the rows, or the most of them"},
    {"patience", "N", "epochs without a better one before training stops"},
    {"first-stop", "N", "epochs before which training does not stop"},
    {"lr", "X", "step length of Adam"},
    {"batch", "N", "rows per step"},
    {"lambda", "X|auto",
     "ln, kc, ko: weight of the cross-entropy of the estimate; ms, dc: of the penalty on off-diagonals"},
    {"mu", "X", "ms, dc: weight of the penalty on intercepts, with --lambda X"},
    {"grid", "line|square", "ms, dc: search with lambda = mu, or for both"},
    {"folds", "N", "ms, dc: of the search's cross-validation"},
    {"pca", "K", "dimensions the features are reduced to"},
    {"neighbours", "K", "of --bandwidth knn"},
};

struct FitOptions {
    InputOptions input;
    std::string method, preset, output, checkpoint;
    std::map<std::string, std::string> choices;
};

std::string method_with_variant(const FitOptions& o) {
    if (o.preset.empty()) return o.method;
    if (o.method.find(':') != std::string::npos) {
        throw Error("expected the variant once, found '" + o.method + "' and --preset " + o.preset +
                    "; drop one of them");
    }
    return o.method + ":" + o.preset;
}

void print_result(const Common& common, const Calibrator& c, const Dataset& data, const FitOptions& o,
                  const std::string& device, double seconds) {
    if (!common.json) {
        std::vector<std::vector<std::string>> rows = {
            {"method", c.method()},
            {"rows", std::to_string(data.n) + ", " + std::to_string(data.C) + " classes, " + std::to_string(data.d) +
                         " features"}};
        for (const Finding& f : c.findings()) rows.push_back({f.name, f.text});
        return print(table(rows) + "\nwrote " + o.output + "\n");
    }
    nlohmann::ordered_json j = {{"schema", "localcal.fit/1"}, {"program", kProgram}, {"device", device},
                                {"method", c.method()},       {"n", data.n},         {"classes", data.C},
                                {"features", data.d},         {"seed", common.seed}, {"seconds", seconds},
                                {"output", o.output}};
    for (const auto& [name, value] : c.options()) j["options"][name] = value;
    for (const Finding& f : c.findings()) {
        if (f.is_number)
            j[f.name] = f.number;
        else
            j[f.name] = f.text;
    }
    print_json(j);
}

void fit(const Common& common, const FitOptions& o) {
    const std::unique_ptr<Calibrator> c = make_calibrator(method_with_variant(o), o.choices);
    check_writable(o.output);
    const Backend& b = choose_backend(common.device);
    const Dataset data = load(o.input, {.features = c->uses_features(), .labels = true});
    const auto started = std::chrono::steady_clock::now();
    {
        ProgressLine line(common.quiet);
        c->fit(samples_of(data), {.backend = &b,
                                  .seed = common.seed,
                                  .progress = line.callback(),
                                  .note = notes(common),
                                  .checkpoint = o.checkpoint});
    }
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - started;
    save_calibrator(o.output, *c);
    print_result(common, *c, data, o, b.name, seconds.count());
}

}  // namespace

extern const Command fit_command = {
    "fit", "fit a calibrator on labelled rows and write it to a file",
    "  $ localcal fit --method ln --data validation.npz -o model.safetensors\n"
    "\n"
    "validation.npz holds `features` (n, d), `logits` (n, C) and `labels` (n) of rows the classifier was not trained "
    "on.\n"
    "Methods that need no features:\n"
    "  nc   no calibration: softmax of the logits\n"
    "  ts   temperature scaling: one factor for all logits; keeps the order of the classes\n"
    "  vs   vector scaling: a factor and a shift per class\n"
    "  ms   matrix scaling: a matrix and a shift, with a penalty found by cross-validation\n"
    "  dc   Dirichlet calibration: the same on log-probabilities\n"
    "  ps   Platt scaling: a logistic curve per class, rows normalised\n"
    "  ir   isotonic regression: the best curve per class that never falls, rows normalised\n"
    "  hb   histogram binning: the share of the class in 15 bins, rows normalised\n"
    "  beta beta calibration: a curve of three numbers per class, rows normalised\n"
    "`ts:authors`, `ps:authors`, `ir:authors`, `dc:authors` do what the code behind published tables does.\n"
    "Methods that work in feature space:\n"
    "  ln   LoCal Net: a small network corrects logits and features; predicts by one forward pass\n"
    "  kc   kernel classifier: learns a feature space, predicts by the labels of the rows nearby\n"
    "  ko   as kc, trained with LoCal Net's loss\n"
    "with a variant, `ln:paper` or --preset paper:\n"
    "  auto     finds the bandwidth, stops by itself, and falls back on temperature scaling where that is better "
    "(default)\n"
    "  paper    the paper to the letter: gamma 10, fixed epochs; made for 2048 features of a ResNet\n"
    "  authors  the authors' code, to compare with its numbers\n"
    "An interrupted fit with --checkpoint goes on where it was, with the same result bit for bit.",
    [](Options& options, const Common& common) -> std::function<void()> {
        auto o = std::make_shared<FitOptions>();
        options.add_option("--method", o->method, "nc, ts, vs, ms, dc, ps, ir, hb, beta, ln, kc, ko; with :variant")
            .required();
        add_input_options(options, o->input);
        options.add_option("-o,--output", o->output, "the fitted model, a .safetensors file").required();
        options.add_option("--preset", o->preset, "auto, paper or authors: the variant, if not in --method");
        options.add_option("--checkpoint", o->checkpoint, "a file that keeps the state of training, to go on from");
        for (const Choice& c : kChoices) {
            options
                .add_option(
                    std::string("--") + c.name, [o, c](const std::string& v) { o->choices[c.name] = v; }, c.what)
                .type_name(c.takes);
        }
        return [o, &common] { fit(common, *o); };
    }};

}  // namespace lc::cli

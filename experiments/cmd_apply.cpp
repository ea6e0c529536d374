// cmd_apply.cpp -- localcal apply: calibrated probabilities for new rows.
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "calib/calibrator.h"
#include "data/npy.h"
#include "experiments/cli.h"
#include "experiments/input.h"
#include "experiments/progress.h"
#include "experiments/samples.h"

namespace lc::cli {
namespace {

struct ApplyOptions {
    InputOptions input;
    std::string model, output;
};

void apply(const Common& common, const ApplyOptions& o) {
    const std::unique_ptr<Calibrator> c = load_calibrator(o.model);
    check_writable(o.output);
    const Backend& b = choose_backend(common.device);
    const Dataset data = load(o.input, {.features = c->features_expected() > 0, .labels = false});
    const Samples samples = samples_of(data);
    check_fits(*c, samples, data.source);
    Prediction p;
    {
        ProgressLine line(common.quiet);
        p = c->predict(samples, {.backend = &b, .seed = common.seed, .progress = line.callback()});
    }
    NpzWriter out(o.output);
    out.add("probs", {p.n, p.C}, p.probs.data());
    if (!p.features.empty()) out.add("features", {p.n, p.k}, p.features.data());
    out.commit();

    int64_t changed = 0;
    const auto top = [&](const float* row) { return std::max_element(row, row + p.C) - row; };
    for (int64_t i = 0; i < p.n; ++i) changed += top(p.probs.data() + i * p.C) != top(samples.logits + i * p.C);
    if (common.json) {
        return print_json({{"schema", "localcal.apply/1"},
                           {"program", kProgram},
                           {"device", b.name},
                           {"method", c->method()},
                           {"n", p.n},
                           {"classes", p.C},
                           {"features", p.k},
                           {"flips", changed},
                           {"output", o.output}});
    }
    if (common.quiet) return;
    print("wrote " + o.output + ": probs (" + std::to_string(p.n) + ", " + std::to_string(p.C) + ")" +
          (p.features.empty() ? "" : ", features (" + std::to_string(p.n) + ", " + std::to_string(p.k) + ")") + "; " +
          std::to_string(changed) + " of " + std::to_string(p.n) +
          " rows have another most probable class than before\n");
}

}  // namespace

extern const Command apply_command = {
    "apply", "calibrated probabilities for new rows",
    "  $ localcal apply model.safetensors --data test.npz -o calibrated.npz\n"
    "\n"
    "test.npz holds `features` and `logits` as the model was fitted on; labels are not needed.  calibrated.npz gets\n"
    "`probs` (n, C), and `features` (n, k) where the method has a feature space of its own.",
    [](CLI::App& app, const Common& common) -> std::function<void()> {
        auto o = std::make_shared<ApplyOptions>();
        app.add_option("MODEL", o->model, "a file that `localcal fit` wrote")->required();
        add_input_options(app, o->input);
        app.add_option("-o,--output", o->output, "the result, an .npz file")->required();
        return [o, &common] { apply(common, *o); };
    }};

}  // namespace lc::cli

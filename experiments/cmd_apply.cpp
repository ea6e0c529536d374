// cmd_apply.cpp -- localcal apply: calibrated probabilities for new rows.
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

constexpr int64_t kRowsAtOnce = 8192;

struct Applied {
    int64_t n = 0, C = 0, k = 0;
    std::vector<float> probs, features;  // (n, C), (n, k)
    int64_t flips = 0;                   // rows that have another most probable class than before
};

template <class Real>
int64_t top(const Real* row, int64_t C) {
    return std::max_element(row, row + C) - row;
}

// Piece by piece: what the input is large in, its features, is never in memory as a whole.
Applied apply_in_pieces(const Calibrator& c, const InputRows& input, const Context& context, const Progress& progress) {
    Applied all;
    for (int64_t begin = 0; begin < input.size();) {
        const bool last = input.size() - begin < 2 * kRowsAtOnce;  // no tiny piece at the end
        const int64_t end = last ? input.size() : begin + kRowsAtOnce;
        const Dataset data = input.piece(begin, end);
        const Samples samples = samples_of(data);
        check_fits(c, samples, data.source);
        const Prediction p = c.predict(samples, context);
        for (int64_t i = 0; i < p.n; ++i) {
            all.flips += top(p.probs.data() + i * p.C, p.C) != top(samples.logits + i * p.C, p.C);
        }
        all.n += p.n, all.C = p.C, all.k = p.k;
        all.probs.insert(all.probs.end(), p.probs.begin(), p.probs.end());
        all.features.insert(all.features.end(), p.features.begin(), p.features.end());
        begin = end;
        if (progress) progress(double(end) / double(input.size()), std::to_string(end) + " rows");
    }
    return all;
}

void apply(const Common& common, const ApplyOptions& o) {
    const std::unique_ptr<Calibrator> c = load_calibrator(o.model);
    check_writable(o.output);
    const Backend& b = choose_backend(common.device);
    const InputRows input = open_input(o.input, {.features = c->features_expected() > 0, .labels = false});
    Applied p;
    {
        ProgressLine line(common.quiet);
        p = apply_in_pieces(*c, input, {.backend = &b, .seed = common.seed}, line.callback());
    }
    NpzWriter out(o.output);
    out.add("probs", {p.n, p.C}, p.probs.data());
    if (!p.features.empty()) out.add("features", {p.n, p.k}, p.features.data());
    out.commit();

    if (common.json) {
        return print_json({{"schema", "localcal.apply/1"},
                           {"program", kProgram},
                           {"device", b.name},
                           {"method", c->method()},
                           {"n", p.n},
                           {"classes", p.C},
                           {"features", p.k},
                           {"flips", p.flips},
                           {"output", o.output}});
    }
    if (common.quiet) return;
    print("wrote " + o.output + ": probs (" + std::to_string(p.n) + ", " + std::to_string(p.C) + ")" +
          (p.features.empty() ? "" : ", features (" + std::to_string(p.n) + ", " + std::to_string(p.k) + ")") + "; " +
          std::to_string(p.flips) + " of " + std::to_string(p.n) +
          " rows have another most probable class than before\n");
}

}  // namespace

extern const Command apply_command = {
    "apply", "calibrated probabilities for new rows",
    "  $ localcal apply model.safetensors --data test.npz -o calibrated.npz\n"
    "\n"
    "test.npz holds `features` and `logits` as the model was fitted on; labels are not needed.  calibrated.npz gets\n"
    "`probs` (n, C), and `features` (n, k) where the method has a feature space of its own.",
    [](Options& options, const Common& common) -> std::function<void()> {
        auto o = std::make_shared<ApplyOptions>();
        options.add_option("MODEL", o->model, "a file that `localcal fit` wrote").required();
        add_input_options(options, o->input);
        options.add_option("-o,--output", o->output, "the result, an .npz file").required();
        return [o, &common] { apply(common, *o); };
    }};

}  // namespace lc::cli

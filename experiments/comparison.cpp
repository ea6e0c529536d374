// comparison.cpp -- see comparison.h; how it is told: comparison_text.cpp.
#include "experiments/comparison.h"

#include <chrono>
#include <cmath>
#include <filesystem>

#include "calib/methods.h"
#include "data/hash.h"
#include "experiments/samples.h"

namespace lc::cli {
namespace {

const std::vector<std::string> kWithoutFeatures = {"nc", "ts", "vs", "ms", "dc", "ps", "ir", "hb", "beta"};
const std::vector<std::string> kWithFeatures = {"kc", "ko", "ln"};

// A method of the list, and how much of the whole work it is likely to be: nets train, ms and dc search.
struct Contestant {
    std::unique_ptr<Calibrator> calibrator;
    double work = 1;
};

std::vector<Contestant> contestants(const std::vector<std::string>& methods) {
    std::vector<Contestant> all;
    for (const std::string& name : methods) {
        Contestant c = {make_calibrator(name, {})};
        const std::string method = c.calibrator->method();
        for (const Contestant& other : all) {
            if (other.calibrator->method() == method)
                throw Error("--methods: expected each once, found " + method + " twice");
        }
        c.work = c.calibrator->uses_features() ? 10 : method == "dc" || method == "ms" ? 4 : 1;
        all.push_back(std::move(c));
    }
    return all;
}

// The default where --methods is not given: everything, as far as the files have features.
std::vector<std::string> methods_for(const InputRows& cal, const InputRows& test) {
    std::vector<std::string> names = kWithoutFeatures;
    if (cal.arrays.features && test.arrays.features)
        names.insert(names.end(), kWithFeatures.begin(), kWithFeatures.end());
    return names;
}

double seconds_since(std::chrono::steady_clock::time_point start) {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// ---- fitted models in a folder --------------------------------------------------------------------------------------

class ModelFolder {
  public:
    ModelFolder(std::string folder, const Dataset& cal, uint64_t seed) : folder_(std::move(folder)) {
        if (folder_.empty()) return;
        if (std::filesystem::exists(folder_) && !std::filesystem::is_directory(folder_)) {
            throw Error("--out: expected a folder, or a name for a new one, found the file '" + folder_ +
                        "'; choose another");
        }
        std::filesystem::create_directories(folder_);
        Hash h;
        h.add(cal.features).add(cal.logits).add(cal.probs).add(cal.labels);
        rows_ = h.text() + " seed " + std::to_string(seed) + " " + kProgram;
    }

    // The model of an earlier run on the same rows, with what it found out; null where there is none.
    std::unique_ptr<Calibrator> take_up(const std::string& method, Compared& result) const {
        if (folder_.empty() || !std::filesystem::exists(path(method))) return nullptr;
        const Safetensors file = read_safetensors(path(method));
        const auto rows = file.metadata.find("fitted_on");
        if (rows == file.metadata.end() || rows->second != rows_ || file.meta("method") != method) return nullptr;
        for (const auto& [key, value] : file.metadata) {
            if (key.starts_with("fit.")) result.findings.push_back({key.substr(4), value, false, 0});
        }
        result.seconds = file.meta_number("fit_seconds");
        result.kept = true;
        return load_calibrator(path(method));
    }
    void keep(const Calibrator& c, double seconds) const {
        if (folder_.empty()) return;
        save_calibrator(path(c.method()), c, {{"fitted_on", rows_}, {"fit_seconds", std::to_string(seconds)}});
    }
    std::string checkpoint(const std::string& method) const {
        return folder_.empty() ? "" : path(method) + ".checkpoint";
    }

  private:
    std::string path(std::string method) const {
        for (char& c : method) c = c == ':' ? '-' : c;
        return folder_ + "/" + method + ".safetensors";
    }

    std::string folder_, rows_;
};

// ---- one method -----------------------------------------------------------------------------------------------------

void fit(Calibrator& c, Compared& result, const Dataset& cal, const Backend& b, uint64_t seed,
         const ModelFolder& folder, const Progress& progress) {
    const auto start = std::chrono::steady_clock::now();
    c.fit(samples_of(cal), {.backend = &b,
                            .seed = seed,
                            .progress = progress,
                            .note = [&](const std::string& text) { result.notes.push_back(text); },
                            .checkpoint = folder.checkpoint(result.method)});
    result.seconds = seconds_since(start);
    result.findings = c.findings();
    folder.keep(c, result.seconds);
}

void score(Compared& result, Scored& s, const Calibrator& c, const Progress& progress) {
    apply_model(s, c, part_of(progress, 0.0, 0.2));
    for (int64_t i = 0; i < s.after.n; ++i) {
        result.flips += top_class(s.after.row(i), s.after.C) != top_class(s.before.row(i), s.before.C);
    }
    result.keeps_order = c.keeps_order();
    result.impossible = c.impossible_labels(samples_of(s.data));
    result.nll = each_nll(s.after, s.choice.card.global.nll, s.choice.card.global.nll_floor);
    result.card = score_card(s.after, &s.common, s.own ? &s.own : nullptr, s.choice.card, part_of(progress, 0.2, 1.0));
    result.card.local.reset(), result.card.own.reset();  // every entry of every row: large, and not shown here
}

// ---- all of them ----------------------------------------------------------------------------------------------------

struct Inputs {
    Dataset cal, test;
};

// Fills an empty list with everything that the files allow.
Inputs load_inputs(const CompareRequest& request, std::vector<Contestant>& list) {
    bool features = false;
    for (const Contestant& c : list) features = features || c.calibrator->uses_features();
    const Needs needs = {.features = features, .labels = true};
    const InputRows cal_rows = open_input(request.cal, needs), test_rows = open_input(request.test, needs);
    if (list.empty()) list = contestants(methods_for(cal_rows, test_rows));
    Inputs in = {cal_rows.piece(0, cal_rows.size()), test_rows.piece(0, test_rows.size())};
    if (in.cal.C != in.test.C || in.cal.d != in.test.d) {
        const auto size = [](const Dataset& data) {
            return std::to_string(data.C) + " classes and " + std::to_string(data.d) + " features in " + data.source;
        };
        throw Error("expected calibration and test rows of one network, found " + size(in.cal) + ", " + size(in.test) +
                    "; give outputs of the same layers");
    }
    return in;
}

// The test rows in the space that all methods are scored in.
Scored prepare_test(const Common& common, Inputs& in, const ScoringOptions& o, const Backend& b,
                    const Progress& progress) {
    const Dataset& cal = in.cal;
    const int64_t k = o.pca == "none" ? cal.d : int64_t(parse_integer("--pca", o.pca, 1, 4096));
    std::optional<Pca> pca;
    if (cal.d > k) pca = fit_pca(b, Tensor::from(b, {cal.n, cal.d}, cal.features).data(), cal.n, cal.d, k);
    Scored s = prepare_rows(common, std::move(in.test), o, {pca ? &*pca : nullptr, "the calibration rows"}, progress);
    if (s.data.n > 1) s.choice.card.global.distance = neighbour_distance(s.common);  // once for all methods
    return s;
}

Progress named(const Progress& progress, const std::string& method) {
    if (!progress) return {};
    return [=](double fraction, std::string_view note) { progress(fraction, method + ": " + std::string(note)); };
}

}  // namespace

const Compared* Comparison::find(const std::string& method) const {
    for (const Compared& m : methods) {
        if (m.method == method && m.refused.empty()) return &m;
    }
    return nullptr;
}

Comparison compare(const Common& common, const CompareRequest& request, const ScoringOptions& scoring,
                   const Progress& progress) {
    choose_scoring(scoring, common);  // bad options and names are refused before anything is read
    std::vector<Contestant> list = contestants(request.methods);
    Inputs in = load_inputs(request, list);
    const Backend& b = choose_backend(common.device);
    const ModelFolder folder(request.folder, in.cal, common.seed);
    Comparison result = {in.cal.source, in.cal.n, {}, {}};
    result.test = prepare_test(common, in, scoring, b, named(part_of(progress, 0.0, 0.05), "bandwidth"));

    double all = 0, done = 0;
    for (const Contestant& c : list) all += c.work + 1;
    for (Contestant& c : list) {
        Compared m;
        m.method = c.calibrator->method();
        const auto next = [&](double work) {
            const double begin = 0.05 + 0.95 * done / all;
            done += work;
            return named(part_of(progress, begin, 0.05 + 0.95 * done / all), m.method);
        };
        const Progress fitting = next(c.work), scoring_part = next(1);
        try {
            if (auto kept = folder.take_up(m.method, m))
                c.calibrator = std::move(kept);
            else
                fit(*c.calibrator, m, in.cal, b, common.seed, folder, fitting);
            score(m, result.test, *c.calibrator, scoring_part);
        } catch (const Error& e) {
            if (list.size() == 1) throw;
            m.refused = e.what();
        }
        result.methods.push_back(std::move(m));
    }
    result.test.after = result.test.before;
    result.test.method = "nc";
    return result;
}

}  // namespace lc::cli

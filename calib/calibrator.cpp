// calibrator.cpp -- see calibrator.h.
#include "calib/calibrator.h"

#include <cmath>
#include <cstdio>
#include <set>

#include "calib/methods.h"

namespace lc {
namespace {

constexpr const char* kSchema = "localcal.calibrator/1";

template <class Real>
void check_finite(const char* what, const Real* x, int64_t n, int64_t columns) {
    for (int64_t i = 0; i < n * columns; ++i) {
        if (std::isfinite(x[i])) continue;
        throw Error(std::string(what) + ": expected finite numbers, found " + std::to_string(x[i]) + " in row " +
                    std::to_string(i / columns) + ", column " + std::to_string(i % columns) +
                    "; remove or mend that row");
    }
}

}  // namespace

void check_samples(const Samples& s, bool with_features, bool with_labels) {
    if (s.C < 2) throw Error("expected logits of at least 2 classes, found " + std::to_string(s.C));
    if (s.n < (with_labels ? 2 : 0)) throw Error("expected at least 2 rows, found " + std::to_string(s.n));
    if (with_features && (s.features == nullptr || s.d < 1)) {
        throw Error(
            "this method works in feature space and found no features; give --features, or 'features' in --data");
    }
    check_finite("logits", s.logits, s.n, s.C);
    if (s.probs) check_finite("probs", s.probs, s.n, s.C);
    if (with_features) check_finite("features", s.features, s.n, s.d);
    if (!with_labels) return;
    if (s.labels == nullptr) throw Error("expected labels to fit on, found none; give --labels, or 'labels' in --data");
    std::set<int32_t> classes;
    for (int64_t i = 0; i < s.n; ++i) {
        if (s.labels[i] < 0 || s.labels[i] >= s.C) {
            throw Error("labels: expected 0 to " + std::to_string(s.C - 1) + ", found " + std::to_string(s.labels[i]) +
                        " in row " + std::to_string(i) + "; labels count from 0");
        }
        classes.insert(s.labels[i]);
    }
    if (classes.size() < 2) {
        throw Error("expected rows of at least 2 classes, found only class " + std::to_string(*classes.begin()) +
                    "; bring calibration rows of all classes");
    }
}

void check_applies(const Calibrator& c, const Samples& s) {
    const int64_t C = c.classes_expected();
    LC_CHECK(C > 0, c.method() << " was not fitted yet; call fit() first");
    LC_CHECK(s.C == C, c.method() << " was fitted on " << C << " classes, found " << s.C);
    check_samples(s, false, false);
}

int64_t stored_classes(const Safetensors& in) {
    constexpr int64_t kMost = 1 << 24;  // beyond, products of sizes could overflow
    const int64_t C = in.meta_integer("classes");
    if (C >= 2 && C <= kMost) return C;
    throw Error(in.path + ": expected 2 to " + std::to_string(kMost) + " classes, found " + std::to_string(C) +
                "; fit the model again");
}

Finding finding(const std::string& name, const std::string& text) { return {name, text, false, 0}; }

Finding finding(const std::string& name, double number) {
    char text[40];
    std::snprintf(text, sizeof text, "%.6g", number);
    return {name, text, true, number};
}

void save_calibrator(const std::string& path, const Calibrator& c, const std::map<std::string, std::string>& also) {
    SafetensorsWriter out;
    out.metadata = also;
    c.store(out);
    out.metadata["schema"] = kSchema;
    out.metadata["method"] = c.method();
    out.metadata["features"] = std::to_string(c.features_expected());
    out.metadata["classes"] = std::to_string(c.classes_expected());
    for (const Finding& f : c.findings()) out.metadata["fit." + f.name] = f.text;
    out.write(path);
}

std::unique_ptr<Calibrator> load_calibrator(const std::string& path) {
    const Safetensors in = read_safetensors(path);
    const auto schema = in.metadata.find("schema");
    if (schema == in.metadata.end() || schema->second != kSchema) {
        throw Error(path + ": expected a fitted calibrator (" + kSchema + "), found " +
                    (schema == in.metadata.end() ? "no schema" : "'" + schema->second + "'") +
                    "; `localcal fit` writes one, `localcal inspect` shows what this file is");
    }
    return restore_calibrator(in);
}

void check_fits(const Calibrator& c, const Samples& s, const std::string& source) {
    const auto refuse = [&](const char* what, int64_t expected, int64_t found) {
        throw Error(source + ": the model " + c.method() + " was fitted on " + std::to_string(expected) + " " + what +
                    ", found " + std::to_string(found) + "; apply it to outputs of the network it was fitted for");
    };
    if (s.C != c.classes_expected()) refuse("classes", c.classes_expected(), s.C);
    const int64_t d = c.features_expected();
    if (d > 0 && s.features == nullptr) refuse("features", d, 0);
    if (d > 0 && s.d != d) refuse("features", d, s.d);
}

}  // namespace lc

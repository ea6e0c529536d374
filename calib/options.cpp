// options.cpp -- see options.h.
#include "calib/options.h"

#include <charconv>
#include <cmath>

#include "kernels/check.h"

namespace lc {
namespace {

// ---- names of choices -----------------------------------------------------------------------------------------------

template <class Choice>
using Names = std::vector<std::pair<const char*, Choice>>;

const Names<Method> kMethods = {{"ln", Method::ln}, {"kc", Method::kc}, {"ko", Method::ko}};
const Names<NwForm> kNwForms = {{"paper", NwForm::exact}, {"authors", NwForm::authors}};
const Names<JsDistance> kDistances = {{"categorical", JsDistance::categorical}, {"classwise", JsDistance::classwise}};
const Names<Affine> kAffines = {{"scalar", Affine::scalar}, {"vector", Affine::vector}};
const Names<Stop> kStops = {{"fixed", Stop::fixed}, {"js", Stop::js}, {"nll", Stop::nll}};
const Names<ReferenceSet> kReferences = {{"fit", ReferenceSet::fit}, {"validation", ReferenceSet::validation}};
const Names<Bandwidth> kBandwidths = {
    {"fixed", Bandwidth::fixed}, {"knn", Bandwidth::knn}, {"learned", Bandwidth::learned}};

template <class Choice>
Choice choice(const std::string& option, std::string_view text, const Names<Choice>& names) {
    std::string known;
    for (const auto& [name, value] : names) {
        if (text == name) return value;
        known += std::string(known.empty() ? "" : ", ") + name;
    }
    throw Error("--" + option + " takes one of " + known + "; found '" + std::string(text) + "'");
}

template <class Choice>
std::string name_of(Choice value, const Names<Choice>& names) {
    for (const auto& [name, v] : names) {
        if (v == value) return name;
    }
    return "?";
}

// ---- numbers --------------------------------------------------------------------------------------------------------

template <class Number>
Number number(const std::string& option, const std::string& text, Number low, Number high) {
    Number value{};
    const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (failure != std::errc() || end != text.data() + text.size() || !(value >= low && value <= high)) {
        std::ostringstream message;
        message << "--" << option << " takes a number from " << low << " to " << high << "; found '" << text << "'";
        throw Error(message.str());
    }
    return value;
}

template <class Number>
std::string text_of(Number value) {  // the shortest text that reads back as the same number
    char buffer[32];
    return std::string(buffer, std::to_chars(buffer, buffer + sizeof buffer, value).ptr);
}

}  // namespace

// ---- presets --------------------------------------------------------------------------------------------------------

NetOptions preset(std::string_view method, std::string_view name, int64_t C) {
    NetOptions o;
    o.method = choice("method", method, kMethods);
    o.preset = name;
    o.hidden = C <= 10 ? 64 : 128;
    o.dropout = C <= 10 ? 0.3f : 0.5f;
    o.epochs = C <= 10 ? 22 : 30;
    if (name == "paper") return o;
    if (name == "authors") {
        o.nw = NwForm::authors;
        o.js = JsDistance::classwise;
        o.affine = C > 10 ? Affine::vector : Affine::scalar;
        if (o.method != Method::ln) o.reference = ReferenceSet::validation;
        return o;
    }
    if (name != "auto") throw Error("--preset takes one of auto, paper, authors; found '" + std::string(name) + "'");
    o.gamma = 0;
    o.stop = Stop::nll;
    o.epochs = 200;
    o.first_stop = 60;  // the NLL first rises, while theta is still flat
    o.patience = 15;
    o.two_starts = o.final_temperature = true;
    o.verdict = o.method == Method::ln;
    return o;
}

void apply_setting(NetOptions& o, std::string_view setting) {
    struct Row {
        const char* name;
        int64_t hidden;
        float dropout;
        int64_t epochs;
    };
    for (const Row& r : {Row{"cifar10", 64, 0.3f, 22}, {"cifar100", 128, 0.5f, 30}, {"tissuemnist", 256, 0.3f, 60}}) {
        if (setting != r.name) continue;
        o.hidden = r.hidden;
        o.dropout = r.dropout;
        if (o.stop == Stop::fixed) o.epochs = r.epochs;
        return;
    }
    throw Error("--setting takes one of cifar10, cifar100, tissuemnist; found '" + std::string(setting) + "'");
}

void set_option(NetOptions& o, const std::string& name, const std::string& value) {
    constexpr int64_t kMany = 1'000'000;
    const auto whole = [&](int64_t low, int64_t high) { return number<int64_t>(name, value, low, high); };
    const auto real = [&](double low, double high) { return number<double>(name, value, low, high); };
    if (name == "nw")
        o.nw = choice(name, value, kNwForms);
    else if (name == "js")
        o.js = choice(name, value, kDistances);
    else if (name == "affine")
        o.affine = choice(name, value, kAffines);
    else if (name == "stop")
        o.stop = choice(name, value, kStops);
    else if (name == "reference")
        o.reference = choice(name, value, kReferences);
    else if (name == "bandwidth")
        o.bandwidth = choice(name, value, kBandwidths);
    else if (name == "hidden")
        o.hidden = whole(1, 65536);
    else if (name == "dropout")
        o.dropout = float(real(0, 0.99));
    else if (name == "epochs")
        o.epochs = whole(1, kMany);
    else if (name == "patience")
        o.patience = whole(1, kMany);
    else if (name == "first-stop")
        o.first_stop = whole(0, kMany);
    else if (name == "lr")
        o.lr = float(real(1e-12, 1e3));
    else if (name == "batch")
        o.batch = whole(2, kMany);
    else if (name == "lambda")
        o.lambda = float(real(0, 1e6));
    else if (name == "fit-gamma")
        o.gamma = value == "auto" ? 0.0 : real(1e-18, 1e18);
    else if (name == "pca")
        o.components = whole(1, 4096);
    else if (name == "neighbours")
        o.neighbours = whole(1, 64);
    else if (name == "two-starts")
        o.two_starts = whole(0, 1) != 0;
    else if (name == "final-temperature")
        o.final_temperature = whole(0, 1) != 0;
    else if (name == "verdict")
        o.verdict = whole(0, 1) != 0;
    else
        throw Error("there is no option '" + name + "' of " + method_name(o));
}

NamedValues to_text(const NetOptions& o) {
    return {{"nw", name_of(o.nw, kNwForms)},
            {"js", name_of(o.js, kDistances)},
            {"affine", name_of(o.affine, kAffines)},
            {"stop", name_of(o.stop, kStops)},
            {"reference", name_of(o.reference, kReferences)},
            {"bandwidth", name_of(o.bandwidth, kBandwidths)},
            {"hidden", text_of(o.hidden)},
            {"dropout", text_of(o.dropout)},
            {"epochs", text_of(o.epochs)},
            {"patience", text_of(o.patience)},
            {"first-stop", text_of(o.first_stop)},
            {"lr", text_of(o.lr)},
            {"batch", text_of(o.batch)},
            {"lambda", text_of(o.lambda)},
            {"fit-gamma", o.gamma == 0 ? "auto" : text_of(o.gamma)},
            {"pca", text_of(o.components)},
            {"neighbours", text_of(o.neighbours)},
            {"two-starts", text_of(int(o.two_starts))},
            {"final-temperature", text_of(int(o.final_temperature))},
            {"verdict", text_of(int(o.verdict))}};
}

double option_number(const std::string& option, const std::string& text, double low, double high) {
    return number<double>(option, text, low, high);
}
std::string number_text(double x) { return text_of(x); }

std::string method_name(const NetOptions& o) { return name_of(o.method, kMethods) + ":" + o.preset; }

void check_options(const NetOptions& o) {
    if (o.stop == Stop::fixed && (o.two_starts || o.final_temperature || o.verdict)) {
        throw Error("--preset auto holds rows back to choose by; with --stop fixed take --preset paper or authors");
    }
    if (o.method == Method::ln && o.reference == ReferenceSet::validation) {
        throw Error("--reference is for kc and ko, whose predictions compare with a reference set; ln has none");
    }
}

}  // namespace lc

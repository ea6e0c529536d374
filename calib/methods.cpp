// methods.cpp -- see methods.h.
#include "calib/methods.h"

#include <algorithm>

#include "calib/beta.h"
#include "calib/histogram.h"
#include "calib/isotonic.h"
#include "calib/linear_calibrator.h"
#include "calib/net_calibrator.h"
#include "calib/platt.h"
#include "calib/temperature_scaling.h"
#include "calib/vector_scaling.h"

namespace lc {
namespace {

struct Name {
    std::string base, variant;
};
Name parse(const std::string& method) {
    const size_t colon = method.find(':');
    if (colon == std::string::npos) return {method, "auto"};
    return {method.substr(0, colon), method.substr(colon + 1)};
}

using Options = std::map<std::string, std::string>;
using Made = std::unique_ptr<Calibrator>;

Made make_net(const Name& name, const Options& options) {
    const auto choose = [=](int64_t C) {
        NetOptions o = preset(name.base, name.variant, C);
        for (const auto& [option, value] : options) {
            if (option == "setting") apply_setting(o, value);
        }
        for (const auto& [option, value] : options) {
            if (option != "setting") set_option(o, option, value);
        }
        return o;
    };
    check_options(choose(10));  // a bad value is refused before any file is read
    return std::make_unique<NetCalibrator>(choose);
}

template <class Type, class... Arguments>
Made make_plain(const Name& name, const Options& options, Arguments... arguments) {  // a method without options
    if (options.empty()) return std::make_unique<Type>(arguments...);
    throw Error("there is no option '" + options.begin()->first + "' of " + name.base);
}

// ---- every method: its name, other names people know it by, its variants (the default is `auto`), how to make it -----

struct Listed {
    const char* name;
    std::vector<const char*> aliases, variants;
    Made (*make)(const Name& name, const Options& options);
};

const std::vector<Listed> kMethods = {
    {"nc", {"none", "uncalibrated"}, {"auto"}, [](auto& n, auto& o) { return make_plain<NoCalibration>(n, o); }},
    {"ts",
     {"temp-scaling", "temperature", "temperature-scaling"},
     {"auto", "authors"},
     [](auto& n, auto& o) { return make_plain<TemperatureScaling>(n, o, n.variant == "authors"); }},
    {"vs", {"vector", "vector-scaling"}, {"auto"}, [](auto& n, auto& o) { return make_plain<VectorScaling>(n, o); }},
    {"ms",
     {"matrix", "matrix-scaling"},
     {"auto"},
     [](auto&, auto& o) -> Made { return std::make_unique<LinearCalibrator>(LinearKind::ms, o); }},
    {"dc",
     {"dirichlet", "dirichlet-calibration"},
     {"auto", "authors"},
     [](auto& n, auto& o) -> Made {
         const LinearKind kind = n.variant == "authors" ? LinearKind::dc_authors : LinearKind::dc;
         return std::make_unique<LinearCalibrator>(kind, o);
     }},
    {"ps",
     {"platt", "platt-scaling"},
     {"auto", "plain", "authors"},
     [](auto& n, auto& o) {
         return make_plain<OneVsRest>(n, o,
                                      n.variant == "authors" ? &kPlattAuthors
                                      : n.variant == "plain" ? &kPlattPlain
                                                             : &kPlatt);
     }},
    {"ir",
     {"isotonic", "isotonic-regression"},
     {"auto", "authors"},
     [](auto& n, auto& o) {
         return make_plain<OneVsRest>(n, o, n.variant == "authors" ? &kIsotonicAuthors : &kIsotonic);
     }},
    {"hb",
     {"histogram", "histogram-binning"},
     {"auto"},
     [](auto& n, auto& o) { return make_plain<OneVsRest>(n, o, &kHistogram); }},
    {"beta",
     {"beta-calibration"},
     {"auto", "plain"},
     [](auto& n, auto& o) { return make_plain<OneVsRest>(n, o, n.variant == "plain" ? &kBetaPlain : &kBeta); }},
    {"ln", {"local-net", "localnet"}, {"auto", "paper", "authors"}, make_net},
    {"kc", {"kernel"}, {"auto", "paper", "authors"}, make_net},
    {"ko", {}, {"auto", "paper", "authors"}, make_net},
};

// The entry of a name, and the name as it is written everywhere else.
const Listed* find(Name& name) {
    for (const Listed& m : kMethods) {
        const bool alias = std::find(m.aliases.begin(), m.aliases.end(), name.base) != m.aliases.end();
        if (name.base != m.name && !alias) continue;
        name.base = m.name;
        return &m;
    }
    return nullptr;
}

template <class List, class Text>
std::string joined(const List& list, const Text& text) {
    std::string all;
    for (const auto& x : list) all += (all.empty() ? "" : ", ") + std::string(text(x));
    return all;
}

}  // namespace

std::unique_ptr<Calibrator> make_calibrator(const std::string& method, const Options& options) {
    Name name = parse(method);
    const Listed* const m = find(name);
    if (m == nullptr) {
        throw Error("expected a method (" + joined(kMethods, [](auto& x) { return x.name; }) + "), found '" + method +
                    "'");
    }
    if (std::find(m->variants.begin(), m->variants.end(), name.variant) == m->variants.end()) {
        throw Error("expected a variant of " + name.base + " (" + joined(m->variants, [](auto x) { return x; }) +
                    "), found '" + name.variant + "'");
    }
    return m->make(name, options);
}

std::unique_ptr<Calibrator> restore_calibrator(const Safetensors& in) {
    Name name = parse(in.meta("method"));
    const Listed* const m = find(name);
    if (m == nullptr || std::find(m->variants.begin(), m->variants.end(), name.variant) == m->variants.end()) {
        throw Error(in.path + ": a model of the method '" + in.meta("method") + "' needs a newer localcal");
    }
    Made c = m->make(name, {});
    c->restore(in);
    return c;
}

}  // namespace lc

// methods.cpp -- see methods.h.
#include "calib/methods.h"

#include "calib/net_calibrator.h"
#include "calib/one_vs_rest.h"

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

bool is_net(const std::string& base) { return base == "ln" || base == "kc" || base == "ko"; }

[[noreturn]] void refuse(const std::string& method) {
    throw Error("expected a method (ln, kc, ko, ps, ir, hb, beta; ln, kc, ko with :auto, :paper or :authors), found '" +
                method + "'");
}

}  // namespace

std::unique_ptr<Calibrator> make_calibrator(const std::string& method,
                                            const std::map<std::string, std::string>& options) {
    const Name name = parse(method);
    if (auto c = make_one_vs_rest(name.base, name.variant)) {
        if (!options.empty()) throw Error("there is no option '" + options.begin()->first + "' of " + c->method());
        return c;
    }
    if (!is_net(name.base)) refuse(method);
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

std::unique_ptr<Calibrator> restore_calibrator(const Safetensors& in) {
    const std::string method = in.meta("method");
    if (is_net(parse(method).base)) return std::make_unique<NetCalibrator>(in);
    if (auto c = make_one_vs_rest(parse(method).base, parse(method).variant)) {
        c->restore(in);
        return c;
    }
    throw Error(in.path + ": a model of the method '" + method + "' needs a newer localcal");
}

}  // namespace lc

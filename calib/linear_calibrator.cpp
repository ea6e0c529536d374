// linear_calibrator.cpp -- see linear_calibrator.h.
#include "calib/linear_calibrator.h"

#include <cmath>
#include <iomanip>
#include <sstream>

#include "calib/odir_search.h"
#include "calib/options.h"
#include "calib/temperature.h"

namespace lc {

// ---- options --------------------------------------------------------------------------------------------------------

LinearCalibrator::LinearCalibrator(LinearKind kind, const NamedTexts& options) : kind_(kind) {
    scores_ = kind == LinearKind::ms ? Scores::logits : kind == LinearKind::dc ? Scores::log_probs : Scores::authors;
    set_options(options);
}

std::string LinearCalibrator::method() const {
    return kind_ == LinearKind::ms ? "ms" : kind_ == LinearKind::dc ? "dc" : "dc:authors";
}

void LinearCalibrator::set_options(const NamedTexts& options) {
    bool own_mu = false;
    for (const auto& [name, value] : options) {
        if (kind_ == LinearKind::dc_authors) throw Error("dc:authors has no options; found --" + name + "; use dc");
        if (name == "lambda" && value != "auto") {
            o_.search = false;
            o_.penalty.lambda = option_number(name, value, 0, 1e12);
        } else if (name == "mu" && value != "auto") {
            own_mu = true;
            o_.penalty.mu = option_number(name, value, 0, 1e12);
        } else if (name == "folds") {
            o_.folds = int64_t(option_number(name, value, 2, 1000));
            if (double(o_.folds) != option_number(name, value, 2, 1000)) {
                throw Error("--folds takes a whole number; found '" + value + "'");
            }
        } else if (name == "grid") {
            if (value != "line" && value != "square") {
                throw Error("--grid takes one of line, square; found '" + value + "'");
            }
            o_.square = value == "square";
        } else if (name != "lambda" && name != "mu") {
            throw Error("there is no option '" + name + "' of " + method());
        }
    }
    if (own_mu && o_.search) throw Error("--mu is taken together with --lambda X; found --mu alone");
    if (!own_mu) o_.penalty.mu = o_.penalty.lambda;
}

std::vector<std::pair<std::string, std::string>> LinearCalibrator::options() const {
    if (kind_ == LinearKind::dc_authors) return {};
    return {{"lambda", o_.search ? "auto" : number_text(o_.penalty.lambda)},
            {"mu", o_.search ? "auto" : number_text(o_.penalty.mu)},
            {"grid", o_.square ? "square" : "line"},
            {"folds", std::to_string(o_.folds)}};
}

// ---- fitting --------------------------------------------------------------------------------------------------------

namespace {

std::string duration(double seconds) {
    const bool hours = seconds >= 5400;
    return number_text(std::ceil(seconds / (hours ? 3600 : 60))) + (hours ? " hours" : " minutes");
}

constexpr double kPatience = 1800;  // seconds

}  // namespace

// C^2 variables and n C^2 multiplications per step: said, or refused, before they are spent.
void LinearCalibrator::check_price(const Samples& s, const Context& c) const {
    const bool authors = kind_ == LinearKind::dc_authors, search = o_.search && !authors;
    const double variables = double(s.C) * double(s.C + 1);
    const double vectors = authors ? 264 : 84;  // of them: what the solver remembers, and a gradient per chunk of rows
    const double steps = authors ? 2000 : s.C <= kBlockClasses ? 40 : 200;
    const double speed = 1e10;  // multiplications per second of two cores
    const double one = steps * variables * 4 * (double(s.n) + vectors) / speed;
    const double all = search ? one * double(odir_grid(o_.square).size() * size_t(o_.folds) + 1) : one;
    if (all < 60) return;
    std::ostringstream price;
    price << method() << " with " << s.C << " classes takes about " << duration(all) << " and " << std::setprecision(2)
          << 8e-9 * variables * vectors << " GB";
    if (authors && all > kPatience) throw Error(price.str() + "; use ts or vs, or dc with --lambda X");
    if (search && all > kPatience) {
        throw Error(price.str() + " to search for lambda; give --lambda X (one fit, about " + duration(one) +
                    "), or use ts or vs");
    }
    if (c.note) c.note(price.str());
}

Odir LinearCalibrator::choose_penalty(const LinearRows& rows, const Context& c) {
    if (!o_.search) return o_.penalty;
    const std::vector<Odir> grid = odir_grid(o_.square);
    const OdirSearch s = search_odir(rows, grid, o_.folds, theta_, part_of(c.progress, 0, 0.9));
    found("curve", curve_text(s));
    if (s.unfinished > 0) {
        found("search", std::to_string(s.unfinished) + " of " + std::to_string(int64_t(grid.size()) * o_.folds) +
                            " fits stopped before they converged");
    }
    return s.best;
}

void LinearCalibrator::fit_penalised(const ScoredRows& scored, const Context& c) {
    const Temperature t = fit_temperature(scored.z.data(), scored.labels.data(), scored.n, scored.C);
    const LinearRows rows = linear_rows(scored);
    theta_ = diagonal_theta(C_, t.at_bound ? 1 : t.beta);
    const Odir penalty = choose_penalty(rows, c);
    const Solved solved = fit_linear(rows, penalty, theta_, {.progress = part_of(c.progress, o_.search ? 0.9 : 0, 1)});
    found("lambda", penalty.lambda);
    found("mu", penalty.mu);
    found("objective", solved.value);
    found("nll", LinearLoss(rows, {}).nll(theta_));
    found("ended", solved.text());
    if (c.note && solved.ended != Ended::converged) c.note(method() + " ended " + solved.text());
}

void LinearCalibrator::fit_as_authors(const ScoredRows& scored, const Context& c) {
    const LinearRows rows = linear_rows(scored);
    theta_ = diagonal_theta(C_, 1);
    const LinearLoss loss(rows, {});
    int calls = 0;
    const auto f = [&](std::span<const double> theta, std::span<double> gradient) {
        const double value = loss(theta, gradient);
        if (c.progress) c.progress(std::min(1.0, ++calls / 2000.0), "dc:authors: log-loss " + std::to_string(value));
        return value;
    };
    const Solved solved = torch_lbfgs(f, theta_);
    found("objective", solved.value);
    found("nll", solved.value);
    found("ended", solved.text());
}

void LinearCalibrator::fit(const Samples& s, const Context& c) {
    check_price(s, c);
    const ScoredRows rows = begin_fit(s, c);
    if (kind_ == LinearKind::dc_authors)
        fit_as_authors(rows, c);
    else
        fit_penalised(rows, c);
    if (!(largest(theta_) <= 1e30))
        throw Error(method() + " ran away to infinite weights; use ts or vs, or a larger --lambda");
    if (c.progress) c.progress(1, method());
}

// ---- the file -------------------------------------------------------------------------------------------------------

void LinearCalibrator::to_logits(double* out, const double* z, int64_t rows) const {
    apply_linear(out, z, rows, C_, theta_);
}

void LinearCalibrator::store(SafetensorsWriter& out) const {
    for (const auto& [name, value] : options()) out.metadata["option." + name] = value;
    out.add("wb", {C_, C_ + 1}, theta_.data());
}

void LinearCalibrator::restore(const Safetensors& in) {
    C_ = stored_classes(in);
    NamedTexts texts;
    for (const auto& [name, unused] : options()) texts[name] = in.meta("option." + name);
    set_options(texts);
    theta_ = finite(in, "wb", {C_, C_ + 1});
}

}  // namespace lc

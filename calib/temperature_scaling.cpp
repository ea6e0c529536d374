// temperature_scaling.cpp -- see temperature_scaling.h.
#include "calib/temperature_scaling.h"

#include <cmath>

#include "calib/temperature.h"

namespace lc {

void NoCalibration::fit(const Samples& s, const Context& c) {
    const ScoredRows rows = begin_fit(s, c);
    found("nll", nll_of_logits(rows.z.data(), rows.labels.data(), rows.n, rows.C));
}

void TemperatureScaling::fit(const Samples& s, const Context& c) {
    const ScoredRows rows = begin_fit(s, c);
    if (authors_)
        fit_as_authors(rows);
    else
        fit_minimum(rows, c);
}

void TemperatureScaling::fit_minimum(const ScoredRows& rows, const Context& c) {
    const Temperature t = fit_temperature(rows.z.data(), rows.labels.data(), rows.n, rows.C);
    T_ = t.at_bound ? 1 : t.T;
    found("temperature", T_);
    found("nll", t.at_bound ? nll_of_logits(rows.z.data(), rows.labels.data(), rows.n, rows.C) : t.nll);
    if (!t.at_bound) return found("ended", "converged after " + std::to_string(t.iterations) + " iterations");
    const std::string why = t.beta > 1 ? "at a bound: every label has the largest logit, so no temperature is too small"
                            : t.beta < 1 ? "at a bound: the logits say less than nothing about the labels"
                                         : "at a bound: the logits of every row are equal";
    found("ended", why);
    if (c.note) c.note("ts ended " + why + "; T stays at 1, and the probabilities are the classifier's own");
}

void TemperatureScaling::fit_as_authors(const ScoredRows& rows) {
    const AuthorsTemperature a = fit_temperature_as_authors(rows.z.data(), rows.labels.data(), rows.n, rows.C);
    LC_CHECK(a.T > 0 && std::isfinite(a.T), "ts:authors went to a temperature of " << a.T << "; use ts");
    T_ = a.T;
    found("temperature", T_);
    found("nll", a.solved.value);
    found("ended", a.solved.text());
}

void TemperatureScaling::to_logits(double* out, const double* z, int64_t rows) const {
    for (int64_t i = 0; i < rows * C_; ++i) out[i] = z[i] / T_;
}

void TemperatureScaling::restore(const Safetensors& in) {
    C_ = stored_classes(in);
    T_ = in.meta_number("temperature");
    if (!(T_ > 0) || !std::isfinite(T_)) {
        throw Error(in.path + ": expected a positive temperature, found " + in.meta("temperature") +
                    "; fit the model again");
    }
}

}  // namespace lc

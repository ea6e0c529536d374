// one_vs_rest.cpp -- see one_vs_rest.h.
#include "calib/one_vs_rest.h"

#include <algorithm>
#include <cmath>

#include "calib/scores.h"
#include "kernels/check.h"
#include "kernels/parallel.h"

namespace lc {
namespace {

constexpr int64_t kRows = 256;  // of a piece: fixed, so that the threads do not change what is computed

}  // namespace

std::vector<double> ClassRows::scores() const {
    std::vector<double> v;
    v.reserve(size_t(n));
    for (int64_t i = 0; i < n; ++i) v.push_back(p[i * C + c]);
    return v;
}

std::vector<double> ClassRows::positives() const {
    std::vector<double> v;
    v.reserve(size_t(n));
    for (int64_t i = 0; i < n; ++i) v.push_back(labels[i] == c ? 1.0 : 0.0);
    return v;
}

std::string OneVsRest::method() const {
    const std::string variant = method_->variant;
    return method_->name + (variant == "auto" ? "" : ":" + variant);
}

std::span<const double> OneVsRest::parameters(int64_t c) const {
    const int64_t begin = offsets_[size_t(c)], end = offsets_[size_t(c) + 1];
    return std::span<const double>(parameters_).subspan(size_t(begin), size_t(end - begin));
}

// ---- fitting --------------------------------------------------------------------------------------------------------

void OneVsRest::fit(const Samples& s, const Context& c) {
    check_samples(s, false, true);
    C_ = s.C;
    floor_ = method_->floors ? 1 / (double(s.n) * double(s.C)) : 0;
    const ScoredRows rows = scored_rows(s, Scores::probs);
    std::vector<ClassFit> fits(size_t(s.C));
    constexpr int64_t kTogether = 16;  // classes between two reports
    for (int64_t first = 0; first < s.C; first += kTogether) {
        const int64_t count = std::min(kTogether, s.C - first);
        cpu::for_each_chunk(count, 1, [&](int64_t k, int64_t) {
            fits[size_t(first + k)] =
                method_->fit({.n = s.n, .C = s.C, .c = first + k, .p = rows.z.data(), .labels = rows.labels.data()});
        });
        if (c.progress) {
            c.progress(double(first + count) / double(s.C), "classes " + std::to_string(first + count));
        }
    }
    parameters_.clear();
    offsets_ = {0};
    int64_t unfinished = 0;
    for (const ClassFit& f : fits) {
        parameters_.insert(parameters_.end(), f.parameters.begin(), f.parameters.end());
        offsets_.push_back(int64_t(parameters_.size()));
        unfinished += !f.converged;
    }
    note_findings(s, c, unfinished);
}

void OneVsRest::note_findings(const Samples& s, const Context& c, int64_t unfinished) {
    findings_.clear();
    const std::string absent = absent_classes(s);
    if (!absent.empty()) findings_.push_back(finding("absent", absent));
    if (floor_ > 0) findings_.push_back(finding("floor", floor_));
    const std::string of_all = std::to_string(unfinished) + " of " + std::to_string(s.C) + " classes";
    findings_.push_back(finding("ended", unfinished == 0 ? "converged" : of_all + " without a finite optimum"));
    if (!c.note) return;
    if (!absent.empty()) {
        c.note(absent + ": no calibration row has this label, so " + method() + " gives it next to no probability");
    }
    if (unfinished > 0) {
        c.note(of_all + " are separated by their scores and have no finite optimum; their fit stopped where nothing " +
               "was left to gain");
    }
}

// ---- predicting -----------------------------------------------------------------------------------------------------

void OneVsRest::apply_row(const double* p, double* q) const {
    double sum = 0;
    for (int64_t c = 0; c < C_; ++c) sum += q[c] = method_->apply(parameters(c), p, C_, c);
    for (int64_t c = 0; c < C_; ++c) q[c] = sum > 0 ? q[c] / sum : 1 / double(C_);
}

std::vector<double> OneVsRest::probabilities(const Samples& s) const {
    check_applies(*this, s);
    const std::vector<double> p = scores_of(s, Scores::probs);
    std::vector<double> q(p.size());
    cpu::for_each_chunk(s.n, kRows, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) apply_row(p.data() + i * C_, q.data() + i * C_);
    });
    return q;
}

int64_t OneVsRest::impossible_labels(const Samples& s) const {
    LC_CHECK(s.labels != nullptr, "expected labels to look up, found none");
    const std::vector<double> q = probabilities(s);
    int64_t count = 0;
    for (int64_t i = 0; i < s.n; ++i) count += q[size_t(i * C_ + s.labels[i])] == 0;
    return count;
}

Prediction OneVsRest::predict(const Samples& s, const Context& c) const {
    Prediction result = {.n = s.n, .C = C_, .k = 0, .probs = {}, .log_probs = {}, .features = {}};
    result.probs.reserve(size_t(s.n * C_)), result.log_probs.reserve(size_t(s.n * C_));
    constexpr int64_t kAtOnce = 8192;  // rows: memory in double stays small
    for (int64_t begin = 0; begin < s.n; begin += kAtOnce) {
        const int64_t end = std::min(s.n, begin + kAtOnce);
        const std::vector<double> q = probabilities(s.rows(begin, end));
        for (auto row = q.begin(); row != q.end(); row += C_) {
            double sum = 0;
            for (int64_t k = 0; k < C_; ++k) sum += std::max(row[k], floor_);
            for (int64_t k = 0; k < C_; ++k) {
                const double p = floor_ > 0 ? std::max(row[k], floor_) / sum : row[k];
                result.probs.push_back(p);
                result.log_probs.push_back(std::log(p));
            }
        }
        if (c.progress) c.progress(double(end) / double(s.n), "rows " + std::to_string(end));
    }
    return result;
}

// ---- the file -------------------------------------------------------------------------------------------------------

void OneVsRest::store(SafetensorsWriter& out) const {
    out.metadata["option.form"] = method_->form;
    out.set("floor", floor_);
    out.add("parameters", {int64_t(parameters_.size())}, parameters_.data());
    out.add("offsets", {C_ + 1}, offsets_.data());
}

void OneVsRest::restore(const Safetensors& in) {
    const auto refuse_file = [&](const std::string& what) {
        throw Error(in.path + ": " + what + "; fit the model again");
    };
    C_ = stored_classes(in);
    floor_ = in.meta_number("floor");
    if (!(floor_ >= 0 && floor_ <= 1 / double(C_))) refuse_file("expected a floor from 0 to 1 / classes");
    parameters_ = in.at("parameters").to_doubles();
    const SafeTensor& offsets = in.at("offsets");
    if (offsets.count() != C_ + 1) refuse_file("expected an offset per class and one more");
    offsets_ = offsets.to_integers();
    if (offsets_.front() != 0 || offsets_.back() != int64_t(parameters_.size()) ||
        !std::is_sorted(offsets_.begin(), offsets_.end())) {
        refuse_file("expected offsets that divide the parameters among the classes");
    }
    for (int64_t c = 0; c < C_; ++c) {
        if (!method_->valid(parameters(c), C_)) {
            refuse_file("the parameters of class " + std::to_string(c) + " are none of " + method());
        }
    }
}

}  // namespace lc

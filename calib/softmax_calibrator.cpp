// softmax_calibrator.cpp -- see softmax_calibrator.h.
#include "calib/softmax_calibrator.h"

#include <atomic>
#include <cmath>

#include "kernels/parallel.h"

namespace lc {

Prediction SoftmaxCalibrator::predict(const Samples& s, const Context& c) const {
    check_applies(*this, s);
    const size_t size = size_t(s.n * C_);
    Prediction p = {.n = s.n, .C = C_, .k = 0, .probs = {}, .log_probs = {}, .features = {}};
    p.probs.resize(size), p.log_probs.resize(size);
    const std::vector<double> z = scores_of(s, scores_);
    std::atomic<bool> sound = true;
    cpu::for_each_chunk(s.n, 256, [&](int64_t begin, int64_t end) {
        std::vector<double> out(static_cast<size_t>((end - begin) * C_));
        to_logits(out.data(), z.data() + begin * C_, end - begin);
        for (int64_t i = begin; i < end; ++i) {
            double* const row = out.data() + (i - begin) * C_;
            log_softmax_row(row, C_);
            for (int64_t k = 0; k < C_; ++k) {
                if (!std::isfinite(row[k])) sound = false;
                p.log_probs[size_t(i * C_ + k)] = row[k];
                p.probs[size_t(i * C_ + k)] = std::exp(row[k]);
            }
        }
    });
    if (!sound) throw Error(method() + ": weights so large that logits are not finite; fit the model again");
    if (c.progress) c.progress(1, "rows " + std::to_string(s.n));
    return p;
}

ScoredRows SoftmaxCalibrator::begin_fit(const Samples& s, const Context& c) {
    check_samples(s, false, true);
    findings_.clear();
    C_ = s.C;
    const std::string absent = absent_classes(s);
    if (!absent.empty()) {
        found("absent", absent);
        if (c.note) c.note(absent + ": no calibration row has this label, so nothing is known about its probability");
    }
    return scored_rows(s, scores_);
}

std::vector<double> SoftmaxCalibrator::finite(const Safetensors& in, const char* name,
                                              const std::vector<int64_t>& shape) {
    std::vector<double> v = in.at(name, shape).to_doubles();
    for (double x : v) {
        if (!std::isfinite(x)) {
            throw Error(in.path + ": " + name + ": expected finite numbers, found " + std::to_string(x) +
                        "; fit the model again");
        }
    }
    return v;
}

}  // namespace lc

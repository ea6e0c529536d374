// softmax_calibrator.h -- what NC, TS, VS, MS and DC share: they map a row of scores to new logits, and their answer
// is the softmax of these, computed in double.
#pragma once
#include "calib/calibrator.h"
#include "calib/scores.h"
#include "calib/solvers.h"

namespace lc {

class SoftmaxCalibrator : public Calibrator {
  public:
    Prediction predict(const Samples& s, const Context& c) const override;
    std::vector<Finding> findings() const override { return findings_; }
    int64_t features_expected() const override { return 0; }
    int64_t classes_expected() const override { return C_; }

  protected:
    // out (rows, C) = the new logits of z (rows, C).  A row's result must not depend on the other rows.
    virtual void to_logits(double* out, const double* z, int64_t rows) const = 0;

    // Checks the rows and forgets an older fit.
    ScoredRows begin_fit(const Samples& s, const Context& c);
    static std::vector<double> finite(const Safetensors& in, const char* name, const std::vector<int64_t>& shape);
    void found(const std::string& name, const auto& what) { findings_.push_back(finding(name, what)); }

    Scores scores_ = Scores::logits;
    int64_t C_ = 0;

  private:
    std::vector<Finding> findings_;
};

}  // namespace lc

// temperature_scaling.h -- NC, no calibration: softmax(g).  TS, temperature scaling: softmax(g / T).
//
//     ts           the minimum of the log-loss (temperature.h)
//     ts:authors   where 2000 short steps from 1.5 end
//
// Both keep the order of the classes in every row.  Rows that give no temperature, because the logits separate the
// labels or say nothing about them, leave T at 1 and are reported.
#pragma once
#include "calib/softmax_calibrator.h"

namespace lc {

class NoCalibration : public SoftmaxCalibrator {
  public:
    std::string method() const override { return "nc"; }
    void fit(const Samples& s, const Context& c) override;
    void store(SafetensorsWriter&) const override {}
    void restore(const Safetensors& in) override { C_ = stored_classes(in); }
    bool keeps_order() const override { return true; }

  protected:
    void to_logits(double* out, const double* z, int64_t rows) const override { std::copy(z, z + rows * C_, out); }
};

class TemperatureScaling : public SoftmaxCalibrator {
  public:
    explicit TemperatureScaling(bool authors) : authors_(authors) {}
    std::string method() const override { return authors_ ? "ts:authors" : "ts"; }
    void fit(const Samples& s, const Context& c) override;
    void store(SafetensorsWriter& out) const override { out.set("temperature", T_); }
    void restore(const Safetensors& in) override;
    bool keeps_order() const override { return true; }
    double temperature() const { return T_; }

  protected:
    void to_logits(double* out, const double* z, int64_t rows) const override;

  private:
    void fit_minimum(const ScoredRows& rows, const Context& c);
    void fit_as_authors(const ScoredRows& rows);

    bool authors_;
    double T_ = 1;
};

}  // namespace lc

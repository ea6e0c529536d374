// net_calibrator.h -- LN, KC and KO: a small network fitted on the calibration rows (local_net.h, trainer.h), and what is
// around it: reduced features, bandwidth, rows held back, the starts and the final temperature of preset `auto`.
//
// LN predicts by one forward pass.  KC and KO predict by the kernel estimate over a reference set that is part of the model; the
// set streams through nw_smooth, so memory does not grow with its size times the queries.
#pragma once
#include <map>
#include <optional>

#include "calib/calibrator.h"
#include "calib/options.h"
#include "calib/trainer.h"
#include "nn/pca.h"

namespace lc {

class NetCalibrator : public Calibrator {
  public:
    // Options that depend on the number of classes are settled when fit() knows it.
    using Choose = std::function<NetOptions(int64_t C)>;
    explicit NetCalibrator(Choose choose) : choose_(std::move(choose)), o_(choose_(2)) {}

    std::string method() const override { return method_name(o_); }
    void fit(const Samples& s, const Context& c) override;
    Prediction predict(const Samples& s, const Context& c) const override;
    void store(SafetensorsWriter& out) const override;
    void restore(const Safetensors& in) override;
    std::vector<Finding> findings() const override { return findings_; }
    NamedValues options() const override { return to_text(o_); }
    int64_t features_expected() const override { return pca_.d; }
    int64_t classes_expected() const override { return C_; }
    bool uses_features() const override { return true; }
    const Pca* reduction() const override { return &pca_; }

  private:
    struct OnDevice;  // the model in a backend's memory
    struct Rows;      // calibration rows, split
    struct Fitting;   // one fit, from split to verdict
    const OnDevice& on(const Backend& b) const;
    void note(const std::string& name, const auto& what) { findings_.push_back(finding(name, what)); }

    Choose choose_;
    NetOptions o_;
    int64_t C_ = 0;
    Pca pca_;
    double gamma_ = 0;
    std::map<std::string, std::pair<Shape, std::vector<float>>> weights_;  // of the network
    std::vector<float> reference_z_;                                       // (m, k), KC and KO
    std::vector<int32_t> reference_labels_;                                // (m)
    double temperature_ = 1;                                               // the last step of `auto`
    bool only_temperature_ =
        false;  // the verdict: plain temperature scaling with temperature_ is what this model gives
    std::vector<Finding> findings_;
    mutable std::shared_ptr<OnDevice> on_device_;
};

}  // namespace lc

// one_vs_rest.h -- calibrators that look at one class at a time: is it this one, or any other?
//
//     q_c = f_c(p)   for every class by itself, fitted on [y = c]       f_c: Platt, isotonic, histogram, beta
//     row = q / sum q                                                   the uniform row where every q_c is 0
//
// The methods differ in f alone (platt.h, isotonic.h, histogram.h, beta.h); what is here is the rest: probabilities in
// double, a fit per class, normalising, the file.  Normalising undoes a part of what was calibrated, and it may change
// which class is the most probable.
//
// Floor  isotonic and histogram maps give classes the probability 0, and the log-loss of a label there is infinite.
//        Methods that floor give every class at least 1 / (n C), n being the calibration rows: all classes of a row
//        together get at most what one row weighs.  The floor is a finding of the fit; how many labels needed it, which
//        the log-loss depends on, is impossible_labels().
#pragma once
#include <span>

#include "calib/calibrator.h"

namespace lc {

// What a method sees when it is fitted for class c.
struct ClassRows {
    int64_t n = 0, C = 0, c = 0;
    const double* p = nullptr;        // (n, C)
    const int32_t* labels = nullptr;  // (n)

    std::vector<double> scores() const;     // (n): p_c
    std::vector<double> positives() const;  // (n): 1 where y = c, else 0
};

struct ClassFit {
    std::vector<double> parameters;  // as many as the method likes
    bool converged = true;
};

struct ClassMethod {
    const char *name, *variant;
    const char* form;  // for people: every choice that decides digits
    bool floors;
    ClassFit (*fit)(const ClassRows& rows);
    double (*apply)(std::span<const double> parameters, const double* row, int64_t C, int64_t c);  // q_c
    bool (*valid)(std::span<const double> parameters, int64_t C);  // could fit() have made them?
};

class OneVsRest : public Calibrator {
  public:
    explicit OneVsRest(const ClassMethod* method) : method_(method) {}

    std::string method() const override;
    void fit(const Samples& s, const Context& c) override;
    Prediction predict(const Samples& s, const Context& c) const override;
    void store(SafetensorsWriter& out) const override;
    void restore(const Safetensors& in) override;
    std::vector<Finding> findings() const override { return findings_; }
    std::vector<std::pair<std::string, std::string>> options() const override { return {{"form", method_->form}}; }
    int64_t features_expected() const override { return 0; }
    int64_t classes_expected() const override { return C_; }

    std::vector<double> probabilities(const Samples& s) const;   // (n, C): normalised, before the floor
    int64_t impossible_labels(const Samples& s) const override;  // that have probability 0 there
    std::span<const double> parameters(int64_t c) const;

  private:
    void note_findings(const Samples& s, const Context& c, int64_t unfinished);
    void apply_row(const double* p, double* q) const;

    const ClassMethod* method_;
    int64_t C_ = 0;
    double floor_ = 0;
    std::vector<double> parameters_;  // of all classes, one after the other
    std::vector<int64_t> offsets_;    // (C + 1): where those of a class begin
    std::vector<Finding> findings_;
};

}  // namespace lc

// linear_calibrator.h -- MS and DC: a matrix and a shift between scores and logits (linear_logits.h).
//
//     ms           matrix scaling: softmax(W g + b), g the logits
//     dc           Dirichlet calibration: softmax(W ln p + b), p clipped at FLT_MIN
//     dc:authors   on ln(p + 1e-12), no penalty, 2000 short steps from the identity (torch_lbfgs)
//
// ms and dc take the penalty from cross-validation (odir_search.h) unless it is given, are fitted once more on all
// rows, and start at temperature scaling: the log-loss of the fitted rows never ends above it.
#pragma once
#include "calib/linear_logits.h"
#include "calib/softmax_calibrator.h"

namespace lc {

enum class LinearKind { ms, dc, dc_authors };

struct LinearOptions {
    bool search = true, square = false;  // --lambda auto | X; --grid line | square: lambda = mu, or both by themselves
    Odir penalty;                        // where it is given: --lambda, --mu
    int64_t folds = 5;                   // --folds
};

class LinearCalibrator : public SoftmaxCalibrator {
  public:
    using NamedTexts = std::map<std::string, std::string>;
    LinearCalibrator(LinearKind kind, const NamedTexts& options);
    std::string method() const override;
    void fit(const Samples& s, const Context& c) override;
    void store(SafetensorsWriter& out) const override;
    void restore(const Safetensors& in) override;
    std::vector<std::pair<std::string, std::string>> options() const override;

  protected:
    void to_logits(double* out, const double* z, int64_t rows) const override;

  private:
    void set_options(const NamedTexts& options);
    void check_price(const Samples& s, const Context& c) const;
    Odir choose_penalty(const LinearRows& rows, const Context& c);
    void fit_penalised(const ScoredRows& scored, const Context& c);
    void fit_as_authors(const ScoredRows& scored, const Context& c);

    LinearKind kind_;
    LinearOptions o_;
    std::vector<double> theta_;  // (C, C + 1): W and b
};

}  // namespace lc

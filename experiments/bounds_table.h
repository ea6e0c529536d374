// bounds_table.h -- the bounds of the theory on one set of rows: evaluated, as a table, as JSON.
#pragma once
#include <nlohmann/json_fwd.hpp>

#include "data/dataset.h"
#include "metrics/bounds.h"
#include "metrics/scorecard.h"

namespace lc::cli {

// The leave-one-out estimate stands in for the true posterior.  The spread of Theorem 3 is that of the logits.
std::vector<Bound> evaluate_bounds(const Tensor& z, const Predictions& s, const LocalCalibration& local,
                                   const CardOptions& o);

std::string bounds_table(const std::vector<Bound>& bounds);
nlohmann::ordered_json bounds_json(const std::vector<Bound>& bounds);

}  // namespace lc::cli

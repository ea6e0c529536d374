// comparison.h -- several calibrators on the same rows, fitted, applied and scored alike: what `localcal compare` shows.
//
// Every method is scored in the same space: the classifier's features, reduced by a PCA of the calibration rows, with one
// bandwidth.  Methods with a space of their own are scored there too (lce_own), as published tables do.
//
// A folder keeps the fitted models; a later run with the same calibration rows and seed takes them up instead of fitting
// again, and a fit that was interrupted goes on.
#pragma once
#include "experiments/scoring.h"

namespace lc::cli {

struct Compared {  // one method
    std::string method;
    std::string refused = {};                // why it has no result; else empty
    bool keeps_order = false, kept = false;  // kept: taken from the folder
    double seconds = 0;                      // of the fit
    int64_t flips = 0;                       // test rows whose most probable class is not the classifier's
    int64_t impossible = 0;                  // test labels that it gives probability 0, before any floor
    Scorecard card = {};
    std::vector<double> nll = {};  // (n) of each test row
    std::vector<Finding> findings = {};
    std::vector<std::string> notes = {};
};

struct Comparison {
    std::string cal_source;
    int64_t cal_rows = 0;
    Scored test;  // the test rows as the classifier gave them
    std::vector<Compared> methods;

    const Compared* find(const std::string& method) const;
};

struct CompareRequest {
    InputOptions cal, test;
    std::vector<std::string> methods;  // empty: all that the rows allow
    std::string folder;                // empty: models are not kept
};
Comparison compare(const Common& common, const CompareRequest& request, const ScoringOptions& scoring,
                   const Progress& progress);

// a table with the best of every column marked, and below it what a newcomer should read from it
std::string comparison_table(const Comparison& c);
std::string comparison_verdict(const Comparison& c);

// How much lower a's log-loss is than b's on the same rows.
struct Gain {
    double value = 0, standard_error = 0;
    bool beyond_noise() const { return value > 2 * standard_error; }
};
Gain gain_of(const Compared& a, const Compared& b);

}  // namespace lc::cli

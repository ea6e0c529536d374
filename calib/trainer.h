// trainer.h -- trains a LocalNet: shuffled batches, the loss of the method, early stopping, checkpoints.
#pragma once
#include <optional>

#include "calib/calibrator.h"
#include "calib/local_net.h"

namespace lc {

// Rows of the calibration set on a backend.
struct NetData {
    Var phi;                        // (n, d)
    Var z;                          // (n, k)
    Var g;                          // (n, C)
    std::vector<int32_t> labels;    // (n); empty where they are not known
    Buffer<int32_t> device_labels;  // the same
    int64_t n() const { return phi->value.rows(); }
};

struct Training {
    int64_t epochs = 0;      // that were run
    int64_t best_epoch = 0;  // whose weights the network has now; counted from 1
    double best_score = 0;   // by what the best epoch was chosen, where it was
    double js = 0, ce = 0;   // means of the last epoch
    double isolated = 0;     // share of rows of the last batch whose weights sum to less than 1e-6
};

// The network's output without dropout.
struct NetOutput {
    Tensor z;          // (n, k)
    Tensor log_probs;  // (n, C): log_softmax(g')
    Tensor gamma;      // (n) or (1): the bandwidth for these rows as queries; empty where it depends on the references
};
NetOutput forward_rows(const LocalNet& net, const NetData& rows, const NetOptions& o, double gamma);

// Where KC and KO look: reduced features and labels.
struct References {
    Tensor z;                // (m, k)
    Buffer<int32_t> labels;  // (m)
};
// ln theta of every query over the references, rows normalised; a probability of 0 is floored at FLT_MIN.         -> (n, C)
Tensor kernel_log_probs(const NetOutput& queries, const References& references, const NetOptions& o, int64_t C);

// Trains until the options say stop; afterwards the network has the weights of the best epoch (Stop::fixed: of the last).  `stage`
// says which of how many trainings this is, for progress and for the name of the checkpoint.
struct Stage {
    int index = 0, count = 1;
};
Training train(LocalNet& net, const NetData& fit, const NetData* held_back, const NetOptions& o, double gamma,
               const Context& context, Stage stage = {});

}  // namespace lc

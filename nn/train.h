// train.h -- trains a classifier on labelled rows: shuffled batches, cross-entropy, checkpoints that resume bit for bit.
//
//     Mlp net(backend, {784, 256, 64, 10}, 0.1f, seed);
//     train(net, fit, validation, {.epochs = 20, .seed = seed}, [](const Epoch& e) { ... });
//     Outputs out = infer(net, test.x);                     features and logits without dropout
//     ClassifierScore s = score(out.logits, test.labels);
//
// No early stopping: the network ends with the weights of the last epoch.  Started again with the same arguments, an interrupted
// training goes on after its last checkpoint and ends with the same bits: random numbers are functions of seed, epoch and
// batch.
#pragma once
#include "kernels/progress.h"
#include "nn/mlp.h"
#include "nn/sgd.h"

namespace lc {

struct Outputs {
    std::vector<float> features;  // (n, d)
    std::vector<float> logits;    // (n, C)
};

// A network as training sees it.
struct Trainee {
    Parameters parameters;  // what the optimiser moves
    Parameters statistics;  // what follows by itself (running means), and belongs into a checkpoint
    std::function<Var(Tape& t, const Var& x, RandomKey dropout)> logits;
    using Infer = std::function<Outputs(const Var& x)>;  // one batch, without dropout
    std::function<Infer()> inference;                    // with the weights as they are now
};

// Rows as training sees them: labels, and whichever rows are asked for, as one batch on the backend.
struct LabelledRows {
    std::vector<int32_t> labels;  // (n)
    std::function<Var(std::span<const int64_t> rows)> load;
    int64_t n() const { return int64_t(labels.size()); }
};
Outputs infer(const Trainee& net, const LabelledRows& rows, const Progress& progress = {});

// Means over the rows.  An honest classifier is as sure as it is right: confidence = accuracy.
struct ClassifierScore {
    double accuracy = 0;    // share of rows whose label has the largest logit
    double log_loss = 0;    // -ln of the label's probability
    double confidence = 0;  // probability of the class with the largest logit
};
ClassifierScore score(const std::vector<float>& logits, const std::vector<int32_t>& labels);

struct TrainOptions {
    int64_t epochs = 20, batch = 128;
    bool use_sgd = false;  // else Adam
    AdamStep adam = {};
    SgdStep sgd = {};
    bool cosine = false;  // the learning rate falls along half a cosine, from step to step, towards 0 after the last
    uint64_t seed = 0;
    std::string checkpoint = {};  // a file; empty: none
    std::string fingerprint =
        {};  // names data and options; a checkpoint with another one is not taken up, and overwritten
    double checkpoint_seconds = 60;  // within an epoch; after each there is one anyway
    Progress progress = {};          // of the epoch under way
};

struct Epoch {
    int64_t number = 0;          // counted from 1
    ClassifierScore fit;         // of the batches as they were trained on: with dropout, each before its step
    ClassifierScore validation;  // zeros where there are no rows to validate on
};
void train(const Trainee& net, const LabelledRows& fit, const LabelledRows& validation, const TrainOptions& o,
           const std::function<void(const Epoch&)>& tell);

// ---- a multilayer perceptron on rows that are all in memory ---------------------------------------------------------

struct Examples {
    Var x;                        // (n, d) on a backend
    std::vector<int32_t> labels;  // (n)
    int64_t n() const { return x->value.rows(); }
};
Outputs infer(const Mlp& net, const Var& x);
void train(const Mlp& net, const Examples& fit, const Examples& validation, const TrainOptions& o,
           const std::function<void(const Epoch&)>& tell);

}  // namespace lc

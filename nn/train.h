// train.h -- trains a classifier on labelled rows: shuffled batches, cross-entropy, Adam, a checkpoint after every epoch.
//
//     Mlp net(backend, {784, 256, 64, 10}, 0.1f, seed);
//     train(net, fit, validation, {.epochs = 20, .seed = seed}, [](const Epoch& e) { ... });
//     Outputs out = infer(net, test.x);                     features and logits without dropout
//     Score s = score(out.logits, test.labels);
//
// No early stopping: the network ends with the weights of the last epoch.  Started again with the same arguments, an interrupted
// training goes on after its last checkpoint and ends with the same bits: random numbers are functions of seed, epoch and
// batch.
#pragma once
#include "nn/mlp.h"

namespace lc {

struct Examples {
    Var x;                        // (n, d) on a backend
    std::vector<int32_t> labels;  // (n)
    int64_t n() const { return x->value.rows(); }
};

struct Outputs {
    std::vector<float> features;  // (n, d)
    std::vector<float> logits;    // (n, C)
};
Outputs infer(const Mlp& net, const Var& x);

// Means over the rows.  An honest classifier is as sure as it is right: confidence = accuracy.
struct Score {
    double accuracy = 0;    // share of rows whose label has the largest logit
    double log_loss = 0;    // -ln of the label's probability
    double confidence = 0;  // probability of the class with the largest logit
};
Score score(const std::vector<float>& logits, const std::vector<int32_t>& labels);

struct TrainOptions {
    int64_t epochs = 20, batch = 128;
    AdamStep adam = {};
    uint64_t seed = 0;
    std::string checkpoint = {};  // a file; empty: none
    std::string fingerprint =
        {};  // names data and options; a checkpoint with another one is not taken up, and overwritten
};

struct Epoch {
    int64_t number = 0;  // counted from 1
    Score fit;           // of the batches as they were trained on: with dropout, each before its step
    Score validation;
};
void train(const Mlp& net, const Examples& fit, const Examples& validation, const TrainOptions& o,
           const std::function<void(const Epoch&)>& tell);

}  // namespace lc

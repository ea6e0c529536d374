// checkpoint.h -- the state of a training: the best weights so far, and a file from which an interrupted run goes on bit for bit.
//
// The file holds weights, Adam's moments, the best weights and the epoch; random numbers need no state, they are functions of seed,
// epoch and batch.  It belongs to one configuration and one set of rows (fingerprint); another run refuses it.
#pragma once
#include "calib/trainer.h"

namespace lc {

// A text that differs whenever training would: every option, the shapes, the seed, a hash of labels and logits.
std::string fingerprint(const NetOptions& o, const NetData& fit, double gamma, uint64_t seed);

class Checkpoint {
  public:
    Checkpoint(const Context& context, int stage, std::string fingerprint, Parameters net, Adam& adam);
    void take_up(Training& r);  // from the file, if there is one
    void keep_best();           // the weights as they are now are the best so far
    void return_to_best();
    void write(
        const Training& r);  // at most every two seconds (LC_CHECKPOINT_SECONDS), and only where a file was named

  private:
    std::string path_, fingerprint_;
    Parameters net_, best_;
    Adam& adam_;
    double every_, last_;
};

// The files of a run that is over.
void remove_checkpoints(const Context& context);

}  // namespace lc

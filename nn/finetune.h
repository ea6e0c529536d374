// finetune.h -- a residual network cut in two: a trunk that stays as it is, and what is trained on its outputs.
//
//     net.train_from(cut);
//     Trainee t = trainee_of(net, cut, {...});             x of a batch is what stage `cut` gets: images where cut = 0,
//                                                          the map in front of the last stage, pooled features for the head
//     Trunk trunk(net, cut);
//     trunk(images) -> x                                   the frozen part, folded; the same for every epoch, so worth keeping
//
// With frozen running statistics the trunk is a fixed function of the image: its outputs are computed once and kept
// (data/row_cache.h), and nine epochs cost one pass through it.
#pragma once
#include "nn/resnet.h"
#include "nn/train.h"

namespace lc {

struct FinetuneOptions {
    float dropout = 0;
    bool dropout_on_map = false;               // on the last map before its mean is taken, instead of on the mean
    bool batch_statistics_everywhere = false;  // bn = authors: in frozen stages too; then the cut must be at 0
};

// `net` must outlive the result.  Stages behind the cut that are frozen run folded.
Trainee trainee_of(const ResNet& net, int64_t cut, const FinetuneOptions& o);

class Trunk {
  public:
    Trunk(const ResNet& net, int64_t cut) : net_(net), cut_(cut) {}
    Var operator()(const Var& images);

  private:
    const ResNet& net_;
    int64_t cut_;
    FoldedUnits units_;
};

}  // namespace lc

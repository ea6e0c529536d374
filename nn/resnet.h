// resnet.h -- residual networks (He et al. 2015), walked through in one place for training and for inference.
//
//     ResNet net(backend, resnet_plan("resnet50", 10));
//     net.initialise(seed);                                      or read_weights of a file (resnet_weights.h)
//     net.train_from(net.last_stage());                          what comes before is frozen
//
//     Var map = net.run(t, unit, images, 0, net.last_stage());   images (n, h, w, 3) -> the map in front of the last stage
//     Var out = net.run(t, unit, map, net.last_stage(), net.head());
//     ResNet::Output o = net.classify(t, out, {...});            mean over the map, dropout, linear
//
// Stages: 0 is the stem, 1 .. S are the stages ("layer1" .. in PyTorch), S + 1 is the head.
//
// What a unit, convolution and batch normalisation, computes depends on the occasion, and so it is handed in: by its own
// statistics, noted on a tape (training), or folded into one convolution (FoldedUnits).  The walk is the same.
//
// Parameters and running statistics have the names of torchvision's state dictionaries: "layer4.0.conv1.weight",
// "layer4.0.bn1.weight", "layer4.0.downsample.0.weight", "fc.bias".  Filters are (R, S, C, K) here, (K, C, R, S) in files.
#pragma once
#include <map>
#include <optional>

#include "nn/adam.h"
#include "nn/image_ops.h"
#include "nn/resnet_plan.h"

namespace lc {

struct ConvBn {   // a unit
    Var filters;  // (R, S, C, K)
    Channels bn;
    Window window;
};
// relu( unit(x) + residual ); residual may be null, relu off.
using ConvBnUnit = std::function<Var(const ConvBn& unit, const Var& x, const Var& residual, bool relu)>;

class ResNet {
  public:
    ResNet(const Backend& b, ResNetPlan plan);  // all weights 0
    void initialise(uint64_t seed);             // as torchvision does, the numbers from Philox on the host

    const ResNetPlan& plan() const { return plan_; }
    void set_bn_eps(float eps);  // of every batch normalisation: weights are made for one
    int64_t last_stage() const { return plan_.stages(); }
    int64_t head() const { return plan_.stages() + 1; }

    const Parameters& parameters() const { return parameters_; }
    const Parameters& statistics() const { return statistics_; }  // running means and variances
    void train_from(int64_t stage);                               // gradients for this stage and all behind it
    Parameters trained() const;                                   // the parameters that get gradients

    Var run(Tape& t, const ConvBnUnit& unit, Var x, int64_t from, int64_t to) const;

    struct Output {
        Var features;  // (n, d): the mean over the last map
        Var logits;    // (n, classes)
    };
    struct Dropout {
        float p = 0;
        bool on_map = false;  // on the last map instead of its mean
        RandomKey key = {};
    };
    Output classify(Tape& t, const Var& last_map, const Dropout& dropout) const;
    Var logits(Tape& t, const Var& features, const Dropout& dropout) const;

    // Shape of what stage `stage` gets for images of this size: (h, w, channels); of the head: (features).
    Shape input_of(int64_t stage, int64_t height, int64_t width) const;

  private:
    struct Block {
        std::vector<ConvBn> path;
        std::optional<ConvBn> projection;
        Var padding;  // "option A" as a convolution with zeros and ones (1, 1, C, K); null where not needed
        int64_t stride = 1;
    };
    ConvBn make_unit(const std::string& conv, const std::string& bn, int64_t size, int64_t C, int64_t K, Window window);
    Block make_block(const std::string& name, int64_t in, int64_t width, int64_t stride);
    Var run_block(Tape& t, const ConvBnUnit& unit, const Block& block, const Var& x) const;

    const Backend* b_;
    ResNetPlan plan_;
    ConvBn stem_;
    std::vector<std::vector<Block>> stages_;
    Var fc_weight_, fc_bias_;
    Parameters parameters_, statistics_;
    std::vector<size_t> first_parameter_;  // of every stage, the head included
};

// A unit for inference: the running statistics folded into filters and bias, made once for each unit and size of image, so it
// serves as long as the weights stay what they are.
class FoldedUnits {
  public:
    Var operator()(const ConvBn& unit, const Var& x, const Var& residual, bool relu);

  private:
    struct Folded {
        Conv2d shape;
        Tensor filters, bias;  // filters as the backend prepared them
    };
    std::map<const ConvBn*, Folded> folded_;
};

// A unit for training: by the statistics of the batch where it has parameters that are trained, or everywhere; else folded.
// `t` and `frozen` must outlive it.
ConvBnUnit training_unit(Tape& t, FoldedUnits& frozen, bool batch_statistics_everywhere);

}  // namespace lc

// resnet_plan.h -- which residual networks there are: one table of stages.
//
//     const ResNetPlan plan = resnet_plan("resnet50", 1000);
//
// name                   blocks of the stages  widths           block        stem
// resnet18, resnet34     2 2 2 2, 3 4 6 3      64 128 256 512   two 3x3      7x7 stride 2, 3x3 maximum of stride 2
// resnet50, 101, 152     3 4 6 3, 3 4 23 3,    64 128 256 512   1x1 3x3 1x1  the same
//                        3 8 36 3
// resnet20, 32, 44, 56,  3, 5, 7, 9, 18 each   16 32 64         two 3x3      3x3
// 110 (for CIFAR)
//
// Every stage but the first begins with a stride of 2.  The last 1x1 of a bottleneck has four times the stage's width.
//
// Variants, written behind the name: "resnet50:he", "resnet20:a".
//   :v1.5  (bottlenecks, default)  the 3x3 has the stride, as in torchvision
//   :he    (bottlenecks)           the first 1x1 has it, as in the paper of He et al. 2015 and in Keras
//   :b     (CIFAR, default)        a shortcut that changes shape is a 1x1 convolution with batch normalisation
//   :a     (CIFAR)                 it takes every second pixel and fills the new channels with 0: no parameters
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace lc {

struct ResNetPlan {
    std::string name;                     // with its variant, where that is not the default
    std::vector<int64_t> blocks, widths;  // per stage
    bool bottleneck = false;
    bool imagenet_stem = true;
    bool stride_first = false;     // bottlenecks: on the first convolution, not the second
    bool padded_shortcut = false;  // "option A"
    float bn_eps = 1e-5f;
    int64_t classes = 1000;

    int64_t stages() const { return int64_t(blocks.size()); }
    int64_t features() const { return widths.back() * (bottleneck ? 4 : 1); }
};

ResNetPlan resnet_plan(const std::string& name, int64_t classes);  // refuses an unknown name, listing the known ones

}  // namespace lc

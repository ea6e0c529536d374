// resnet_weights.h -- weights between files and networks: names, layouts, and what does not fit.
//
//     load_weights(net, read_weights("resnet50.pth"), {});                 every tensor must be there and fit
//     load_weights(net, read_weights("resnet50.pth"), {.head = false});    the network's own head stays: other classes
//     store_weights(out, net);                                             PyTorch can load_state_dict what this writes
//
// Names    torchvision's; also "linear." for "fc." and "shortcut." for "downsample." as other CIFAR networks say, and those of
//          Keras ("res2a_branch2a/kernel").  num_batches_tracked is passed over.
// Layouts  PyTorch's filters (K, C, R, S), Keras' (R, S, C, K); Keras' head is transposed.
// Biases   of convolutions, which Keras has, move into the running mean behind them: gamma (x + b - mean) = gamma (x - (mean - b)).
//          In training they had no effect at all, the mean being taken off.
// Refused  missing, unknown and misshapen tensors, all of them listed; a value that is not finite.
#pragma once
#include "data/weights.h"
#include "nn/resnet.h"

namespace lc {

struct LoadOptions {
    bool head = true;  // false: what the file says of the head is not used
};
void load_weights(ResNet& net, const Weights& file, const LoadOptions& o);
void store_weights(SafetensorsWriter& out, const ResNet& net);

// How many classes the head of the file has; 0 where it has none.
int64_t classes_in(const Weights& file);

}  // namespace lc

// normalise.h -- bytes to the numbers a network was trained on.
//
//     Normaliser normalise(named_normalisation("imagenet"));
//     normalise(out, image.pixels);
//
//     out[c] = (x[c] / divisor - mean[c]) / deviation[c]          in float32, in this order: the bits that torchvision gives
//
//     name      what                                                             for
//     unit      x/255                                                            the paper's CIFAR-10 and TissueMNIST
//     imagenet  x/255, mean .485 .456 .406, deviation .229 .224 .225             torchvision's networks
//     caffe     blue first, x - (103.939, 116.779, 123.68)                       He's ResNets, Keras's ResNet-50
//     cifar10   the numbers of imagenet                                          the ResNets 20 to 110 of CIFAR-10
//     cifar100  x/255, mean .5070 .4865 .4409, deviation .2673 .2564 .2761       the ResNet-56 of CIFAR-100
#pragma once
#include <array>
#include <cstdint>
#include <span>
#include <string>

namespace lc {

struct Normalisation {
    std::string name;
    float divisor = 255;
    std::array<float, 3> mean = {0, 0, 0}, deviation = {1, 1, 1};  // of the channels of the output
    bool bgr = false;                                              // the output has blue first
};

Normalisation named_normalisation(const std::string& name);  // refuses others, with the names that there are

class Normaliser {  // a byte has 256 values: a table has them all
  public:
    explicit Normaliser(const Normalisation& n);
    void operator()(float* out, std::span<const uint8_t> rgb) const;  // both (pixels, 3)

  private:
    std::array<std::array<float, 256>, 3> table_;  // of red, green and blue
    std::array<int, 3> place_;                     // of red, green and blue in the output
};

}  // namespace lc

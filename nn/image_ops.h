// image_ops.h -- the differentiable operations on images, channels last: forward and backward in one breath.
#pragma once
#include "nn/tape.h"

namespace lc {

// An image batch is a tensor (n, height, width, channels).
struct Window {
    int64_t stride = 1, pad = 0;
};

// y = x convolved with the filters w (conv2d.h).                  x (n, h, w, C)   w (R, S, C, K)   y (n, p, q, K)
Var conv2d(Tape& t, const Var& x, const Var& w, Window window);
Conv2d conv2d_shape(const Shape& x, const Shape& w, Window window);  // refuses images and filters that do not fit

// Batch normalisation by the statistics of the batch; the running ones, which are no parameters, follow (batchnorm.h).
struct Channels {
    Var gamma, beta;                // (K): learned
    Var running_mean, running_var;  // (K): followed
    float eps = 1e-5f, momentum = 0.1f;
};
Var batchnorm(Tape& t, const Var& x, const Channels& c);

// relu(x + y): the end of a residual block.
Var add_relu(Tape& t, const Var& x, const Var& y);

Var maxpool(Tape& t, const Var& x, int64_t size, Window window);  // windows of size x size
Var avgpool(Tape& t, const Var& x);                               // (n, h, w, C) -> (n, C): the mean over the image

}  // namespace lc

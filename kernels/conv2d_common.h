// conv2d_common.h -- what the backends of conv2d share on the host: the checks of a call (contract: conv2d.h).
#pragma once
#include "kernels/conv2d.h"

namespace lc {

// Each throws one clear sentence if the call is wrong: shape, null pointers, overlaps.  Values are not looked at.
void check_conv2d_prepare(const float* prepared, const float* w, const Conv2d& shape, ConvPass pass);
void check_conv2d_forward(const float* y, const float* x, const float* prepared, const ConvEpilogue& epilogue,
                          const Conv2d& shape);
void check_conv2d_bwd_data(const float* dx, const float* dy, const float* prepared, const Conv2d& shape);
void check_conv2d_bwd_filter(const float* dw, const float* x, const float* dy, const Conv2d& shape);

}  // namespace lc

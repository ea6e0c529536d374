// nw_smooth_common.h -- what the backends of nw_smooth share on the host: the checks of a call to nw_smooth, _bwd or nw_bandwidth.
#pragma once
#include "kernels/nw_bandwidth.h"
#include "kernels/nw_smooth.h"
#include "kernels/nw_smooth_bwd.h"

namespace lc {

// Each throws one clear sentence if the call is wrong.  Values are not looked at: they may live on a device.
void check_nw_smooth(const NwOutput& out, const NwSmooth& in);
void check_nw_smooth_bwd(const NwGradients& out, const float* dtheta, const float* dlog_label, const NwOutput& forward,
                         const NwSmooth& in);
void check_nw_bandwidth(const float* nll, const float* Z, const int32_t* labels, const float* gammas, int64_t n,
                        int64_t d, int64_t G);

}  // namespace lc

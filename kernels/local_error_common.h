// local_error_common.h -- the checks of a call to local_error (contract: local_error.h), shared by the backends.
#pragma once
#include "kernels/local_error.h"
#include "kernels/local_error_null.h"

namespace lc {

// Each throws one clear sentence if the call is wrong.  Values are not looked at: they may live on a device.
void check_local_error(const LocalErrorOutput& out, const LocalError& in);
void check_local_error_null(const LocalErrorNull& out, const LocalError& in, const int32_t* labels, int64_t B);

}  // namespace lc

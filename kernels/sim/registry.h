// registry.h -- inside the runtime: finding a translated kernel.
#pragma once
#include <string>

#include "kernels/sim/ptx_registry.h"

namespace cusim {

// The translation of the kernel at this address.  Throws where there is none or where its parameters differ.
PtxKernel find_ptx(const void* kernel, const std::string& name, size_t param_bytes);

}  // namespace cusim

// grid.h -- inside the runtime: from a request to a launch.
#pragma once
#include "kernels/sim/block.h"
#include "kernels/sim/launch_request.h"

namespace cusim {

// Names the kernel, checks the limits (throws Fault) and picks the engine.
Launch prepare_launch(LaunchRequest request);

}  // namespace cusim

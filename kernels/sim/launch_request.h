// launch_request.h -- what LC_LAUNCH hands to the runtime.
#pragma once
#include <cstddef>
#include <vector>

#include "kernels/sim/vector_types.h"

namespace cusim {

struct LaunchRequest {
    const char* op;          // the function that launches
    const char* expression;  // the kernel as it is written there
    const void* kernel;      // its address: identity, and symbol for reports
    void (*call)(const void* kernel, const char* params);
    std::vector<char> params;  // packed as nvcc packs them, for both engines
    dim3 grid, block;
    size_t dynamic_smem;
};
void enqueue_launch(LaunchRequest request, void* stream);

}  // namespace cusim

// profile.h -- inside the runtime: feeding the counters.
#pragma once
#include "kernels/sim/block.h"

namespace cusim {

void count_warp(const Launch& launch, CudaThread* lanes, int count);  // what the lanes logged since the last call
void count_barrier(const Launch& launch, const char* file, int line);

}  // namespace cusim

// crash.h -- inside the runtime: one sentence before a segmentation fault ends the program.
#pragma once

namespace cusim {

void install_crash_handler();  // once

// On every OS thread that runs kernels: a fiber that overran its own stack cannot handle a signal on it.
void prepare_crash_stack();

}  // namespace cusim

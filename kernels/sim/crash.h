// crash.h -- inside the runtime: one sentence before a segmentation fault ends the program.
#pragma once

namespace cusim {

void install_crash_handler();    // once
void prepare_crash_stack();      // on every OS thread that runs kernels: a fiber that overran its stack cannot handle signals

}  // namespace cusim

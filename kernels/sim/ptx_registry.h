// ptx_registry.h -- the second engine: kernels translated from nvcc's PTX to C++ register here under their mangled
// names and run on the same fibers, memory and checks as the sources.
//
//     static const bool registered = (cusim::register_ptx("_ZN2lc3sim10add_kernel...", {&translated, 28}), true);
//
// `params` of a translated kernel is its parameter block in nvcc's layout, 16-byte aligned.
#pragma once
#include "kernels/sim/engine.h"

namespace cusim {

using PtxKernel = void (*)(const char* params);
struct PtxEntry {
    PtxKernel fn;
    size_t param_bytes;
};
void register_ptx(const char* mangled_name, PtxEntry entry);  // may be called before main
bool ptx_available();                                         // is any translated kernel linked?

enum class Engine { source, ptx };
void set_engine(Engine e);  // what later launches run; starts as environment variable CUSIM_ENGINE=source|ptx
Engine engine();

}  // namespace cusim

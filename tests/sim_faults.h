// sim_faults.h -- the kernels of tests/sim_faults.cu and tests/sim_probes.cuh as test_sim.cpp sees them.
#pragma once
#include <vector>

#include "kernels/launch.h"

namespace lc::LC_CUDA_NS {

// ---- planted faults -------------------------------------------------------------------------------------------------

enum class Seen {
    always,  // by every build
    hooks,   // only where every access is checked
    value,   // not reported: the result shows it
    death,   // the process ends with a sentence
};
struct PlantedFault {
    const char* name;
    const char* kind;  // of the finding, as cusim::name_of gives it
    Seen seen;
    bool on_device;  // a fault of device code: the PTX engine must find it too
    // Give whether the result was right, where that can be said.
    bool (*run_bad)();
    bool (*run_good)();
};
const std::vector<PlantedFault>& planted_faults();

// ---- probes: kernels that show what one primitive does --------------------------------------------------------------

struct ParameterProbe {
    float f;
    double d;
    int8_t c;
};
void probe_indices(unsigned* out, dim3 grid, dim3 block);  // 6 numbers per thread
void probe_shuffle(float* out, const float* in, int mode, int arg, int width,
                   int threads);                                    // mode: 0 idx 1 up 2 down 3 xor
void probe_shuffle_double(double* out, const double* in, int arg);  // xor
void probe_votes(unsigned* out, const int* in, unsigned mask);      // ballot, any, all per lane
void probe_int_atomics(int* cells, int threads);
void probe_unsigned_atomics(unsigned* cells, int threads);
void probe_float_atomics(float* f, double* d, unsigned long long* u, int threads);
void probe_dynamic_shared(float* out, const float* in, int n, size_t bytes);                // out = in reversed
void probe_order(int* out, int* counter, int blocks, int threads, void* stream = nullptr);  // when each thread ran
void probe_parameters(double* out, bool b, int8_t c, double d, ParameterProbe p, int16_t s, float4 v, int64_t i);
void probe_intrinsics(float* out, const float* in, int n);  // kIntrinsics per element
constexpr int kIntrinsics = 20;
void probe_global_stride(float* out, const float* in, int stride);   // one warp
void probe_global_stride4(float* out, const float* in, int stride);  // float4
void probe_shared_stride(float* out, int stride);
void probe_shared_stride4(float* out, int stride);
void probe_divergent(float* out, const float* in);
void probe_scale(float* x, float factor, int n, void* stream);                         // x *= factor
void probe_bytes(unsigned char* out, const unsigned char* in, int n);                  // neighbours share words
void probe_script(float* cell, float* out, const int* script, int steps, int blocks);  // kScriptThreads per block
constexpr int kScriptThreads = 40;
enum ScriptAction { script_nothing, script_read, script_write, script_atomic, script_syncwarp, script_syncthreads };
void probe_big_frame(float* out, int n);  // 96 KiB of local variables
void probe_two_arrays(float* out);        // two static arrays

}  // namespace lc::LC_CUDA_NS

// sim_probes.cuh -- healthy kernels that show what one primitive of the simulator does; test_sim.cpp knows the answers.
#pragma once
#include "kernels/device.cuh"
#include "tests/sim_faults.h"

namespace lc::LC_CUDA_NS {

__device__ __forceinline__ int64_t global_rank() {
    const int64_t block = blockIdx.x + int64_t(gridDim.x) * (blockIdx.y + int64_t(gridDim.y) * blockIdx.z);
    const int64_t thread = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
    return block * (blockDim.x * blockDim.y * blockDim.z) + thread;
}

__global__ void __launch_bounds__(1024) indices_kernel(unsigned* out) {
    unsigned* o = out + 6 * global_rank();
    o[0] = threadIdx.x, o[1] = threadIdx.y, o[2] = threadIdx.z;
    o[3] = blockIdx.x, o[4] = blockIdx.y, o[5] = blockIdx.z;
}
void probe_indices(unsigned* out, dim3 grid, dim3 block) { LC_LAUNCH(indices_kernel, grid, block, 0, nullptr, out); }

// ---- warp operations ------------------------------------------------------------------------------------------------

__global__ void __launch_bounds__(1024) shuffle_kernel(float* out, const float* in, int mode, int arg, int width) {
    const float v = in[threadIdx.x];
    float r;
    if (mode == 0)
        r = __shfl_sync(kFullWarp, v, arg, width);
    else if (mode == 1)
        r = __shfl_up_sync(kFullWarp, v, arg, width);
    else if (mode == 2)
        r = __shfl_down_sync(kFullWarp, v, arg, width);
    else
        r = __shfl_xor_sync(kFullWarp, v, arg, width);
    out[threadIdx.x] = r;
}
void probe_shuffle(float* out, const float* in, int mode, int arg, int width, int threads) {
    LC_LAUNCH(shuffle_kernel, dim3(1), dim3(unsigned(threads)), 0, nullptr, out, in, mode, arg, width);
}

__global__ void __launch_bounds__(32) shuffle_double_kernel(double* out, const double* in, int arg) {
    out[threadIdx.x] = __shfl_xor_sync(kFullWarp, in[threadIdx.x], arg);
}
void probe_shuffle_double(double* out, const double* in, int arg) {
    LC_LAUNCH(shuffle_double_kernel, dim3(1), dim3(32), 0, nullptr, out, in, arg);
}

__global__ void __launch_bounds__(32) votes_kernel(unsigned* out, const int* in, unsigned mask) {
    if ((mask >> threadIdx.x & 1) == 0) return;
    unsigned* o = out + 3 * threadIdx.x;
    const int yes = in[threadIdx.x];
    o[0] = __ballot_sync(mask, yes > 0);
    o[1] = unsigned(__any_sync(mask, yes > 0));
    o[2] = unsigned(__all_sync(mask, yes > 0));
}
void probe_votes(unsigned* out, const int* in, unsigned mask) {
    LC_LAUNCH(votes_kernel, dim3(1), dim3(32), 0, nullptr, out, in, mask);
}

// ---- atomics --------------------------------------------------------------------------------------------------------

__global__ void __launch_bounds__(1024) int_atomics_kernel(int* cells) {
    const int t = int(threadIdx.x);
    atomicAdd(&cells[0], t);
    atomicSub(&cells[1], t);
    atomicMin(&cells[2], -t);
    atomicMax(&cells[3], t);
    atomicAnd(&cells[4], ~(1 << (t & 7)));
    atomicOr(&cells[5], 1 << (t & 7));
    atomicXor(&cells[6], 1 << (t & 7));
    atomicExch(&cells[7], 7);
    int seen = atomicCAS(&cells[8], 0, 0);  // add one by compare and swap
    for (int expected = seen + 1; expected != seen;) {
        expected = seen;
        seen = atomicCAS(&cells[8], expected, expected + 1);
    }
}
void probe_int_atomics(int* cells, int threads) {
    LC_LAUNCH(int_atomics_kernel, dim3(3), dim3(unsigned(threads)), 0, nullptr, cells);
}

__global__ void __launch_bounds__(1024) unsigned_atomics_kernel(unsigned* cells) {
    atomicInc(&cells[0], 9u);  // counts 0 ... 9 and starts again
    atomicDec(&cells[1], 9u);  // counts 9 ... 0 and starts again
    atomicMin(&cells[2], threadIdx.x + 5);
    atomicMax(&cells[3], threadIdx.x + 0x80000000u);
}
void probe_unsigned_atomics(unsigned* cells, int threads) {
    LC_LAUNCH(unsigned_atomics_kernel, dim3(3), dim3(unsigned(threads)), 0, nullptr, cells);
}

__global__ void __launch_bounds__(1024) float_atomics_kernel(float* f, double* d, unsigned long long* u) {
    atomicAdd(f, 0.5f);
    atomicAdd(d, 0.25);
    atomicAdd(u, 1ull << 33);
}
void probe_float_atomics(float* f, double* d, unsigned long long* u, int threads) {
    LC_LAUNCH(float_atomics_kernel, dim3(3), dim3(unsigned(threads)), 0, nullptr, f, d, u);
}

// ---- memory ---------------------------------------------------------------------------------------------------------

__global__ void __launch_bounds__(256) dynamic_shared_kernel(float* out, const float* in, int n) {
    LC_DYNAMIC_SMEM(float, tile);
    for (int i = int(threadIdx.x); i < n; i += int(blockDim.x)) tile[i] = in[i];
    __syncthreads();
    for (int i = int(threadIdx.x); i < n; i += int(blockDim.x)) out[i] = tile[n - 1 - i];
}
void probe_dynamic_shared(float* out, const float* in, int n, size_t bytes) {
    LC_LAUNCH(dynamic_shared_kernel, dim3(1), dim3(256), bytes, nullptr, out, in, n);
}

__global__ void __launch_bounds__(1024) order_kernel(int* out, int* counter) {
    out[global_rank()] = atomicAdd(counter, 1);
}
void probe_order(int* out, int* counter, int blocks, int threads, void* stream) {
    LC_LAUNCH(order_kernel, dim3(unsigned(blocks)), dim3(unsigned(threads)), 0, stream, out, counter);
}

__global__ void __launch_bounds__(1)
    parameters_kernel(double* out, bool b, int8_t c, double d, ParameterProbe p, int16_t s, float4 v, int64_t i) {
    out[0] = b, out[1] = c, out[2] = d, out[3] = p.f, out[4] = p.d, out[5] = p.c, out[6] = s;
    out[7] = v.x, out[8] = v.w, out[9] = double(i);
}
void probe_parameters(double* out, bool b, int8_t c, double d, ParameterProbe p, int16_t s, float4 v, int64_t i) {
    LC_LAUNCH(parameters_kernel, dim3(1), dim3(1), 0, nullptr, out, b, c, d, p, s, v, i);
}

__global__ void __launch_bounds__(32) intrinsics_kernel(float* out, const float* in, int n) {
    const int i = int(threadIdx.x);
    if (i >= n) return;
    const float x = in[i], y = in[(i + 1) % n];
    const int a = int(__float_as_uint(x) >> 3), b = int(__float_as_uint(y) >> 5);
    float* o = out + i * kIntrinsics;
    o[0] = min(x, y), o[1] = max(x, y), o[2] = float(min(a, b)), o[3] = float(max(unsigned(a), 7u));
    o[4] = rsqrtf(fabsf(x) + 1.0f), o[5] = __expf(x * 0.1f), o[6] = __logf(fabsf(x) + 1.0f), o[7] = __fdividef(x, 3.0f);
    o[8] = __int_as_float(__float_as_int(x)), o[9] = float(__popc(unsigned(a))), o[10] = float(__clz(a));
    o[11] = float(__ffs(a)), o[12] = float(__brev(unsigned(a)) >> 8), o[13] = float(__umulhi(unsigned(a), unsigned(b)));
    o[14] = __saturatef(x), o[15] = fmaf(x, y, 1.0f), o[16] = __ldg(in + i), o[17] = fmaxf(x, y),
    o[18] = sqrtf(fabsf(x));
    o[19] = __frcp_rn(y == 0.0f ? 1.0f : y);
}
void probe_intrinsics(float* out, const float* in, int n) {
    LC_LAUNCH(intrinsics_kernel, dim3(1), dim3(32), 0, nullptr, out, in, n);
}

// ---- counters -------------------------------------------------------------------------------------------------------

__global__ void __launch_bounds__(32) global_stride_kernel(float* out, const float* in, int stride) {
    out[threadIdx.x] = in[int(threadIdx.x) * stride];
}
void probe_global_stride(float* out, const float* in, int stride) {
    LC_LAUNCH(global_stride_kernel, dim3(1), dim3(32), 0, nullptr, out, in, stride);
}

__global__ void __launch_bounds__(32) global_stride4_kernel(float* out, const float* in, int stride) {
    st4(out + 4 * threadIdx.x, ld4(in + int(threadIdx.x) * stride));
}
void probe_global_stride4(float* out, const float* in, int stride) {
    LC_LAUNCH(global_stride4_kernel, dim3(1), dim3(32), 0, nullptr, out, in, stride);
}

__global__ void __launch_bounds__(32) shared_stride_kernel(float* out, int stride) {
    LC_SHARED(float, tile, [32 * 33]);
    for (int i = int(threadIdx.x); i < 32 * 33; i += 32) tile[i] = 1.0f;
    __syncthreads();
    out[threadIdx.x] = tile[int(threadIdx.x) * stride];
}
void probe_shared_stride(float* out, int stride) {
    LC_LAUNCH(shared_stride_kernel, dim3(1), dim3(32), 0, nullptr, out, stride);
}

__global__ void __launch_bounds__(32) shared_stride4_kernel(float* out, int stride) {
    LC_SHARED(float, tile, [32 * 36]);
    for (int i = int(threadIdx.x); i < 32 * 36; i += 32) tile[i] = 1.0f;
    __syncthreads();
    st4(out + 4 * threadIdx.x, ld4(tile + int(threadIdx.x) * stride));
}
void probe_shared_stride4(float* out, int stride) {
    LC_LAUNCH(shared_stride4_kernel, dim3(1), dim3(32), 0, nullptr, out, stride);
}

// Lanes read different numbers of elements: the counters must still put together what belongs together.
__global__ void __launch_bounds__(32) divergent_kernel(float* out, const float* in) {
    float sum = 0.0f;
    for (unsigned i = 0; i <= threadIdx.x % 2; ++i) sum += in[32 * i + threadIdx.x];
    out[threadIdx.x] = sum;
}
void probe_divergent(float* out, const float* in) {
    LC_LAUNCH(divergent_kernel, dim3(1), dim3(32), 0, nullptr, out, in);
}

// ---- streams and the rest -------------------------------------------------------------------------------------------

__global__ void __launch_bounds__(128) scale_kernel(float* x, float factor, int n) {
    const int64_t i = int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i < n) x[i] *= factor;
}
void probe_scale(float* x, float factor, int n, void* stream) {
    LC_LAUNCH(scale_kernel, dim3(unsigned(ceil_div(n, 128))), dim3(128), 0, stream, x, factor, n);
}

__global__ void __launch_bounds__(64) bytes_kernel(unsigned char* out, const unsigned char* in, int n) {
    const int i = int(threadIdx.x);
    if (i < n) out[i] = (unsigned char)(in[i] + 1);
}
void probe_bytes(unsigned char* out, const unsigned char* in, int n) {
    LC_LAUNCH(bytes_kernel, dim3(1), dim3(64), 0, nullptr, out, in, n);
}

__global__ void __launch_bounds__(64) two_arrays_kernel(float* out) {
    LC_SHARED(float, a, [64]);
    LC_SHARED(double, b, [8][8]);
    const unsigned t = threadIdx.x;
    a[t] = float(t);
    b[t / 8][t % 8] = 100.0 * t;
    __syncthreads();
    out[t] = a[63 - t] + float(b[7 - t / 8][7 - t % 8]);
}
void probe_two_arrays(float* out) { LC_LAUNCH(two_arrays_kernel, dim3(1), dim3(64), 0, nullptr, out); }

// Threads that follow a script, (steps, kScriptThreads) actions per block: touch the cell, or wait.  The race detector
// must say yes exactly where the script has a race.
__global__ void __launch_bounds__(kScriptThreads) script_kernel(float* cell, float* out, const int* script, int steps) {
    const int* mine = script + int(blockIdx.x) * steps * kScriptThreads + int(threadIdx.x);
    float sum = 0.0f;
    for (int step = 0; step < steps; ++step) {
        switch (mine[step * kScriptThreads]) {
            case script_read:
                sum += *cell;
                break;
            case script_write:
                *cell = float(step);
                break;
            case script_atomic:
                atomicAdd(cell, 1.0f);
                break;
            case script_syncwarp:
                __syncwarp();
                break;
            case script_syncthreads:
                __syncthreads();
                break;
            default:
                break;
        }
    }
    out[blockIdx.x * kScriptThreads + threadIdx.x] = sum;
}
void probe_script(float* cell, float* out, const int* script, int steps, int blocks) {
    LC_LAUNCH(script_kernel, dim3(unsigned(blocks)), dim3(kScriptThreads), 0, nullptr, cell, out, script, steps);
}

#ifndef __CUDACC__  // for the source engine only: ptx2cpp refuses so much local memory when it translates
__global__ void __launch_bounds__(32) big_frame_kernel(float* out, int n) {
    float local[24 * 1024];
    for (int i = 0; i < n; ++i) local[i] = out[i % 32] + float(i);
    float sum = 0.0f;
    for (int i = n - 1; i >= 0; i -= 7) sum += local[i];
    out[32 + threadIdx.x] = sum;
}
void probe_big_frame(float* out, int n) { LC_LAUNCH(big_frame_kernel, dim3(1), dim3(32), 0, nullptr, out, n); }
#endif

}  // namespace lc::LC_CUDA_NS

// sim_host_faults.cuh -- planted faults of host code: launches beyond the limits, streams without order, copies gone
// wrong. Part of sim_faults.cu, as kBad there.
#pragma once
#include <vector>

#include "tests/sim_faults.h"
#include "tests/sim_floats.h"
#include "tests/sim_probes.cuh"

namespace lc::LC_CUDA_NS {

__global__ void __launch_bounds__(kBlock) copy_kernel(float* out, const float* in) {
    out[threadIdx.x] = in[threadIdx.x];
}

// ---- launches -------------------------------------------------------------------------------------------------------

__global__ void __launch_bounds__(1024) one_kernel(float* out) { out[threadIdx.x + blockDim.x * threadIdx.y] = 1.0f; }

template <bool kBad>
bool block_too_large() {
    Floats out(1024);
    LC_LAUNCH(one_kernel, dim3(1), dim3(32, kBad ? 33 : 32), 0, nullptr, out);
    sync();
    return all_equal(out.host(), 1.0f);
}

__global__ void __launch_bounds__(1) tall_kernel(float* out) {
    if (blockIdx.y == 7) *out = 1.0f;
}
template <bool kBad>
bool grid_too_tall() {
    Floats out(1);
    LC_LAUNCH(tall_kernel, dim3(1, kBad ? 65536 : 65535), dim3(1), 0, nullptr, out);
    sync();
    return all_equal(out.host(), 1.0f);
}

template <bool kBad>
bool too_much_dynamic_shared() {
    Floats out(kBlock), in(kBlock, 1.0f);
    LC_LAUNCH(dynamic_shared_kernel, dim3(1), dim3(kBlock), kBad ? 228 * 1024 : 227 * 1024, nullptr, out, in, kBlock);
    sync();
    return all_equal(out.host(), 1.0f);
}

template <bool kBad>
__global__ void __launch_bounds__(kBlock) static_and_dynamic_kernel(float* out) {
    LC_DYNAMIC_SMEM(float, dynamic);
    LC_SHARED(float, fixed, [kBlock * 64]);  // 16 KiB
    fixed[threadIdx.x] = 1.0f;
    dynamic[threadIdx.x] = 1.0f;
    __syncthreads();
    out[threadIdx.x] = fixed[threadIdx.x ^ 1] * dynamic[threadIdx.x ^ 1];
}
template <bool kBad>
bool too_much_shared_together() {
    Floats out(kBlock);
    LC_LAUNCH(static_and_dynamic_kernel<kBad>, dim3(1), dim3(kBlock), (kBad ? 212 : 211) * 1024, nullptr, out);
    sync();
    return all_equal(out.host(), 1.0f);
}

template <bool kBad>
__global__ void __launch_bounds__(kBlock) static_shared_kernel(float* out) {
    LC_SHARED(float, fixed, [kBad ? 12 * 1024 + 4 : 12 * 1024]);  // 48 KiB
    fixed[threadIdx.x] = 1.0f;
    __syncthreads();
    out[threadIdx.x] = fixed[threadIdx.x ^ 1];
}
template <bool kBad>
bool too_much_static_shared() {
    Floats out(kBlock);
    LC_LAUNCH(static_shared_kernel<kBad>, dim3(1), dim3(kBlock), 0, nullptr, out);
    sync();
    return all_equal(out.host(), 1.0f);
}

// ---- streams and the host -------------------------------------------------------------------------------------------

struct Streams {
    cudaStream_t a = nullptr, b = nullptr;
    Streams() {
        LC_CUDA_CHECK(cudaStreamCreateWithFlags(&a, cudaStreamNonBlocking));
        LC_CUDA_CHECK(cudaStreamCreateWithFlags(&b, cudaStreamNonBlocking));
    }
    ~Streams() {
        (void)cudaStreamDestroy(a);
        (void)cudaStreamDestroy(b);
    }
    void b_waits_for_a() const {
        cudaEvent_t e;
        LC_CUDA_CHECK(cudaEventCreateWithFlags(&e, cudaEventDisableTiming));
        LC_CUDA_CHECK(cudaEventRecord(e, a));
        LC_CUDA_CHECK(cudaStreamWaitEvent(b, e, 0));
        LC_CUDA_CHECK(cudaEventDestroy(e));
    }
};

template <bool kBad>
bool missing_stream_wait() {
    const Streams s;
    Floats x(kBlock, 1.0f), y(kBlock);
    probe_scale(x, 2.0f, kBlock, s.a);
    if (!kBad) s.b_waits_for_a();
    LC_LAUNCH(copy_kernel, dim3(1), dim3(kBlock), 0, s.b, y, x);
    LC_CUDA_CHECK(cudaStreamSynchronize(s.b));
    LC_CUDA_CHECK(cudaStreamSynchronize(s.a));
    return all_equal(y.host(), 2.0f);
}

template <bool kBad>
bool copy_beside_kernel() {
    const Streams s;
    Floats x(kBlock, 1.0f);
    std::vector<float> h(kBlock);
    probe_scale(x, 2.0f, kBlock, s.a);
    if (!kBad) s.b_waits_for_a();
    LC_CUDA_CHECK(cudaMemcpyAsync(h.data(), x, x.bytes(), cudaMemcpyDeviceToHost, s.b));
    LC_CUDA_CHECK(cudaDeviceSynchronize());
    return all_equal(h, 2.0f);
}

template <bool kBad>
bool two_copies_two_streams() {
    const Streams s;
    Floats x(kBlock);
    const std::vector<float> first(kBlock, 1.0f), second(kBlock, 2.0f);
    LC_CUDA_CHECK(cudaMemcpyAsync(x, first.data(), x.bytes(), cudaMemcpyHostToDevice, s.a));
    if (!kBad) s.b_waits_for_a();
    LC_CUDA_CHECK(cudaMemcpyAsync(x, second.data(), x.bytes(), cudaMemcpyHostToDevice, s.b));
    LC_CUDA_CHECK(cudaDeviceSynchronize());
    return all_equal(x.host(), 2.0f);
}

template <bool kBad>
bool host_reads_before_sync() {
    Floats x(kBlock, 1.0f);
    std::vector<float> h(kBlock, 5.0f);
    LC_CUDA_CHECK(cudaMemcpyAsync(h.data(), x, x.bytes(), cudaMemcpyDeviceToHost, nullptr));
    if (!kBad) sync();
    const bool right = all_equal(h, 1.0f);
    sync();
    return right;
}

template <bool kBad>
bool host_changes_source() {
    Floats x(kBlock);
    std::vector<float> h(kBlock, 1.0f);
    LC_CUDA_CHECK(cudaMemcpyAsync(x, h.data(), x.bytes(), cudaMemcpyHostToDevice, nullptr));
    if (!kBad) sync();
    h[7] = 2.0f;
    sync();
    return all_equal(x.host(), 1.0f);
}

template <bool kBad>
bool host_writes_destination() {
    Floats x(kBlock, 1.0f);
    std::vector<float> h(kBlock);
    LC_CUDA_CHECK(cudaMemcpyAsync(h.data(), x, x.bytes(), cudaMemcpyDeviceToHost, nullptr));
    if (!kBad) sync();
    const float before = h[7];
    h[7] = 2.0f;
    sync();
    return before == 1.0f;
}

template <bool kBad>
bool host_dereferences_device() {
    Floats x(kBlock, 1.0f);
    if (!kBad) return x.host()[3] == 1.0f;
    const volatile float* p = x;
    return p[3] == 1.0f;
}

template <bool kBad>
bool copy_past_end() {
    Floats x(kBlock);
    const std::vector<float> h(kBlock + 1, 1.0f);
    LC_CUDA_CHECK(cudaMemcpyAsync(x, h.data(), x.bytes() + (kBad ? 4 : 0), cudaMemcpyHostToDevice, nullptr));
    return all_equal(x.host(), 1.0f);
}

template <bool kBad>
bool copy_after_free() {
    float* p = nullptr;
    Floats x(kBlock);
    LC_CUDA_CHECK(cudaMalloc(&p, x.bytes()));
    LC_CUDA_CHECK(cudaMemsetAsync(p, 0, x.bytes(), nullptr));
    if (kBad) LC_CUDA_CHECK(cudaFree(p));
    LC_CUDA_CHECK(cudaMemcpyAsync(x, p, x.bytes(), cudaMemcpyDeviceToDevice, nullptr));
    sync();
    if (!kBad) LC_CUDA_CHECK(cudaFree(p));
    return all_equal(x.host(), 0.0f);
}

template <bool kBad>
bool copy_wrong_direction() {
    Floats x(kBlock);
    const std::vector<float> h(kBlock, 1.0f);
    const auto kind = kBad ? cudaMemcpyDeviceToDevice : cudaMemcpyHostToDevice;
    LC_CUDA_CHECK(cudaMemcpyAsync(x, h.data(), x.bytes(), kind, nullptr));
    return all_equal(x.host(), 1.0f);
}

template <bool kBad>
bool free_twice() {
    float* p = nullptr;
    LC_CUDA_CHECK(cudaMalloc(&p, 64));
    LC_CUDA_CHECK(cudaFree(p));
    if (kBad) LC_CUDA_CHECK(cudaFree(p));
    sync();
    return true;
}

}  // namespace lc::LC_CUDA_NS

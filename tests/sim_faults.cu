// sim_faults.cu -- deliberately wrong kernels and host code, each with a healthy twin: the template parameter kBad is
// the whole difference.  test_sim.cpp demands that the simulator reports every wrong one and none of the twins.
#include <vector>

#include "tests/sim_faults.h"
#include "tests/sim_floats.h"
#include "tests/sim_host_faults.cuh"
#include "tests/sim_probes.cuh"

namespace lc::LC_CUDA_NS {

// ---- barriers -------------------------------------------------------------------------------------------------------

template <bool kBad>
__global__ void __launch_bounds__(kBlock) missing_first_barrier_kernel(float* out, const float* in) {
    LC_SHARED(float, tile, [kBlock]);
    tile[threadIdx.x] = in[threadIdx.x];
    if (!kBad) __syncthreads();
    out[threadIdx.x] = tile[kBlock - 1 - threadIdx.x];
}
template <bool kBad>
bool missing_first_barrier() {
    Floats out(kBlock), in(kBlock, 2.0f);
    LC_LAUNCH(missing_first_barrier_kernel<kBad>, dim3(1), dim3(kBlock), 0, nullptr, out, in);
    sync();
    return all_equal(out.host(), 2.0f);
}

template <bool kBad>
__global__ void __launch_bounds__(kBlock) missing_second_barrier_kernel(float* out, const float* in) {
    LC_SHARED(float, tile, [kBlock]);
    float sum = 0.0f;
    for (int step = 0; step < 3; ++step) {
        tile[threadIdx.x] = in[step * kBlock + int(threadIdx.x)];
        __syncthreads();
        for (int j = 0; j < kBlock; ++j) sum += tile[j];
        if (!kBad) __syncthreads();  // or the next step overwrites what others still read
    }
    out[threadIdx.x] = sum;
}
template <bool kBad>
bool missing_second_barrier() {
    Floats out(kBlock), in(3 * kBlock, 1.0f);
    LC_LAUNCH(missing_second_barrier_kernel<kBad>, dim3(1), dim3(kBlock), 0, nullptr, out, in);
    sync();
    return all_equal(out.host(), 3.0f * kBlock);
}

template <bool kBad>
__global__ void __launch_bounds__(kBlock) warp_barrier_for_block_kernel(float* out) {
    LC_SHARED(float, tile, [kBlock]);
    tile[threadIdx.x] = 1.0f;
    if (kBad)
        __syncwarp();  // orders a warp, but the other warp's half is read
    else
        __syncthreads();
    out[threadIdx.x] = tile[threadIdx.x ^ 32];
}
template <bool kBad>
bool warp_barrier_for_block() {
    Floats out(kBlock);
    LC_LAUNCH(warp_barrier_for_block_kernel<kBad>, dim3(1), dim3(kBlock), 0, nullptr, out);
    sync();
    return all_equal(out.host(), 1.0f);
}

template <bool kBad>
__global__ void __launch_bounds__(kBlock) divergent_barrier_kernel(float* out) {
    LC_SHARED(float, tile, [kBlock]);
    tile[threadIdx.x] = 1.0f;
    if (kBad && threadIdx.x < 32) {
        __syncthreads();
        tile[threadIdx.x] += 1.0f;
    } else {
        __syncthreads();
    }
    out[threadIdx.x] = tile[threadIdx.x];
}
template <bool kBad>
bool divergent_barrier() {
    Floats out(kBlock);
    LC_LAUNCH(divergent_barrier_kernel<kBad>, dim3(1), dim3(kBlock), 0, nullptr, out);
    sync();
    return all_equal(out.host(), 1.0f);
}

template <bool kBad>
__global__ void __launch_bounds__(kBlock) early_return_kernel(float* out, int n) {
    LC_SHARED(float, tile, [kBlock]);
    if (kBad && int(threadIdx.x) >= n) return;
    tile[threadIdx.x] = 1.0f;
    __syncthreads();
    if (int(threadIdx.x) < n) out[threadIdx.x] = tile[threadIdx.x ^ 1];
}
template <bool kBad>
bool early_return() {
    Floats out(40);
    LC_LAUNCH(early_return_kernel<kBad>, dim3(1), dim3(kBlock), 0, nullptr, out, 40);
    sync();
    return all_equal(out.host(), 1.0f);
}

// ---- bounds ---------------------------------------------------------------------------------------------------------

template <bool kBad>
__global__ void __launch_bounds__(kBlock) shared_off_by_one_kernel(float* out) {
    LC_SHARED(float, tile, [kBlock]);
    tile[threadIdx.x] = 1.0f;
    __syncthreads();
    out[threadIdx.x] = tile[kBad ? threadIdx.x + 1 : threadIdx.x];
}
template <bool kBad>
bool shared_off_by_one() {
    Floats out(kBlock);
    LC_LAUNCH(shared_off_by_one_kernel<kBad>, dim3(1), dim3(kBlock), 0, nullptr, out);
    sync();
    return all_equal(out.host(), 1.0f);
}

template <bool kBad>
__global__ void __launch_bounds__(kBlock) global_read_past_end_kernel(float* out, const float* in, int n) {
    const int i = int(threadIdx.x);
    if (i < n) out[i] = in[kBad ? i + 1 : i];
}
template <bool kBad>
bool global_read_past_end() {
    Floats out(50), in(50, 1.0f);
    LC_LAUNCH(global_read_past_end_kernel<kBad>, dim3(1), dim3(kBlock), 0, nullptr, out, in, 50);
    sync();
    return all_equal(out.host(), 1.0f);
}

template <bool kBad>
__global__ void __launch_bounds__(kBlock) global_write_past_end_kernel(float* out, int n) {
    const int i = int(threadIdx.x);
    if (kBad ? i <= n : i < n) out[i] = 1.0f;
}
template <bool kBad>
bool global_write_past_end() {
    Floats out(50);
    LC_LAUNCH(global_write_past_end_kernel<kBad>, dim3(1), dim3(kBlock), 0, nullptr, out, 50);
    sync();
    return all_equal(out.host(), 1.0f);
}

// An array in registers: no memory to watch, so the compiler's own bounds check has to speak.
__global__ void __launch_bounds__(kBlock) local_index_past_end_kernel(float* out, int index) {
    const float v[4] = {1.0f, 1.0f, 1.0f, 1.0f};
    out[threadIdx.x] = v[index];
}
template <bool kBad>
bool local_index_past_end() {
    Floats out(kBlock);
    LC_LAUNCH(local_index_past_end_kernel, dim3(1), dim3(kBlock), 0, nullptr, out, kBad ? 4 : 3);
    sync();
    return all_equal(out.host(), 1.0f);
}

template <bool kBad>
__global__ void __launch_bounds__(kBlock) global_write_before_start_kernel(float* out) {
    const int i = int(threadIdx.x);
    out[i] = 1.0f;
    if (kBad && i == 0) out[i - 1] = 1.0f;
}
template <bool kBad>
bool global_write_before_start() {
    Floats out(kBlock);
    LC_LAUNCH(global_write_before_start_kernel<kBad>, dim3(1), dim3(kBlock), 0, nullptr, out);
    sync();
    return all_equal(out.host(), 1.0f);
}

template <bool kBad>
__global__ void __launch_bounds__(16) misaligned_float4_kernel(float* out, const float* in) {
    const float4 v = ld4(in + (kBad ? 1 : 0) + 4 * threadIdx.x);
    out[threadIdx.x] = v.x + v.w;
}
template <bool kBad>
bool misaligned_float4() {
    Floats out(16), in(68, 1.0f);
    LC_LAUNCH(misaligned_float4_kernel<kBad>, dim3(1), dim3(16), 0, nullptr, out, in);
    sync();
    return all_equal(out.host(), 2.0f);
}

template <bool kBad>
bool host_pointer() {
    Floats out(kBlock), in(kBlock, 1.0f);
    const std::vector<float> host(kBlock, 1.0f);
    LC_LAUNCH(copy_kernel, dim3(1), dim3(kBlock), 0, nullptr, out, kBad ? host.data() : in);
    sync();
    return all_equal(out.host(), 1.0f);
}

template <bool kBad>
bool null_pointer() {
    Floats out(kBlock), in(kBlock, 1.0f);
    float* const nowhere = nullptr;
    LC_LAUNCH(copy_kernel, dim3(1), dim3(kBlock), 0, nullptr, kBad ? nowhere : out, in);
    sync();
    return all_equal(out.host(), 1.0f);
}

template <bool kBad>
bool use_after_free() {
    Floats out(kBlock), in(kBlock, 1.0f);
    float* p = nullptr;
    LC_CUDA_CHECK(cudaMalloc(&p, kBlock * sizeof(float)));
    LC_CUDA_CHECK(cudaMemcpyAsync(p, in, in.bytes(), cudaMemcpyDeviceToDevice, nullptr));
    if (kBad) LC_CUDA_CHECK(cudaFree(p));
    LC_LAUNCH(copy_kernel, dim3(1), dim3(kBlock), 0, nullptr, out, p);
    sync();
    if (!kBad) LC_CUDA_CHECK(cudaFree(p));
    return all_equal(out.host(), 1.0f);
}

template <bool kBad>
__global__ void __launch_bounds__(kBlock) uninitialised_shared_kernel(float* out) {
    LC_SHARED(float, tile, [kBlock]);
    if (!kBad || threadIdx.x < 60) tile[threadIdx.x] = 1.0f;  // the tail tile without its zero fill
    __syncthreads();
    out[threadIdx.x] = tile[threadIdx.x];
}
template <bool kBad>
bool uninitialised_shared() {
    Floats out(kBlock);
    LC_LAUNCH(uninitialised_shared_kernel<kBad>, dim3(1), dim3(kBlock), 0, nullptr, out);
    sync();
    return all_equal(out.host(), 1.0f);
}

template <bool kBad>
__global__ void __launch_bounds__(kBlock) uninitialised_global_kernel(float* sum) {
    const unsigned t = threadIdx.x;
    sum[t] = (kBad ? sum[t] : 0.0f) + 1.0f;  // an accumulator that nobody set to zero
}
template <bool kBad>
bool uninitialised_global() {
    Floats sum(kBlock);
    LC_LAUNCH(uninitialised_global_kernel<kBad>, dim3(1), dim3(kBlock), 0, nullptr, sum);
    sync();
    return all_equal(sum.host(), 1.0f);
}

// ---- races ----------------------------------------------------------------------------------------------------------

template <bool kBad>
__global__ void __launch_bounds__(32) missing_syncwarp_kernel(float* out) {
    LC_SHARED(float, s, [64]);
    const unsigned t = threadIdx.x;
    s[t] = float(t);
    s[t + 32] = 0.0f;
    __syncwarp();
    for (int d = 16; d > 0; d /= 2) {
        const float v = s[t + d];
        if (!kBad) __syncwarp();  // a warp is not in lock step
        s[t] += v;
        __syncwarp();
    }
    if (t == 0) *out = s[0];
}
template <bool kBad>
bool missing_syncwarp() {
    Floats out(1);
    LC_LAUNCH(missing_syncwarp_kernel<kBad>, dim3(1), dim3(32), 0, nullptr, out);
    sync();
    return all_equal(out.host(), 496.0f);
}

template <bool kBad>
__global__ void __launch_bounds__(32) cross_block_sum_kernel(float* total, const float* in) {
    const float sum = warp_sum(in[blockIdx.x * 32 + threadIdx.x]);
    if (threadIdx.x != 0) return;
    if (kBad)
        *total += sum;
    else
        atomicAdd(total, sum);
}
template <bool kBad>
bool cross_block_sum() {
    Floats total(1, 0.0f), in(4 * 32, 1.0f);
    LC_LAUNCH(cross_block_sum_kernel<kBad>, dim3(4), dim3(32), 0, nullptr, total, in);
    sync();
    return all_equal(total.host(), 128.0f);
}

template <bool kBad>
__global__ void __launch_bounds__(32) two_blocks_one_cell_kernel(float* out) {
    out[(kBad ? 31 : 32) * blockIdx.x + threadIdx.x] = 1.0f;  // tiles that overlap by one, with equal values
}
template <bool kBad>
bool two_blocks_one_cell() {
    Floats out(kBad ? 63 : 64);
    LC_LAUNCH(two_blocks_one_cell_kernel<kBad>, dim3(2), dim3(32), 0, nullptr, out);
    sync();
    return all_equal(out.host(), 1.0f);
}

template <bool kBad>
__global__ void __launch_bounds__(32) stencil_in_place_kernel(float* out, const float* in) {
    const unsigned i = blockIdx.x * 32 + threadIdx.x;
    const float left = i > 0 ? in[i - 1] : 1.0f, middle = in[i];
    __syncthreads();  // orders this block only; the left neighbour may be another block's
    out[i] = 0.5f * (left + middle);
}
template <bool kBad>
bool stencil_in_place() {
    Floats x(64, 1.0f), y(64);
    LC_LAUNCH(stencil_in_place_kernel<kBad>, dim3(2), dim3(32), 0, nullptr, kBad ? x : y, x);
    sync();
    return all_equal(kBad ? x.host() : y.host(), 1.0f);
}

template <bool kBad>
__global__ void __launch_bounds__(kBlock) lost_update_kernel(float* count) {
    if (kBad)
        *count += 1.0f;
    else
        atomicAdd(count, 1.0f);
}
template <bool kBad>
bool lost_update() {
    Floats count(1, 0.0f);
    LC_LAUNCH(lost_update_kernel<kBad>, dim3(1), dim3(kBlock), 0, nullptr, count);
    sync();
    return all_equal(count.host(), float(kBlock));
}

template <bool kBad>
__global__ void __launch_bounds__(kBlock) atomic_and_plain_kernel(float* count, float* out) {
    atomicAdd(count, 1.0f);
    if (!kBad) __syncthreads();
    if (threadIdx.x == 0) *out = *count;  // an atomic orders nothing but itself
}
template <bool kBad>
bool atomic_and_plain() {
    Floats count(1, 0.0f), out(1);
    LC_LAUNCH(atomic_and_plain_kernel<kBad>, dim3(1), dim3(kBlock), 0, nullptr, count, out);
    sync();
    return all_equal(out.host(), float(kBlock));
}

// Three readers, and a writer that a __syncwarp orders behind the one of its own warp only.
template <bool kBad>
__global__ void __launch_bounds__(kBlock) three_readers_kernel(float* out) {
    LC_SHARED(float, cell, [1]);
    const unsigned t = threadIdx.x;
    if (t == 0) cell[0] = 1.0f;
    __syncthreads();
    float v = 0.0f;
    if (t == 0 || t == 32 || t == 33) v = cell[0];
    if (kBad)
        __syncwarp();
    else
        __syncthreads();
    if (t == 32) cell[0] = v + 1.0f;
    __syncthreads();
    out[t] = cell[0];
}
template <bool kBad>
bool three_readers() {
    Floats out(kBlock);
    LC_LAUNCH(three_readers_kernel<kBad>, dim3(1), dim3(kBlock), 0, nullptr, out);
    sync();
    return all_equal(out.host(), 2.0f);
}

template <bool kBad>
__global__ void __launch_bounds__(32) tail_in_place_kernel(float* x, int n) {
    const int whole = n / 32 * 32;
    for (int i = int(threadIdx.x); i < whole; i += 32) x[i] *= 2.0f;
    for (int i = whole + int(threadIdx.x); i < n; i += kBad ? 1 : 32) x[i] *= 2.0f;  // i++ redoes the neighbours' work
}
template <bool kBad>
bool tail_in_place() {
    Floats x(70, 1.0f);
    LC_LAUNCH(tail_in_place_kernel<kBad>, dim3(1), dim3(32), 0, nullptr, x, 70);
    sync();
    return all_equal(x.host(), 2.0f);
}

// ---- warp operations ------------------------------------------------------------------------------------------------

template <bool kBad>
__global__ void __launch_bounds__(32) divergent_shuffle_kernel(float* x) {
    float v = x[threadIdx.x];
    if (!kBad || threadIdx.x < 16) v += __shfl_xor_sync(kFullWarp, v, 1);  // the mask names lanes that never come
    __syncthreads();
    x[threadIdx.x] = v;
}
template <bool kBad>
bool divergent_shuffle() {
    Floats x(32, 1.0f);
    LC_LAUNCH(divergent_shuffle_kernel<kBad>, dim3(1), dim3(32), 0, nullptr, x);
    sync();
    return all_equal(x.host(), 2.0f);
}

template <bool kBad>
__global__ void __launch_bounds__(32) shuffle_from_exited_kernel(float* x) {
    if (threadIdx.x == 5) return;
    float v = x[threadIdx.x];
    if (kBad || threadIdx.x / 2 != 2) v += __shfl_xor_sync(kBad ? kFullWarp : 0xffffffcfu, v, 1);
    x[threadIdx.x] = v;
}
template <bool kBad>
bool shuffle_from_exited() {
    Floats x(32, 1.0f);
    LC_LAUNCH(shuffle_from_exited_kernel<kBad>, dim3(1), dim3(32), 0, nullptr, x);
    sync();
    return x.host()[0] == 2.0f;
}

template <bool kBad>
__global__ void __launch_bounds__(32) shuffle_outside_mask_kernel(float* x) {
    float v = x[threadIdx.x];
    if (threadIdx.x < 16) v += __shfl_xor_sync(0x0000ffffu, v, kBad ? 16 : 8);
    x[threadIdx.x] = v;
}
template <bool kBad>
bool shuffle_outside_mask() {
    Floats x(32, 1.0f);
    LC_LAUNCH(shuffle_outside_mask_kernel<kBad>, dim3(1), dim3(32), 0, nullptr, x);
    sync();
    return x.host()[0] == 2.0f;
}

template <bool kBad>
__global__ void __launch_bounds__(32) lane_not_in_mask_kernel(unsigned* out, unsigned mask) {
    out[threadIdx.x] = __ballot_sync(kBad ? mask : kFullWarp, threadIdx.x < 16);
}
template <bool kBad>
bool lane_not_in_mask() {
    Floats out(32);
    LC_LAUNCH(lane_not_in_mask_kernel<kBad>, dim3(1), dim3(32), 0, nullptr,
              reinterpret_cast<unsigned*>(static_cast<float*>(out)), 0x0000ffffu);
    sync();
    return true;
}

// ---- the table ------------------------------------------------------------------------------------------------------

#define LC_FAULT(name, kind, seen, on_device) \
    { #name, kind, Seen::seen, on_device, name < true>, name < false> }

const std::vector<PlantedFault>& planted_faults() {
    static const std::vector<PlantedFault> list = {
        LC_FAULT(missing_first_barrier, "race_block", hooks, true),
        LC_FAULT(missing_second_barrier, "race_block", hooks, true),
        LC_FAULT(warp_barrier_for_block, "race_block", hooks, true),
        LC_FAULT(divergent_barrier, "barrier_divergence", always, true),
        LC_FAULT(early_return, "early_exit", always, true),
        LC_FAULT(shared_off_by_one, "out_of_bounds", hooks, true),
        LC_FAULT(global_read_past_end, "out_of_bounds", hooks, true),
        LC_FAULT(global_write_past_end, "out_of_bounds", always, true),
        LC_FAULT(global_write_before_start, "out_of_bounds", always, true),
        LC_FAULT(local_index_past_end, "out_of_bounds", hooks, false),
        LC_FAULT(misaligned_float4, "misaligned", always, true),
        LC_FAULT(host_pointer, "host_pointer", hooks, true),
        LC_FAULT(null_pointer, "host_pointer", hooks, true),
        LC_FAULT(use_after_free, "use_after_free", hooks, true),
        LC_FAULT(uninitialised_shared, "uninitialised", hooks, true),
        LC_FAULT(uninitialised_global, "uninitialised", hooks, true),
        LC_FAULT(missing_syncwarp, "race_block", hooks, true),
        LC_FAULT(cross_block_sum, "race_grid", hooks, true),
        LC_FAULT(two_blocks_one_cell, "race_grid", hooks, true),
        LC_FAULT(stencil_in_place, "race_grid", hooks, true),
        LC_FAULT(lost_update, "race_block", hooks, true),
        LC_FAULT(atomic_and_plain, "race_block", hooks, true),
        LC_FAULT(three_readers, "race_block", hooks, true),
        LC_FAULT(tail_in_place, "race_block", hooks, true),
        LC_FAULT(divergent_shuffle, "warp_mask", always, true),
        LC_FAULT(shuffle_from_exited, "warp_mask", always, true),
        LC_FAULT(shuffle_outside_mask, "warp_mask", always, true),
        LC_FAULT(lane_not_in_mask, "warp_mask", always, true),
        LC_FAULT(block_too_large, "launch_limit", always, false),
        LC_FAULT(grid_too_tall, "launch_limit", always, false),
        LC_FAULT(too_much_dynamic_shared, "launch_limit", always, false),
        LC_FAULT(too_much_static_shared, "launch_limit", always, true),
        LC_FAULT(too_much_shared_together, "launch_limit", always, true),
        LC_FAULT(missing_stream_wait, "unsynchronised", hooks, true),
        LC_FAULT(copy_beside_kernel, "unsynchronised", hooks, true),
        LC_FAULT(two_copies_two_streams, "unsynchronised", always, false),
        LC_FAULT(host_reads_before_sync, "unsynchronised", value, false),
        LC_FAULT(host_changes_source, "unsynchronised", always, false),
        LC_FAULT(host_writes_destination, "unsynchronised", always, false),
        LC_FAULT(host_dereferences_device, "host_pointer", death, false),
        LC_FAULT(copy_past_end, "out_of_bounds", always, false),
        LC_FAULT(copy_after_free, "use_after_free", always, false),
        LC_FAULT(copy_wrong_direction, "host_pointer", always, false),
        LC_FAULT(free_twice, "use_after_free", always, false),
    };
    return list;
}

}  // namespace lc::LC_CUDA_NS

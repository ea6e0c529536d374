// cuda_api.h -- the part of the CUDA runtime API that our host code uses, on the simulator.  These are ordinary C++
// functions and types of our own behind the familiar names, so that a program may hold the real runtime as well.
#pragma once
#include <cstddef>

namespace cusim {

enum class Error : int {
    success = 0,
    invalid_value = 1,
    memory_allocation = 2,
    invalid_device = 101,
    invalid_handle = 400,
};
enum class CopyKind : int { host_to_host, host_to_device, device_to_host, device_to_device };

struct StreamQueue;
struct EventMark;

struct DeviceProperties {
    char name[256];
    size_t totalGlobalMem;
    int major, minor;
    int multiProcessorCount;
};

}  // namespace cusim

using cudaError_t = cusim::Error;
constexpr cudaError_t cudaSuccess = cusim::Error::success;
constexpr cudaError_t cudaErrorInvalidValue = cusim::Error::invalid_value;
constexpr cudaError_t cudaErrorMemoryAllocation = cusim::Error::memory_allocation;
constexpr cudaError_t cudaErrorInvalidDevice = cusim::Error::invalid_device;
constexpr cudaError_t cudaErrorInvalidResourceHandle = cusim::Error::invalid_handle;
cudaError_t cudaGetLastError();
const char* cudaGetErrorString(cudaError_t e);
const char* cudaGetErrorName(cudaError_t e);

using cudaDeviceProp = cusim::DeviceProperties;
cudaError_t cudaGetDeviceCount(int* count);
cudaError_t cudaSetDevice(int device);
cudaError_t cudaGetDevice(int* device);
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device);

// Allocation gives memory full of 0xFF (NaN), surrounded by redzones.  cudaFree waits for everything queued; it never
// throws, since destructors call it: what goes wrong then is thrown by the next synchronisation.
cudaError_t cudaMalloc(void** p, size_t bytes);
template <class T>
cudaError_t cudaMalloc(T** p, size_t bytes) {
    return cudaMalloc(reinterpret_cast<void**>(p), bytes);
}
cudaError_t cudaFree(void* p);
cudaError_t cudaMemGetInfo(size_t* free, size_t* total);

// Streams are queues that run only when the host synchronises: whoever forgets to wait sees it.  The null stream is a
// queue like the others.
using cudaStream_t = cusim::StreamQueue*;
constexpr unsigned cudaStreamNonBlocking = 1;
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* s, unsigned flags);
cudaError_t cudaStreamDestroy(cudaStream_t s);  // runs what is queued on it
cudaError_t cudaStreamSynchronize(cudaStream_t s);
cudaError_t cudaDeviceSynchronize();

// Memory in the order of a stream: a buffer is freed when the stream gets there.
cudaError_t cudaMallocAsync(void** p, size_t bytes, cudaStream_t s);
cudaError_t cudaFreeAsync(void* p, cudaStream_t s);

using cudaMemcpyKind = cusim::CopyKind;
constexpr cudaMemcpyKind cudaMemcpyHostToHost = cusim::CopyKind::host_to_host;
constexpr cudaMemcpyKind cudaMemcpyHostToDevice = cusim::CopyKind::host_to_device;
constexpr cudaMemcpyKind cudaMemcpyDeviceToHost = cusim::CopyKind::device_to_host;
constexpr cudaMemcpyKind cudaMemcpyDeviceToDevice = cusim::CopyKind::device_to_device;
cudaError_t cudaMemcpyAsync(void* dst, const void* src, size_t bytes, cudaMemcpyKind kind, cudaStream_t s = nullptr);
cudaError_t cudaMemsetAsync(void* dst, int value, size_t bytes, cudaStream_t s = nullptr);

using cudaEvent_t = cusim::EventMark*;
constexpr unsigned cudaEventDisableTiming = 2;
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* e, unsigned flags);
cudaError_t cudaEventDestroy(cudaEvent_t e);
cudaError_t cudaEventRecord(cudaEvent_t e, cudaStream_t s = nullptr);
cudaError_t cudaStreamWaitEvent(cudaStream_t s, cudaEvent_t e, unsigned flags = 0);

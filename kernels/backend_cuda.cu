// backend_cuda.cu -- memory, copies and streams through the CUDA runtime, and the table of ops.  Compiled by nvcc it is
// the backend "cuda"; compiled by g++ on kernels/sim, where the same runtime calls exist, it is the backend "sim".
#include <cstdlib>
#include <string>
#include <vector>

#include "kernels/backend.h"
#include "kernels/launch.h"

namespace lc {
#ifdef __CUDACC__
bool sync_launches() {
    static const bool on = std::getenv("LC_SYNC_LAUNCHES") != nullptr;
    return on;
}
#endif

namespace LC_CUDA_NS {

const Backend* backend();
std::vector<DeviceInfo> device_list();
void use_device(int index);

namespace {

#define LC_NAME_OF(x) LC_STRINGIFY(x)
constexpr const char* kName = LC_NAME_OF(LC_CUDA_NS);

cudaStream_t stream_of(Stream s) { return static_cast<cudaStream_t>(s); }

void* alloc(size_t bytes) {
    void* p = nullptr;
    const cudaError_t e = cudaMalloc(&p, bytes > 0 ? bytes : 1);  // a null pointer would look like "no buffer"
    if (e == cudaSuccess) return p;
    (void)cudaGetLastError();  // clear it: the program may go on with smaller batches
    throw DeviceError(std::string("no device memory for ") + std::to_string(bytes) + " bytes (" +
                      cudaGetErrorString(e) + "); use a smaller --batch or --device cpu");
}

void release(void* p) { LC_CUDA_CHECK(cudaFree(p)); }

void copy(void* dst, const void* src, size_t bytes, Copy kind, Stream s) {
    if (bytes == 0) return;
    const cudaMemcpyKind direction = kind == Copy::to_device ? cudaMemcpyHostToDevice
                                     : kind == Copy::to_host ? cudaMemcpyDeviceToHost
                                                             : cudaMemcpyDeviceToDevice;
    LC_CUDA_CHECK(cudaMemcpyAsync(dst, src, bytes, direction, stream_of(s)));
}

void zero(void* dst, size_t bytes, Stream s) {
    if (bytes > 0) LC_CUDA_CHECK(cudaMemsetAsync(dst, 0, bytes, stream_of(s)));
}

Stream stream_create() {
    cudaStream_t s;
    LC_CUDA_CHECK(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));  // no hidden ordering with the default stream
    return s;
}
void stream_destroy(Stream s) { LC_CUDA_CHECK(cudaStreamDestroy(stream_of(s))); }
void sync(Stream s) { LC_CUDA_CHECK(cudaStreamSynchronize(stream_of(s))); }

void wait(Stream waiter, Stream before) {
    cudaEvent_t e;
    LC_CUDA_CHECK(cudaEventCreateWithFlags(&e, cudaEventDisableTiming));
    LC_CUDA_CHECK(cudaEventRecord(e, stream_of(before)));
    LC_CUDA_CHECK(cudaStreamWaitEvent(stream_of(waiter), e, 0));
    LC_CUDA_CHECK(cudaEventDestroy(e));  // freed by the runtime once the event has passed
}

#ifndef LC_ARCHS  // what nvcc compiled for, from the Makefile: 80,86,89,90; PTX for the last one
    #define LC_ARCHS 80
#endif
// Machine code runs on its own major version from its minor upwards; PTX runs on everything newer.
bool has_code_for(int major, int minor) {
    int newest = 0;
    for (int arch : {LC_ARCHS}) {
        if (arch / 10 == major && arch % 10 <= minor) return true;
        newest = arch > newest ? arch : newest;
    }
    return major * 10 + minor >= newest;
}

DeviceInfo describe(int index) {
    cudaDeviceProp p;
    LC_CUDA_CHECK(cudaGetDeviceProperties(&p, index));
    const std::string arch = std::to_string(p.major) + std::to_string(p.minor);
    DeviceInfo d{"cuda:" + std::to_string(index),
                 std::string(p.name) + ", " + std::to_string(p.totalGlobalMem >> 30) + " GiB, sm_" + arch};
    d.usable = has_code_for(p.major, p.minor);
    if (!d.usable)
        d.why_not = "this binary holds no code for sm_" + arch + "; build it with `make build ARCHS=" + arch + "`";
    return d;
}

Backend make_backend() {
    Backend b{kName, alloc, release, copy, zero, stream_create, stream_destroy, sync, wait};
#define LC_FILL(op)           \
    b.op.fn = LC_CUDA_NS::op; \
    b.op.backend = kName;
    LC_ALL_OPS(LC_FILL)
#undef LC_FILL
    return b;
}

}  // namespace

const Backend* backend() {
    static const Backend b = make_backend();
    return &b;
}

std::vector<DeviceInfo> device_list() {
    int count = 0;
    const cudaError_t e = cudaGetDeviceCount(&count);
    if (e != cudaSuccess) {
        (void)cudaGetLastError();
        return {{"cuda", "no CUDA device", false, std::string("the CUDA runtime answers: ") + cudaGetErrorString(e)}};
    }
    std::vector<DeviceInfo> list;
    for (int i = 0; i < count; ++i) list.push_back(describe(i));
    return list;
}

void use_device(int index) { LC_CUDA_CHECK(cudaSetDevice(index)); }

}  // namespace LC_CUDA_NS
}  // namespace lc

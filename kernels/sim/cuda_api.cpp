// cuda_api.cpp -- the CUDA runtime API on the simulator: memory, copies, launches, streams, events, the device.
#include "kernels/sim/cuda_api.h"

#include <algorithm>
#include <cstring>

#include "kernels/sim/grid.h"
#include "kernels/sim/memory.h"
#include "kernels/sim/report.h"
#include "kernels/sim/streams.h"

namespace cusim {

using Guard = std::lock_guard<std::mutex>;

namespace {

// ---- copies ---------------------------------------------------------------------------------------------------------

uint64_t checksum(const void* p, size_t bytes) {
    uint64_t sum = 0x9e3779b97f4a7c15u;
    const auto mix = [&](uint64_t word) {
        sum = (sum ^ word) * 0xff51afd7ed558ccdu;
        sum ^= sum >> 32;
    };
    const char* c = static_cast<const char*>(p);
    for (; bytes >= 8; c += 8, bytes -= 8) {
        uint64_t word;
        std::memcpy(&word, c, 8);
        mix(word);
    }
    for (; bytes > 0; ++c, --bytes) mix(uint64_t(static_cast<unsigned char>(*c)));
    return sum;
}

bool all_ff(const void* p, size_t bytes) {
    const auto* c = static_cast<const unsigned char*>(p);
    return std::all_of(c, c + bytes, [](unsigned char x) { return x == 0xff; });
}

void require_host(const void* p, const char* call) {
    if (Arena::get().contains(p)) {
        throw_fault({Kind::host_pointer, call,
                     "the host's side of the copy is device memory: " + Arena::get().describe(p), ""});
    }
}

// Both copies with the host watch its side from now until they run; not where another queued copy will change it first.

void copy_to_device(StreamQueue& s, void* dst, const void* src, size_t bytes) {
    const char* name = "copy to the device";
    Arena::get().require(dst, bytes, name);
    require_host(src, name);
    const bool watched = !device().host_memory_is_queued(src, bytes);
    const auto run = [=, promised = watched ? checksum(src, bytes) : 0] {
        if (watched && checksum(src, bytes) != promised) {
            throw_fault({Kind::unsynchronised, name,
                         "the host changed the source of a copy to " + Arena::get().describe(dst) +
                             " before the copy ran: synchronise before the memory is used again",
                         ""});
        }
        std::memcpy(dst, src, bytes);
        Arena::get().mark_written(dst, bytes);
    };
    device().enqueue(s, name, {{static_cast<char*>(dst), bytes, true}}, run,
                     {static_cast<const char*>(src), bytes, false});
}

void copy_to_host(StreamQueue& s, void* dst, const void* src, size_t bytes) {
    const char* name = "copy to the host";
    Arena::get().require(src, bytes, name);
    require_host(dst, name);
    const bool watched = !device().host_memory_is_queued(dst, bytes);
    if (watched) std::memset(dst, 0xff, bytes);  // what a host that does not wait will find
    const auto run = [=] {
        if (watched && !all_ff(dst, bytes)) {
            throw_fault({Kind::unsynchronised, name,
                         "the host wrote to the destination of a copy from " + Arena::get().describe(src) +
                             " before the copy ran: synchronise first",
                         ""});
        }
        std::memcpy(dst, src, bytes);
    };
    device().enqueue(s, name, {{static_cast<const char*>(src), bytes, false}}, run,
                     {static_cast<char*>(dst), bytes, true});
}

void copy_on_device(StreamQueue& s, void* dst, const void* src, size_t bytes) {
    const char* name = "copy on the device";
    Arena::get().require(dst, bytes, name);
    Arena::get().require(src, bytes, name);
    const auto run = [=] {
        std::memmove(dst, src, bytes);
        Arena::get().copy_marks(dst, src, bytes);
    };
    device().enqueue(s, name, {{static_cast<const char*>(src), bytes, false}, {static_cast<char*>(dst), bytes, true}},
                     run);
}

}  // namespace

void enqueue_launch(LaunchRequest request, void* stream) {
    const Guard guard(device().lock);
    Arena::get();
    auto launch = std::make_shared<const Launch>(prepare_launch(std::move(request)));
    device().enqueue(device().of(static_cast<StreamQueue*>(stream)), launch->name, {},
                     [launch] { run_launch(*launch); });
}

}  // namespace cusim

// ---- the CUDA runtime API -------------------------------------------------------------------------------------------

using cusim::Arena;
using cusim::device;
using cusim::Guard;

cudaError_t cudaMalloc(void** p, size_t bytes) {
    const Guard guard(device().lock);
    *p = bytes == 0 ? nullptr : Arena::get().allocate(bytes);
    return bytes == 0 || *p != nullptr ? cudaSuccess : cudaErrorMemoryAllocation;
}

cudaError_t cudaFree(void* p) {
    const Guard guard(device().lock);
    if (p == nullptr) return cudaSuccess;
    device().release_quietly(p);
    return cudaSuccess;
}

cudaError_t cudaMallocAsync(void** p, size_t bytes, cudaStream_t) { return cudaMalloc(p, bytes); }

cudaError_t cudaFreeAsync(void* p, cudaStream_t s) {
    const Guard guard(device().lock);
    if (p == nullptr) return cudaSuccess;
    device().enqueue(device().of(s), "free", {{static_cast<char*>(p), 1, true}}, [p] { Arena::get().release(p); });
    return cudaSuccess;
}

cudaError_t cudaMemGetInfo(size_t* free, size_t* total) {
    *total = cusim::kArenaBytes;
    *free = cusim::kArenaBytes - Arena::get().bytes_in_use();
    return cudaSuccess;
}

cudaError_t cudaMemcpyAsync(void* dst, const void* src, size_t bytes, cudaMemcpyKind kind, cudaStream_t s) {
    const Guard guard(device().lock);
    if (bytes == 0) return cudaSuccess;
    cusim::StreamQueue& stream = device().of(s);
    switch (kind) {
        case cudaMemcpyHostToDevice:
            cusim::copy_to_device(stream, dst, src, bytes);
            return cudaSuccess;
        case cudaMemcpyDeviceToHost:
            cusim::copy_to_host(stream, dst, src, bytes);
            return cudaSuccess;
        case cudaMemcpyDeviceToDevice:
            cusim::copy_on_device(stream, dst, src, bytes);
            return cudaSuccess;
        case cudaMemcpyHostToHost:
            break;
    }
    return cudaErrorInvalidValue;
}

cudaError_t cudaMemsetAsync(void* dst, int value, size_t bytes, cudaStream_t s) {
    const Guard guard(device().lock);
    if (bytes == 0) return cudaSuccess;
    Arena::get().require(dst, bytes, "memset");
    const auto run = [=] {
        std::memset(dst, value, bytes);
        Arena::get().mark_written(dst, bytes);
    };
    device().enqueue(device().of(s), "memset", {{static_cast<char*>(dst), bytes, true}}, run);
    return cudaSuccess;
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* s, unsigned) {
    const Guard guard(device().lock);
    *s = device().create();
    return cudaSuccess;
}
cudaError_t cudaStreamDestroy(cudaStream_t s) {
    const Guard guard(device().lock);
    if (s == nullptr) return cudaErrorInvalidResourceHandle;
    device().destroy(s);
    return cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t s) {
    const Guard guard(device().lock);
    device().sync(device().of(s));
    return cudaSuccess;
}
cudaError_t cudaDeviceSynchronize() {
    const Guard guard(device().lock);
    device().sync_all();
    return cudaSuccess;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* e, unsigned) {
    *e = new cusim::EventMark;
    return cudaSuccess;
}
cudaError_t cudaEventDestroy(cudaEvent_t e) {
    delete e;  // waits took what they need when they were queued
    return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t e, cudaStream_t s) {
    const Guard guard(device().lock);
    device().record(*e, device().of(s));
    return cudaSuccess;
}
cudaError_t cudaStreamWaitEvent(cudaStream_t s, cudaEvent_t e, unsigned) {
    const Guard guard(device().lock);
    device().wait(device().of(s), *e);
    return cudaSuccess;
}

// ---- the device -----------------------------------------------------------------------------------------------------

cudaError_t cudaGetDeviceCount(int* count) {
    *count = 1;
    return cudaSuccess;
}
cudaError_t cudaSetDevice(int index) { return index == 0 ? cudaSuccess : cudaErrorInvalidDevice; }
cudaError_t cudaGetDevice(int* index) {
    *index = 0;
    return cudaSuccess;
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int index) {
    if (index != 0) return cudaErrorInvalidDevice;
    *properties = {"simulated CUDA device", cusim::kArenaBytes, 8, 0, 1};
    return cudaSuccess;
}

cudaError_t cudaGetLastError() { return cudaSuccess; }  // what goes wrong in a launch is thrown
const char* cudaGetErrorName(cudaError_t e) {
    switch (e) {
        case cudaSuccess:
            return "cudaSuccess";
        case cudaErrorInvalidValue:
            return "cudaErrorInvalidValue";
        case cudaErrorMemoryAllocation:
            return "cudaErrorMemoryAllocation";
        case cudaErrorInvalidDevice:
            return "cudaErrorInvalidDevice";
        case cudaErrorInvalidResourceHandle:
            return "cudaErrorInvalidResourceHandle";
    }
    return "?";
}
const char* cudaGetErrorString(cudaError_t e) {
    switch (e) {
        case cudaSuccess:
            return "no error";
        case cudaErrorInvalidValue:
            return "invalid argument";
        case cudaErrorMemoryAllocation:
            return "out of memory";
        case cudaErrorInvalidDevice:
            return "invalid device ordinal";
        case cudaErrorInvalidResourceHandle:
            return "invalid resource handle";
    }
    return "?";
}

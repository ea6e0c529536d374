// streams.cpp -- streams as queues that run only when the host waits for them, and the rest of the CUDA runtime API.
//
// A GPU may run queued work at any time after it was queued; here it runs as late as it may.  So a host that reads a result
// too early reads the 0xFF that the copy put there when it was queued, and a source that changes too early is noticed.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

#include "kernels/sim/cuda_api.h"
#include "kernels/sim/grid.h"
#include "kernels/sim/history.h"
#include "kernels/sim/memory.h"
#include "kernels/sim/report.h"

namespace cusim {

struct Operation {
    PastOperation what;                          // name, place in its stream, device memory it touches
    VectorClock before;                          // what it is ordered behind
    std::function<void()> run;                   // empty for a wait
    std::optional<std::pair<int, uint64_t>> wait_for;  // stream, index
};

struct StreamQueue {
    int id = 0;
    uint64_t count = 0;  // operations ever queued
    VectorClock clock;   // what an operation queued now would be ordered behind
    std::deque<Operation> queue;
};

struct EventMark {
    int stream = -1;  // never recorded
    uint64_t index = 0;
    VectorClock clock;
};

namespace {

class Device {
  public:
    StreamQueue& of(StreamQueue* s) { return s == nullptr ? *streams_.at(0) : *s; }
    StreamQueue* create();
    void destroy(StreamQueue* s);

    void enqueue(StreamQueue& s, std::string name, std::vector<MemoryRange> ranges, std::function<void()> run);
    void record(EventMark& e, StreamQueue& s);
    void wait(StreamQueue& s, const EventMark& e);

    void sync(StreamQueue& s);
    void sync_all();
    // For what destructors call: a fault waits for the next sync.
    void sync_quietly(StreamQueue* only);
    void release_quietly(void* p);
    void drop_everything();
    void say_what_never_ran();  // at exit

    std::mutex lock;

  private:
    void run_until(StreamQueue& s, uint64_t index);
    void execute(Operation& op);
    void finish();
    void throw_pending();

    std::map<int, std::unique_ptr<StreamQueue>> streams_ = null_stream();
    int last_id_ = 0;
    VectorClock host_;  // what the host has waited for
    std::exception_ptr pending_;

    static std::map<int, std::unique_ptr<StreamQueue>> null_stream() {
        std::map<int, std::unique_ptr<StreamQueue>> m;
        m[0] = std::make_unique<StreamQueue>();
        return m;
    }
};

Device& device() {
    static auto* d = [] {
        std::atexit([] { device().say_what_never_ran(); });
        return new Device;  // never destroyed: buffers of static objects may outlive it
    }();
    return *d;
}

// ---- queues ---------------------------------------------------------------------------------------------------------

StreamQueue* Device::create() {
    auto s = std::make_unique<StreamQueue>();
    s->id = ++last_id_;
    return (streams_[s->id] = std::move(s)).get();
}

void Device::destroy(StreamQueue* s) {
    sync_quietly(s);
    streams_.erase(s->id);
}

void Device::enqueue(StreamQueue& s, std::string name, std::vector<MemoryRange> ranges, std::function<void()> run) {
    s.clock.join(host_);
    Operation op{{std::move(name), s.id, ++s.count, std::move(ranges)}, s.clock, std::move(run), std::nullopt};
    s.clock.advance(s.id, s.count);
    s.queue.push_back(std::move(op));
}

void Device::record(EventMark& e, StreamQueue& s) {
    e.stream = s.id;
    e.index = s.count;
    e.clock = s.clock;
}

void Device::wait(StreamQueue& s, const EventMark& e) {
    if (e.stream < 0) return;  // as CUDA has it: an event that was never recorded holds nobody up
    enqueue(s, "wait", {}, {});
    s.queue.back().wait_for = {e.stream, e.index};
    s.clock.join(e.clock);
}

// ---- running --------------------------------------------------------------------------------------------------------

void Device::execute(Operation& op) {
    if (op.wait_for) {
        const auto it = streams_.find(op.wait_for->first);  // a destroyed stream has run to its end
        if (it != streams_.end()) run_until(*it->second, op.wait_for->second);
        return;
    }
    watch_reports();
    history().begin(op.what, op.before);
    throw_if_reported();
    op.run();
    history().end();
}

// Waits reach back in time only, so this ends.
void Device::run_until(StreamQueue& s, uint64_t index) {
    while (!s.queue.empty() && s.queue.front().what.index <= index) {
        Operation op = std::move(s.queue.front());
        s.queue.pop_front();
        execute(op);
    }
}

void Device::drop_everything() {
    for (auto& [id, s] : streams_) s->queue.clear();
    finish();
}

// Where nothing is queued any more, all that ran is ordered before all that will come: the books can be closed.
void Device::finish() {
    for (const auto& [id, s] : streams_) {
        if (!s->queue.empty()) return;
    }
    history().clear();
    host_.clear();
    for (const auto& [id, s] : streams_) s->clock.clear();
}

void Device::say_what_never_ran() {
    size_t left = 0;
    for (const auto& [id, s] : streams_) left += s->queue.size();
    if (left > 0) std::fprintf(stderr, "cusim: %zu operations were queued and never synchronised: they did not run\n", left);
    if (pending_) std::fprintf(stderr, "cusim: a fault came up while memory was freed and nobody synchronised after it\n");
}

void Device::throw_pending() {
    if (pending_) std::rethrow_exception(std::exchange(pending_, nullptr));
}

void Device::sync(StreamQueue& s) {
    throw_pending();
    const ArenaAccess access;
    try {
        run_until(s, s.count);
    } catch (...) {
        drop_everything();
        throw;
    }
    host_.join(s.clock);
    finish();
}

void Device::sync_all() {
    throw_pending();
    std::vector<StreamQueue*> order;
    for (auto& [id, s] : streams_) order.push_back(s.get());
    if (config().order == Order::reverse) std::reverse(order.begin(), order.end());
    uint64_t state = config().seed;
    if (config().order == Order::random) shuffle_order(order.data(), order.size(), state);
    for (StreamQueue* s : order) sync(*s);
}

void Device::sync_quietly(StreamQueue* only) {
    // An exception on its way has already destroyed what queued copies read and write on the host.
    if (std::uncaught_exceptions() > 0) return drop_everything();
    const std::exception_ptr earlier = std::exchange(pending_, nullptr);
    try {
        if (only != nullptr) sync(*only);
        else sync_all();
    } catch (...) {
        pending_ = std::current_exception();
    }
    if (earlier) pending_ = earlier;
}

void Device::release_quietly(void* p) {
    sync_quietly(nullptr);
    try {
        Arena::get().release(p);
    } catch (...) {
        if (!pending_) pending_ = std::current_exception();
    }
}

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
        throw_fault({Kind::host_pointer, call, "the host's side of the copy is device memory: " + Arena::get().describe(p), ""});
    }
}

void copy_to_device(StreamQueue& s, void* dst, const void* src, size_t bytes) {
    const char* name = "copy to the device";
    Arena::get().require(dst, bytes, name);
    require_host(src, name);
    const auto run = [=, promised = checksum(src, bytes)] {
        if (checksum(src, bytes) != promised) {
            throw_fault({Kind::unsynchronised, name,
                         "the host changed the source of a copy to " + Arena::get().describe(dst) +
                             " before the copy ran: synchronise before the memory is used again", ""});
        }
        std::memcpy(dst, src, bytes);
        Arena::get().mark_written(dst, bytes);
    };
    device().enqueue(s, name, {{static_cast<char*>(dst), bytes, true}}, run);
}

void copy_to_host(StreamQueue& s, void* dst, const void* src, size_t bytes) {
    const char* name = "copy to the host";
    Arena::get().require(src, bytes, name);
    require_host(dst, name);
    std::memset(dst, 0xff, bytes);  // what a host that does not wait will find
    const auto run = [=] {
        if (!all_ff(dst, bytes)) {
            throw_fault({Kind::unsynchronised, name,
                         "the host wrote to the destination of a copy from " + Arena::get().describe(src) +
                             " before the copy ran: synchronise first", ""});
        }
        std::memcpy(dst, src, bytes);
    };
    device().enqueue(s, name, {{static_cast<const char*>(src), bytes, false}}, run);
}

void copy_on_device(StreamQueue& s, void* dst, const void* src, size_t bytes) {
    const char* name = "copy on the device";
    Arena::get().require(dst, bytes, name);
    Arena::get().require(src, bytes, name);
    const auto run = [=] {
        std::memmove(dst, src, bytes);
        Arena::get().copy_marks(dst, src, bytes);
    };
    device().enqueue(s, name, {{static_cast<const char*>(src), bytes, false}, {static_cast<char*>(dst), bytes, true}}, run);
}

using Guard = std::lock_guard<std::mutex>;

}  // namespace

void enqueue_launch(LaunchRequest request, void* stream) {
    const Guard guard(device().lock);
    Arena::get();
    auto launch = std::make_shared<const Launch>(prepare_launch(std::move(request)));
    device().enqueue(device().of(static_cast<StreamQueue*>(stream)), launch->name, {}, [launch] { run_launch(*launch); });
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
        case cudaMemcpyHostToDevice: cusim::copy_to_device(stream, dst, src, bytes); return cudaSuccess;
        case cudaMemcpyDeviceToHost: cusim::copy_to_host(stream, dst, src, bytes); return cudaSuccess;
        case cudaMemcpyDeviceToDevice: cusim::copy_on_device(stream, dst, src, bytes); return cudaSuccess;
        case cudaMemcpyHostToHost: break;
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
        case cudaSuccess: return "cudaSuccess";
        case cudaErrorInvalidValue: return "cudaErrorInvalidValue";
        case cudaErrorMemoryAllocation: return "cudaErrorMemoryAllocation";
        case cudaErrorInvalidDevice: return "cudaErrorInvalidDevice";
        case cudaErrorInvalidResourceHandle: return "cudaErrorInvalidResourceHandle";
    }
    return "?";
}
const char* cudaGetErrorString(cudaError_t e) {
    switch (e) {
        case cudaSuccess: return "no error";
        case cudaErrorInvalidValue: return "invalid argument";
        case cudaErrorMemoryAllocation: return "out of memory";
        case cudaErrorInvalidDevice: return "invalid device ordinal";
        case cudaErrorInvalidResourceHandle: return "invalid resource handle";
    }
    return "?";
}

// streams.h -- inside the runtime: streams as queues that run only when the host waits for them.
//
// A GPU may run queued work at any time after it was queued; here it runs as late as it may.  So a host that reads a
// result too early reads the 0xFF that the copy put there when it was queued, and a source that changes too early is
// noticed.
#pragma once
#include <deque>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "kernels/sim/cuda_api.h"
#include "kernels/sim/history.h"

namespace cusim {

struct Operation {
    PastOperation what;                                // name, place in its stream, device memory it touches
    VectorClock before;                                // what it is ordered behind
    std::function<void()> run;                         // empty for a wait
    std::optional<std::pair<int, uint64_t>> wait_for;  // stream, index
    MemoryRange host;                                  // the host's side of a copy
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

class Device {
  public:
    StreamQueue& of(StreamQueue* s) { return s == nullptr ? *streams_.at(0) : *s; }
    StreamQueue* create();
    void destroy(StreamQueue* s);

    void enqueue(StreamQueue& s, std::string name, std::vector<MemoryRange> ranges, std::function<void()> run,
                 MemoryRange host = {nullptr, 0, false});
    bool host_memory_is_queued(const void* p, size_t bytes) const;  // as either side of a copy that has not run
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

Device& device();

}  // namespace cusim

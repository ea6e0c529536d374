// streams.cpp -- see streams.h.
#include "kernels/sim/streams.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "kernels/sim/block.h"
#include "kernels/sim/memory.h"
#include "kernels/sim/report.h"

namespace cusim {

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

void Device::enqueue(StreamQueue& s, std::string name, std::vector<MemoryRange> ranges, std::function<void()> run,
                     MemoryRange host) {
    s.clock.join(host_);
    Operation op{{std::move(name), s.id, ++s.count, std::move(ranges)}, s.clock, std::move(run), std::nullopt, host};
    s.clock.advance(s.id, s.count);
    s.queue.push_back(std::move(op));
}

bool Device::host_memory_is_queued(const void* p, size_t bytes) const {
    for (const auto& [id, s] : streams_) {
        for (const Operation& op : s->queue) {
            if (overlap(op.host, p, bytes)) return true;
        }
    }
    return false;
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
    if (left > 0)
        std::fprintf(stderr, "cusim: %zu operations were queued and never synchronised: they did not run\n", left);
    if (pending_)
        std::fprintf(stderr, "cusim: a fault came up while memory was freed and nobody synchronised after it\n");
}

void Device::throw_pending() {
    if (pending_) std::rethrow_exception(std::exchange(pending_, nullptr));
}

void Device::sync(StreamQueue& s) {
    throw_pending();
    if (!s.queue.empty()) {
        const ArenaAccess access;
        try {
            run_until(s, s.count);
        } catch (...) {
            drop_everything();
            throw;
        }
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
        if (only != nullptr)
            sync(*only);
        else
            sync_all();
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

}  // namespace cusim

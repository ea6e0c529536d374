// history.cpp -- see history.h.
#include "kernels/sim/history.h"

#include <algorithm>

#include "kernels/sim/checks.h"
#include "kernels/sim/memory.h"
#include "kernels/sim/report.h"

namespace cusim {

History& history() {
    static auto* h = new History;
    return *h;
}

bool overlap(const MemoryRange& r, const void* p, size_t bytes) {
    const char* c = static_cast<const char*>(p);
    return c < r.begin + r.bytes && r.begin < c + bytes;
}

void History::begin(PastOperation op, const VectorClock& before) {
    concurrent_.clear();
    copies_beside_ = false;
    for (const auto& [stream, operations] : past_) {
        if (stream == op.stream) continue;
        const uint64_t known = before.count(stream);
        for (auto it = operations.rbegin(); it != operations.rend() && it->index > known; ++it) {
            concurrent_.push_back(&*it);
            copies_beside_ |= !it->ranges.empty();
        }
    }
    op.first_phase = check_clock.now + 1;
    if (!concurrent_.empty()) check_ranges(op);
    past_[op.stream].push_back(std::move(op));
    current_ = &past_[op.stream].back();
}

void History::end() { current_->end_phase = check_clock.now; }

void History::clear() {
    past_.clear();
    concurrent_.clear();
    copies_beside_ = false;
    forget_atomics();
}

uint32_t History::first_concurrent_phase(uint32_t otherwise) const {
    uint32_t first = otherwise;
    for (const PastOperation* p : concurrent_) first = std::min(first, p->first_phase);
    return first;
}

const PastOperation* History::concurrent_at(uint32_t phase) const {
    for (const PastOperation* p : concurrent_) {
        if (phase >= p->first_phase && phase <= p->end_phase) return p;
    }
    return nullptr;
}

const PastOperation* History::concurrent_copy(const void* p, size_t bytes, bool write) const {
    for (const PastOperation* other : concurrent_) {
        for (const MemoryRange& r : other->ranges) {
            if ((write || r.write) && overlap(r, p, bytes)) return other;
        }
    }
    return nullptr;
}

// A copy against what ran beside it: other copies by their ranges, kernels by what the shadow remembers of them.
void History::check_ranges(const PastOperation& op) const {
    for (const MemoryRange& r : op.ranges) {
        const PastOperation* other = concurrent_copy(r.begin, r.bytes, r.write);
        const ShadowSpan shadow = Arena::get().shadow();
        const size_t first = Arena::get().offset_of(r.begin) / 4,
                     last = Arena::get().offset_of(r.begin + r.bytes - 1) / 4;
        for (size_t word = first; shadow.cells != nullptr && other == nullptr && word <= last; ++word) {
            const Cell& c = shadow.cells[word];
            other = concurrent_at(c.writer.phase);
            if (other == nullptr && r.write) other = concurrent_at(c.readers.last.phase);
        }
        if (other == nullptr) continue;
        report({Kind::unsynchronised, op.name,
                "touches " + Arena::get().describe(r.begin) + ", as " + other->name +
                    " on another stream does, and neither stream waits for the other",
                ""},
               other->name);
    }
}

}  // namespace cusim

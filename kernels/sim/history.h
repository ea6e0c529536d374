// history.h -- inside the runtime: which operations on streams are ordered, and which only happened to run one after
// the other.  Two that touch the same memory without an order between them are a finding.
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace cusim {

// For each stream, how many of its operations are known to be finished.
class VectorClock {
  public:
    void join(const VectorClock& o) {
        for (const auto& [stream, count] : o.seen_) advance(stream, count);
    }
    void advance(int stream, uint64_t count) {
        uint64_t& c = seen_[stream];
        if (count > c) c = count;
    }
    uint64_t count(int stream) const {
        const auto it = seen_.find(stream);
        return it == seen_.end() ? 0 : it->second;
    }
    void clear() { seen_.clear(); }

  private:
    std::map<int, uint64_t> seen_;
};

struct MemoryRange {
    const char* begin;
    size_t bytes;
    bool write;
};

bool overlap(const MemoryRange& r, const void* p, size_t bytes);

struct PastOperation {
    std::string name;  // of the kernel, or "copy to the device"
    int stream;
    uint64_t index;                   // place in its stream, from 1
    std::vector<MemoryRange> ranges;  // device memory it touches; empty for kernels, whose accesses are in the shadow
    uint32_t first_phase = 0, end_phase = 0;  // kernels
};

class History {
  public:
    // An operation gets its turn.  `before` is what it is ordered behind.
    void begin(PastOperation op, const VectorClock& before);
    void end();
    void clear();  // nothing is queued: whatever comes is ordered behind all that was

    // Asked while an operation runs.
    uint32_t first_concurrent_phase(uint32_t otherwise) const;
    const PastOperation* concurrent_at(uint32_t phase) const;  // a kernel
    bool copies_beside() const { return copies_beside_; }
    const PastOperation* concurrent_copy(const void* p, size_t bytes, bool write) const;

  private:
    void check_ranges(const PastOperation& op) const;
    std::map<int, std::vector<PastOperation>> past_;  // by stream, in order
    std::vector<const PastOperation*> concurrent_;    // beside the one that runs; of other streams only
    bool copies_beside_ = false;
    PastOperation* current_ = nullptr;
};
History& history();

}  // namespace cusim

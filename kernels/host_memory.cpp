// host_memory.cpp -- see host_memory.h.
#include "kernels/host_memory.h"

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <mutex>
#include <unordered_map>

namespace lc::cpu {
namespace {

constexpr size_t kAlignment = 256;
#ifdef LC_SANITIZED
constexpr size_t kLarge = SIZE_MAX;  // keep nothing: a sanitizer has to see every block come and go
#else
constexpr size_t kLarge = size_t(1) << 20;
#endif

class Blocks {
  public:
    void* take(size_t bytes) {
        const std::lock_guard lock(mutex_);
        const auto fit = kept_.lower_bound(bytes);
        if (fit != kept_.end() && fit->first <= bytes + bytes / 4) {
            const auto [size, p] = *fit;
            kept_.erase(fit);
            state_.kept -= size;
            return use(p, size);
        }
        const size_t used = state_.used + bytes;
        keep_at_most(std::max(state_.most_used, used) - used);
        void* p = std::aligned_alloc(kAlignment, bytes);
        if (p == nullptr && !kept_.empty()) {
            keep_at_most(0);
            p = std::aligned_alloc(kAlignment, bytes);
        }
        return p == nullptr ? nullptr : use(p, bytes);
    }

    bool give_back(void* p) {  // false: not one of these
        const std::lock_guard lock(mutex_);
        const auto at = used_.find(p);
        if (at == used_.end()) return false;
        state_.used -= at->second;
        state_.kept += at->second;
        kept_.emplace(at->second, p);
        used_.erase(at);
        return true;
    }

    HostMemory state() {
        const std::lock_guard lock(mutex_);
        return state_;
    }

  private:
    void* use(void* p, size_t size) {
        used_.emplace(p, size);
        state_.used += size;
        state_.most_used = std::max(state_.most_used, state_.used);
        return p;
    }

    void keep_at_most(size_t bytes) {
        while (state_.kept > bytes) {
            const auto smallest = kept_.begin();
            std::free(smallest->second);
            state_.kept -= smallest->first;
            kept_.erase(smallest);
        }
    }

    std::mutex mutex_;
    std::multimap<size_t, void*> kept_;
    std::unordered_map<void*, size_t> used_;
    HostMemory state_;
};

// Never destroyed: arrays with static lifetime are released after it would be.
Blocks& blocks() {
    static Blocks* const all = new Blocks;
    return *all;
}

}  // namespace

void* take_memory(size_t bytes) {
    if (bytes > SIZE_MAX - kAlignment) return nullptr;
    const size_t lines =
        std::max<size_t>(1, (bytes + kAlignment - 1) / kAlignment);  // 0 bytes must be a pointer as well
    const size_t whole = lines * kAlignment;
    return whole < kLarge ? std::aligned_alloc(kAlignment, whole) : blocks().take(whole);
}

void give_back(void* p) {
    if (p != nullptr && !blocks().give_back(p)) std::free(p);
}

HostMemory host_memory() { return blocks().state(); }

}  // namespace lc::cpu

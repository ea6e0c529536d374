// memory.h -- inside the runtime: device memory.  One stretch of addresses; buffers in it are separated by redzones,
// full of NaN when they are new, kept for a while after they are freed, and closed to the host.
#pragma once
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>

#include "kernels/sim/control.h"
#include "kernels/sim/shadow.h"

namespace cusim {

constexpr size_t kArenaBytes = size_t(4) << 30;
constexpr size_t kRedzone = 256;  // and the alignment of buffers, as cudaMalloc has it
// Freed buffers wait this long before their place is used again: long enough to catch a kernel that still holds one,
// short enough that opening and closing the arena, which costs time for every page in use, stays cheap.
constexpr size_t kQuarantineBytes = size_t(8) << 20;
constexpr size_t kQuarantineBuffers = 256;

struct DeviceBuffer {
    size_t offset, bytes;
    std::string name;
    bool freed = false;
};

class Arena {
  public:
    static Arena& get();

    void* allocate(size_t bytes);  // nullptr when there is no room
    void release(void* p);         // throws Fault for anything that is not the start of a live buffer
    void rename(const void* p, const std::string& name);

    bool contains(const void* p) const { return size_t(static_cast<const char*>(p) - base_) < kArenaBytes; }
    size_t offset_of(const void* p) const { return size_t(static_cast<const char*>(p) - base_); }
    size_t bytes_in_use() const { return in_use_; }
    ShadowSpan shadow() { return {base_, cells_, flags_}; }

    // Throws Fault unless [p, p + bytes) lies in one live buffer; `call` is what wants to touch it.
    void require(const void* p, size_t bytes, const char* call) const;
    void mark_written(const void* p, size_t bytes);
    void copy_marks(const void* to, const void* from, size_t bytes);  // bytes never written stay so in a copy

    // The kind of fault that touching an address outside of every live buffer is, and a text for people.
    Kind kind_of_miss(const void* p) const;
    std::string describe(const void* p) const;  // "'x'+40 (1024 bytes)", "16 bytes past the end of 'x' (1024 bytes)"

    // The first buffer whose redzone was written: what builds without hooks see of an overrun.  Mends the redzone.
    std::optional<std::string> take_overrun();

  private:
    Arena();
    const DeviceBuffer* at_or_before(size_t offset) const;
    std::optional<size_t> find_room(size_t bytes);
    void evict_oldest();

    char* base_;
    Cell* cells_ = nullptr;
    uint8_t* flags_ = nullptr;
    std::map<size_t, DeviceBuffer> buffers_;  // by offset; freed ones in quarantine included
    std::deque<size_t> quarantine_;           // offsets, oldest first
    size_t in_use_ = 0, quarantined_ = 0;
    int64_t named_ = 0;
};

// Device memory can be touched while one of these lives, and only then.
class ArenaAccess {
  public:
    ArenaAccess();
    ~ArenaAccess();
    ArenaAccess(const ArenaAccess&) = delete;
    ArenaAccess& operator=(const ArenaAccess&) = delete;
};

}  // namespace cusim

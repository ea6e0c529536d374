// memory.cpp -- see memory.h.
#include "kernels/sim/memory.h"

#include <algorithm>
#include <stdexcept>
#include <sys/mman.h>
#include <utility>

#include "kernels/sim/crash.h"
#include "kernels/sim/fibers.h"
#include "kernels/sim/report.h"

namespace cusim {
namespace {

constexpr size_t kFirstOffset = kPage;  // room before the first buffer, so that a negative index is seen
constexpr size_t kHugePage = size_t(2) << 20;

size_t round_up(size_t n, size_t unit) { return (n + unit - 1) / unit * unit; }

// What a buffer takes from the arena: its bytes, a redzone, and whatever alignment leaves over.
size_t footprint(size_t bytes) { return round_up(bytes + kRedzone, kRedzone); }

void* reserve(size_t bytes, int protection) {
    void* p = mmap(nullptr, bytes, protection, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED) {
        throw std::runtime_error("cusim: cannot reserve " + std::to_string(bytes >> 20) +
                                 " MiB of addresses; is there a limit (ulimit -v)?");
    }
    madvise(p, bytes, MADV_HUGEPAGE);  // opening, closing and filling memory costs time for every page that is there
    return p;
}

// The huge pages that lie wholly inside: only these are ever given back, because a part would leave small pages behind.
std::pair<char*, char*> huge_pages_in(void* begin, void* end) {
    const uintptr_t first = round_up(reinterpret_cast<uintptr_t>(begin), kHugePage);
    const uintptr_t last = reinterpret_cast<uintptr_t>(end) / kHugePage * kHugePage;
    return {reinterpret_cast<char*>(first), reinterpret_cast<char*>(std::max(first, last))};
}
void forget(void* begin, void* end) {
    const auto [first, last] = huge_pages_in(begin, end);
    if (first < last) madvise(first, size_t(last - first), MADV_DONTNEED);
}

int access_depth = 0;

}  // namespace

Cell* map_cells(size_t memory_bytes) {
    return static_cast<Cell*>(reserve(memory_bytes / 4 * sizeof(Cell), PROT_READ | PROT_WRITE));
}
uint8_t* map_flags(size_t memory_bytes) {
    return static_cast<uint8_t*>(reserve(memory_bytes / 4, PROT_READ | PROT_WRITE));
}

// ---- opening and closing --------------------------------------------------------------------------------------------

ArenaAccess::ArenaAccess() {
    void* base = Arena::get().shadow().base;
    if (access_depth++ == 0) mprotect(base, kArenaBytes, PROT_READ | PROT_WRITE);
}
ArenaAccess::~ArenaAccess() {
    void* base = Arena::get().shadow().base;
    if (--access_depth == 0) mprotect(base, kArenaBytes, PROT_NONE);
}

Arena& Arena::get() {
    static auto* arena = new Arena;  // never destroyed: buffers of static objects may outlive it
    return *arena;
}

Arena::Arena() : base_(static_cast<char*>(reserve(kArenaBytes, PROT_NONE))) {
    if (hooked()) {
        cells_ = map_cells(kArenaBytes);
        flags_ = map_flags(kArenaBytes);
    }
    install_crash_handler();
}

// ---- buffers --------------------------------------------------------------------------------------------------------

// First fit: buffers are few, and a low address keeps the shadow small.
std::optional<size_t> Arena::find_room(size_t bytes) {
    size_t start = kFirstOffset;
    for (const auto& [offset, buffer] : buffers_) {
        if (offset - start >= footprint(bytes)) return start;
        start = offset + footprint(buffer.bytes);
    }
    if (kArenaBytes - start >= footprint(bytes)) return start;
    return std::nullopt;
}

void* Arena::allocate(size_t bytes) {
    if (bytes > kArenaBytes) return nullptr;
    std::optional<size_t> offset = find_room(bytes);
    while (!offset && !quarantine_.empty()) {
        evict_oldest();
        offset = find_room(bytes);
    }
    if (!offset) return nullptr;
    buffers_[*offset] = {*offset, bytes, "buffer #" + std::to_string(++named_)};
    in_use_ += bytes;
    const ArenaAccess access;
    char* p = base_ + *offset;
    __asan_unpoison_memory_region(p - kRedzone, footprint(bytes) + kRedzone);
    std::memset(p - kRedzone, 0xff, footprint(bytes) + kRedzone);
    __asan_poison_memory_region(p - kRedzone, kRedzone);
    __asan_poison_memory_region(p + bytes, footprint(bytes) - bytes);
    if (flags_ != nullptr) {
        mark(flags_, *offset, bytes, kExists, true);
        mark(flags_, *offset, bytes, kWritten, false);
    }
    return p;
}

void Arena::release(void* p) {
    const auto it = contains(p) ? buffers_.find(offset_of(p)) : buffers_.end();
    if (it == buffers_.end() || it->second.freed) {
        const bool twice = it != buffers_.end();
        throw_fault({twice ? Kind::use_after_free : Kind::host_pointer, "cudaFree",
                     twice ? it->second.name + " is freed twice" : "the pointer is not the start of a device buffer",
                     ""});
    }
    DeviceBuffer& b = it->second;
    b.freed = true;
    in_use_ -= b.bytes;
    char *const begin = static_cast<char*>(p), *const end = begin + b.bytes;
    const auto [first, last] = huge_pages_in(begin, end);
    forget(begin, end);  // these read as zero from now on, and whoever reads on elsewhere reads NaN
    {
        const ArenaAccess access;
        std::memset(begin, 0xff, size_t(std::min(first, end) - begin));
        if (last < end) std::memset(last, 0xff, size_t(end - last));
    }
    __asan_poison_memory_region(p, b.bytes);
    if (flags_ != nullptr) mark(flags_, b.offset, b.bytes, kExists | kWritten, false);
    quarantine_.push_back(b.offset);
    quarantined_ += b.bytes;
    while (quarantined_ > kQuarantineBytes || quarantine_.size() > kQuarantineBuffers) evict_oldest();
}

void Arena::evict_oldest() {
    const DeviceBuffer b = buffers_.at(quarantine_.front());
    quarantine_.pop_front();
    quarantined_ -= b.bytes;
    buffers_.erase(b.offset);
    if (cells_ != nullptr) forget(cells_ + b.offset / 4, cells_ + (b.offset + b.bytes) / 4);
}

void Arena::rename(const void* p, const std::string& name) {
    const auto it = contains(p) ? buffers_.find(offset_of(p)) : buffers_.end();
    if (it == buffers_.end()) throw std::invalid_argument("cusim: name_buffer wants the start of a device buffer");
    it->second.name = std::string("'").append(name).append("'");
}
void name_buffer(const void* p, const std::string& name) { Arena::get().rename(p, name); }

// ---- questions ------------------------------------------------------------------------------------------------------

const DeviceBuffer* Arena::at_or_before(size_t offset) const {
    auto it = buffers_.upper_bound(offset);
    return it == buffers_.begin() ? nullptr : &(--it)->second;
}

Kind Arena::kind_of_miss(const void* p) const {
    if (!contains(p)) return Kind::host_pointer;
    const DeviceBuffer* b = at_or_before(offset_of(p));
    const bool inside = b != nullptr && offset_of(p) < b->offset + b->bytes;
    return inside && b->freed ? Kind::use_after_free : Kind::out_of_bounds;
}

std::string Arena::describe(const void* p) const {
    const size_t offset = offset_of(p);
    const DeviceBuffer* b = at_or_before(offset);
    const auto next = buffers_.upper_bound(offset);
    const auto size = [](const DeviceBuffer& x) {
        return x.name + " (" + std::to_string(x.bytes) + " bytes" + (x.freed ? ", freed)" : ")");
    };
    if (b != nullptr && offset < b->offset + b->bytes) return size(*b) + " + " + std::to_string(offset - b->offset);
    const size_t past = b != nullptr ? offset - (b->offset + b->bytes) : SIZE_MAX;
    if (next != buffers_.end() && next->first - offset < past) {
        return std::to_string(next->first - offset) + " bytes before the start of " + size(next->second);
    }
    if (b == nullptr) return "device memory where no buffer is";
    return std::to_string(past) + " bytes past the end of " + size(*b);
}

void Arena::require(const void* p, size_t bytes, const char* call) const {
    if (bytes == 0) return;
    if (!contains(p)) throw_fault({Kind::host_pointer, call, "the pointer is not device memory", ""});
    const DeviceBuffer* b = at_or_before(offset_of(p));
    const bool starts_inside = b != nullptr && offset_of(p) < b->offset + b->bytes && !b->freed;
    if (starts_inside && bytes <= b->offset + b->bytes - offset_of(p)) return;
    const Kind kind = starts_inside ? Kind::out_of_bounds : kind_of_miss(p);
    throw_fault({kind, call, std::to_string(bytes) + " bytes at " + describe(p) + " do not lie in a live buffer", ""});
}

void Arena::mark_written(const void* p, size_t bytes) {
    if (flags_ != nullptr) mark(flags_, offset_of(p), bytes, kWritten, true);
}

void Arena::copy_marks(const void* to, const void* from, size_t bytes) {
    if (flags_ == nullptr) return;
    for (size_t i = 0; i < bytes; ++i) {
        const size_t source = offset_of(from) + i;
        const bool written = (flags_[source / 4] & kWritten & (0x11u << source % 4)) != 0;
        mark(flags_, offset_of(to) + i, 1, kWritten, written);
    }
}

std::optional<std::string> Arena::take_overrun() {
    if (CUSIM_ASAN) return std::nullopt;  // the redzones are poisoned: no write gets there
    char untouched[2 * kRedzone];
    std::memset(untouched, 0xff, sizeof(untouched));
    std::optional<std::string> found;
    for (const auto& [offset, b] : buffers_) {
        char* end = base_ + offset + b.bytes;
        const size_t redzone = footprint(b.bytes) - b.bytes;
        for (char* p : {base_ + offset - kRedzone, end}) {
            const size_t length = p == end ? redzone : kRedzone;
            if (std::memcmp(p, untouched, length) == 0) continue;
            const size_t i = size_t(std::find_if(p, p + length, [](char c) { return c != char(0xff); }) - p);
            if (!found) found = describe(p + i);
            std::memset(p, 0xff, length);
        }
    }
    return found;
}

}  // namespace cusim

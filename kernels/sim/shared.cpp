// shared.cpp -- shared memory of the block that an OS thread runs: static arrays are placed when the block first asks
// for them, each with a redzone behind it and NaN in it.
#include <atomic>
#include <stdexcept>
#include <sys/mman.h>

#include "kernels/sim/block.h"
#include "kernels/sim/report.h"

namespace cusim {
namespace {

constexpr size_t kFirstOffset = 1024;  // room before the first array, so that a negative index is seen
constexpr size_t kGap = 128;           // redzone, and the alignment of arrays: bank 0

int id_of(SharedSite& site) {
    static std::atomic<int> count{0};
    std::atomic_ref<int> id(site.id);
    int known = id.load(std::memory_order_acquire);
    if (known != 0) return known;
    int expected = 0;
    known = ++count;
    return id.compare_exchange_strong(expected, known) ? known : expected;
}

std::string size_text(size_t bytes) { return std::to_string(bytes) + " bytes"; }

}  // namespace

SharedMemory::SharedMemory() {
    const size_t total = kSharedGuard + kSharedWindow + kSharedGuard;
    void* p = mmap(nullptr, total, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED) throw std::runtime_error("cusim: no memory for a block's shared memory");
    base_ = static_cast<char*>(p) + kSharedGuard;
    mprotect(base_, kSharedWindow, PROT_READ | PROT_WRITE);
    if (hooked()) {
        cells_ = map_cells(kSharedWindow);
        flags_ = map_flags(kSharedWindow);
    }
}

void SharedMemory::begin_block(size_t dynamic_bytes) {
    for (int id : sites_used_) by_site_[size_t(id)] = nullptr;
    sites_used_.clear();
    if (flags_ != nullptr) {
        for (const SharedArray& a : arrays_) mark(flags_, a.offset, a.bytes, kExists | kWritten, false);
    }
    arrays_.clear();
    __asan_poison_memory_region(base_, used_);
    used_ = kFirstOffset;
    static_bytes_ = 0;
    dynamic_bytes_ = dynamic_bytes;
    dynamic_ = dynamic_bytes == 0 ? nullptr : place("dynamic shared memory", dynamic_bytes);
}

char* SharedMemory::place(const char* name, size_t bytes) {
    const size_t offset = used_;
    used_ = (offset + bytes + kGap + kGap - 1) / kGap * kGap;
    if (used_ > kSharedWindow) throw std::runtime_error("cusim: too many shared arrays in one block");
    char* p = base_ + offset;
    __asan_unpoison_memory_region(p, bytes);
    std::memset(p, 0xff, bytes);
    __asan_poison_memory_region(p + bytes, used_ - offset - bytes);
    arrays_.push_back({name, offset, bytes});
    if (flags_ != nullptr) mark(flags_, offset, bytes, kExists, true);
    return p;
}

void SharedMemory::check_limits(const SharedSite& site) const {
    const size_t together = static_bytes_ + dynamic_bytes_;
    std::string text;
    if (static_bytes_ > kMaxStaticShared) {
        text = "with '" + std::string(site.name) + "' static shared memory is " + size_text(static_bytes_) +
               "; at most " + size_text(kMaxStaticShared) + " are allowed: use dynamic shared memory";
    } else if (together > kMaxShared) {
        text = "static and dynamic shared memory together are " + size_text(together) + "; a block has at most " +
               size_text(kMaxShared);
    }
    if (!text.empty()) {
        throw_fault_in(*t_block->launch, Kind::launch_limit, text, source_place(site.file, site.line));
    }
}

void* SharedMemory::array(SharedSite& site) {
    const auto id = size_t(id_of(site));
    if (id < by_site_.size() && by_site_[id] != nullptr) return by_site_[id];
    static_bytes_ += (site.bytes + 15) / 16 * 16;
    check_limits(site);
    if (id >= by_site_.size()) by_site_.resize(id + 1);
    sites_used_.push_back(int(id));
    return by_site_[id] = place(site.name, site.bytes);
}

std::string SharedMemory::describe(const void* p) const {
    const auto offset = ptrdiff_t(static_cast<const char*>(p) - base_);
    const SharedArray* near = nullptr;
    for (const SharedArray& a : arrays_) {
        if (ptrdiff_t(a.offset) <= offset && (near == nullptr || a.offset > near->offset)) near = &a;
    }
    if (near == nullptr) return "shared memory before the first array";
    const size_t at = size_t(offset) - near->offset;
    const std::string name = "shared '" + std::string(near->name) + "' (" + size_text(near->bytes) + ")";
    return at < near->bytes ? name + " + " + std::to_string(at)
                            : std::to_string(at - near->bytes) + " bytes past the end of " + name;
}

void* shared_static(SharedSite& site) {
    const OffTheRecord hidden(*t_block);
    return t_block->shared.array(site);
}
void* shared_dynamic() { return t_block->shared.dynamic(); }
char* shared_base() { return t_block->shared.base(); }

}  // namespace cusim

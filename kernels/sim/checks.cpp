// checks.cpp -- every access of a hooked kernel comes here: is the memory there, aligned, written before it is read,
// and free of races?  The tests are the same for shared and global memory; shadow.h explains what is remembered.
#include "kernels/sim/checks.h"

#include <algorithm>
#include <stdexcept>

#include "kernels/sim/history.h"
#include "kernels/sim/memory.h"
#include "kernels/sim/report.h"

namespace cusim {

CheckClock check_clock;

namespace {

struct BlockStart {
    uint32_t phase;
    uint3 index;
};
std::vector<BlockStart> block_starts;  // of the running launch, in the order of execution

struct AtomicWord {
    const Cell* cell;
    AccessSet accesses;
};
std::vector<AtomicWord> atomic_words;

// One access as the checks see it.
struct Event {
    Block& block;
    const CudaThread& thread;
    const void* address;
    size_t bytes;
    Use use;
    const void* pc;
    bool shared;
    uint32_t safe;  // records before this phase are no danger

    const char* verb() const {
        return use == Use::read ? "reads" : use == Use::write ? "writes" : "atomically updates";
    }
    std::string target() const { return shared ? block.shared.describe(address) : Arena::get().describe(address); }
};

// Builds the text only for the first of a kind at a place.
template <class Text>
void tell(const Event& e, Kind kind, uint32_t other_pc, Text text) {
    char key[64];
    std::snprintf(key, sizeof(key), "%p %x", e.pc, other_pc);
    if (!is_new(kind, e.block.launch->name, key)) return;
    const std::string place = source_place(e.pc);
    const std::string who = e.block.who(e.thread) + " " + e.verb() + " ";
    report_in(*e.block.launch, kind, who + text() + ", at " + place, place, key);
}

// ---- races ----------------------------------------------------------------------------------------------------------

bool conflicts(const Access& old, const Access& now, const Event& e) {
    if (old.phase < e.safe) return false;
    if (old.phase >= e.block.first_phase) {  // this block
        if (old.phase != now.phase || old.rank() == now.rank()) return false;
        if (old.warp() == now.warp() && old.epoch() != now.epoch()) return false;
        return (old.bytes() & now.bytes()) != 0;
    }
    if ((old.bytes() & now.bytes()) == 0) return false;
    return old.phase >= check_clock.launch_first || history().concurrent_at(old.phase) != nullptr;
}

std::string block_of(uint32_t phase) {
    auto it = std::upper_bound(block_starts.begin(), block_starts.end(), phase,
                               [](uint32_t p, const BlockStart& s) { return p < s.phase; });
    if (it == block_starts.begin()) return "another block";
    const uint3 i = (--it)->index;
    return "block " + index_text(i.x, i.y, i.z);
}

void tell_race(const Event& e, const Access& old, const char* did) {
    const bool same_block = old.phase >= e.block.first_phase;
    const bool same_launch = old.phase >= check_clock.launch_first;
    const Kind kind = same_block ? Kind::race_block : same_launch ? Kind::race_grid : Kind::unsynchronised;
    tell(e, kind, old.pc, [&] {
        std::string text = e.target() + "; thread #" + std::to_string(old.rank()) + " of ";
        if (same_block)
            text += "the block ";
        else if (same_launch)
            text += block_of(old.phase) + " ";
        else
            text += history().concurrent_at(old.phase)->name + " on another stream ";
        text += std::string(did) + " it at " + source_place_low32(old.pc);
        if (same_block) return text + " and no barrier lies between";
        return text + (same_launch ? " and blocks have no order" : " and neither stream waits for the other");
    });
}

void race_with(const Event& e, const AccessSet& others, const Access& now, const char* did) {
    for (const Access* old : {&others.last, &others.warp_mate, &others.other_warp, &others.other_block}) {
        if (conflicts(*old, now, e)) return tell_race(e, *old, did);
    }
}

AccessSet* atomics_of(const Cell& c) {
    if (c.atomics == 0 || c.atomics > atomic_words.size()) return nullptr;
    AtomicWord& w = atomic_words[c.atomics - 1];
    return w.cell == &c ? &w.accesses : nullptr;
}

void race_with_atomics(const Event& e, const Cell& c, const Access& now) {
    if (const AccessSet* set = atomics_of(c)) race_with(e, *set, now, "atomically updated");
}

void check_read(const Event& e, Cell& c, const Access& now) {
    // The same thread again: whatever came between has been compared with its first read.
    if (c.readers.last.phase == now.phase && c.readers.last.who == now.who) return;
    if (conflicts(c.writer, now, e)) tell_race(e, c.writer, "wrote");
    if (c.atomics != 0) race_with_atomics(e, c, now);
    c.readers.add(now, e.block.first_phase);
}

void check_write(const Event& e, Cell& c, const Access& now) {
    if (c.writer.phase == now.phase && c.writer.who == now.who) return;
    if (conflicts(c.writer, now, e))
        tell_race(e, c.writer, "wrote");
    else
        race_with(e, c.readers, now, "read");
    if (c.atomics != 0) race_with_atomics(e, c, now);
    c.writer = now;
}

void check_atomic(const Event& e, Cell& c, const Access& now) {
    if (conflicts(c.writer, now, e))
        tell_race(e, c.writer, "wrote");
    else
        race_with(e, c.readers, now, "read");
    AccessSet* set = atomics_of(c);
    if (set == nullptr) {
        atomic_words.push_back({&c, {}});
        c.atomics = uint32_t(atomic_words.size());
        set = &atomic_words.back().accesses;
    }
    set->add(now, e.block.first_phase);
}

// ---- one access -----------------------------------------------------------------------------------------------------

// Bytes are missing (false: look no further) or were never written.
bool tell_missing(const Event& e, uint8_t flags, uint8_t bytes) {
    const bool exists = (flags & bytes) == bytes;
    const Kind kind = exists     ? Kind::uninitialised
                      : e.shared ? Kind::out_of_bounds
                                 : Arena::get().kind_of_miss(e.address);
    tell(e, kind, 0, [&] {
        const std::string what = std::to_string(e.bytes) + " bytes ";
        return what + (exists ? "that nobody wrote, " : "that do not exist, ") + e.target();
    });
    return exists;
}

void check_words(const Event& e, const ShadowSpan& span, size_t offset) {
    const uint32_t who = Access::pack(e.thread.rank, e.block.warp_epoch[e.thread.rank / kWarp]);
    Access now{e.block.phase, uint32_t(reinterpret_cast<uintptr_t>(e.pc)), 0};
    for (size_t at = offset, end = offset + e.bytes; at < end;) {
        const size_t word = at / 4, next = std::min(end, (word + 1) * 4);
        const auto bytes = uint8_t(((1u << (next - at)) - 1) << at % 4);
        at = next;
        now.who = who | uint32_t(bytes) << 28;
        uint8_t& flags = span.flags[word];
        const uint8_t needed = e.use == Use::write ? bytes : uint8_t(bytes | bytes << 4);
        if ((flags & needed) != needed && !tell_missing(e, flags, bytes)) return;
        switch (e.use) {
            case Use::read:
                check_read(e, span.cells[word], now);
                break;
            case Use::write:
                check_write(e, span.cells[word], now);
                break;
            case Use::atomic:
                check_atomic(e, span.cells[word], now);
                break;
        }
        if (e.use != Use::read) flags |= uint8_t(bytes << 4);
    }
}

void check_streams(const Event& e) {
    const PastOperation* other = history().concurrent_copy(e.address, e.bytes, e.use != Use::read);
    if (other == nullptr) return;
    tell(e, Kind::unsynchronised, 0, [&] {
        return e.target() + "; a " + other->name + " on another stream touches it and neither waits for the other";
    });
}

// Neither shared nor global memory: the thread's own variables, its parameters, constants of the program, or an error.
bool is_allowed_elsewhere(const Block& b, const CudaThread& t, const void* p, Use use) {
    const char* c = static_cast<const char*>(p);
    if (size_t(c - t.stack.base) < kStackBytes) return true;
    if (size_t(c - reinterpret_cast<const char*>(&indices)) < sizeof(indices))
        return true;  // clang++ asks for threadIdx
    if (use != Use::read) return false;
    return size_t(c - b.launch->param_block) < b.launch->params.size() || in_loaded_image(p);
}

void tell_wild_access(const Block& b, const CudaThread& t, const void* p, Use use, const void* pc) {
    const size_t from_guard = size_t(static_cast<const char*>(p) - (b.shared.base() - kSharedGuard));
    const bool near_shared = from_guard < 2 * kSharedGuard + kSharedWindow;
    char address[64];
    std::snprintf(address, sizeof(address), "address %p, which is not device memory", p);
    const std::string place = source_place(pc);
    report_in(*b.launch, near_shared ? Kind::out_of_bounds : Kind::host_pointer,
              b.who(t) + (use == Use::read ? " reads " : " writes ") + (near_shared ? b.shared.describe(p) : address) +
                  ", at " + place,
              place, place);
}

// False: going on would crash or corrupt the host.
bool check(Block& b, CudaThread& t, const void* p, size_t bytes, Use use, const void* pc) {
    const ShadowSpan shared = b.shared.shadow();
    const size_t shared_offset = size_t(static_cast<const char*>(p) - shared.base);
    const bool in_shared = shared_offset + bytes <= kSharedWindow;
    if (!in_shared && !Arena::get().contains(p)) {
        const bool allowed = is_allowed_elsewhere(b, t, p, use);
        if (!allowed) tell_wild_access(b, t, p, use, pc);
        return allowed;
    }
    const Event e{b, t, p, bytes, use, pc, in_shared, in_shared ? b.first_phase : check_clock.safe};
    const uintptr_t address = reinterpret_cast<uintptr_t>(p);
    if (b.profiled) {
        t.log.push_back({pc, in_shared ? shared_offset : address, uint8_t(bytes), use != Use::read, in_shared});
    }
    const bool power_of_two = (bytes & (bytes - 1)) == 0;
    if (power_of_two && address % bytes != 0) {
        tell(e, Kind::misaligned, 0, [&] {
            const std::string unit = std::to_string(bytes);
            return unit + " bytes at an address that is no multiple of " + unit + ", " + e.target();
        });
    }
    if (in_shared) {
        check_words(e, shared, shared_offset);
        return true;
    }
    if (history().copies_beside()) check_streams(e);
    check_words(e, Arena::get().shadow(), Arena::get().offset_of(p));
    return true;
}

}  // namespace

void check_access(const void* p, size_t bytes, Use use, const void* pc) {
    Block* b = t_block;
    if (b == nullptr || b->current() == nullptr) return;
    bool go_on;
    {
        const OffTheRecord hidden(*b);
        go_on = check(*b, *hidden.thread(), p, bytes, use, pc);
    }
    if (!go_on) b->stop();
}

// ---- clocks ---------------------------------------------------------------------------------------------------------

void begin_checked_launch() {
    if (check_clock.now > 0xf0000000u) {
        throw std::runtime_error("cusim: this process has passed four billion barriers; start another one");
    }
    check_clock.launch_first = check_clock.now + 1;
    check_clock.safe = history().first_concurrent_phase(check_clock.launch_first);
    block_starts.clear();
}

void begin_checked_block(Block& b) {
    b.first_phase = b.phase = ++check_clock.now;
    block_starts.push_back({b.phase, b.index});
}

void forget_atomics() { atomic_words.clear(); }

}  // namespace cusim

// shadow.h -- what the checks remember about memory: for every 4-byte word which bytes exist, which were written, and
// who touched it last.
//
// Races are found by happens-before, not by luck of the schedule: two accesses to a word, one of them a write, must be
// separated by a __syncthreads (same block) or by a __syncwarp (same warp).  Shuffles order no memory.
//
// Time is one counter, `phase`: it grows when a block starts, at every barrier and with every launch or copy.  So an
// access's phase alone says whether it belongs to this phase, this block, this launch or to an earlier one.
//
// One reader is not enough: threads 0 and 1 read a word, then thread 1 writes it.  The race is with thread 0, but the
// last reader is thread 1.  Two readers are not enough either: 0, 33 and 32 read, and 32 writes after a __syncwarp
// that orders it behind 33 but not behind 0.  So four are kept, so that whoever writes finds one that it is not
// ordered with, if there is any: the last one, the last other one of its warp, the last one of another warp, the last
// one of another block.
#pragma once
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace cusim {

struct Access {
    uint32_t phase = 0;  // 0: never
    uint32_t pc = 0;     // low half of the address of the instruction; symbols.cpp finds the other half
    uint32_t who = 0;    // rank of the thread (10 bits), epoch of its warp (18 bits), bytes of the word (4 bits)

    static uint32_t pack(uint32_t rank, uint32_t epoch) { return rank | (epoch & 0x3ffff) << 10; }
    uint32_t rank() const { return who & 1023; }
    uint32_t warp() const { return who >> 5 & 31; }
    uint32_t epoch() const { return who >> 10 & 0x3ffff; }
    uint32_t bytes() const { return who >> 28; }
};

struct AccessSet {
    Access last, warp_mate, other_warp, other_block;

    void add(const Access& a, uint32_t block_first_phase) {
        if (last.phase == a.phase) {
            if (last.rank() != a.rank()) (last.warp() == a.warp() ? warp_mate : other_warp) = last;
        } else if (last.phase < block_first_phase) {
            other_block = last;
        }  // else: a barrier of this block lies between, and what was before it is no danger any more
        last = a;
    }
};

struct Cell {  // 64 bytes: one cache line
    Access writer;
    AccessSet readers;
    uint32_t atomics = 0;  // place of this word's AccessSet among those of the launch, plus one (atomics are rare)
};
static_assert(sizeof(Access) == 12 && sizeof(Cell) == 64);

// Shadow of a stretch of memory.  flags, one byte per word: low half = bytes that exist, high half = bytes written.
struct ShadowSpan {
    char* base;
    Cell* cells;
    uint8_t* flags;
};
constexpr uint8_t kExists = 0x0f, kWritten = 0xf0;

// Sets or clears bits of the flags of [offset, offset + bytes), byte by byte at the ragged ends.
inline void mark(uint8_t* flags, size_t offset, size_t bytes, uint8_t bits, bool on) {
    const auto change = [&](uint8_t& f, uint8_t b) { f = on ? f | b : f & uint8_t(~b); };
    const auto bit = [&](size_t at) { return uint8_t(bits & (0x11u << at % 4)); };
    size_t i = offset;
    const size_t end = offset + bytes;
    for (; i < end && i % 4 != 0; ++i) change(flags[i / 4], bit(i));
    for (size_t word = i / 4; word < end / 4; ++word) change(flags[word], bits);
    for (i = i < end / 4 * 4 ? end / 4 * 4 : i; i < end; ++i) change(flags[i / 4], bit(i));
}

Cell* map_cells(size_t memory_bytes);  // zeroed, reserved lazily; for memory of that size
uint8_t* map_flags(size_t memory_bytes);

}  // namespace cusim

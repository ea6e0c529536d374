// checks.h -- inside the runtime: what happens on every access of a hooked kernel.
#pragma once
#include <cstdint>
#include <string>

#include "kernels/sim/block.h"
#include "kernels/sim/shadow.h"

namespace cusim {

enum class Use { read, write, atomic };

// Called before the access happens.  pc is the return address in the kernel.  Does nothing outside of kernels.
void check_access(const void* p, size_t bytes, Use use, const void* pc);

// The clock of all checks (hooked builds run on one OS thread).
struct CheckClock {
    uint32_t now = 0;
    uint32_t launch_first = 0;  // phases of the running launch start here
    uint32_t safe = 0;          // everything before this is ordered before the running launch
};
extern CheckClock check_clock;

void begin_checked_launch();         // a new launch has its turn; streams.cpp has told history.h about it
void begin_checked_block(Block& b);  // a new phase, remembered with the block's index
void forget_atomics();               // when nothing that ran can conflict with anything to come

}  // namespace cusim

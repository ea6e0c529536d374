// host_memory.h -- memory of the CPU backend: large blocks are kept when released and handed out again.
//
// The operating system gives large blocks as pages that it has to clear one by one when they are first touched; a network
// that allocates every layer's output anew waits for that in every layer.  What is kept is bounded: the blocks in use and
// those kept together never exceed what was in use at one time, so a process holds no more than it once needed.
#pragma once
#include <cstddef>

namespace lc::cpu {

void* take_memory(size_t bytes);  // aligned to 256 bytes; nullptr where there is none
void give_back(void* p);

struct HostMemory {  // bytes in blocks that are large enough to be kept
    size_t used = 0, kept = 0, most_used = 0;
};
HostMemory host_memory();

}  // namespace lc::cpu

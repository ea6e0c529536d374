// control.h -- what tests say to the simulator and hear from it.
//
//     cusim::set_order(cusim::Order::random, 7);        // before the launch
//     op(...); backend.sync(stream);                    // throws cusim::Fault if anything was wrong
//     for (const auto& f : cusim::take_findings()) ...  // every finding, with kernel, source line, block and thread
#pragma once
#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

#include "kernels/sim/ptx_registry.h"

namespace cusim {

// ---- how launches run -----------------------------------------------------------------------------------------------

// In which order the threads of a warp, the warps of a block, the blocks of a grid and independent streams run.
// Environment: CUSIM_ORDER=forward|reverse|random, CUSIM_SEED=n.
enum class Order { forward, reverse, random };
void set_order(Order order, uint64_t seed = 1);
const char* name_of(Order order);

bool hooked();  // are kernels linked that were compiled with -fsanitize=thread, so that every access is checked?

// ---- findings -------------------------------------------------------------------------------------------------------

enum class Kind {
    out_of_bounds,
    misaligned,
    use_after_free,
    host_pointer,  // device code touches host memory, or a copy has its directions wrong
    uninitialised,
    race_block,          // two threads of one block, no barrier between
    race_grid,           // two blocks of one launch
    barrier_divergence,  // threads of one block wait at different barriers
    early_exit,          // some threads returned before a barrier that others wait at
    warp_mask,           // a warp operation whose lanes and mask do not agree
    launch_limit,
    unsynchronised,  // two streams, or host and stream, without an order between them
};
const char* name_of(Kind kind);

struct Finding {
    Kind kind;
    std::string kernel;  // name of the kernel, or of the runtime call for copies
    std::string text;    // the whole story in one line
    std::string where;   // "gemm.cu:57" of the access; empty where there is no line (launch limits, copies)
    int64_t count = 1;   // how often it happened
};
std::vector<Finding> take_findings();  // since the last call; each fault once per place
std::vector<Finding> take_warnings();  // uninitialised reads of the PTX engine: nvcc may load padding it never uses

// Thrown when the host synchronises, after a launch that had findings; all queued work is dropped then.
class Fault : public std::runtime_error {
  public:
    Fault(Kind kind, const std::string& text) : std::runtime_error(text), kind_(kind) {}
    Kind kind() const { return kind_; }

  private:
    Kind kind_;
};

void name_buffer(const void* p, const std::string& name);  // findings call buffers by number unless told better

// ---- counters (hooked builds) ---------------------------------------------------------------------------------------

// Counts memory traffic in the first `blocks` blocks of every launch; 0 switches off.  Environment:
// CUSIM_PROFILE=blocks, which also prints the table at exit.
void set_profile(int blocks);

struct LineCounters {
    std::string kernel, where;    // where: "gemm.cu:57"
    bool shared, write, barrier;  // shared or global memory, load or store; or a __syncthreads
    int bytes;                    // per thread
    uint64_t requests = 0;        // warp-wide accesses; for barriers: passes of a block
    uint64_t lanes = 0;           // threads that took part
    uint64_t cost = 0;            // 32-byte sectors (global) or wavefronts (shared)
    uint64_t ideal = 0;           // the fewest that could carry the same distinct bytes
    double ratio() const { return ideal == 0 ? 1.0 : double(cost) / double(ideal); }
};
std::vector<LineCounters> take_profile();
std::string profile_table(const std::vector<LineCounters>& lines);

}  // namespace cusim

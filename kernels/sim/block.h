// block.h -- inside the runtime: a launch that runs, one block of it, and the CUDA threads of that block.
#pragma once
#include <array>
#include <atomic>
#include <string>
#include <utility>
#include <vector>

#include "kernels/sim/control.h"
#include "kernels/sim/engine.h"
#include "kernels/sim/fibers.h"
#include "kernels/sim/shadow.h"

namespace cusim {

constexpr int kWarp = 32;
constexpr int kMaxThreads = 1024;
constexpr int kMaxWarps = kMaxThreads / kWarp;

// ---- a launch ready to run ------------------------------------------------------------------------------------------

struct Launch {
    std::string name;    // "lc::sim::softmax_kernel<4>"
    std::string op;      // the function that launched it
    const void* kernel;  // address of the source kernel
    void (*call)(const void* kernel, const char* params);
    PtxKernel ptx = nullptr;  // set: runs this instead of `call`
    std::vector<char> params;
    const char* param_block = nullptr;  // params.data(), for threads to read
    dim3 grid, block;
    size_t dynamic_smem = 0;
    std::string launched_by() const { return " (launched by " + op + ")"; }
    void run_thread() const { ptx != nullptr ? ptx(param_block) : call(kernel, param_block); }
};
void run_launch(const Launch& launch);  // grid.cpp; throws Fault after a launch with findings

// ---- shared memory of a block ---------------------------------------------------------------------------------------

constexpr size_t kMaxStaticShared = 48 * 1024;
constexpr size_t kMaxShared = 227 * 1024;     // static and dynamic together, on the largest GPUs
constexpr size_t kSharedWindow = 512 * 1024;  // with redzones between the arrays
constexpr size_t kSharedGuard = 16 << 20;     // on both sides: an access there is out of bounds, not a host pointer

struct SharedArray {
    const char* name;
    size_t offset, bytes;
};

class SharedMemory {
  public:
    SharedMemory();
    void begin_block(size_t dynamic_bytes);
    void* array(SharedSite& site);  // throws Fault where the limits are passed
    void* dynamic() const { return dynamic_; }
    char* base() const { return base_; }
    ShadowSpan shadow() { return {base_, cells_, flags_}; }
    std::string describe(const void* p) const;  // "shared 'tile'+36 (1024 bytes)"

  private:
    char* place(const char* name, size_t bytes);
    void check_limits(const SharedSite& site) const;

    char* base_;  // the window; guards lie before and behind it
    Cell* cells_ = nullptr;
    uint8_t* flags_ = nullptr;
    size_t used_ = 0, static_bytes_ = 0, dynamic_bytes_ = 0;
    void* dynamic_ = nullptr;
    std::vector<SharedArray> arrays_;
    std::vector<void*> by_site_;  // index: SharedSite::id
    std::vector<int> sites_used_;
};

// ---- threads and blocks ---------------------------------------------------------------------------------------------

enum class State : uint8_t { fresh, ready, at_barrier, at_warp_op, done };

struct LoggedAccess {  // for the counters
    const void* pc;
    uintptr_t address;
    uint8_t bytes;
    bool write, shared;
};

struct alignas(64) CudaThread {  // the first cache line is what a barrier needs
    Context context;
    State state = State::done;
    bool in_range = false;  // shuffles
    uint16_t rank = 0;      // in its block
    int line = 0;           // where it waits
    const char* file = nullptr;
    uint3 index{};
    // The warp operation it waits for, and the answer.
    WarpOp op{};
    unsigned mask = 0;
    int arg = 0, width = 0;
    uint64_t value = 0, result = 0;
    Stack stack;
    std::vector<LoggedAccess> log;
};

// One per OS thread, used again for block after block.
class Block {
  public:
    static Block& of_this_thread();

    void run(const Launch& launch, uint3 index, bool profiled);
    bool failed() const { return failed_; }

    // Called by the code of CUDA threads.
    CudaThread* current() { return current_; }
    void wait(State state);    // gives up the processor until the scheduler says go
    [[noreturn]] void stop();  // the thread cannot go on: the block is abandoned

    CudaThread* hide_current() { return std::exchange(current_, nullptr); }
    void show_current(CudaThread* t) { current_ = t; }

    const Launch* launch = nullptr;
    uint3 index{};  // blockIdx
    SharedMemory shared;
    bool profiled = false;
    // Clocks of the race detector: every barrier starts a phase, every __syncwarp of a whole warp an epoch of that
    // warp.
    uint32_t first_phase = 0, phase = 0;
    std::array<uint32_t, kMaxWarps> warp_epoch{};

    std::string who(const CudaThread& t) const;  // "thread (3,0,0) of block (1,0,0)"

  private:
    static void thread_main();
    void begin(const Launch& l, uint3 block_index, bool profile);
    void resume(CudaThread& t);
    void start(CudaThread& t);
    void run_warps();
    void run_warp(int warp);
    bool run_ready_lanes(CudaThread* lanes, int count);
    bool pass_barrier();
    void abandon();
    // warp.cpp
    bool resolve_warp_ops(CudaThread* lanes, int count);
    bool lanes_agree(const CudaThread* lanes, int leader, unsigned needed) const;
    void perform(CudaThread* lanes, unsigned needed);
    void shuffle(CudaThread* lanes, int lane, unsigned needed);
    void fail(Kind kind, const CudaThread& t, const std::string& text);

    std::array<CudaThread, kMaxThreads> threads_;
    int thread_count_ = 0;
    Context scheduler_;
    CudaThread* current_ = nullptr;
    StackPool stacks_;
    Order order_ = Order::forward;
    uint64_t random_ = 0;
    bool failed_ = false;
};

// The block that this OS thread runs, if any.
extern __thread Block* t_block __attribute__((tls_model("initial-exec")));

// While the runtime works on behalf of a thread it hides that thread, which switches the hooks off: functions of the
// C++ library that the runtime calls may have been taken from a hooked object file.
class OffTheRecord {
  public:
    explicit OffTheRecord(Block& b) : block_(b), thread_(b.hide_current()) {}
    ~OffTheRecord() { block_.show_current(thread_); }
    OffTheRecord(const OffTheRecord&) = delete;
    OffTheRecord& operator=(const OffTheRecord&) = delete;
    CudaThread* thread() const { return thread_; }

  private:
    Block& block_;
    CudaThread* thread_;
};

// ---- configuration (config.cpp) -------------------------------------------------------------------------------------

struct Config {
    Order order;
    uint64_t seed;
    Engine engine;
    int profile_blocks;
    bool print_profile;
};
Config& config();

uint64_t next_random(uint64_t& state);  // splitmix64
template <class T>
void shuffle_order(T* first, size_t n, uint64_t& state) {
    for (size_t i = n; i > 1; --i) std::swap(first[i - 1], first[next_random(state) % i]);
}

}  // namespace cusim

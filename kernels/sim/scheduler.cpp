// scheduler.cpp -- runs one block: its threads are fibers that run until they return, reach a barrier or a warp
// operation.
//
// A warp runs as far as it can (warp operations are resolved on the way, warp.cpp), then the next; when all threads
// stand at the barrier, the next phase begins.  Correct kernels give the same result in every order of threads and
// warps.
#include <exception>
#include <numeric>
#include <sstream>

#include "kernels/sim/block.h"
#include "kernels/sim/checks.h"
#include "kernels/sim/profile.h"
#include "kernels/sim/report.h"

// `indices` of engine.h, writable: see there.
extern "C" {
__thread cusim::Indices cusim_indices
    __attribute__((tls_model("initial-exec"))) = {{0, 0, 0}, {0, 0, 0}, {1, 1, 1}, {1, 1, 1}};
}

namespace cusim {

__thread Block* t_block;

Block& Block::of_this_thread() {
    static __thread Block* mine;  // lives as long as the process: OpenMP keeps its threads
    if (mine == nullptr) mine = new Block;
    return *mine;
}

// ---- what CUDA threads call -----------------------------------------------------------------------------------------

void Block::thread_main() {
    Block& b = *t_block;
    CudaThread& me = *b.current_;
    entered_context(me.context);
    try {
        b.launch->run_thread();
    } catch (const Fault&) {
        b.failed_ = true;  // reported where it was thrown
    } catch (const std::exception& e) {
        const OffTheRecord hidden(b);
        b.fail(Kind::launch_limit, me, std::string("the kernel threw an exception: ") + e.what());
    }
    me.state = State::done;
    switch_context(me.context, b.scheduler_, true);
    __builtin_trap();  // nobody resumes a thread that is done
}

void Block::wait(State state) {
    CudaThread& me = *current_;
    me.state = state;
    switch_context(me.context, scheduler_);
}

void Block::stop() {
    failed_ = true;
    switch_context(current_->context, scheduler_);
    __builtin_trap();
}

void sync_threads(const char* file, int line) {
    Block& b = *t_block;
    b.current()->file = file;
    b.current()->line = line;
    b.wait(State::at_barrier);
}

uint64_t warp_op(WarpOp op, unsigned mask, uint64_t value, int arg, int width, const char* file, int line) {
    Block& b = *t_block;
    CudaThread& me = *b.current();
    me.op = op;
    me.mask = mask;
    me.value = value;
    me.arg = arg;
    me.width = width;
    me.file = file;
    me.line = line;
    b.wait(State::at_warp_op);
    return me.result;
}

bool shuffle_in_range() { return t_block->current()->in_range; }

// ---- one block ------------------------------------------------------------------------------------------------------

void Block::begin(const Launch& l, uint3 block_index, bool profile) {
    launch = &l;
    index = block_index;
    profiled = profile;
    failed_ = false;
    order_ = config().order;
    const dim3 d = l.block;
    thread_count_ = int(d.x * d.y * d.z);
    cusim_indices = {{0, 0, 0}, block_index, {d.x, d.y, d.z}, {l.grid.x, l.grid.y, l.grid.z}};
    // Seeded by the block, so that the order does not depend on which OS thread takes it.
    random_ = config().seed ^ (uint64_t(block_index.z) << 48) ^ (uint64_t(block_index.y) << 32) ^ block_index.x;
    uint3 at{0, 0, 0};
    for (int i = 0; i < thread_count_; ++i) {
        threads_[i].state = State::fresh;
        threads_[i].rank = uint16_t(i);
        threads_[i].index = at;
        if (++at.x < d.x) continue;
        at.x = 0;
        if (++at.y < d.y) continue;
        at.y = 0;
        ++at.z;
    }
    if (hooked()) begin_checked_block(*this);
    warp_epoch.fill(0);
    shared.begin_block(l.dynamic_smem);
}

void Block::start(CudaThread& t) {
    t.stack = stacks_.take();
    const size_t skip = size_t(t.rank) * 1088 % 8192;  // an odd number of cache lines apart, within two pages
    prepare_context(t.context, t.stack, skip, &Block::thread_main);
    t.state = State::ready;
}

// Inlined, since processors guess returns from the calls they saw: after a switch every `ret` is a wrong guess.
inline __attribute__((always_inline)) void Block::resume(CudaThread& t) {
    if (t.state == State::fresh) start(t);
    current_ = &t;
    cusim_indices.thread = t.index;
    switch_context(scheduler_, t.context);
    current_ = nullptr;
    if (t.state == State::done) stacks_.give(t.stack);
}

void Block::run(const Launch& l, uint3 block_index, bool profile) {
    t_block = this;
    begin(l, block_index, profile);
    do {
        run_warps();
    } while (!failed_ && pass_barrier());
    if (failed_) abandon();
    t_block = nullptr;
}

void Block::abandon() {
    for (int i = 0; i < thread_count_; ++i) {
        CudaThread& t = threads_[i];
        t.log.clear();
        if (t.state != State::done && t.state != State::fresh) stacks_.give_abandoned(t.stack);
        t.state = State::done;
    }
}

void Block::run_warps() {
    const int warps = (thread_count_ + kWarp - 1) / kWarp;
    int sequence[kMaxWarps];
    for (int i = 0; i < warps; ++i) sequence[i] = order_ == Order::reverse ? warps - 1 - i : i;
    if (order_ == Order::random) shuffle_order(sequence, size_t(warps), random_);
    for (int i = 0; i < warps && !failed_; ++i) run_warp(sequence[i]);
}

// Until every lane is done or at the barrier.
void Block::run_warp(int warp) {
    CudaThread* lanes = &threads_[warp * kWarp];
    const int count = std::min(kWarp, thread_count_ - warp * kWarp);
    while (run_ready_lanes(lanes, count)) {
        if (!resolve_warp_ops(lanes, count)) return;  // reported
    }
    if (profiled && !failed_) count_warp(*launch, lanes, count);
}

// Gives whether a lane waits at a warp operation then.
bool Block::run_ready_lanes(CudaThread* lanes, int count) {
    int sequence[kWarp];
    if (order_ == Order::random) {
        std::iota(sequence, sequence + count, 0);
        shuffle_order(sequence, size_t(count), random_);
    }
    bool at_warp_op = false;
    for (int i = 0; i < count; ++i) {
        const int lane = order_ == Order::forward ? i : order_ == Order::reverse ? count - 1 - i : sequence[i];
        CudaThread& t = lanes[lane];
        if (t.state <= State::ready) resume(t);
        if (failed_) return false;
        at_warp_op |= t.state == State::at_warp_op;
    }
    return at_warp_op;
}

// ---- __syncthreads --------------------------------------------------------------------------------------------------

static std::string place(const CudaThread& t) { return source_place(t.file, t.line); }

static bool same_place(const CudaThread& a, const CudaThread& b) {
    return a.line == b.line && (a.file == b.file || std::strcmp(a.file, b.file) == 0);
}

// All threads stand at one barrier or have returned; gives whether there is a next phase.
bool Block::pass_barrier() {
    const CudaThread *first = nullptr, *elsewhere = nullptr, *returned = nullptr;
    int waiting = 0;
    for (CudaThread* t = threads_.data(); t != threads_.data() + thread_count_; ++t) {
        if (t->state != State::at_barrier) {
            returned = returned == nullptr ? t : returned;
            continue;
        }
        t->state = State::ready;
        if (waiting++ == 0)
            first = t;
        else if (!same_place(*t, *first))
            elsewhere = t;
    }
    if (waiting == 0) return false;
    if (elsewhere != nullptr) {
        fail(Kind::barrier_divergence, *first,
             "threads of one block wait at different __syncthreads: " + who(*first) + " at " + place(*first) + ", " +
                 who(*elsewhere) + " at " + place(*elsewhere));
        return false;
    }
    if (returned != nullptr) {
        std::ostringstream text;
        text << thread_count_ - waiting << " of " << thread_count_ << " threads returned before the __syncthreads at "
             << place(*first) << " where the others wait; the first is " << who(*returned);
        fail(Kind::early_exit, *first, text.str());
        return false;
    }
    if (profiled) count_barrier(*launch, first->file, first->line);
    if (hooked()) phase = ++check_clock.now;
    return true;
}

// ---- reports --------------------------------------------------------------------------------------------------------

std::string Block::who(const CudaThread& t) const {
    return "thread " + index_text(t.index.x, t.index.y, t.index.z) + " of block " +
           index_text(index.x, index.y, index.z);
}

void Block::fail(Kind kind, const CudaThread& t, const std::string& text) {
    failed_ = true;
    const std::string where = t.file == nullptr ? "" : place(t);
    report_in(*launch, kind, text, where, where);
}

}  // namespace cusim

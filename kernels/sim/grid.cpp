// grid.cpp -- a launch: its limits, the order of its blocks, and who runs them.
#include "kernels/sim/grid.h"

#include <numeric>
#include <omp.h>

#include "kernels/sim/block.h"
#include "kernels/sim/checks.h"
#include "kernels/sim/crash.h"
#include "kernels/sim/memory.h"
#include "kernels/sim/registry.h"
#include "kernels/sim/report.h"

namespace cusim {
namespace {

std::string text(dim3 d) { return index_text(d.x, d.y, d.z); }

void require(bool ok, const Launch& l, const std::string& expected, const std::string& found) {
    if (!ok) throw_fault_in(l, Kind::launch_limit, expected + "; found " + found, "");
}

// What the CUDA runtime refuses at the launch, on every GPU of compute capability 7.5 and above that has the memory.
void check_limits(const Launch& l) {
    const dim3 b = l.block, g = l.grid;
    const bool sides = b.x >= 1 && b.x <= 1024 && b.y >= 1 && b.y <= 1024 && b.z >= 1 && b.z <= 64;
    require(sides && uint64_t(b.x) * b.y * b.z <= kMaxThreads, l, "a block has 1 to 1024 threads and z at most 64",
            text(b));
    require(g.x >= 1 && g.x <= 0x7fffffffu && g.y >= 1 && g.y <= 65535 && g.z >= 1 && g.z <= 65535, l,
            "a grid has x from 1 to 2^31 - 1, y and z from 1 to 65535", text(g));
    require(l.dynamic_smem <= kMaxShared, l,
            "dynamic shared memory is at most " + std::to_string(kMaxShared) + " bytes",
            std::to_string(l.dynamic_smem));
}

uint3 block_index(uint64_t i, dim3 g) { return {unsigned(i % g.x), unsigned(i / g.x % g.y), unsigned(i / g.x / g.y)}; }

// A permutation for Order::random; empty otherwise.
std::vector<uint32_t> random_order(uint64_t blocks) {
    std::vector<uint32_t> order;
    if (config().order != Order::random) return order;
    order.resize(blocks);
    std::iota(order.begin(), order.end(), 0u);
    uint64_t state = config().seed;
    shuffle_order(order.data(), order.size(), state);
    return order;
}

}  // namespace

Launch prepare_launch(LaunchRequest request) {
    Launch l;
    l.name = function_name(request.kernel, request.expression);
    l.op = request.op;
    l.kernel = request.kernel;
    l.call = request.call;
    l.params = std::move(request.params);
    l.param_block = l.params.data();
    l.grid = request.grid;
    l.block = request.block;
    l.dynamic_smem = request.dynamic_smem;
    check_limits(l);
    if (config().engine == Engine::ptx) l.ptx = find_ptx(l.kernel, l.name, l.params.size());
    return l;
}

void run_launch(const Launch& l) {
    const auto blocks = int64_t(uint64_t(l.grid.x) * l.grid.y * l.grid.z);
    const std::vector<uint32_t> shuffled = random_order(uint64_t(blocks));
    const bool backwards = config().order == Order::reverse;
    const int64_t profiled = hooked() ? config().profile_blocks : 0;
    // The race detector has one clock, so hooked kernels run block after block on one OS thread.
    const int workers = hooked() ? 1 : int(std::min<int64_t>(blocks, omp_get_max_threads()));
    std::atomic<bool> failed{false};
    if (hooked()) begin_checked_launch();
    watch_reports();
#pragma omp parallel for schedule(dynamic, 1) num_threads(workers)
    for (int64_t i = 0; i < blocks; ++i) {
        if (failed.load(std::memory_order_relaxed)) continue;
        prepare_crash_stack();
        Block& b = Block::of_this_thread();
        const int64_t which = !shuffled.empty() ? shuffled[size_t(i)] : backwards ? blocks - 1 - i : i;
        b.run(l, block_index(uint64_t(which), l.grid), i < profiled);
        if (b.failed()) failed = true;
    }
    if (!hooked()) {
        if (const auto overrun = Arena::get().take_overrun()) {
            report_in(l, Kind::out_of_bounds, "a thread wrote " + *overrun + "; hooked kernels say which", "",
                      *overrun);
        }
    }
    throw_if_reported();
}

}  // namespace cusim

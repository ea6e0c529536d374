// warp.cpp -- __syncwarp, shuffles and votes: lanes meet, exchange, go on.
//
// CUDA's rule: every lane named in the mask that has not returned must come to the same operation with the same mask,
// and a shuffle may only read a lane that takes part.  Whatever breaks the rule is undefined on a GPU and a finding
// here.
#include <sstream>

#include "kernels/sim/block.h"
#include "kernels/sim/report.h"

namespace cusim {
namespace {

const char* name_of(WarpOp op) {
    static const char* const names[] = {"__syncwarp",      "__shfl_sync",   "__shfl_up_sync", "__shfl_down_sync",
                                        "__shfl_xor_sync", "__ballot_sync", "__any_sync",     "__all_sync"};
    return names[int(op)];
}

// "__shfl_xor_sync(mask 0x0000ffff) at softmax.cu:40"
std::string call_text(const CudaThread& t) {
    char mask[32];
    std::snprintf(mask, sizeof(mask), "(mask 0x%08x) at ", t.mask);
    return name_of(t.op) + std::string(mask) + source_place(t.file, t.line);
}

bool same_call(const CudaThread& a, const CudaThread& b) {
    return a.op == b.op && a.mask == b.mask && a.line == b.line &&
           (a.file == b.file || std::strcmp(a.file, b.file) == 0);
}

template <class F>
void for_each_lane(unsigned lanes, F f) {
    for (unsigned m = lanes; m != 0; m &= m - 1) f(__builtin_ctz(m));
}

unsigned lanes_in(const CudaThread* lanes, int count, State state) {
    unsigned set = 0;
    for (int i = 0; i < count; ++i) set |= unsigned(lanes[i].state == state) << i;
    return set;
}

}  // namespace

// Every lane of the warp is done, at the barrier or at a warp operation.  Completes all operations whose lanes are
// together; if there is none, nobody can ever go on: reports it and gives false.
bool Block::resolve_warp_ops(CudaThread* lanes, int count) {
    const unsigned live = (count == kWarp ? ~0u : (1u << count) - 1) & ~lanes_in(lanes, count, State::done);
    unsigned waiting = lanes_in(lanes, count, State::at_warp_op);
    const int stuck = __builtin_ctz(waiting);
    bool progress = false;
    while (waiting != 0) {
        const int leader = __builtin_ctz(waiting);
        const CudaThread& t = lanes[leader];
        if ((t.mask >> leader & 1) == 0) {
            fail(Kind::warp_mask, t,
                 call_text(t) + ": lane " + std::to_string(leader) + " calls it but is not in the mask; " + who(t));
            return false;
        }
        if (t.width < 1 || t.width > kWarp || (t.width & (t.width - 1)) != 0) {
            fail(Kind::warp_mask, t,
                 call_text(t) + ": a width is 1, 2, 4, 8, 16 or 32; found " + std::to_string(t.width));
            return false;
        }
        const unsigned needed = t.mask & live;
        if (lanes_agree(lanes, leader, needed)) {
            perform(lanes, needed);
            // Only a __syncwarp of all living lanes is taken to order memory: one clock per warp cannot tell more, and
            // a doubtful race is better reported than missed.
            if (t.op == WarpOp::sync && needed == live) ++warp_epoch[t.rank / kWarp];
            waiting &= ~needed;
            progress = true;
        } else {
            waiting &= ~(1u << leader);
        }
    }
    if (progress) return true;

    const CudaThread& t = lanes[stuck];
    std::ostringstream text;
    text << call_text(t) << ": not every lane of the mask comes here; missing:";
    for_each_lane(t.mask & live, [&](int lane) {
        if (lanes[lane].state != State::at_warp_op || !same_call(lanes[lane], t)) text << " " << lane;
    });
    text << "; " << who(t);
    fail(Kind::warp_mask, t, text.str());
    return false;
}

bool Block::lanes_agree(const CudaThread* lanes, int leader, unsigned needed) const {
    bool agree = true;
    for_each_lane(needed, [&](int lane) {
        agree = agree && lanes[lane].state == State::at_warp_op && same_call(lanes[lane], lanes[leader]);
    });
    return agree;
}

void Block::perform(CudaThread* lanes, unsigned needed) {
    unsigned votes = 0;
    for_each_lane(needed, [&](int lane) { votes |= unsigned(lanes[lane].value != 0) << lane; });
    for_each_lane(needed, [&](int lane) {
        CudaThread& t = lanes[lane];
        switch (t.op) {
            case WarpOp::sync:
                t.result = 0;
                break;
            case WarpOp::ballot:
                t.result = votes;
                break;
            case WarpOp::any:
                t.result = votes != 0;
                break;
            case WarpOp::all:
                t.result = votes == needed;
                break;
            default:
                shuffle(lanes, lane, needed);
        }
    });
    for_each_lane(needed, [&](int lane) { lanes[lane].state = State::ready; });
}

void Block::shuffle(CudaThread* lanes, int lane, unsigned needed) {
    CudaThread& t = lanes[lane];
    const int first = lane & ~(t.width - 1), last = first + t.width - 1;  // the segment
    const int distance = t.arg & (kWarp - 1);                             // hardware looks at five bits
    int source = lane;
    switch (t.op) {
        case WarpOp::shfl_idx:
            source = first + (distance & (t.width - 1));
            break;
        case WarpOp::shfl_up:
            source = lane - distance;
            break;
        case WarpOp::shfl_down:
            source = lane + distance;
            break;
        default:
            source = lane ^ distance;
    }
    // Outside of the segment a lane keeps its own value.  An xor may reach into earlier segments, not into later ones.
    t.in_range = source <= last && (source >= first || t.op == WarpOp::shfl_xor);
    if (!t.in_range) source = lane;
    if ((needed >> source & 1) != 0) {
        t.result = lanes[source].value;
        return;
    }
    t.result = ~uint64_t(0);
    const std::string where = source_place(t.file, t.line);
    report_in(*launch, Kind::warp_mask,
              call_text(t) + ": lane " + std::to_string(lane) + " reads lane " + std::to_string(source) +
                  ", which has returned or is not in the mask; " + who(t),
              where, where);
}

}  // namespace cusim

// profile.cpp -- counters per source line, as a profiler would show them on a GPU.
//
// Global memory moves in sectors of 32 bytes: a warp's request costs as many as it touches.  Shared memory has 32
// banks of 4 bytes: a request is served in wavefronts, each giving every bank one word; 8-byte accesses go by half
// warps, 16-byte accesses by quarter warps.  (Hardware sometimes merges quarters that read the same words: wavefronts
// are an upper bound.)
#include "kernels/sim/profile.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <mutex>
#include <unordered_map>
#include <utility>

#include "kernels/sim/report.h"

namespace cusim {
namespace {

struct Key {
    std::string kernel;
    const void* pc;  // of the access; for barriers the file's name
    int line;        // barriers
    int bytes;
    bool shared, write;
    auto operator<=>(const Key&) const = default;
};

struct Totals {
    uint64_t requests = 0, lanes = 0, cost = 0, ideal = 0;
};

std::mutex lock;
std::map<Key, Totals>& totals() {
    static auto* t = [] {
        if (config().print_profile) std::atexit([] { std::fputs(profile_table(take_profile()).c_str(), stdout); });
        return new std::map<Key, Totals>;
    }();
    return *t;
}

struct Request {  // one warp-wide access
    int count = 0;
    int lane[kWarp];
    uintptr_t address[kWarp];
    void add(int l, uintptr_t a) {
        lane[count] = l;
        address[count++] = a;
    }
};

template <class It>
size_t distinct(It begin, It end) {
    std::sort(begin, end);
    return size_t(std::unique(begin, end) - begin);
}

void count_global(const Request& r, int bytes, Totals& t) {
    uintptr_t sectors[kWarp * 2], addresses[kWarp];
    size_t n = 0;
    for (int i = 0; i < r.count; ++i) {
        addresses[i] = r.address[i];
        sectors[n++] = r.address[i] / 32;
        const uintptr_t last = (r.address[i] + uintptr_t(bytes) - 1) / 32;
        if (last != sectors[n - 1]) sectors[n++] = last;
    }
    t.cost += distinct(sectors, sectors + n);
    t.ideal += (distinct(addresses, addresses + r.count) * size_t(bytes) + 31) / 32;
}

void count_shared(const Request& r, int bytes, Totals& t) {
    const int words = std::max(1, bytes / 4), group = kWarp / words;  // lanes served together
    for (int first = 0; first < kWarp; first += group) {
        uintptr_t touched[kWarp];
        size_t n = 0;
        for (int i = 0; i < r.count; ++i) {
            if (r.lane[i] < first || r.lane[i] >= first + group) continue;
            for (int w = 0; w < words; ++w) touched[n++] = r.address[i] / 4 + uintptr_t(w);
        }
        if (n == 0) continue;
        n = distinct(touched, touched + n);
        int per_bank[32] = {};
        for (size_t i = 0; i < n; ++i) ++per_bank[touched[i] % 32];
        t.cost += uint64_t(*std::max_element(per_bank, per_bank + 32));
        t.ideal += 1;
    }
}

void count_request(const std::string& kernel, const LoggedAccess& a, const Request& r) {
    if (a.bytes > 16) return;  // a copied struct: no single instruction
    Totals& t = totals()[{kernel, a.pc, 0, a.bytes, a.shared, a.write}];
    t.requests += 1;
    t.lanes += uint64_t(r.count);
    if (a.shared)
        count_shared(r, a.bytes, t);
    else
        count_global(r, a.bytes, t);
}

bool in_step(const CudaThread* lanes, int count) {
    for (int l = 1; l < count; ++l) {
        if (lanes[l].log.size() != lanes[0].log.size()) return false;
        for (size_t i = 0; i < lanes[0].log.size(); ++i) {
            if (lanes[l].log[i].pc != lanes[0].log[i].pc) return false;
        }
    }
    return true;
}

}  // namespace

// Lanes that took the same path made their i-th accesses together.  Where paths differ, the k-th execution of an
// instruction by each lane is taken as one request: what a GPU that reconverges would do.
void count_warp(const Launch& launch, CudaThread* lanes, int count) {
    const std::lock_guard<std::mutex> guard(lock);
    if (in_step(lanes, count)) {
        for (size_t i = 0; i < lanes[0].log.size(); ++i) {
            Request r;
            for (int l = 0; l < count; ++l) r.add(l, lanes[l].log[i].address);
            count_request(launch.name, lanes[0].log[i], r);
        }
    } else {
        std::map<std::pair<const void*, int>, std::pair<LoggedAccess, Request>> requests;  // by instruction and turn
        for (int l = 0; l < count; ++l) {
            std::unordered_map<const void*, int> turn;
            for (const LoggedAccess& a : lanes[l].log) {
                auto& [access, request] = requests[{a.pc, turn[a.pc]++}];
                access = a;
                request.add(l, a.address);
            }
        }
        for (const auto& [key, r] : requests) count_request(launch.name, r.first, r.second);
    }
    for (int l = 0; l < count; ++l) lanes[l].log.clear();
}

void count_barrier(const Launch& launch, const char* file, int line) {
    const std::lock_guard<std::mutex> guard(lock);
    Totals& t = totals()[{launch.name, file, line, 0, false, false}];
    t.requests += 1;
    t.lanes += launch.block.x * launch.block.y * launch.block.z;
}

// ---- results --------------------------------------------------------------------------------------------------------

// Several instructions of one line are one entry.
std::vector<LineCounters> take_profile() {
    const std::lock_guard<std::mutex> guard(lock);
    std::vector<LineCounters> lines;
    for (const auto& entry : std::exchange(totals(), {})) {
        const Key& key = entry.first;
        const Totals& t = entry.second;
        const bool barrier = key.bytes == 0;
        const std::string where =
            barrier ? source_place(static_cast<const char*>(key.pc), key.line) : source_place(key.pc);
        auto it = std::find_if(lines.begin(), lines.end(), [&](const LineCounters& c) {
            return c.kernel == key.kernel && c.where == where && c.shared == key.shared && c.write == key.write &&
                   c.bytes == key.bytes;
        });
        if (it == lines.end()) {
            lines.push_back({key.kernel, where, key.shared, key.write, barrier, key.bytes});
            it = std::prev(lines.end());
        }
        it->requests += t.requests;
        it->lanes += t.lanes;
        it->cost += t.cost;
        it->ideal += t.ideal;
    }
    return lines;
}

std::string profile_table(const std::vector<LineCounters>& lines) {
    std::string table, kernel;
    char row[512];
    for (const LineCounters& c : lines) {
        if (c.kernel != kernel) {
            kernel = c.kernel;
            table += kernel + "\n    access         bytes    requests  lanes         cost        ideal  ratio  line\n";
        }
        if (c.barrier) {
            std::snprintf(row, sizeof(row), "    %-14s %5s %11llu %6s %12s %12s %6s  %s\n", "__syncthreads", "-",
                          static_cast<unsigned long long>(c.requests), "-", "-", "-", "-", c.where.c_str());
        } else {
            std::snprintf(row, sizeof(row), "    %-6s %-7s %5d %11llu %6.1f %12llu %12llu %6.2f  %s\n",
                          c.shared ? "shared" : "global", c.write ? "store" : "load", c.bytes,
                          static_cast<unsigned long long>(c.requests), double(c.lanes) / double(c.requests),
                          static_cast<unsigned long long>(c.cost), static_cast<unsigned long long>(c.ideal), c.ratio(),
                          c.where.c_str());
        }
        table += row;
    }
    return table;
}

}  // namespace cusim

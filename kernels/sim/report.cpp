// report.cpp -- the list of findings: each fault once per place, however many threads commit it.
#include "kernels/sim/report.h"

#include <cstdio>
#include <map>
#include <mutex>
#include <optional>
#include <tuple>
#include <utility>

#include "kernels/sim/block.h"

namespace cusim {
namespace {

constexpr size_t kMaxFindings = 200;  // a reader has lost interest long before

using Key = std::tuple<Kind, std::string, std::string>;  // kind, kernel, place

struct Book {
    std::mutex lock;
    std::vector<Finding> findings, warnings;
    std::map<Key, std::pair<bool, size_t>> known;  // warning?, index in its list
    std::optional<Fault> first;                    // since watch_reports()
};
Book& book() {
    static auto* b = new Book;
    return *b;
}

bool is_warning(Kind kind) {
    return kind == Kind::uninitialised && t_block != nullptr && t_block->launch->ptx != nullptr;
}

}  // namespace

const char* name_of(Kind kind) {
    switch (kind) {
        case Kind::out_of_bounds:
            return "out_of_bounds";
        case Kind::misaligned:
            return "misaligned";
        case Kind::use_after_free:
            return "use_after_free";
        case Kind::host_pointer:
            return "host_pointer";
        case Kind::uninitialised:
            return "uninitialised";
        case Kind::race_block:
            return "race_block";
        case Kind::race_grid:
            return "race_grid";
        case Kind::barrier_divergence:
            return "barrier_divergence";
        case Kind::early_exit:
            return "early_exit";
        case Kind::warp_mask:
            return "warp_mask";
        case Kind::launch_limit:
            return "launch_limit";
        case Kind::unsynchronised:
            return "unsynchronised";
    }
    return "?";
}

std::string index_text(unsigned x, unsigned y, unsigned z) {
    char text[48];
    std::snprintf(text, sizeof(text), "(%u,%u,%u)", x, y, z);
    return text;
}

bool is_new(Kind kind, const std::string& kernel, const std::string& key) {
    Book& b = book();
    const std::lock_guard<std::mutex> guard(b.lock);
    const auto it = b.known.find({kind, kernel, key});
    if (it == b.known.end()) return true;
    const auto [warning, index] = it->second;
    Finding& f = (warning ? b.warnings : b.findings)[index];
    ++f.count;
    if (!warning && !b.first) b.first.emplace(kind, f.text);
    return false;
}

void report(Finding finding, const std::string& key) {
    if (!is_new(finding.kind, finding.kernel, key)) return;
    Book& b = book();
    const std::lock_guard<std::mutex> guard(b.lock);
    finding.text = std::string(name_of(finding.kind)) + ": " + finding.kernel + ": " + finding.text;
    const bool warning = is_warning(finding.kind);
    if (!warning && !b.first) b.first.emplace(finding.kind, finding.text);
    auto& list = warning ? b.warnings : b.findings;
    if (list.size() >= kMaxFindings) return;
    b.known[{finding.kind, finding.kernel, key}] = {warning, list.size()};
    list.push_back(std::move(finding));
}

void report_in(const Launch& launch, Kind kind, const std::string& text, const std::string& where,
               const std::string& key) {
    report({kind, launch.name, text + launch.launched_by(), where}, key);
}

void throw_fault_in(const Launch& launch, Kind kind, const std::string& text, const std::string& where) {
    throw_fault({kind, launch.name, text + launch.launched_by(), where});
}

void watch_reports() {
    const std::lock_guard<std::mutex> guard(book().lock);
    book().first.reset();
}

void throw_if_reported() {
    Book& b = book();
    std::optional<Fault> fault;
    {
        const std::lock_guard<std::mutex> guard(b.lock);
        fault.swap(b.first);
    }
    if (fault) throw *fault;
}

void throw_fault(Finding finding) {
    const Fault fault(finding.kind, std::string(name_of(finding.kind)) + ": " + finding.kernel + ": " + finding.text);
    const std::string key = finding.text;
    report(std::move(finding), key);
    throw fault;
}

std::vector<Finding> take_findings() {
    Book& b = book();
    const std::lock_guard<std::mutex> guard(b.lock);
    std::erase_if(b.known, [](const auto& entry) { return !entry.second.first; });
    return std::exchange(b.findings, {});
}

std::vector<Finding> take_warnings() {
    Book& b = book();
    const std::lock_guard<std::mutex> guard(b.lock);
    std::erase_if(b.known, [](const auto& entry) { return entry.second.first; });
    return std::exchange(b.warnings, {});
}

}  // namespace cusim

// symbols.cpp -- addresses to names: kernels by their symbol (dladdr), instructions by their line (addr2line).
#include <cstdio>
#include <cstdlib>
#include <cxxabi.h>
#include <dlfcn.h>
#include <link.h>
#include <map>
#include <mutex>
#include <unistd.h>
#include <vector>

#include "kernels/sim/report.h"

namespace cusim {
namespace {

// ---- the program and its libraries ----------------------------------------------------------------------------------

struct Module {
    std::string path;
    uintptr_t base;        // added by the loader to the addresses in the file
    uintptr_t begin, end;  // what it occupies
};

int add_module(dl_phdr_info* info, size_t, void* list) {
    Module m{info->dlpi_name, info->dlpi_addr, UINTPTR_MAX, 0};
    if (m.path.empty()) {  // the main program
        char path[4096];
        const ssize_t n = readlink("/proc/self/exe", path, sizeof(path));
        m.path.assign(path, n > 0 ? size_t(n) : 0);
    }
    for (int i = 0; i < info->dlpi_phnum; ++i) {
        const ElfW(Phdr)& segment = info->dlpi_phdr[i];
        if (segment.p_type != PT_LOAD) continue;
        m.begin = std::min(m.begin, uintptr_t(info->dlpi_addr + segment.p_vaddr));
        m.end = std::max(m.end, uintptr_t(info->dlpi_addr + segment.p_vaddr + segment.p_memsz));
    }
    static_cast<std::vector<Module>*>(list)->push_back(m);
    return 0;
}

std::vector<Module> modules() {
    std::vector<Module> list;
    dl_iterate_phdr(add_module, &list);
    return list;
}

// ---- lines ----------------------------------------------------------------------------------------------------------

std::string base_name(const std::string& path) { return path.substr(path.rfind('/') + 1); }

// "kernels/softmax.cu:40 (discriminator 2)" -> "kernels/softmax.cu:40", or empty if unknown.
std::string tidy(std::string line) {
    line = line.substr(0, line.find_first_of(" \n"));
    return line.empty() || line[0] == '?' || line.back() == '?' || line.ends_with(":0") ? "" : line;
}

std::string quoted(const std::string& path) {
    std::string q = "'";
    for (char c : path) q += c == '\'' ? std::string("'\\''") : std::string(1, c);
    return q + "'";
}

// The lines an instruction comes from, innermost inlined function first.
std::vector<std::string> lines_of(const Module& m, uintptr_t pc) {
    char address[32];
    std::snprintf(address, sizeof(address), "0x%zx", size_t(pc - m.base));
    const std::string command = "addr2line -i -e " + quoted(m.path) + " " + address + " 2>/dev/null";
    std::vector<std::string> lines;
    FILE* pipe = popen(command.c_str(), "r");
    if (pipe == nullptr) return lines;
    char text[4096];
    while (std::fgets(text, sizeof(text), pipe) != nullptr) {
        const std::string line = tidy(text);
        // The dialect's headers and the C++ library are not the kernel.
        const bool ours = line.find("kernels/sim/") != std::string::npos || line.starts_with("/usr/");
        if (!line.empty() && !ours) lines.push_back(base_name(line));
    }
    pclose(pipe);
    return lines;
}

std::string describe(const Module& m, uintptr_t pc) {
    static std::mutex lock;
    static auto* known = new std::map<uintptr_t, std::string>;
    const std::lock_guard<std::mutex> guard(lock);
    const auto it = known->find(pc);
    if (it != known->end()) return it->second;
    const std::vector<std::string> lines = lines_of(m, pc - 1);  // pc is a return address: the call lies before it
    std::string text = lines.empty() ? "" : lines.front();
    if (lines.size() > 1 && lines.back() != lines.front()) text += " (inlined at " + lines.back() + ")";
    return (*known)[pc] = text;
}

std::string or_unknown(const std::string& text) { return text.empty() ? "an unknown line (compile with -g)" : text; }

}  // namespace

std::string source_place(const char* file, int line) { return base_name(file) + ":" + std::to_string(line); }

std::string source_place(const void* pc) {
    const auto at = reinterpret_cast<uintptr_t>(pc);
    for (const Module& m : modules()) {
        if (at >= m.begin && at < m.end) return or_unknown(describe(m, at));
    }
    return or_unknown("");
}

// Two modules would have to lie exactly 4 GiB apart for this to be ambiguous; then the first with a line wins.
std::string source_place_low32(uint32_t pc) {
    for (const Module& m : modules()) {
        uintptr_t at = (m.begin & ~uintptr_t(0xffffffff)) | pc;
        if (at < m.begin) at += uintptr_t(1) << 32;
        if (at >= m.end) continue;
        const std::string text = describe(m, at);
        if (!text.empty()) return text;
    }
    return or_unknown("");
}

std::string outermost(const std::string& place) {
    const std::string mark = " (inlined at ";
    const size_t at = place.find(mark);
    if (at == std::string::npos) return place;
    return place.substr(at + mark.size(), place.size() - at - mark.size() - 1);
}

bool in_loaded_image(const void* p) {
    static const std::vector<Module> at_start = modules();
    const auto at = reinterpret_cast<uintptr_t>(p);
    for (const Module& m : at_start) {
        if (at >= m.begin && at < m.end) return true;
    }
    for (const Module& m : modules()) {  // a library loaded since
        if (at >= m.begin && at < m.end) return true;
    }
    return false;
}

// ---- functions ------------------------------------------------------------------------------------------------------

std::string mangled_name(const void* function) {
    Dl_info info;
    if (dladdr(function, &info) == 0 || info.dli_sname == nullptr || info.dli_saddr != function) return "";
    return info.dli_sname;
}

// "void lc::sim::k<4>(float*, int)" -> "lc::sim::k<4>"
static std::string without_parameters(std::string name) {
    if (name.ends_with(')')) {
        int depth = 0;
        size_t i = name.size();
        do {
            --i;
            depth += (name[i] == ')') - (name[i] == '(');
        } while (i > 0 && depth > 0);
        name.resize(i);
    }
    return name.starts_with("void ") ? name.substr(5) : name;
}

std::string function_name(const void* function, const char* otherwise) {
    const std::string mangled = mangled_name(function);
    if (mangled.empty()) return otherwise;
    int status = 0;
    char* text = abi::__cxa_demangle(mangled.c_str(), nullptr, nullptr, &status);
    const std::string name = status == 0 ? without_parameters(text) : mangled;
    std::free(text);
    return name;
}

}  // namespace cusim

// registry.cpp -- translated PTX kernels by mangled name.
#include "kernels/sim/registry.h"

#include <map>
#include <stdexcept>

#include "kernels/sim/report.h"

namespace cusim {

static std::map<std::string, PtxEntry>& entries() {
    static auto* map = new std::map<std::string, PtxEntry>;  // filled before main, in any order of files
    return *map;
}

void register_ptx(const char* mangled_name, PtxEntry entry) { entries()[mangled_name] = entry; }

bool ptx_available() { return !entries().empty(); }

PtxKernel find_ptx(const void* kernel, const std::string& name, size_t param_bytes) {
    const std::string mangled = mangled_name(kernel);
    if (mangled.empty()) {
        throw std::runtime_error(
            "cusim: kernel " + name +
            " has no visible symbol: it may be neither static nor in an anonymous namespace, and the "
            "program must be linked with -rdynamic");
    }
    const auto it = entries().find(mangled);
    if (it == entries().end()) {
        throw std::runtime_error("cusim: no translated PTX is linked for kernel " + name + " (" + mangled +
                                 "); run it with engine source, or translate and link its file");
    }
    if (it->second.param_bytes != param_bytes) {
        throw std::runtime_error("cusim: kernel " + name + " takes " + std::to_string(param_bytes) +
                                 " bytes of parameters here and " + std::to_string(it->second.param_bytes) +
                                 " in its PTX; is the PTX older than the source?");
    }
    return it->second.fn;
}

}  // namespace cusim

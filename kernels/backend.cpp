// backend.cpp -- which backends this binary holds, and which of them --device means.
//
// kernels/backend_cuda.cu is linked in only where nvcc built it, and as "sim" only into tests; the references to it are
// weak, so that the same object file serves all three binaries: an absent function has the address zero.
#include "kernels/backend.h"

#include <map>

#include "kernels/device_name.h"

namespace lc {

namespace cpu {
const Backend* backend();
std::string description();
}  // namespace cpu
namespace cuda {
const Backend* backend() __attribute__((weak));
std::vector<DeviceInfo> device_list() __attribute__((weak));
void use_device(int index) __attribute__((weak));
}  // namespace cuda
namespace sim {
const Backend* backend() __attribute__((weak));
}

namespace {

constexpr const char* kHowToGetCuda =
    "this binary was built without CUDA: install the CUDA Toolkit (`make doctor` says what is missing) and run "
    "`make build` again";

bool has_cuda() { return cuda::backend != nullptr; }

bool is_cuda(const DeviceInfo& d) { return d.name.rfind("cuda", 0) == 0; }

std::string names(const std::vector<DeviceInfo>& list) {
    std::string text;
    for (const DeviceInfo& d : list) text += (text.empty() ? "" : ", ") + d.name + (d.usable ? "" : " (not usable)");
    return text;
}

// The table of cuda::backend() under the name of one device.  Tables are handed out by reference and so never move.
const Backend& take_cuda(const DeviceInfo& device) {
    static std::map<std::string, Backend> tables;
    cuda::use_device(parse_device(device.name).index);
    Backend& b = tables.try_emplace(device.name, *cuda::backend()).first->second;
    b.name = device.name;
    return b;
}

const DeviceInfo* first_usable_gpu(const std::vector<DeviceInfo>& list) {
    for (const DeviceInfo& d : list) {
        if (is_cuda(d) && d.usable) return &d;
    }
    return nullptr;
}

std::string why_no_gpu(const std::vector<DeviceInfo>& list) {
    if (!has_cuda()) return "this binary was built without CUDA";
    for (const DeviceInfo& d : list) {
        if (is_cuda(d)) return d.why_not;
    }
    return "the CUDA runtime lists no device";
}

const DeviceInfo& find_gpu(const DeviceName& wanted, const std::vector<DeviceInfo>& list) {
    const std::string name = to_string(wanted);
    if (!has_cuda()) throw Error("--device " + name + ": " + kHowToGetCuda + ", or use --device cpu");
    const DeviceInfo* gpu = first_usable_gpu(list);
    if (gpu == nullptr)
        throw Error("--device " + name + ": " + why_no_gpu(list) + "; see what nvidia-smi says, or use --device cpu");
    if (wanted.index < 0) return *gpu;
    for (const DeviceInfo& d : list) {
        if (d.name != name) continue;
        if (!d.usable)
            throw Error("--device " + name + " cannot be used: " + d.why_not + "; this machine has " + names(list));
        return d;
    }
    throw Error("--device " + name + ": there is no such device; this machine has " + names(list));
}

}  // namespace

std::vector<DeviceInfo> devices() {
    std::vector<DeviceInfo> list = {{"cpu", cpu::description(), true, ""}};
    if (has_cuda()) {
        for (DeviceInfo& d : cuda::device_list()) list.push_back(std::move(d));
    }
    return list;
}

const Backend& choose_backend(std::string_view device, std::string* why) {
    const std::vector<DeviceInfo> list = devices();
    DeviceName wanted;
    try {
        wanted = parse_device(device);
    } catch (const Error& e) {
        throw Error(std::string(e.what()) + "; this binary has " + names(list));
    }
    const bool automatic = wanted.kind == DeviceName::Kind::automatic;
    const DeviceInfo* gpu = nullptr;
    if (automatic) gpu = first_usable_gpu(list);
    if (wanted.kind == DeviceName::Kind::cuda) gpu = &find_gpu(wanted, list);

    const DeviceInfo& taken = gpu != nullptr ? *gpu : list.front();
    if (why != nullptr) {
        *why = "device " + taken.name + " (" + taken.description + "): ";
        if (!automatic)
            *why += "as asked";
        else if (gpu != nullptr)
            *why += "auto takes the first GPU that answers";
        else
            *why += "auto takes the CPU because " + why_no_gpu(list);
    }
    return gpu != nullptr ? take_cuda(taken) : *cpu::backend();
}

const Backend* find_backend(std::string_view name) {
    if (name == "cpu") return cpu::backend();
    if (name == "cuda" && cuda::backend != nullptr) return cuda::backend();
    if (name == "sim" && sim::backend != nullptr) return sim::backend();
    return nullptr;
}

}  // namespace lc

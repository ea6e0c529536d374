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

std::string names(const std::vector<DeviceInfo>& list) {
    std::string text;
    for (const DeviceInfo& d : list) text += (text.empty() ? "" : ", ") + d.name + (d.usable ? "" : " (not usable)");
    return text;
}

const DeviceInfo* first_usable_gpu(const std::vector<DeviceInfo>& list) {
    for (size_t i = 1; i < list.size(); ++i) {
        if (list[i].usable) return &list[i];
    }
    return nullptr;
}

std::string why_no_gpu(const std::vector<DeviceInfo>& list) {
    return list.size() > 1 ? list[1].why_not : "this binary was built without CUDA";
}

const DeviceInfo& find_gpu(const DeviceName& wanted, const std::vector<DeviceInfo>& list) {
    const std::string option = "--device " + to_string(wanted);
    if (list.size() == 1) {
        throw Error(option + ": " + why_no_gpu(list) +
                    ": install the CUDA Toolkit (`make doctor` says what is missing) and " +
                    "run `make build` again, or use --device cpu");
    }
    const DeviceInfo* gpu = first_usable_gpu(list);
    if (gpu == nullptr)
        throw Error(option + ": " + why_no_gpu(list) + "; see what nvidia-smi says, or use --device cpu");
    if (wanted.index < 0) return *gpu;
    for (const DeviceInfo& d : list) {
        if (d.name == to_string(wanted) && d.usable) return d;
        if (d.name == to_string(wanted)) throw Error(option + ": " + d.why_not + "; this machine has " + names(list));
    }
    throw Error(option + ": there is no such device; this machine has " + names(list));
}

// The table of cuda::backend() under the name of one device.  Tables are handed out by reference and so never move.
const Backend& take_cuda(const std::string& name) {
    static std::map<std::string, Backend> tables;
    cuda::use_device(parse_device(name).index);
    Backend& b = tables.try_emplace(name, *cuda::backend()).first->second;
    b.name = name;
    return b;
}

}  // namespace

std::vector<DeviceInfo> devices() {
    std::vector<DeviceInfo> list = {{"cpu", cpu::description()}};
    if (cuda::backend == nullptr) return list;
    for (DeviceInfo& d : cuda::device_list()) list.push_back(std::move(d));
    if (list.size() == 1) list.push_back({"cuda", "no CUDA device", false, "the CUDA runtime lists no device"});
    return list;
}

const DeviceInfo& pick_device(std::string_view device, const std::vector<DeviceInfo>& list, std::string* why) {
    DeviceName wanted;
    try {
        wanted = parse_device(device);
    } catch (const Error& e) {
        throw Error(std::string(e.what()) + "; this binary has " + names(list));
    }
    const DeviceInfo* gpu = nullptr;
    std::string reason = "as asked";
    if (wanted.kind == DeviceName::Kind::cuda) gpu = &find_gpu(wanted, list);
    if (wanted.kind == DeviceName::Kind::automatic) {
        gpu = first_usable_gpu(list);
        reason = gpu ? "auto takes the first GPU that answers" : "auto takes the CPU because " + why_no_gpu(list);
    }
    const DeviceInfo& taken = gpu ? *gpu : list.front();
    if (why != nullptr) *why = "device " + taken.name + " (" + taken.description + "): " + reason;
    return taken;
}

const Backend& choose_backend(std::string_view device, std::string* why) {
    const std::vector<DeviceInfo> list = devices();
    const DeviceInfo& taken = pick_device(device, list, why);
    return &taken == &list.front() ? *cpu::backend() : take_cuda(taken.name);
}

const Backend* find_backend(std::string_view name) {
    if (name == "cpu") return cpu::backend();
    if (name == "cuda" && cuda::backend != nullptr) return cuda::backend();
    if (name == "sim" && sim::backend != nullptr) return sim::backend();
    return nullptr;
}

}  // namespace lc

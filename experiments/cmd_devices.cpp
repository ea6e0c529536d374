// cmd_devices.cpp -- localcal devices: which engines and devices this binary has.
#include <nlohmann/json.hpp>

#include "experiments/cli.h"
#include "kernels/backend.h"

namespace lc::cli {

static void list_devices(const Common& common) {
    const std::string automatic = choose_backend("auto").name;
    std::string why;
    choose_backend(common.device, &why);  // refuses what cannot be had

    nlohmann::ordered_json array = nlohmann::ordered_json::array();
    std::vector<std::vector<std::string>> rows = {{"device", "auto", "description", "usable"}};
    for (const DeviceInfo& d : devices()) {
        rows.push_back({d.name, d.name == automatic ? "*" : "", d.description, d.usable ? "yes" : "no: " + d.why_not});
        array.push_back({{"name", d.name}, {"description", d.description}, {"usable", d.usable}, {"why_not", nullptr}});
        if (!d.usable) array.back()["why_not"] = d.why_not;
    }
    if (common.json) {
        const char* schema = "localcal.devices/1";
        return print_json({{"schema", schema}, {"program", kProgram}, {"devices", array}, {"auto", automatic}});
    }
    print(table(rows) + (common.quiet ? "" : "\n" + why + "\n"));
}

extern const Command devices_command = {
    "devices", "which engines and devices this binary has",
    "  $ localcal devices --device cpu --threads 2\n"
    "  device  auto  description                usable\n"
    "  cpu     *     AMD EPYC, 2 threads, AVX2  yes\n"
    "\n"
    "  device cpu (AMD EPYC, 2 threads, AVX2): as asked\n"
    "\n"
    "The star marks what --device auto takes; the last line says what --device takes, and why.",
    [](Options&, const Common& common) -> std::function<void()> { return [&common] { list_devices(common); }; }};

}  // namespace lc::cli

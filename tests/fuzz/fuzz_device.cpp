// fuzz_device.cpp -- libFuzzer target: a device name is refused with lc::Error or prints back to the text it came from.
#include <cstdint>
#include <cstdio>
#include <cstdlib>

#include "kernels/device_name.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    const std::string_view text(reinterpret_cast<const char*>(data), size);
    lc::DeviceName device;
    try {
        device = lc::parse_device(text);
    } catch (const lc::Error&) {
        return 0;
    }
    const std::string printed = lc::to_string(device);
    if (printed == text) return 0;
    std::fprintf(stderr, "parse_device took '%.*s' for %s\n", int(size), text.data(), printed.c_str());
    std::abort();
}

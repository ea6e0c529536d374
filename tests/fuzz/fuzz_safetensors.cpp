// fuzz_safetensors.cpp -- libFuzzer target: bytes are refused with lc::Error, or hold tensors that share out all data.
#include <cstdio>
#include <cstdlib>

#include "data/safetensors.h"
#include "kernels/check.h"

namespace {

void demand(bool condition, const char* what) {
    if (condition) return;
    std::fprintf(stderr, "fuzz_safetensors: %s\n", what);
    std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    const std::span<const std::byte> bytes(reinterpret_cast<const std::byte*>(data), size);
    lc::Safetensors file;
    try {
        file = lc::parse_safetensors(bytes, "fuzz");
    } catch (const lc::Error&) {
        return 0;
    }
    const std::byte* end = bytes.data() + bytes.size();
    for (size_t i = file.tensors.size(); i-- > 0;) {
        const lc::SafeTensor& t = file.tensors[i];
        demand(t.bytes.data() + t.bytes.size() == end, "a tensor does not end where the next begins");
        end = t.bytes.data();
        demand(&file.at(t.name) == &t, "two tensors have one name");
        try {
            demand(t.to_doubles().size() == size_t(t.count()), "not all values were read");
            t.dtype.find('F') == std::string::npos ? void(t.to_integers()) : void(t.to_floats());
        } catch (const lc::Error&) {  // values that do not fit
        }
    }
    return 0;
}

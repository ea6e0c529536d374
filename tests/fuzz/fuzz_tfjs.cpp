// fuzz_tfjs.cpp -- libFuzzer target: model.json, a zero byte, and the bytes of every file that it names: refused with
// lc::Error, or tensors whose values can all be read.
#include <algorithm>

#include "data/tfjs.h"
#include "tests/fuzz/weights.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    const std::span<const std::byte> all(reinterpret_cast<const std::byte*>(data), size);
    const size_t end = size_t(std::find(all.begin(), all.end(), std::byte(0)) - all.begin());
    const std::span<const std::byte> shard = all.subspan(std::min(end + 1, size));
    lc::read_or_refuse([&] {
        const lc::Weights w = lc::parse_tfjs(all.first(end), "fuzz", [&](const std::string&) { return shard; });
        lc::read_values(w, size * size);
    });
    return 0;
}

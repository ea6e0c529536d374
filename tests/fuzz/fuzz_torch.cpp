// fuzz_torch.cpp -- libFuzzer target: files of PyTorch, zip and older, are refused with lc::Error, or hold tensors whose
// values can all be read.
#include "data/torch_file.h"
#include "tests/fuzz/weights.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    const std::span<const std::byte> file(reinterpret_cast<const std::byte*>(data), size);
    lc::read_or_refuse([&] {
        if (lc::looks_like_torch(file, "fuzz")) lc::read_values(lc::parse_torch(file, "fuzz", nullptr), size);
    });
    return 0;
}

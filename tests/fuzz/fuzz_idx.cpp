// fuzz_idx.cpp -- libFuzzer target: IDX bytes, plain or gzip, are refused with lc::Error, or hold as many values as their
// dimensions say.
#include <cstdio>
#include <cstdlib>

#include "data/idx.h"
#include "kernels/check.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    lc::IdxArray a;
    try {
        a = lc::parse_idx({reinterpret_cast<const std::byte*>(data), size}, "fuzz");
    } catch (const lc::Error&) {
        return 0;
    }
    uint64_t count = 1;
    bool empty = a.shape.empty();
    for (const int64_t d : a.shape) empty |= d == 0;
    for (const int64_t d : a.shape) count *= empty ? 0 : uint64_t(d);
    if (count == a.values.size() && !a.shape.empty()) return 0;
    std::fprintf(stderr, "fuzz_idx: %zu values do not fill the dimensions\n", a.values.size());
    std::abort();
}

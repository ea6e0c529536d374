// fuzz_npy.cpp -- libFuzzer target: .npy and .npz bytes are refused with lc::Error, or hold arrays whose data are as
// long as shape and type say, and whose values can all be read.
#include <cstdio>
#include <cstdlib>

#include "data/npy.h"
#include "data/zip.h"
#include "kernels/check.h"

namespace {

void demand(bool condition, const char* what) {
    if (condition) return;
    std::fprintf(stderr, "fuzz_npy: %s\n", what);
    std::abort();
}

void read_values(const lc::NpyArray& a) {
    demand(a.count() >= 0, "a shape whose product overflows was taken");
    if (!a.is_numeric()) return;
    demand(a.bytes.size() == size_t(a.count()) * size_t(a.itemsize), "data are not as long as shape and type say");
    demand(a.to_doubles().size() == size_t(a.count()), "not all values were read");
    const int64_t last = a.rows() == 0 ? 0 : a.rows() - 1;
    demand(int64_t(a.to_doubles(last).size()) * a.rows() == a.count(), "the last row is not as long as the others");
    try {
        a.to_floats();
        a.to_integers();
    } catch (const lc::Error&) {  // values that do not fit
    }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    const std::span<const std::byte> file(reinterpret_cast<const std::byte*>(data), size);
    try {
        if (!lc::looks_like_zip(file)) {
            read_values(lc::parse_npy(file, "fuzz"));
        } else {
            for (const auto& [name, array] : lc::parse_npz(file, "fuzz")) read_values(array);
        }
    } catch (const lc::Error&) {}
    return 0;
}

// arguments.h -- the checks that every op makes before it touches memory.  Each refusal names the op, the argument,
// what was expected, what was found, and what to do.
#pragma once
#include <cstdint>
#include <limits>

#include "kernels/check.h"

namespace lc {

inline void check_length(const char* op, int64_t n) {
    LC_CHECK(n >= 0, op << ": n is a number of elements, 0 or more; found n = " << n);
}

inline void check_shape(const char* op, int64_t N, int64_t C) {
    LC_CHECK(N >= 0, op << ": N is a number of rows, 0 or more; found N = " << N);
    LC_CHECK(C >= 0, op << ": C is a number of columns, 0 or more; found C = " << C);
    constexpr int64_t kMost = std::numeric_limits<int64_t>::max() / int64_t(sizeof(double));
    LC_CHECK(C == 0 || N <= kMost / C,
             op << ": a matrix of N = " << N << " times C = " << C << " elements cannot exist; check the shape");
}

// An array of the op: its name in the contract, where it is, how many elements it has.
struct Array {
    const char* name;
    const void* data;
    int64_t count;

    uintptr_t begin() const { return reinterpret_cast<uintptr_t>(data); }
    uintptr_t end() const { return begin() + uintptr_t(count) * 4; }  // all our element types have four bytes
};

inline void check_array(const char* op, Array a) {
    LC_CHECK(a.count == 0 || a.data != nullptr, op << ": " << a.name << " needs " << a.count
                                                   << " elements but is a null pointer; allocate it on the backend");
}

inline bool disjoint(Array a, Array b) {
    return a.count == 0 || b.count == 0 || a.end() <= b.begin() || b.end() <= a.begin();
}

// For ops that work in place: `out` is the very same array as `in`, or shares no byte with it.
inline void check_same_or_disjoint(const char* op, Array out, Array in) {
    check_array(op, out);
    check_array(op, in);
    const bool same = out.data == in.data && out.count == in.count;
    LC_CHECK(same || disjoint(out, in),
             op << ": " << out.name << " overlaps a part of " << in.name
                << "; pass the very same array to work in place, or one that shares nothing with it");
}

// For ops that do not.
inline void check_disjoint(const char* op, Array out, Array in) {
    check_array(op, out);
    check_array(op, in);
    LC_CHECK(disjoint(out, in), op << ": " << out.name << " overlaps " << in.name
                                   << "; this op does not work in place, give it its own array");
}

}  // namespace lc

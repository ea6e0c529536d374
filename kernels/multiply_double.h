// multiply_double.h -- a matrix product in double, for solvers on the host.
//
//     out (R, N) = A B          or, with `add`, out += A B          A (R, K)   B (K, N) row-major
//
//     element (r, k) of A is a.at[r * a.row + k * a.column]: a matrix as it is stored, or its transpose
//
// Needs    N, ldb and ldo multiples of kDoublePad: callers pad their rows with zeros, and no vector is ever cut.
// Threads  one, the caller's: whoever has many rows cuts them into fixed chunks (parallel.h) and adds the parts in
//          order.
// Numbers  every element is a sum over k = 0 .. K-1, one after the other, fused where the machine can: it does not
//          depend on the other rows and columns, so pieces of A give the same bits as the whole.
#pragma once
#include <cstdint>

namespace lc::cpu {

constexpr int64_t kDoublePad = 8;  // doubles in the widest vector
constexpr int64_t padded(int64_t n) { return (n + kDoublePad - 1) / kDoublePad * kDoublePad; }

struct DoubleMatrix {
    const double* at = nullptr;
    int64_t row = 0, column = 1;  // doubles from one row, one column to the next
};

void multiply_double(double* out, int64_t ldo, DoubleMatrix a, const double* b, int64_t ldb, int64_t R, int64_t N,
                     int64_t K, bool add = false);

}  // namespace lc::cpu

// multiply_double.cpp -- see multiply_double.h.
//
// Idea     a tile of (4 rows, 3 vectors) of the output stays in registers while k walks: 12 sums, 3 vectors of b and
//          one number of a fit into the 16 registers of AVX2 and hide the latency of its multiply-add.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/multiply_double.cpp"
#include "kernels/multiply_double.h"

#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace lc::cpu::HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;

constexpr int kRows = 4, kVectors = 3;
constexpr int64_t kWidth = HWY_LANES(double);

template <int rows, int vectors>
HWY_INLINE void tile(double* out, int64_t ldo, DoubleMatrix a, const double* b, int64_t ldb, int64_t K, bool add) {
    const hn::ScalableTag<double> d;
    hn::Vec<decltype(d)> sum[rows][vectors];
    for (int r = 0; r < rows; ++r) {
        for (int v = 0; v < vectors; ++v) sum[r][v] = add ? hn::LoadU(d, out + r * ldo + v * kWidth) : hn::Zero(d);
    }
    for (int64_t k = 0; k < K; ++k) {
        for (int r = 0; r < rows; ++r) {
            const auto x = hn::Set(d, a.at[r * a.row + k * a.column]);
            for (int v = 0; v < vectors; ++v) {
                sum[r][v] = hn::MulAdd(x, hn::LoadU(d, b + k * ldb + v * kWidth), sum[r][v]);
            }
        }
    }
    for (int r = 0; r < rows; ++r) {
        for (int v = 0; v < vectors; ++v) hn::StoreU(sum[r][v], d, out + r * ldo + v * kWidth);
    }
}

template <int vectors>
void columns(double* out, int64_t ldo, DoubleMatrix a, const double* b, int64_t ldb, int64_t R, int64_t K, bool add) {
    int64_t r = 0;
    const auto from = [&] { return DoubleMatrix{a.at + r * a.row, a.row, a.column}; };
    for (; r + kRows <= R; r += kRows) tile<kRows, vectors>(out + r * ldo, ldo, from(), b, ldb, K, add);
    for (; r < R; ++r) tile<1, vectors>(out + r * ldo, ldo, from(), b, ldb, K, add);
}

void multiply(double* out, int64_t ldo, DoubleMatrix a, const double* b, int64_t ldb, int64_t R, int64_t N, int64_t K,
              bool add) {
    int64_t j = 0;
    for (; j + kVectors * kWidth <= N; j += kVectors * kWidth) {
        columns<kVectors>(out + j, ldo, a, b + j, ldb, R, K, add);
    }
    for (; j < N; j += kWidth) columns<1>(out + j, ldo, a, b + j, ldb, R, K, add);
}

}  // namespace
}  // namespace lc::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
    #include "kernels/check.h"

namespace lc::cpu {
HWY_EXPORT(multiply);

void multiply_double(double* out, int64_t ldo, DoubleMatrix a, const double* b, int64_t ldb, int64_t R, int64_t N,
                     int64_t K, bool add) {
    LC_CHECK(N % kDoublePad == 0 && ldo >= N && ldb >= N,
             "multiply_double: rows are padded to a multiple of " << kDoublePad << "; found " << N << " columns");
    HWY_DYNAMIC_DISPATCH(multiply)(out, ldo, a, b, ldb, R, N, K, add);
}

}  // namespace lc::cpu
#endif  // HWY_ONCE

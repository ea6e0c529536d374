// gemm_kernel.h -- the inner pieces of the CPU matrix product, for every op whose work is a matrix product in disguise
// (gemm.cpp, convolution, kernel sums).
//
//     C (rows, cols) = alpha A (rows, K) B (K, cols) + beta C
//
//     A   read in place: element (i, k) is a[i * lda + k].  Whoever holds A^T makes rows of it by transpose_copy().
//     B   packed into panels of kPanel columns; panel p is (K, kPanel) row-major, 64-byte aligned, padded with zeros:
//
//             column    0 ........ 15   16 ....... 31   32 .. 36              AVX2: kPanel = 16, cols = 37
//             k = 0   [  0 ...... 15 ][ KP ......     ][ 2 KP .. | 0 0 0 ]    the numbers are places in the packed
//             k = 1   [ 16 ...... 31 ][ KP + 16 ..    ][         | 0 0 0 ]    array, KP stands for K * kPanel;
//              :      [               ][              ][         | 0 0 0 ]    a last panel of at most kLanes
//                                                                             columns is kLanes wide
//     C   the micro-kernel keeps (kTileRows, kPanel) of it in registers while it walks along k:
//
//               b  [ vector 0 ][ vector 1 ]        per k: 2 loads of b, kTileRows broadcasts of a,
//         a_0 ->   [ acc_00   ][ acc_01   ]        2 kTileRows fused multiply-adds.
//         a_1 ->   [ acc_10   ][ acc_11   ]        AVX2 has 16 registers: 12 acc + 2 b + 1 a.
//          :       [    :     ][    :     ]        AVX-512 has 32:        24 acc + 2 b + 1 a.
//
// Numbers  c_ij = fma(alpha, s_ij, beta c_ij) with s_ij = fma(a_ik, b_kj, s_ij) over k = 0 .. K-1, one after the other.
//          Every tile, full or ragged, does exactly this, so an element does not depend on which tile it fell into, nor
//          on the width of the vectors.  (Targets without FMA round twice: SSE4 and older differ from AVX2 and AVX-512.)
//
// Included once per SIMD target, after foreach_target.h, like every "-inl" header of Highway.
#if defined(LC_KERNELS_GEMM_KERNEL_H_) == defined(HWY_TARGET_TOGGLE)
    #ifdef LC_KERNELS_GEMM_KERNEL_H_
        #undef LC_KERNELS_GEMM_KERNEL_H_
    #else
        #define LC_KERNELS_GEMM_KERNEL_H_
    #endif

    #include <algorithm>
    #include <cstdint>
    #include <utility>

    #include "hwy/cache_control.h"
    #include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace lc::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

constexpr int kLanes = HWY_LANES(float);                    // floats in a vector: 16, 8, 4 or 1
constexpr int kTileRows = HWY_TARGET == HWY_AVX3 ? 12 : 6;  // rows of C in registers
constexpr int kTileVectors = 2;                             // vectors of C per row in registers
constexpr int kPanel = kTileVectors * kLanes;               // columns of C in registers

// ---- the micro-kernel -----------------------------------------------------------------------------------------------

// Where a product goes: c = alpha (product) + beta c.  What else may stand in its place (the convolution has one with bias,
// residual and relu) offers the same members.
struct Output {
    float* c;     // (rows, cols)
    int64_t ldc;  // floats from one row to the next
    float alpha;
    float beta;  // 0: c is not read

    Output at(int64_t i, int64_t j) const { return {c + i * ldc + j, ldc, alpha, beta}; }

    // One vector of the product, for row r and the columns from j on.
    template <class D, class V>
    HWY_INLINE void write(D d, int64_t r, int64_t j, V sum) const {
        float* to = c + r * ldc + j;
        const V old = beta == 0.0f ? hn::Zero(d) : hn::Mul(hn::Set(d, beta), hn::LoadU(d, to));
        hn::StoreU(hn::MulAdd(hn::Set(d, alpha), sum, old), d, to);
    }

    // The same with room for whole vectors: rows as wide as a panel, in a small array.
    struct Aside;
};

// One tile of C: kRows x (kVectors vectors), all in registers.
template <class Out, int kRows, int kVectors>
void micro_kernel(Out out, const float* HWY_RESTRICT a, int64_t lda, const float* HWY_RESTRICT panel, int64_t K) {
    const hn::ScalableTag<float> d;
    using Vector = hn::Vec<decltype(d)>;
    constexpr int kWidth = kVectors * kLanes;

    Vector acc[kRows][kVectors];
    HWY_UNROLL(kTileRows)
    for (int r = 0; r < kRows; ++r) {
        for (int v = 0; v < kVectors; ++v) acc[r][v] = hn::Zero(d);
        hwy::Prefetch(out.c + r * out.ldc);  // C is needed K steps from now; a row may straddle two cache lines
        hwy::Prefetch(out.c + r * out.ldc + kWidth - 1);
    }
    for (int64_t k = 0; k < K; ++k) {
        Vector b[kVectors];
        for (int v = 0; v < kVectors; ++v) b[v] = hn::Load(d, panel + k * kWidth + v * kLanes);
        HWY_UNROLL(kTileRows)
        for (int r = 0; r < kRows; ++r) {
            const Vector ar = hn::Set(d, a[r * lda + k]);
            for (int v = 0; v < kVectors; ++v) acc[r][v] = hn::MulAdd(ar, b[v], acc[r][v]);
        }
    }
    HWY_UNROLL(kTileRows)
    for (int r = 0; r < kRows; ++r) {
        for (int v = 0; v < kVectors; ++v) out.write(d, r, v * kLanes, acc[r][v]);
    }
}

template <class Out>
using MicroKernel = void (*)(Out, const float*, int64_t, const float*, int64_t);

template <class Out, int kVectors, int... kRowsMinusOne>
MicroKernel<Out> micro_kernel_among(int64_t rows, std::integer_sequence<int, kRowsMinusOne...>) {
    static constexpr MicroKernel<Out> table[] = {micro_kernel<Out, kRowsMinusOne + 1, kVectors>...};
    return table[rows - 1];
}

// The kernel for a tile of `rows` (1 .. kTileRows) and one or two vectors: a ragged last row of tiles does no idle work.
template <class Out = Output>
MicroKernel<Out> micro_kernel_for(int64_t rows, int64_t width) {
    constexpr auto all = std::make_integer_sequence<int, kTileRows>();
    return width == kLanes ? micro_kernel_among<Out, 1>(rows, all) : micro_kernel_among<Out, kTileVectors>(rows, all);
}

// ---- panels of B ----------------------------------------------------------------------------------------------------

// Width of the panel that holds the last `cols` columns.
inline int64_t panel_width(int64_t cols) { return cols <= kLanes ? kLanes : kPanel; }

// Floats that `cols` columns need when packed; the array itself must be 64-byte aligned.
inline int64_t packed_floats(int64_t K, int64_t cols) { return K * ((cols + kPanel - 1) / kPanel) * kPanel; }

// dst_j = src_j for j < n < kPanel: too short for the price of a call to memcpy.
HWY_INLINE void copy_short(float* HWY_RESTRICT dst, const float* HWY_RESTRICT src, int64_t n) {
    const hn::ScalableTag<float> d;
    int64_t j = 0;
    for (; j + kLanes <= n; j += kLanes) hn::StoreU(hn::LoadU(d, src + j), d, dst + j);
    for (; j < n; ++j) dst[j] = src[j];
}

// dst[j * dst_ld + i] = src[i * src_ld + j]            src (rows, cols)
inline void transpose_copy(float* HWY_RESTRICT dst, int64_t dst_ld, const float* HWY_RESTRICT src, int64_t src_ld,
                           int64_t rows, int64_t cols) {
    #if HWY_TARGET == HWY_SCALAR
    const int64_t rows4 = 0;
    #else
    const int64_t rows4 = rows / 4 * 4, cols4 = cols / 4 * 4;
    const hn::FixedTag<float, 4> d;
    const hn::FixedTag<double, 2> pair;
    for (int64_t i = 0; i < rows4; i += 4) {
        const float* s = src + i * src_ld;
        for (int64_t j = 0; j < cols4; j += 4) {  // a 4 x 4 block: interleave rows, then interleave pairs
            const auto r0 = hn::LoadU(d, s + j), r1 = hn::LoadU(d, s + src_ld + j);
            const auto r2 = hn::LoadU(d, s + 2 * src_ld + j), r3 = hn::LoadU(d, s + 3 * src_ld + j);
            const auto low01 = hn::BitCast(pair, hn::InterleaveLower(d, r0, r1));
            const auto low23 = hn::BitCast(pair, hn::InterleaveLower(d, r2, r3));
            const auto high01 = hn::BitCast(pair, hn::InterleaveUpper(d, r0, r1));
            const auto high23 = hn::BitCast(pair, hn::InterleaveUpper(d, r2, r3));
            float* t = dst + j * dst_ld + i;
            hn::StoreU(hn::BitCast(d, hn::InterleaveLower(pair, low01, low23)), d, t);
            hn::StoreU(hn::BitCast(d, hn::InterleaveUpper(pair, low01, low23)), d, t + dst_ld);
            hn::StoreU(hn::BitCast(d, hn::InterleaveLower(pair, high01, high23)), d, t + 2 * dst_ld);
            hn::StoreU(hn::BitCast(d, hn::InterleaveUpper(pair, high01, high23)), d, t + 3 * dst_ld);
        }
        for (int64_t j = cols4; j < cols; ++j) {
            for (int64_t q = 0; q < 4; ++q) dst[j * dst_ld + i + q] = s[q * src_ld + j];
        }
    }
    #endif
    for (int64_t i = rows4; i < rows; ++i) {
        for (int64_t j = 0; j < cols; ++j) dst[j * dst_ld + i] = src[i * src_ld + j];
    }
}

// Packs `cols` columns of op(B) from B stored (cols, K): element (k, j) is b[j * ldb + k].
inline void pack_transposed(float* HWY_RESTRICT packed, const float* b, int64_t ldb, int64_t K, int64_t cols) {
    for (int64_t j = 0; j < cols; j += kPanel) {
        const int64_t n = std::min<int64_t>(kPanel, cols - j), width = panel_width(n);
        float* panel = packed + j * K;  // (K, width)
        if (n < width) std::fill(panel, panel + K * width, 0.0f);
        transpose_copy(panel, width, b + j * ldb, ldb, n, K);
    }
}

// Packs `cols` columns of op(B) from B stored (K, cols): element (k, j) is b[k * ldb + j].  A few rows at a time are read
// from end to end, which is how memory likes to be read; what each panel gets of them is written in one piece.
inline void pack_plain(float* HWY_RESTRICT packed, const float* HWY_RESTRICT b, int64_t ldb, int64_t K, int64_t cols) {
    constexpr int64_t kRowsAtOnce = 4;
    const hn::ScalableTag<float> d;
    const int64_t full = cols / kPanel * kPanel, rest = cols - full, width = panel_width(rest);
    for (int64_t k0 = 0; k0 < K; k0 += kRowsAtOnce) {
        const int64_t k1 = std::min(K, k0 + kRowsAtOnce);
        for (int64_t j = 0; j < full; j += kPanel) {
            for (int64_t k = k0; k < k1; ++k) {
                float* t = packed + j * K + k * kPanel;
                for (int v = 0; v < kPanel; v += kLanes) hn::Store(hn::LoadU(d, b + k * ldb + j + v), d, t + v);
            }
        }
        for (int64_t k = k0; rest != 0 && k < k1; ++k) {
            float* t = packed + full * K + k * width;
            copy_short(t, b + k * ldb + full, rest);
            std::fill(t + rest, t + width, 0.0f);
        }
    }
}

// ---- C (rows, cols) = alpha A panels + beta C -----------------------------------------------------------------------

struct Output::Aside {
    HWY_ALIGN float tile[kTileRows * kPanel];
    Output out;

    Aside(const Output& from, int64_t rows, int64_t cols, int64_t width) : out{tile, width, from.alpha, from.beta} {
        if (from.beta == 0.0f) return;
        std::fill(tile, tile + rows * width, 0.0f);
        for (int64_t r = 0; r < rows; ++r) copy_short(tile + r * width, from.c + r * from.ldc, cols);
    }
};

// A tile with fewer columns than its panel: computed in a small array, so that nothing outside C is touched.
template <class Out>
void ragged_tile(MicroKernel<Out> kernel, const Out& out, const float* a, int64_t lda, int64_t rows, const float* panel,
                 int64_t cols, int64_t K) {
    typename Out::Aside aside(out, rows, cols, panel_width(cols));
    kernel(aside.out, a, lda, panel, K);
    for (int64_t r = 0; r < rows; ++r) copy_short(out.c + r * out.ldc, aside.out.c + r * aside.out.ldc, cols);
}

// Columns of B that stay in L2 while the rows of A pass by: 192 KiB of panels, and at least 128 columns.
static_assert(128 % kPanel == 0);
inline int64_t group_columns(int64_t K) { return std::max<int64_t>(1, 384 / std::max<int64_t>(1, K)) * 128; }

// All tiles.  kTileRows rows of A stay in L1 while a group of panels, which stays in L2, passes by; then come the next rows,
// and when all rows have been, the next group.  So `rows` should be few enough for A to stay in L2 (about 100), or `cols`
// no more than one group.
template <class Out>
void multiply_panels(const Out& out, const float* a, int64_t lda, int64_t rows, const float* packed, int64_t cols,
                     int64_t K) {
    const int64_t group_step = group_columns(K);
    for (int64_t group = 0; group < cols; group += group_step) {
        for (int64_t i = 0; i < rows; i += kTileRows) {
            const int64_t m = std::min<int64_t>(kTileRows, rows - i);
            for (int64_t j = group; j < std::min(cols, group + group_step); j += kPanel) {
                const int64_t n = std::min<int64_t>(kPanel, cols - j), width = panel_width(n);
                const MicroKernel<Out> kernel = micro_kernel_for<Out>(m, width);
                if (n == width) {
                    kernel(out.at(i, j), a + i * lda, lda, packed + j * K, K);
                } else {
                    ragged_tile(kernel, out.at(i, j), a + i * lda, lda, m, packed + j * K, n, K);
                }
            }
        }
    }
}

}  // namespace lc::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif  // LC_KERNELS_GEMM_KERNEL_H_

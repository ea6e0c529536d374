// conv2d_kernel.h -- what the matrix products of the convolution need beyond gemm_kernel.h: rows gathered from an image,
// and an output with bias, residual and relu.
//
// Included once per SIMD target, after foreach_target.h, like every "-inl" header of Highway.
#if defined(LC_KERNELS_CONV2D_KERNEL_H_) == defined(HWY_TARGET_TOGGLE)
    #ifdef LC_KERNELS_CONV2D_KERNEL_H_
        #undef LC_KERNELS_CONV2D_KERNEL_H_
    #else
        #define LC_KERNELS_CONV2D_KERNEL_H_
    #endif

    #include <algorithm>
    #include <cstdint>

    #include "kernels/conv2d_cpu.h"
    #include "kernels/gemm_kernel.h"

HWY_BEFORE_NAMESPACE();
namespace lc::cpu::HWY_NAMESPACE {

// ---- rows -----------------------------------------------------------------------------------------------------------

// dst_i = src_i for i < n.  The last vector overlaps the one before it.
HWY_INLINE void copy_run(float* HWY_RESTRICT dst, const float* HWY_RESTRICT src, int64_t n) {
    const hn::ScalableTag<float> d;
    if (n < kLanes) {
        for (int64_t i = 0; i < n; ++i) dst[i] = src[i];
        return;
    }
    for (int64_t i = 0; i + kLanes < n; i += kLanes) hn::StoreU(hn::LoadU(d, src + i), d, dst + i);
    hn::StoreU(hn::LoadU(d, src + n - kLanes), d, dst + n - kLanes);
}

HWY_INLINE void zero_run(float* dst, int64_t n) {
    const hn::ScalableTag<float> d;
    int64_t i = 0;
    for (; i + kLanes <= n; i += kLanes) hn::StoreU(hn::Zero(d), d, dst + i);
    for (; i < n; ++i) dst[i] = 0.0f;
}

// The patches of `rows` outputs from number `first` on, columns k .. k + depth of (R, S, C) each: dst (rows, depth), leading
// dimension ld.  Taps that are neighbours in a row of the image are neighbours in memory: for each r one run of S C floats,
// and what lies outside of the image is cut off at its ends.
//
//     x row h + r   ...[ w-1 ][ w   ][ w+1 ][ w+2 ]...       S = 3, left = -1, at the left border (w = 0):
//                      |<----- 3 C ----->|                   w - 1 does not exist, the run is C zeros and 2 C floats of x
inline void gather_patches(float* dst, int64_t ld, const float* x, const DenseConv& conv, int64_t first, int64_t rows,
                           int64_t k, int64_t depth) {
    const int64_t run = conv.S * conv.C, r0 = k / run, o0 = k % run;
    int64_t n = first / (conv.P * conv.Q), p = first / conv.Q % conv.P, q = first % conv.Q;
    for (int64_t i = 0; i < rows; ++i) {
        const int64_t h = p * conv.stride + conv.top, w = q * conv.stride + conv.left;
        const int64_t begin = std::max<int64_t>(0, -w) * conv.C,
                      end = std::min(conv.S, conv.W - w) * conv.C;  // of a run
        const bool whole = h >= 0 && h + conv.R <= conv.H && w >= 0 && w + conv.S <= conv.W;
        const int64_t corner = ((n * conv.H + h) * conv.W + w) * conv.C;  // may lie outside of x
        float* to = dst + i * ld;
        int64_t left = depth, o = o0;
        for (int64_t r = r0; left > 0; ++r, o = 0) {
            const int64_t length = std::min(left, run - o), from_x = corner + r * conv.W * conv.C + o;
            if (whole) {
                copy_run(to, x + from_x, length);
            } else {
                const bool inside = h + r >= 0 && h + r < conv.H;
                const int64_t from = inside ? std::clamp(begin - o, int64_t(0), length) : length;  // [from, till): of x
                const int64_t till = inside ? std::clamp(end - o, from, length) : length;
                zero_run(to, from);
                if (till > from) copy_run(to + from, x + (from_x + from), till - from);
                zero_run(to + till, length - till);
            }
            to += length;
            left -= length;
        }
        if (++q == conv.Q) {
            q = 0;
            if (++p == conv.P) p = 0, ++n;
        }
    }
}

// ---- outputs --------------------------------------------------------------------------------------------------------

// relu( ((c +) product + bias) + residual ), each if wanted.
template <class D, class V>
HWY_INLINE V finish_vector(D d, V v, const float* bias, const float* residual, bool relu) {
    if (bias != nullptr) v = hn::Add(v, hn::LoadU(d, bias));
    if (residual != nullptr) v = hn::Add(v, hn::LoadU(d, residual));
    return relu ? hn::IfThenZeroElse(hn::Lt(v, hn::Zero(d)), v) : v;  // NaN stays
}

struct ConvOutput {
    float* c;
    int64_t ldc;
    bool add;               // to what stands in c: all blocks of depth but the first
    const float* bias;      // (cols) or null
    const float* residual;  // like c, or null
    bool relu;

    ConvOutput at(int64_t i, int64_t j) const {
        return {
            c + i * ldc + j, ldc, add, bias ? bias + j : nullptr, residual ? residual + i * ldc + j : nullptr, relu};
    }
    template <class D, class V>
    HWY_INLINE void write(D d, int64_t r, int64_t j, V sum) const {
        float* const to = c + r * ldc + j;
        if (add) sum = hn::Add(hn::LoadU(d, to), sum);
        hn::StoreU(finish_vector(d, sum, bias ? bias + j : nullptr, residual ? residual + r * ldc + j : nullptr, relu),
                   d, to);
    }
    struct Aside;
};

struct ConvOutput::Aside {
    HWY_ALIGN float tile[kTileRows * kPanel] = {};
    HWY_ALIGN float bias[kPanel] = {};
    HWY_ALIGN float residual[kTileRows * kPanel] = {};
    ConvOutput out;

    Aside(const ConvOutput& from, int64_t rows, int64_t cols, int64_t width)
        : out{tile, width, from.add, from.bias ? bias : nullptr, from.residual ? residual : nullptr, from.relu} {
        if (from.bias) copy_short(bias, from.bias, cols);
        for (int64_t r = 0; r < rows; ++r) {
            if (from.add) copy_short(tile + r * width, from.c + r * from.ldc, cols);
            if (from.residual) copy_short(residual + r * width, from.residual + r * from.ldc, cols);
        }
    }
};

}  // namespace lc::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif  // LC_KERNELS_CONV2D_KERNEL_H_

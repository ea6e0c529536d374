// simd_map.h -- out_i = op(in_i, ...) for arrays of any length and alignment.
//
//     map(out, n, stream, op, in...)    op is called as op(tag, vectors...), with the tag of a whole vector or of one lane

// Included once per target: Highway flips HWY_TARGET_TOGGLE, so an ordinary #pragma once would be wrong.
#if defined(LC_KERNELS_SIMD_MAP_H) == defined(HWY_TARGET_TOGGLE)
    #ifdef LC_KERNELS_SIMD_MAP_H
        #undef LC_KERNELS_SIMD_MAP_H
    #else
        #define LC_KERNELS_SIMD_MAP_H
    #endif

    #include <cstdint>
    #include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace lc::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Whole vectors where they fit, single lanes around them.  Output and input may be one array.
// With `stream` the vectors go to memory past the caches, which spares reading the lines that they overwrite; such
// stores must be aligned.
template <class Op, class... In>
HWY_INLINE void map(float* out, int64_t n, bool stream, const Op& op, const In*... in) {
    const hn::ScalableTag<float> d;
    const hn::CappedTag<float, 1> one;
    const int64_t lanes = int64_t(hn::Lanes(d));
    int64_t i = 0;
    const auto singly = [&](int64_t end) HWY_ATTR {
        for (; i < end; ++i) hn::StoreU(op(one, hn::LoadU(one, in + i)...), one, out + i);
    };
    if (stream) {
        const int64_t off = int64_t(reinterpret_cast<uintptr_t>(out) / sizeof(float)) % lanes;
        singly(HWY_MIN(n, (lanes - off) % lanes));
        for (; i + lanes <= n; i += lanes) hn::Stream(op(d, hn::LoadU(d, in + i)...), d, out + i);
    } else {
        for (; i + lanes <= n; i += lanes) hn::StoreU(op(d, hn::LoadU(d, in + i)...), d, out + i);
    }
    singly(n);
}

}  // namespace lc::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target guard

// adam.cpp -- CPU backend of adam (contract and formulas: adam.h).
//
// Idea     one walk over the four arrays, vectors and then single lanes.
// Traffic  28 bytes per element: four arrays read, three written; bound by memory.
// Numbers  float32; one square root and one division, both exactly rounded.
// Profile  `make bench`
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/adam.cpp"
#include "kernels/adam.h"

#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace lc::cpu::HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;

template <class D>
HWY_INLINE void adam_vector(D d, float* x, float* m, float* v, const float* g, const AdamNumbers& k) {
    auto grad = hn::LoadU(d, g);
    if (k.decay != 0) grad = hn::MulAdd(hn::Set(d, k.decay), hn::LoadU(d, x), grad);
    const auto first = hn::MulAdd(hn::Set(d, k.beta1), hn::LoadU(d, m), hn::Mul(hn::Set(d, k.rest1), grad));
    const auto second =
        hn::MulAdd(hn::Set(d, k.beta2), hn::LoadU(d, v), hn::Mul(hn::Set(d, k.rest2), hn::Mul(grad, grad)));
    const auto spread = hn::Add(hn::Sqrt(hn::Mul(hn::Set(d, k.v_scale), second)), hn::Set(d, k.eps));
    const auto step = hn::Div(hn::Mul(hn::Set(d, k.rate), first), spread);
    hn::StoreU(first, d, m);
    hn::StoreU(second, d, v);
    hn::StoreU(hn::Sub(hn::LoadU(d, x), step), d, x);
}

void adam_chunk(float* x, float* m, float* v, const float* g, int64_t n, const AdamNumbers& k) {
    const hn::ScalableTag<float> d;
    const hn::CappedTag<float, 1> one;
    const int64_t lanes = int64_t(hn::Lanes(d));
    int64_t i = 0;
    for (; i + lanes <= n; i += lanes) adam_vector(d, x + i, m + i, v + i, g + i, k);
    for (; i < n; ++i) adam_vector(one, x + i, m + i, v + i, g + i, k);
}

}  // namespace
}  // namespace lc::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
    #include "kernels/arguments.h"
    #include "kernels/parallel.h"

namespace lc::cpu {
HWY_EXPORT(adam_chunk);

void adam(float* x, float* m, float* v, const float* g, int64_t n, const AdamStep& step, Stream) {
    const AdamNumbers numbers = adam_numbers(step);
    check_length("adam", n);
    const Array arrays[] = {{"x", x, n}, {"m", m, n}, {"v", v, n}, {"g", g, n}};
    for (int i = 0; i < 4; ++i) {
        for (int j = 0; j < i; ++j) check_disjoint("adam", arrays[j], arrays[i]);
    }
    for_each_chunk(n, 1 << 14, [=](int64_t i, int64_t end) {
        HWY_DYNAMIC_DISPATCH(adam_chunk)(x + i, m + i, v + i, g + i, end - i, numbers);
    });
}

}  // namespace lc::cpu
#endif  // HWY_ONCE

// sgd.cpp -- CPU backend of sgd (contract and formulas: sgd.h).
//
// Idea     one walk over the three arrays, vectors and then single lanes.
// Traffic  20 bytes per element: three arrays read, two written; bound by memory.
// Numbers  float32, one multiply-add per line of the formula (fused where the machine can).
// Profile  `make bench`
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/sgd.cpp"
#include "kernels/sgd.h"

#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace lc::cpu::HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;

template <class D>
HWY_INLINE void sgd_vector(D d, float* x, float* v, const float* g, const SgdNumbers& k) {
    const auto at = hn::LoadU(d, x);
    auto speed = hn::LoadU(d, g);
    if (k.decay != 0) speed = hn::MulAdd(hn::Set(d, k.decay), at, speed);
    if (!k.fresh) speed = hn::MulAdd(hn::Set(d, k.momentum), hn::LoadU(d, v), speed);
    hn::StoreU(speed, d, v);
    hn::StoreU(hn::NegMulAdd(hn::Set(d, k.lr), speed, at), d, x);
}

void sgd_chunk(float* x, float* v, const float* g, int64_t n, const SgdNumbers& k) {
    const hn::ScalableTag<float> d;
    const hn::CappedTag<float, 1> one;
    const int64_t lanes = int64_t(hn::Lanes(d));
    int64_t i = 0;
    for (; i + lanes <= n; i += lanes) sgd_vector(d, x + i, v + i, g + i, k);
    for (; i < n; ++i) sgd_vector(one, x + i, v + i, g + i, k);
}

}  // namespace
}  // namespace lc::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
    #include "kernels/arguments.h"
    #include "kernels/parallel.h"

namespace lc::cpu {
HWY_EXPORT(sgd_chunk);

void sgd(float* x, float* v, const float* g, int64_t n, const SgdStep& step, Stream) {
    const SgdNumbers numbers = sgd_numbers(step);
    check_length("sgd", n);
    check_disjoint("sgd", {"x", x, n}, {"v", v, n});
    check_disjoint("sgd", {"x", x, n}, {"g", g, n});
    check_disjoint("sgd", {"v", v, n}, {"g", g, n});
    for_each_chunk(n, 1 << 14, [=](int64_t i, int64_t end) {
        HWY_DYNAMIC_DISPATCH(sgd_chunk)(x + i, v + i, g + i, end - i, numbers);
    });
}

}  // namespace lc::cpu
#endif  // HWY_ONCE

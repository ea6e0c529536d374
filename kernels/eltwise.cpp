// eltwise.cpp -- CPU backend of eltwise (contract and formulas: eltwise.h).
//
// Idea     load a vector of each input, apply the formula, store.  The SIMD code handles one chunk; the loop over
//          chunks, with its threads, is at the end.  bias repeats b until the pattern is long enough to be added like
//          any array.  dropout computes one Philox group per 64-bit lane, where a 32 x 32 -> 64 bit product is one
//          instruction.
// Traffic  4 bytes per element and array, each touched once: bound by memory for all but dropout, which is bound by its
//          ten Philox rounds while the data is in a cache.  Outputs too large for the caches are written past them.
// Numbers  one rounding per element: every target and every chunking gives the bits of the scalar formula.  softplus: exp
//          and log1p of simd_math.h, a few roundings.
// Profile  `make bench`
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/eltwise.cpp"
#include "kernels/eltwise.h"

#include <hwy/cache_control.h>
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/simd_map.h"
#include "kernels/simd_math.h"

HWY_BEFORE_NAMESPACE();
namespace lc::cpu::HWY_NAMESPACE {
namespace {

struct Add {
    template <class D, class V>
    HWY_INLINE V operator()(D, V x, V y) const {
        return hn::Add(x, y);
    }
};
struct AddRelu {
    template <class D, class V>
    HWY_INLINE V operator()(D d, V x, V y) const {
        const V sum = hn::Add(x, y);
        return hn::IfThenZeroElse(hn::Le(sum, hn::Zero(d)), sum);
    }
};
struct Scale {
    float a;
    template <class D, class V>
    HWY_INLINE V operator()(D d, V x) const {
        return hn::Mul(hn::Set(d, a), x);
    }
};
struct Relu {  // "0 where x <= 0" rather than max(x, 0): a NaN compares false and stays, -0 becomes +0
    template <class D, class V>
    HWY_INLINE V operator()(D d, V x) const {
        return hn::IfThenZeroElse(hn::Le(x, hn::Zero(d)), x);
    }
};
struct ReluBwd {
    template <class D, class V>
    HWY_INLINE V operator()(D d, V dy, V y) const {
        return hn::IfThenElseZero(hn::Gt(y, hn::Zero(d)), dy);
    }
};
struct Softplus {
    template <class D, class V>
    HWY_INLINE V operator()(D d, V x) const {
        const V above = hn::IfThenZeroElse(hn::Lt(x, hn::Zero(d)), x);  // max(x, 0), and a NaN stays
        return hn::Add(above, log1p_lanes(d, exp_lanes(d, hn::Neg(hn::Abs(x)))));
    }
};
struct
    SoftplusBwd {  // u = exp(-y).  Near y = 0 the rounding of u spoils 1 - u and -ln u alike, but not their quotient.
    template <class D, class V>
    HWY_INLINE V operator()(D d, V dy, V y) const {
        const V one = hn::Set(d, 1.0f), u = exp_lanes(d, hn::Neg(y)), rest = hn::Sub(one, u);
        const V small = hn::Div(hn::Mul(rest, y), hn::Neg(log_lanes(d, u)));
        const V slope = hn::IfThenElse(hn::Gt(y, one), rest, hn::IfThenElse(hn::Eq(u, one), y, small));
        return hn::Mul(dy, slope);
    }
};

void add_chunk(float* out, const float* x, const float* y, int64_t n, bool stream) {
    map(out, n, stream, Add(), x, y);
    if (stream) hwy::FlushStream();
}
void scale_chunk(float* out, const float* x, float a, int64_t n, bool stream) {
    map(out, n, stream, Scale{a}, x);
    if (stream) hwy::FlushStream();
}
void relu_chunk(float* out, const float* x, int64_t n, bool stream) {
    map(out, n, stream, Relu(), x);
    if (stream) hwy::FlushStream();
}
void add_relu_chunk(float* out, const float* x, const float* y, int64_t n, bool stream) {
    map(out, n, stream, AddRelu(), x, y);
    if (stream) hwy::FlushStream();
}
void relu_bwd_chunk(float* dx, const float* dy, const float* y, int64_t n, bool stream) {
    map(dx, n, stream, ReluBwd(), dy, y);
    if (stream) hwy::FlushStream();
}
void softplus_chunk(float* out, const float* x, int64_t n) { map(out, n, false, Softplus(), x); }
void softplus_bwd_chunk(float* dx, const float* dy, const float* y, int64_t n) {
    map(dx, n, false, SoftplusBwd(), dy, y);
}

// The chunk starts at the beginning of the pattern.
void bias_chunk(float* out, const float* x, const float* pattern, int64_t period, int64_t n, bool stream) {
    for (int64_t i = 0; i < n; i += period) map(out + i, HWY_MIN(period, n - i), stream, Add(), x + i, pattern);
    if (stream) hwy::FlushStream();
}

void dropout_scalar(float* out, const float* x, DropoutRule rule, RandomKey key, int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; i += 4) {  // begin is a multiple of 4
        const Philox4 words = random_bits4(key, uint64_t(i) / 4);
        for (int64_t j = 0; j < HWY_MIN(int64_t(4), end - i); ++j) {
            out[i + j] = words.v[j] >= rule.threshold ? x[i + j] * rule.keep_scale : 0.0f;
        }
    }
}

#if HWY_TARGET == HWY_SCALAR

void dropout_chunk(float* out, const float* x, DropoutRule rule, RandomKey key, int64_t begin, int64_t end) {
    dropout_scalar(out, x, rule, key, begin, end);
}

#else

// Philox of philox.h, one group per 64-bit lane.  Each word lives in the low half of its lane; the high half holds
// garbage that no multiplication reads, so nothing is ever masked.
template <class V>
struct Philox4Lanes {
    V v[4];
};
template <class D, class V = hn::Vec<D>>
HWY_INLINE Philox4Lanes<V> random_bits4_lanes(D d, RandomKey key, V group) {
    const hn::Repartition<uint32_t, D> d32;
    const auto multiply = [&](V a, uint32_t b) HWY_ATTR { return hn::MulEven(hn::BitCast(d32, a), hn::Set(d32, b)); };
    Philox4Lanes<V> c = {{group, hn::ShiftRight<32>(group), hn::Set(d, key.stream), hn::Set(d, key.stream >> 32)}};
    uint32_t k0 = uint32_t(key.seed), k1 = uint32_t(key.seed >> 32);
    for (int round = 0; round < 10; ++round) {
        const V product0 = multiply(c.v[0], 0xD2511F53u);
        const V product1 = multiply(c.v[2], 0xCD9E8D57u);
        c.v[0] = hn::Xor(hn::ShiftRight<32>(product1), hn::Xor(c.v[1], hn::Set(d, k0)));
        c.v[1] = product1;
        c.v[2] = hn::Xor(hn::ShiftRight<32>(product0), hn::Xor(c.v[3], hn::Set(d, k1)));
        c.v[3] = product0;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    return c;
}

// Which group a lane computes.  Interleaving pairs the even lanes of all 128-bit blocks, then the odd ones; numbering
// the groups in that order makes the words come out in the order of the elements.
template <class D>
HWY_INLINE hn::Vec<D> group_of_lane(D d) {
    const size_t blocks = hn::Lanes(d) / 2;
    HWY_ALIGN uint64_t group[hn::MaxLanes(d)];
    for (size_t lane = 0; lane < 2 * blocks; ++lane) group[lane] = lane / 2 + (lane % 2) * blocks;
    return hn::Load(d, group);
}

void dropout_chunk(float* out, const float* x, DropoutRule rule, RandomKey key, int64_t begin, int64_t end) {
    const hn::ScalableTag<float> d;
    const hn::Repartition<uint32_t, decltype(d)> d32;
    const hn::Repartition<uint64_t, decltype(d)> d64;
    using Words = hn::Vec<decltype(d64)>;
    const int64_t lanes = int64_t(hn::Lanes(d)), step = 2 * lanes;  // the words of one vector of groups
    const auto threshold = hn::Set(d32, rule.threshold);
    const auto keep_scale = hn::Set(d, rule.keep_scale);
    const auto lane_groups = group_of_lane(d64);

    const auto draw = [&](int64_t i) HWY_ATTR {
        return random_bits4_lanes(d64, key, hn::Add(hn::Set(d64, uint64_t(i) / 4), lane_groups));
    };
    const auto join = [&](Words low, Words high) HWY_ATTR {  // two words into one lane
        return hn::BitCast(d64, hn::OddEven(hn::BitCast(d32, hn::ShiftLeft<32>(high)), hn::BitCast(d32, low)));
    };
    const auto store = [&](int64_t i, Words words) HWY_ATTR {
        const auto dropped = hn::RebindMask(d, hn::Lt(hn::BitCast(d32, words), threshold));
        hn::StoreU(hn::IfThenZeroElse(dropped, hn::Mul(hn::LoadU(d, x + i), keep_scale)), d, out + i);
    };
    const auto apply = [&](int64_t i, const Philox4Lanes<Words>& c) HWY_ATTR {
        const Words words01 = join(c.v[0], c.v[1]), words23 = join(c.v[2], c.v[3]);
        store(i, hn::InterleaveLower(d64, words01, words23));
        store(i + lanes, hn::InterleaveUpper(d64, words01, words23));
    };
    int64_t i = begin;
    for (; i + 2 * step <= end; i += 2 * step) {  // the ten rounds are one long chain: two chains fill the waiting time
        const auto first = draw(i), second = draw(i + step);
        apply(i, first);
        apply(i + step, second);
    }
    dropout_scalar(out, x, rule, key, i, end);
}

#endif  // HWY_TARGET

}  // namespace
}  // namespace lc::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
    #include <cstring>
    #include <vector>

    #include "kernels/arguments.h"
    #include "kernels/parallel.h"
    #include "kernels/pattern.h"
    #include "kernels/streaming.h"

namespace lc::cpu {
HWY_EXPORT(add_chunk);
HWY_EXPORT(scale_chunk);
HWY_EXPORT(relu_chunk);
HWY_EXPORT(add_relu_chunk);
HWY_EXPORT(relu_bwd_chunk);
HWY_EXPORT(softplus_chunk);
HWY_EXPORT(softplus_bwd_chunk);
HWY_EXPORT(bias_chunk);
HWY_EXPORT(dropout_chunk);

// Elements per chunk: 256 KiB of each array, tens of microseconds of work.
constexpr int64_t kChunk = 1 << 16;
constexpr int64_t kDropoutChunk = 1 << 14;  // more work per element; a multiple of the 4 words of a Philox group
constexpr int64_t kSoftplusChunk = 1 << 14;

void add(float* out, const float* x, const float* y, int64_t n, Stream) {
    check_length("add", n);
    check_same_or_disjoint("add", {"out", out, n}, {"x", x, n});
    check_same_or_disjoint("add", {"out", out, n}, {"y", y, n});
    const bool stream = should_stream(out, n, x, y);
    for_each_chunk(n, kChunk, [=](int64_t i, int64_t end) {  //
        HWY_DYNAMIC_DISPATCH(add_chunk)(out + i, x + i, y + i, end - i, stream);
    });
}

void scale(float* out, const float* x, float a, int64_t n, Stream) {
    check_length("scale", n);
    check_same_or_disjoint("scale", {"out", out, n}, {"x", x, n});
    const bool stream = should_stream(out, n, x);
    for_each_chunk(n, kChunk, [=](int64_t i, int64_t end) {  //
        HWY_DYNAMIC_DISPATCH(scale_chunk)(out + i, x + i, a, end - i, stream);
    });
}

void relu(float* out, const float* x, int64_t n, Stream) {
    check_length("relu", n);
    check_same_or_disjoint("relu", {"out", out, n}, {"x", x, n});
    const bool stream = should_stream(out, n, x);
    for_each_chunk(n, kChunk, [=](int64_t i, int64_t end) {  //
        HWY_DYNAMIC_DISPATCH(relu_chunk)(out + i, x + i, end - i, stream);
    });
}

void add_relu(float* out, const float* x, const float* y, int64_t n, Stream) {
    check_length("add_relu", n);
    check_same_or_disjoint("add_relu", {"out", out, n}, {"x", x, n});
    check_same_or_disjoint("add_relu", {"out", out, n}, {"y", y, n});
    const bool stream = should_stream(out, n, x, y);
    for_each_chunk(n, kChunk, [=](int64_t i, int64_t end) {
        HWY_DYNAMIC_DISPATCH(add_relu_chunk)(out + i, x + i, y + i, end - i, stream);
    });
}

void relu_bwd(float* dx, const float* dy, const float* y, int64_t n, Stream) {
    check_length("relu_bwd", n);
    check_same_or_disjoint("relu_bwd", {"dx", dx, n}, {"dy", dy, n});
    check_same_or_disjoint("relu_bwd", {"dx", dx, n}, {"y", y, n});
    const bool stream = should_stream(dx, n, dy, y);
    for_each_chunk(n, kChunk, [=](int64_t i, int64_t end) {
        HWY_DYNAMIC_DISPATCH(relu_bwd_chunk)(dx + i, dy + i, y + i, end - i, stream);
    });
}

void bias(float* out, const float* x, const float* b, int64_t N, int64_t C, Stream) {
    check_shape("bias", N, C);
    check_same_or_disjoint("bias", {"out", out, N * C}, {"x", x, N * C});
    check_same_or_disjoint("bias", {"out", out, N * C}, {"b", b, C});
    if (N == 0 || C == 0) return;
    const int64_t rows = std::min(N, pattern_rows(C)), period = rows * C;
    const std::vector<float> pattern = repeated(b, C, rows);  // (rows, C)
    const bool stream = period % 16 == 0 && should_stream(out, N * C, x);
    const int64_t chunk = period * std::max<int64_t>(1, kChunk / period);
    for_each_chunk(N * C, chunk, [&](int64_t i, int64_t end) {
        HWY_DYNAMIC_DISPATCH(bias_chunk)(out + i, x + i, pattern.data(), period, end - i, stream);
    });
}

void softplus(float* out, const float* x, int64_t n, Stream) {
    check_length("softplus", n);
    check_same_or_disjoint("softplus", {"out", out, n}, {"x", x, n});
    for_each_chunk(n, kSoftplusChunk, [=](int64_t i, int64_t end) {  //
        HWY_DYNAMIC_DISPATCH(softplus_chunk)(out + i, x + i, end - i);
    });
}

void softplus_bwd(float* dx, const float* dy, const float* y, int64_t n, Stream) {
    check_length("softplus_bwd", n);
    check_same_or_disjoint("softplus_bwd", {"dx", dx, n}, {"dy", dy, n});
    check_same_or_disjoint("softplus_bwd", {"dx", dx, n}, {"y", y, n});
    for_each_chunk(n, kSoftplusChunk, [=](int64_t i, int64_t end) {
        HWY_DYNAMIC_DISPATCH(softplus_bwd_chunk)(dx + i, dy + i, y + i, end - i);
    });
}

void dropout(float* out, const float* x, float p, RandomKey key, int64_t n, Stream) {
    LC_CHECK(p >= 0.0f && p < 1.0f,
             "dropout: p is the probability of dropping an element, 0 <= p < 1; found p = " << p);
    check_length("dropout", n);
    check_same_or_disjoint("dropout", {"out", out, n}, {"x", x, n});
    if (p == 0.0f) {  // a copy, because 1.0f * x changes the bits of a signalling NaN
        if (out != x && n > 0) std::memcpy(out, x, size_t(n) * sizeof(float));
        return;
    }
    const DropoutRule rule = dropout_rule(p);
    for_each_chunk(n, kDropoutChunk, [=](int64_t i, int64_t end) {  //
        HWY_DYNAMIC_DISPATCH(dropout_chunk)(out, x, rule, key, i, end);
    });
}

}  // namespace lc::cpu
#endif  // HWY_ONCE

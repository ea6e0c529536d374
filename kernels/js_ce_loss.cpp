// js_ce_loss.cpp -- CPU backend of js_ce_loss (contract and formulas: js_ce_loss.h).
//
// Idea     few classes: as many rows as the vector has lanes are turned into columns (simd_rows.h), so that a lane owns a
//          row.  Many classes: one row at a time, vectors along the classes, padded with classes of probability 0.  Either
//          way an element is a pair (p, q): its share of the divergence and ln(p/m), ln(q/m), which are the gradients.
//          The cross-entropy is a walk over the labels of the chunk, while its gradients are still in the cache.
// Traffic  16 bytes per element with both gradients; one exp, two logarithms and a division (classwise four and two):
//          bound by arithmetic.
// Numbers  float32.  |r| <= 1/2: the divergence by its series, ln(1 +- r) with the rounding error of 1 +- r put back.
//          Else by the logarithms of the ratios themselves, which keep their digits where 1 - |r| has none left.
//          Sums: few classes, one chain of at most 48 terms; many, one chain of C / lanes terms per lane.
// Profile  `make bench`
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/js_ce_loss.cpp"
#include "kernels/js_ce_loss.h"

#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/simd_softmax.h"

HWY_BEFORE_NAMESPACE();
namespace lc::cpu::HWY_NAMESPACE {
namespace {

constexpr hn::ScalableTag<float> d;
using V = hn::Vec<decltype(d)>;
constexpr int64_t kLanes = int64_t(hn::MaxLanes(d));
constexpr int64_t kFewClasses = 48;  // up to here a lane owns a row

HWY_INLINE V at_least(V x, float low) {  // Max would lose a NaN on some targets
    const V l = hn::Set(d, low);
    return hn::IfThenElse(hn::Lt(x, l), l, x);
}

// ---- one class of one row: what it adds to the sum, and the slopes of that sum, up to a factor for the whole row -----

struct Share {
    V sum, of_p, of_q;
};

// p ln(p/m) + q ln(q/m), ln(p/m) and ln(q/m).
HWY_INLINE Share divergence(V p, V q) {
    const V one = hn::Set(d, 1.0f), half = hn::Set(d, 0.5f), zero = hn::Zero(d);
    const V P = at_least(p, std::numeric_limits<float>::min()), Q = at_least(q, std::numeric_limits<float>::min());
    const V both = hn::Add(P, Q), inverse = hn::Div(one, both);
    const V r = hn::Mul(hn::Sub(P, Q), inverse);
    const auto near = hn::Le(hn::Abs(r), half);

    const V twice = hn::Add(inverse, inverse);
    const V u = hn::IfThenElse(near, hn::Add(one, r), hn::Mul(P, twice));  // p / m
    const V w = hn::IfThenElse(near, hn::Sub(one, r), hn::Mul(Q, twice));  // q / m
    const V lost_u = hn::IfThenElse(near, hn::Sub(r, hn::Sub(u, one)), zero);
    const V lost_w = hn::IfThenElse(near, hn::Sub(hn::Sub(one, w), r), zero);
    const V log_u = hn::Add(log_lanes(d, u), hn::Div(lost_u, u)), log_w = hn::Add(log_lanes(d, w), hn::Div(lost_w, w));

    // h(r) / r^2 for r^2 <= 1/4: a minimax fit of the relative error, 2.9e-9 before rounding to float32.
    const V t = hn::Mul(r, r);
    V h = hn::Set(d, 0.02750286f);
    h = hn::MulAdd(h, t, hn::Set(d, 0.018313525f));
    h = hn::MulAdd(h, t, hn::Set(d, 0.036249656f));
    h = hn::MulAdd(h, t, hn::Set(d, 0.06663438f));
    h = hn::MulAdd(h, t, hn::Set(d, 0.16666737f));
    h = hn::MulAdd(h, t, one);
    const V series = hn::Mul(hn::Mul(half, both), hn::Mul(t, h));
    return {hn::IfThenElse(near, series, hn::MulAdd(p, log_u, hn::Mul(q, log_w))), log_u, log_w};
}

struct Categorical {
    static HWY_INLINE Share share(V p, V q) { return divergence(p, q); }
    // js = sqrt(sum / 2), so d js = (of_p dp + of_q dq) / (4 js); no slope at js = 0.
    static HWY_INLINE V distance(V sum, int64_t) { return hn::Sqrt(hn::Mul(hn::Set(d, 0.5f), sum)); }
    static HWY_INLINE V factor(V js, int64_t) {
        const V slope = hn::Div(hn::Set(d, 0.25f), js);
        return hn::IfThenZeroElse(hn::Eq(js, hn::Zero(d)), slope);
    }
};

struct Classwise {
    // x between the limits: does the clamp let a gradient pass?
    static HWY_INLINE auto inside(V x, V rest) {
        const V limit = hn::Set(d, kJsClamp);
        return hn::And(hn::Ge(x, limit), hn::Ge(rest, limit));
    }
    static HWY_INLINE Share share(V p, V q) {
        const V one = hn::Set(d, 1.0f), zero = hn::Zero(d), floor = hn::Set(d, kJsFloor);
        const V p_rest = hn::Sub(one, p), q_rest = hn::Sub(one, q);
        const Share yes = divergence(clamped(p), clamped(q)), no = divergence(clamped(p_rest), clamped(q_rest));
        const V js = hn::Mul(hn::Set(d, 0.5f), hn::Add(yes.sum, no.sum));
        const auto flat = hn::Lt(js, floor);
        const V root = hn::Sqrt(hn::IfThenElse(flat, floor, js));
        const V slope = hn::IfThenElse(flat, zero, hn::Div(one, root));
        const V of_p = hn::Mul(hn::Sub(yes.of_p, no.of_p), slope), of_q = hn::Mul(hn::Sub(yes.of_q, no.of_q), slope);
        return {root, hn::IfThenElseZero(inside(p, p_rest), of_p), hn::IfThenElseZero(inside(q, q_rest), of_q)};
    }
    static HWY_INLINE V clamped(V x) {
        const V high = hn::Set(d, 1.0f - kJsClamp), low = at_least(x, kJsClamp);
        return hn::IfThenElse(hn::Gt(low, high), high, low);
    }
    // js = the mean of the roots; each root has slope (of_p dp + of_q dq) / 4.
    static HWY_INLINE V distance(V sum, int64_t C) { return hn::Div(sum, hn::Set(d, float(C))); }
    static HWY_INLINE V factor(V js, int64_t C) {  // a NaN in js spoils the whole row
        return hn::Add(hn::Set(d, 0.25f / float(C)), hn::Mul(hn::Zero(d), js));
    }
};

// ---- few classes: a lane owns a row ---------------------------------------------------------------------------------

// Scores to probabilities, in place.
HWY_INLINE void softmax_columns(float* tile, int64_t C) {
    const V inverse = hn::Div(hn::Set(d, 1.0f), exp_of_columns(d, tile, tile, C).sum);
    for (int64_t c = 0; c < C; ++c) set_column(d, tile, c, hn::Mul(column(d, tile, c), inverse));
}

// As many rows as there are lanes.  dlogits and dtheta may be null.
template <class Distance>
HWY_INLINE V group_of_rows(float* dlogits, float* dtheta,            // (lanes, C)
                           const float* logits, const float* theta,  // (lanes, C)
                           int64_t C, float weight) {
    HWY_ALIGN float p[kFewClasses * kLanes], q[kFewClasses * kLanes], slope[kFewClasses * kLanes];  // (C, lanes)
    load_columns(d, p, logits, C);
    load_columns(d, q, theta, C);
    softmax_columns(p, C);
    V sum = hn::Zero(d), dot = sum;
    for (int64_t c = 0; c < C; ++c) {
        const V pc = column(d, p, c);
        const Share s = Distance::share(pc, column(d, q, c));
        sum = hn::Add(sum, s.sum);
        dot = hn::MulAdd(pc, s.of_p, dot);
        set_column(d, slope, c, s.of_p);
        set_column(d, q, c, s.of_q);  // q has served
    }
    const V js = Distance::distance(sum, C);
    const V factor = hn::Mul(hn::Set(d, weight), Distance::factor(js, C));
    for (int64_t c = 0; c < C; ++c) {
        set_column(d, p, c, hn::Mul(hn::Mul(factor, column(d, p, c)), hn::Sub(column(d, slope, c), dot)));
        set_column(d, q, c, hn::Mul(factor, column(d, q, c)));
    }
    if (dlogits != nullptr) store_columns(d, dlogits, p, C);
    if (dtheta != nullptr) store_columns(d, dtheta, q, C);
    return js;
}

HWY_INLINE void store_js(float* value, V js, int64_t rows) {
    HWY_ALIGN float lane[kLanes];
    hn::Store(js, d, lane);
    for (int64_t r = 0; r < rows; ++r) value[2 * r] = lane[r];
}

// The last group may be short: it is copied to a full one, whose other rows are zeros.
template <class Distance>
void few_classes(float* value, const JsCeGradients& g, const JsCeLoss& in) {
    const int64_t n = in.n, C = in.C;
    const float weight = in.scale * in.js_weight;
    const auto at = [](float* p, int64_t i) { return p != nullptr ? p + i : nullptr; };
    int64_t r = 0;
    for (; r + kLanes <= n; r += kLanes) {
        const int64_t i = r * C;
        store_js(value + 2 * r,
                 group_of_rows<Distance>(at(g.dlogits, i), at(g.dtheta, i), in.logits + i, in.theta + i, C, weight),
                 kLanes);
    }
    if (r == n) return;
    const int64_t i = r * C, rest = (n - r) * C;
    float logits[kFewClasses * kLanes] = {}, theta[kFewClasses * kLanes] = {};  // (lanes, C)
    float dlogits[kFewClasses * kLanes], dtheta[kFewClasses * kLanes];
    for (int64_t k = 0; k < rest; ++k) logits[k] = in.logits[i + k], theta[k] = in.theta[i + k];
    store_js(value + 2 * r, group_of_rows<Distance>(dlogits, dtheta, logits, theta, C, weight), n - r);
    for (int64_t k = 0; k < rest && g.dlogits != nullptr; ++k) g.dlogits[i + k] = dlogits[k];
    for (int64_t k = 0; k < rest && g.dtheta != nullptr; ++k) g.dtheta[i + k] = dtheta[k];
}

// ---- many classes: one row at a time --------------------------------------------------------------------------------

// Vectors of a row; the last one may have to be filled up, or cut.
HWY_INLINE V load(const float* row, int64_t c, int64_t C, float fill) {
    return c + kLanes <= C ? hn::LoadU(d, row + c) : load_padded(d, row + c, C - c, fill);
}
HWY_INLINE void store(V v, float* row, int64_t c, int64_t C) {
    c + kLanes <= C ? hn::StoreU(v, d, row + c) : store_first(v, d, row + c, C - c);
}

constexpr float kNever = -std::numeric_limits<float>::infinity();  // a score whose probability is 0

// p_c = exp(x_c - top) * inverse, recomputed wherever it is needed: an exp costs less than an array of C numbers.
struct RowSoftmax {
    const float* x;
    int64_t C;
    V top, inverse;

    HWY_INLINE RowSoftmax(const float* row, int64_t classes) : x(row), C(classes) {
        V most = hn::Set(d, kNever), sum = hn::Zero(d);
        for (int64_t c = 0; c < C; c += kLanes) most = hn::Max(most, load(x, c, C, kNever));
        top = hn::MaxOfLanes(d, most);
        for (int64_t c = 0; c < C; c += kLanes) sum = hn::Add(sum, exp_lanes(d, hn::Sub(load(x, c, C, kNever), top)));
        inverse = hn::Div(hn::Set(d, 1.0f), hn::SumOfLanes(d, sum));
    }
    HWY_INLINE V operator()(int64_t c) const {
        return hn::Mul(exp_lanes(d, hn::Sub(load(x, c, C, kNever), top)), inverse);
    }
};

// The slopes wait in dlogits and dtheta until their factor is known.
template <class Distance>
HWY_INLINE float one_row(float* dlogits, float* dtheta, const float* logits, const float* theta, int64_t C,
                         float weight) {
    const RowSoftmax softmax(logits, C);
    V sum = hn::Zero(d), dot = sum;
    for (int64_t c = 0; c < C; c += kLanes) {
        const V p = softmax(c);
        const Share s = Distance::share(p, load(theta, c, C, 0.0f));
        sum = hn::Add(sum, c + kLanes <= C ? s.sum : hn::IfThenElseZero(hn::FirstN(d, size_t(C - c)), s.sum));
        dot = hn::MulAdd(p, s.of_p, dot);
        if (dlogits != nullptr) store(s.of_p, dlogits, c, C);
        if (dtheta != nullptr) store(s.of_q, dtheta, c, C);
    }
    const V js = Distance::distance(hn::SumOfLanes(d, sum), C);
    const V factor = hn::Mul(hn::Set(d, weight), Distance::factor(js, C));
    dot = hn::SumOfLanes(d, dot);
    for (int64_t c = 0; c < C && dlogits != nullptr; c += kLanes) {
        const V slope = hn::Sub(load(dlogits, c, C, 0.0f), dot);
        store(hn::Mul(hn::Mul(factor, softmax(c)), slope), dlogits, c, C);
    }
    for (int64_t c = 0; c < C && dtheta != nullptr; c += kLanes) {
        store(hn::Mul(factor, load(dtheta, c, C, 0.0f)), dtheta, c, C);
    }
    return hn::GetLane(js);
}

template <class Distance>
void many_classes(float* value, const JsCeGradients& g, const JsCeLoss& in) {
    const auto at = [](float* p, int64_t i) { return p != nullptr ? p + i : nullptr; };
    for (int64_t r = 0; r < in.n; ++r) {
        const int64_t i = r * in.C;
        value[2 * r] = one_row<Distance>(at(g.dlogits, i), at(g.dtheta, i), in.logits + i, in.theta + i, in.C,
                                         in.scale * in.js_weight);
    }
}

// ---- cross-entropy --------------------------------------------------------------------------------------------------

// From theta, a vector of rows at a time; its gradient is added to what the distance left in dtheta.
void cross_entropy(float* value, float* dtheta, const JsCeLoss& in) {
    const V one = hn::Set(d, 1.0f), weight = hn::Set(d, -in.scale * in.ce_weight);
    HWY_ALIGN float q[kLanes], ce[kLanes], dq[kLanes];
    for (int64_t r = 0; r < in.n; r += kLanes) {
        const int64_t rows = HWY_MIN(kLanes, in.n - r);
        for (int64_t i = 0; i < kLanes; ++i) q[i] = i < rows ? in.theta[(r + i) * in.C + in.labels[r + i]] : 1.0f;
        const V given = hn::Load(d, q), low = at_least(given, kCeFloor);
        const V clamped = hn::IfThenElse(hn::Gt(low, one), one, low);
        hn::Store(hn::Neg(log_lanes(d, clamped)), d, ce);
        hn::Store(hn::IfThenElseZero(hn::Eq(clamped, given), hn::Div(weight, clamped)), d, dq);
        for (int64_t i = 0; i < rows; ++i) {
            value[2 * (r + i) + 1] = ce[i];
            if (dtheta != nullptr) dtheta[(r + i) * in.C + in.labels[r + i]] += dq[i];
        }
    }
}

void cross_entropy_of_logs(float* value, float* dlog_label, const JsCeLoss& in) {
    constexpr float kNoNeighbour = 87.3365448f;  // -ln FLT_MIN
    for (int64_t r = 0; r < in.n; ++r) {
        const bool none = in.log_label[r] == kNever;
        value[2 * r + 1] = none ? kNoNeighbour : -in.log_label[r];
        if (dlog_label != nullptr) dlog_label[r] = none ? 0.0f : -in.scale * in.ce_weight;
    }
}

void js_ce_loss_chunk(float* value, const JsCeGradients& g, const JsCeLoss& in) {
    const bool few = in.C <= kFewClasses;
    if (in.distance == JsDistance::categorical) {
        (few ? few_classes<Categorical> : many_classes<Categorical>)(value, g, in);
    } else {
        (few ? few_classes<Classwise> : many_classes<Classwise>)(value, g, in);
    }
    if (in.log_label != nullptr) {
        cross_entropy_of_logs(value, g.dlog_label, in);
    } else {
        cross_entropy(value, g.dtheta, in);
    }
}

}  // namespace
}  // namespace lc::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
    #include "kernels/js_ce_loss_arguments.h"
    #include "kernels/parallel.h"

namespace lc::cpu {
HWY_EXPORT(js_ce_loss_chunk);

// Rows begin .. end - 1 as a loss of their own.
static JsCeLoss rows_of(JsCeLoss in, int64_t begin, int64_t end) {
    in.n = end - begin;
    in.logits += begin * in.C;
    in.theta += begin * in.C;
    in.labels += begin;
    if (in.log_label != nullptr) in.log_label += begin;
    return in;
}
static JsCeGradients rows_of(JsCeGradients g, int64_t begin, int64_t C) {
    if (g.dlogits != nullptr) g.dlogits += begin * C;
    if (g.dtheta != nullptr) g.dtheta += begin * C;
    if (g.dlog_label != nullptr) g.dlog_label += begin;
    return g;
}

void js_ce_loss(float* value, const JsCeGradients& gradients, const JsCeLoss& in, Stream) {
    check_js_ce_loss(value, gradients, in);
    for (int64_t r = 0; r < in.n; ++r) {
        LC_CHECK(in.labels[r] >= 0 && in.labels[r] < in.C,
                 "js_ce_loss: label " << in.labels[r] << " of row " << r << " is not in [0, C = " << in.C << ")");
    }
    const int64_t chunk = in.C >= 256 ? ceil_div(4096, in.C) : 16 * ceil_div(256, in.C);  // about 4096 elements
    for_each_chunk(in.n, chunk, [&](int64_t r, int64_t end) {
        HWY_DYNAMIC_DISPATCH(js_ce_loss_chunk)(value + 2 * r, rows_of(gradients, r, in.C), rows_of(in, r, end));
    });
}

}  // namespace lc::cpu
#endif  // HWY_ONCE

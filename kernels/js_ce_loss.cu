// js_ce_loss.cu -- CUDA backend of js_ce_loss (contract and formulas: js_ce_loss.h).
//
// Idea     a group of threads owns a row and walks over it four times: maximum, sum of exponentials, sums of the
//          distance, gradients.  Nothing is kept between the walks but six numbers per row: p, ln(p/m) and ln(q/m) are
//          computed again, from a row that is in cache.
// Launch   block = 256, grid = ceil(n lanes / 256); `lanes` threads per row as in softmax.cu: 1 .. 32 for C <= 1024, the
//          whole block beyond.  Thread l owns elements l, l + lanes, ...  Groups past row n walk over an empty row,
//          because shuffles and barriers need every thread.
// Shared   8 floats (one per warp), only where lanes = 256; see block_reduce.
// Traffic  compulsory 16 n C B with both gradients, 8 n C B without.  Scheduled: logits 4 times and theta twice, all but
//          the first from L1 or L2.  Some 200 instructions per element (three expf, four logarithms; classwise six
//          more): bound by arithmetic.
// Numbers  float32.  |r| <= 1/2: series and log1pf; else the logarithms of the ratios themselves, which keep their digits
//          where 1 - |r| has none left.  Sums: at most ceil(C / lanes) terms in a chain, then a tree.
// Profile  `make sim-profile OP=js_ce_loss`
#include <cfloat>

#include "kernels/js_ce_loss.h"
#include "kernels/js_ce_loss_arguments.h"
#include "kernels/softmax.cuh"

namespace lc::LC_CUDA_NS {

// One class of one row: what it adds to the sum, and the slopes of that sum, up to a factor for the whole row.
struct JsShare {
    float sum, of_p, of_q;
};

// p ln(p/m) + q ln(q/m), ln(p/m) and ln(q/m).
static __device__ __forceinline__ JsShare divergence(float p, float q) {
    const float P = p < FLT_MIN ? FLT_MIN : p, Q = q < FLT_MIN ? FLT_MIN : q;  // fmaxf would lose a NaN
    const float both = P + Q, inverse = 1.0f / both, r = (P - Q) * inverse;
    if (fabsf(r) <= 0.5f) {  // h(r) / r^2: a minimax fit of the relative error, 2.9e-9 before rounding to float32
        const float t = r * r;
        float h = 0.02750286f;
        h = fmaf(h, t, 0.018313525f);
        h = fmaf(h, t, 0.036249656f);
        h = fmaf(h, t, 0.06663438f);
        h = fmaf(h, t, 0.16666737f);
        h = fmaf(h, t, 1.0f);
        return {0.5f * both * (t * h), log1pf(r), log1pf(-r)};
    }
    const float of_p = logf(P * (2.0f * inverse)), of_q = logf(Q * (2.0f * inverse));
    return {p * of_p + q * of_q, of_p, of_q};
}

struct Categorical {
    static __device__ __forceinline__ JsShare share(float p, float q) { return divergence(p, q); }
    // js = sqrt(sum / 2), so d js = (of_p dp + of_q dq) / (4 js); no slope at js = 0.
    static __device__ __forceinline__ float distance(float sum, int64_t) { return sqrtf(0.5f * sum); }
    static __device__ __forceinline__ float factor(float js, int64_t) { return js == 0.0f ? 0.0f : 0.25f / js; }
};

struct Classwise {
    static __device__ __forceinline__ float clamped(float x) {
        return x < kJsClamp ? kJsClamp : x > 1.0f - kJsClamp ? 1.0f - kJsClamp : x;
    }
    static __device__ __forceinline__ JsShare share(float p, float q) {
        const JsShare yes = divergence(clamped(p), clamped(q)), no = divergence(clamped(1.0f - p), clamped(1.0f - q));
        const float js = 0.5f * (yes.sum + no.sum);
        const bool flat = js < kJsFloor;
        const float root = sqrtf(flat ? kJsFloor : js), slope = flat ? 0.0f : 1.0f / root;
        const bool p_inside = p >= kJsClamp && 1.0f - p >= kJsClamp;  // does the clamp let a gradient pass?
        const bool q_inside = q >= kJsClamp && 1.0f - q >= kJsClamp;
        return {root, p_inside ? (yes.of_p - no.of_p) * slope : 0.0f, q_inside ? (yes.of_q - no.of_q) * slope : 0.0f};
    }
    // js = the mean of the roots; each root has slope (of_p dp + of_q dq) / 4.
    static __device__ __forceinline__ float distance(float sum, int64_t C) { return sum / float(C); }
    static __device__ __forceinline__ float factor(float js, int64_t C) {
        return 0.25f / float(C) + 0.0f * js;  // a NaN in js spoils the whole row
    }
};

// The cross-entropy of a row, and its slope with respect to log_label or to the label's theta.
struct CrossEntropy {
    float ce, slope;
};
static __device__ __forceinline__ CrossEntropy cross_entropy(const JsCeLoss& in, int64_t r) {
    const float weight = -in.scale * in.ce_weight;
    if (in.log_label != nullptr) {
        const float log_q = in.log_label[r];
        if (log_q == -INFINITY) return {87.3365448f, 0.0f};  // -ln FLT_MIN
        return {-log_q, weight};
    }
    const int32_t label = in.labels[r];
    const float q = label >= 0 && label < in.C ? in.theta[r * in.C + label] : NAN;
    const float clamped = q < kCeFloor ? kCeFloor : q > 1.0f ? 1.0f : q;
    return {-logf(clamped), clamped == q ? weight / clamped : 0.0f};
}

template <class Distance>
__global__ void __launch_bounds__(kRowBlock) js_ce_loss_kernel(float* __restrict__ value,  // (n, 2)
                                                               JsCeGradients g, JsCeLoss in, int lanes) {
    const auto [r, first, end] = row_share(in.n, in.C, lanes);
    const auto [top, total] = softmax_sums(in.logits, {r, first, end}, lanes);

    float sum = 0.0f, dot = 0.0f;
    for (int64_t i = first; i < end; i += lanes) {
        const float p = expf(in.logits[i] - top) / total;
        const JsShare s = Distance::share(p, in.theta[i]);
        sum += s.sum;
        dot += p * s.of_p;
    }
    const float js = Distance::distance(group_reduce<SumOf>(sum, lanes), in.C);
    dot = group_reduce<SumOf>(dot, lanes);
    if (r >= in.n) return;

    const CrossEntropy label = cross_entropy(in, r);  // all threads: one of them owns the label's theta
    if (first == r * in.C) {
        value[2 * r] = js;
        value[2 * r + 1] = label.ce;
        if (g.dlog_label != nullptr) g.dlog_label[r] = label.slope;
    }
    if (g.dlogits == nullptr && g.dtheta == nullptr) return;
    const float factor = in.scale * in.js_weight * Distance::factor(js, in.C);
    const int64_t at_label = in.log_label == nullptr ? r * in.C + in.labels[r] : -1;
    for (int64_t i = first; i < end; i += lanes) {
        const float p = expf(in.logits[i] - top) / total;
        const JsShare s = Distance::share(p, in.theta[i]);
        if (g.dlogits != nullptr) g.dlogits[i] = factor * p * (s.of_p - dot);
        if (g.dtheta != nullptr) g.dtheta[i] = factor * s.of_q + (i == at_label ? label.slope : 0.0f);
    }
}

void js_ce_loss(float* value, const JsCeGradients& gradients, const JsCeLoss& in, Stream s) {
    check_js_ce_loss(value, gradients, in);
    if (in.n == 0) return;
    const int lanes = row_lanes(in.C);
    const dim3 grid = grid_of(ceil_div(in.n * lanes, kRowBlock));
    if (in.distance == JsDistance::categorical) {
        LC_LAUNCH(js_ce_loss_kernel<Categorical>, grid, kRowBlock, 0, s, value, gradients, in, lanes);
    } else {
        LC_LAUNCH(js_ce_loss_kernel<Classwise>, grid, kRowBlock, 0, s, value, gradients, in, lanes);
    }
}

}  // namespace lc::LC_CUDA_NS

// Oracle of js_ce_loss.h: the formulas as loops.  T = double is the judge, T = float the yardstick for rounding error.
#pragma once
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "kernels/js_ce_loss.h"
#include "tests/oracle/softmax.h"

namespace oracle {

// p ln(p/m) + q ln(q/m), and ln(p/m), ln(q/m).
template <class T>
struct Divergence {
    T sum, of_p, of_q;

    Divergence(T p, T q) {
        constexpr T kTiny = std::numeric_limits<float>::min();
        const T P = p < kTiny ? kTiny : p, Q = q < kTiny ? kTiny : q, r = (P - Q) / (P + Q);
        of_p = std::fabs(r) < T(0.1) ? std::log1p(r) : std::log(2 * P / (P + Q));
        of_q = std::fabs(r) < T(0.1) ? std::log1p(-r) : std::log(2 * Q / (P + Q));
        sum = p * of_p + q * of_q;
        if (std::fabs(r) >= T(0.1) || r != r) return;
        T h = 0, power = r * r;  // the terms above cancel to r^2: sum_k r^2k / (k (2k - 1)) does not
        for (int k = 1; k <= 12; ++k, power *= r * r) h += power / T(k * (2 * k - 1));
        sum = (P + Q) / 2 * h;
    }
};

template <class T>
T clamped(T x, float low, float high) {
    return x < T(low) ? T(low) : x > T(high) ? T(high) : x;
}

// The distance of one row, and its slopes for p and q.
template <class T>
T distance_row(T* of_p, T* of_q, const T* p, const T* q, int64_t C, lc::JsDistance how) {
    T sum = 0;
    if (how == lc::JsDistance::categorical) {
        for (int64_t c = 0; c < C; ++c) sum += Divergence<T>(p[c], q[c]).sum / 2;
        const T js = std::sqrt(sum);
        for (int64_t c = 0; c < C; ++c) {
            const Divergence<T> share(p[c], q[c]);
            of_p[c] = js == 0 ? T(0) : share.of_p / (4 * js);
            of_q[c] = js == 0 ? T(0) : share.of_q / (4 * js);
        }
        return js;
    }
    const auto clamp = [](T x) { return clamped(x, lc::kJsClamp, 1 - lc::kJsClamp); };
    const auto inside = [](T x) { return x >= T(lc::kJsClamp) && 1 - x >= T(lc::kJsClamp); };
    for (int64_t c = 0; c < C; ++c) {
        const Divergence<T> yes(clamp(p[c]), clamp(q[c])), no(clamp(1 - p[c]), clamp(1 - q[c]));
        const T js = (yes.sum + no.sum) / 2;
        const bool flat = js < T(lc::kJsFloor);
        const T root = std::sqrt(flat ? T(lc::kJsFloor) : js);
        of_p[c] = flat || !inside(p[c]) ? T(0) : (yes.of_p - no.of_p) / (4 * root * T(C));
        of_q[c] = flat || !inside(q[c]) ? T(0) : (yes.of_q - no.of_q) / (4 * root * T(C));
        sum += root / T(C);
    }
    for (int64_t c = 0; c < C && sum != sum; ++c) of_p[c] = of_q[c] = sum;  // a broken row is broken everywhere
    return sum;
}

// Only shape, distance and weights of `how` are read.  log_label and dlog_label may be empty.
template <class T>
void js_ce_loss(std::vector<T>& value, std::vector<T>& dlogits, std::vector<T>& dtheta, std::vector<T>& dlog_label,
                const std::vector<T>& logits, const std::vector<T>& theta, const std::vector<T>& labels,
                const std::vector<T>& log_label, const lc::JsCeLoss& how) {
    const int64_t C = how.C;
    const T js_weight = T(how.scale) * T(how.js_weight), ce_weight = T(how.scale) * T(how.ce_weight);
    std::vector<T> p(logits.size());
    softmax(p, logits, how.n, C, false);
    for (int64_t r = 0; r < how.n; ++r) {
        T *dx = dlogits.data() + r * C, *dq = dtheta.data() + r * C;
        value[size_t(2 * r)] = distance_row(dx, dq, p.data() + r * C, theta.data() + r * C, C, how.distance);
        T dot = 0;
        for (int64_t c = 0; c < C; ++c) dot += p[size_t(r * C + c)] * dx[c];
        for (int64_t c = 0; c < C; ++c) {
            dx[c] = js_weight * p[size_t(r * C + c)] * (dx[c] - dot);
            dq[c] = js_weight * dq[c];
        }
        T& ce = value[size_t(2 * r + 1)];
        const size_t i = size_t(r), label = size_t(r * C) + size_t(labels[i]);
        if (!log_label.empty()) {
            const bool none = log_label[i] == -std::numeric_limits<T>::infinity();
            ce = none ? -std::log(T(std::numeric_limits<float>::min())) : -log_label[i];
            dlog_label[i] = none ? T(0) : -ce_weight;
        } else {
            const T q = clamped(theta[label], lc::kCeFloor, 1);
            ce = -std::log(q);
            if (q == theta[label]) dtheta[label] -= ce_weight / q;
        }
    }
}

}  // namespace oracle

// nw_smooth_bwd.cpp -- CPU backend of nw_smooth_bwd (contract: nw_smooth_bwd.h; distances: nw_kernel.h).
//
// Idea     the same tiles as forward.  A tile of squared distances becomes a tile of g_ij / gamma_i^2, from the weights
//          P_ij = exp(h D - log_norm_i) and a table A (C, lanes) of what each class is worth to each query; then the
//          tile is used twice while it is in L1:
//
//              dQ_i += sum_j g_ij (r_j - q_i)       rows: the queries of the panel      \  difference_rows: both sides
//              dR_j += sum_i g_ij (q_i - r_j)       rows: the references of the block   /  are read along the features
//
// exact    with hard labels, a reference of the query's own class (where there is a gradient of log_label) has the
//          weight u_ij = exp(h D - log_norm_i - log_label_i) among its class: at most 1, and right where P_ij and theta
//          underflow.
//              other classes    g_ij = P_ij ( dtheta_ic - dot_i - dlog_i )            dot_i = sum_c dtheta_ic theta_ic
//              own class        g_ij = u_ij ( (dtheta_ic - dot_i) theta_ic + dlog_i (1 - theta_ic) )
// authors  needs sum_k P_ik e_ik first: two walks.
// soft     e_ij = sum_c Y_jc A_ic is one more product per tile.
// Threads  dR is added up over all queries: kSlots fixed groups of chunks each have a dR of their own, which are added
//          in order at the end.  So the bits do not depend on the number of threads, for 16 m d floats of memory.
// Numbers  float32; differences are taken before they are multiplied, so that a gradient between near neighbours does
//          not drown in the rounding of their distance to the origin.
// Profile  `make bench`
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/nw_smooth_bwd.cpp"
#include "kernels/nw_smooth_bwd.h"

#include <cmath>
#include <hwy/foreach_target.h>

#include "kernels/nw_kernel.h"
#include "kernels/nw_threads.h"

#ifndef LC_KERNELS_NW_SMOOTH_BWD_CPP_ONCE
    #define LC_KERNELS_NW_SMOOTH_BWD_CPP_ONCE
namespace lc::cpu {
namespace {

struct Backward {  // the arguments of the op, and what is shared by all threads
    const NwSmooth& in;
    const NwOutput& forward;
    const float* dtheta;      // (n, C)
    const float* dlog_label;  // (n) or null
    const float* Q;           // (n, ld) and
    const float* R;           // (m, ld): the features once more, rows padded to whole vectors
    int64_t ld;
    float* dQ;          // (n, d)
    float* row_dgamma;  // (n) or null
};

}  // namespace
}  // namespace lc::cpu
#endif

HWY_BEFORE_NAMESPACE();
namespace lc::cpu::HWY_NAMESPACE {
namespace {

struct Panel {  // kPanel queries
    float* q;   // (d, kPanel)
    float* A;   // (C, kPanel): what a reference of class c is worth
    HWY_ALIGN float h[kPanel];
    HWY_ALIGN float log_norm[kPanel];
    HWY_ALIGN float log_label[kPanel];  // of the own class
    HWY_ALIGN float shift[kPanel];      // subtracted from the worth of every reference
    HWY_ALIGN float gamma_sum[kPanel];  // sum_j g_ij D_ij / gamma_i^2
    HWY_ALIGN float rare[kPanel];       // soft labels, where theta_l underflowed: dlog_label, which A cannot hold
    HWY_ALIGN int32_t own[kPanel];      // class with weights u_ij; -1: none
};

// ---- what a reference is worth --------------------------------------------------------------------------------------

// Row i of the whole set into lane l.
void start_row(Panel& p, const Backward& b, int64_t i, int64_t l) {
    const NwSmooth& in = b.in;
    const float* dtheta = b.dtheta + i * in.C;
    const float* theta = b.forward.theta + i * in.C;
    const double gamma = double(in.gamma[in.gamma_per_row ? i : 0]);
    p.h[l] = float(-0.5 / (gamma * gamma));
    p.log_norm[l] = b.forward.log_norm[i];
    const float log_label = b.dlog_label == nullptr ? -kInfinity : b.forward.log_label[i];
    const float dlog = log_label == -kInfinity ? 0.0f : b.dlog_label[i];  // nobody of the class: no pull
    const int64_t y = log_label == -kInfinity ? -1 : in.query_labels[i];
    double dot = 0;
    for (int64_t c = 0; c < in.C; ++c) dot += double(dtheta[c]) * double(theta[c]);

    const bool exact = in.form == NwForm::exact, hard = in.labels != nullptr;
    const double shift = exact ? dot + double(dlog) : 0.0;
    const double folded = exact && hard ? shift : 0.0;  // hard labels: A holds all of it
    for (int64_t c = 0; c < in.C; ++c) p.A[c * kPanel + l] = float(double(dtheta[c]) - folded);
    p.shift[l] = float(shift - folded);
    if (y < 0) return;
    float& a = p.A[y * kPanel + l];
    if (exact && hard) {
        p.own[l] = int32_t(y);
        p.log_label[l] = log_label;
        a = float((double(dtheta[y]) - dot) * std::exp(double(log_label)) -
                  double(dlog) * std::expm1(double(log_label)));
    } else if (exact && log_label < kTrustedLog) {
        p.rare[l] = dlog;
        p.log_label[l] = log_label;
    } else {
        a = float(double(dtheta[y]) + double(dlog) * std::exp(-double(log_label)));
    }
}

void start_panel(Panel& p, const Backward& b, int64_t i, int64_t rows) {
    pack_panel(p.q, b.in.Q + i * b.in.d, rows, b.in.d);
    std::fill(p.A, p.A + b.in.C * kPanel, 0.0f);
    for (int64_t l = 0; l < kPanel; ++l) {
        p.h[l] = -1.0f;
        p.log_norm[l] = p.log_label[l] = p.shift[l] = p.gamma_sum[l] = p.rare[l] = 0.0f;
        p.own[l] = -1;
        if (l < rows) start_row(p, b, i + l, l);
    }
}

// ---- a tile of g_ij -------------------------------------------------------------------------------------------------

// The worth of a block of references to a panel: with hard labels rows of A, with soft ones rows of a product with A.
struct Worth {
    const float* rows;      // (C, kPanel) or (refs, kPanel)
    const int32_t* labels;  // (refs) or null

    HWY_INLINE const float* of(int64_t j) const { return rows + (labels == nullptr ? j : labels[j]) * kPanel; }
};

Worth worth_of(const Panel& p, const NwSmooth& in, int64_t j, int64_t refs, float* product) {
    if (in.labels != nullptr) return {p.A, in.labels + j};
    for (int64_t k = 0; k < refs; k += kTileRows) {
        const int64_t rows = std::min<int64_t>(kTileRows, refs - k);
        micro_kernel_for(rows, kPanel)({product + k * kPanel, kPanel, 1.0f, 0.0f}, in.soft + (j + k) * in.C, in.C, p.A,
                                       in.C);
    }
    return {product, nullptr};
}

// P_ij, or u_ij where the class is the query's own.
HWY_INLINE V weight(const Panel& p, int v, V D, int32_t label) {
    const V s = hn::MulSub(at(p.h, v), D, at(p.log_norm, v));
    return exp_lanes(df, hn::Sub(s, hn::IfThenElseZero(own_lanes(p.own, v, label), at(p.log_label, v))));
}

// A clamped weight of `authors` has no gradient.
HWY_INLINE V unclamped(V weight, V worth) {
    const auto clamped =
        hn::Or(hn::Lt(weight, hn::Set(df, kAuthorsFloor)), hn::Gt(weight, hn::Set(df, 1.0f - kAuthorsFloor)));
    return hn::IfThenZeroElse(clamped, worth);
}

// shift += sum_j P_ij e_ij, first walk of `authors`.
void authors_shift(Panel& p, const float* tile, const Worth& worth, int64_t refs) {
    for (int v = 0; v < kTileVectors; ++v) {
        V sum = hn::Zero(df);
        for (int64_t j = 0; j < refs; ++j) {
            const V w = weight(p, v, at(tile + j * kPanel, v), -1);
            sum = hn::MulAdd(w, unclamped(w, at(worth.of(j), v)), sum);
        }
        put(hn::Add(at(p.shift, v), sum), p.shift, v);
    }
}

// g (refs, kPanel) = g_ij / gamma_i^2 from the squared distances; may be the product in `worth`.
template <bool kAuthors>
void gradient_tile(float* g, Panel& p, const float* tile, const Worth& worth, int64_t refs) {
    const V infinity = hn::Set(df, kInfinity);
    for (int v = 0; v < kTileVectors; ++v) {
        const V shift = at(p.shift, v), per_length2 = hn::Mul(hn::Set(df, -2.0f), at(p.h, v));
        V gamma_sum = hn::Zero(df);
        for (int64_t j = 0; j < refs; ++j) {
            const V D = at(tile + j * kPanel, v);
            const V w = weight(p, v, D, worth.labels == nullptr ? 0 : worth.labels[j]);
            V e = at(worth.of(j), v);
            if (kAuthors) e = unclamped(w, e);
            const V gij = hn::Mul(hn::Mul(w, hn::Sub(e, shift)), per_length2);
            gamma_sum = hn::Add(gamma_sum, hn::IfThenZeroElse(hn::Eq(D, infinity), hn::Mul(gij, D)));  // not 0 inf
            put(gij, g + j * kPanel, v);
        }
        put(hn::Add(at(p.gamma_sum, v), gamma_sum), p.gamma_sum, v);
    }
}

// Soft labels, rows whose theta_l underflowed: + dlog_label_i Y_jl exp(s_ij - log_norm_i - log_label_i), one by one.
void add_rare_rows(float* g, Panel& p, const float* tile, const Pairs& pairs, const NwSmooth& in) {
    for (int64_t l = 0; l < pairs.rows; ++l) {
        if (p.rare[l] == 0.0f) continue;
        const float* soft = in.soft + pairs.j * in.C + in.query_labels[pairs.i + l];
        for (int64_t j = 0; j < pairs.refs; ++j) {
            const float D = tile[j * kPanel + l], Y = soft[j * in.C];
            if (Y == 0.0f || D == kInfinity) continue;
            const double s = double(p.h[l]) * double(D) - double(p.log_norm[l]) - double(p.log_label[l]);
            const float gij = -2.0f * p.h[l] * p.rare[l] * float(std::exp(s + std::log(double(Y))));
            g[j * kPanel + l] += gij;
            p.gamma_sum[l] += gij * D;
        }
    }
}

// ---- sums of differences --------------------------------------------------------------------------------------------

struct Matrix {  // of weights: element (i, k) is at[i * row + k * col]
    const float* at;
    int64_t row, col;
};

constexpr int kDifferenceRows =
    HWY_TARGET == HWY_AVX3 ? 6 : 3;  // acc, a and b in registers: 6 + 6 + 2 of 16 (12 + 12 + 2 of 32)

// out_i += sum_k w_ik (b_k - a_i) for kRows rows i, kVectors vectors of each; rows of out, a and b are ld floats apart.
template <int kRows, int kVectors>
void difference_rows(float* HWY_RESTRICT out, const float* HWY_RESTRICT a, const float* HWY_RESTRICT b, int64_t ld,
                     Matrix w, int64_t K) {
    V acc[kRows][kVectors], ai[kRows][kVectors];
    HWY_UNROLL(kDifferenceRows)
    for (int i = 0; i < kRows; ++i) {
        for (int v = 0; v < kVectors; ++v) {
            acc[i][v] = at(out + i * ld, v);
            ai[i][v] = at(a + i * ld, v);
        }
    }
    for (int64_t k = 0; k < K; ++k) {
        V bk[kVectors];
        for (int v = 0; v < kVectors; ++v) bk[v] = at(b + k * ld, v);
        HWY_UNROLL(kDifferenceRows)
        for (int i = 0; i < kRows; ++i) {
            const V wik = hn::Set(df, w.at[i * w.row + k * w.col]);
            for (int v = 0; v < kVectors; ++v) acc[i][v] = hn::MulAdd(wik, hn::Sub(bk[v], ai[i][v]), acc[i][v]);
        }
    }
    HWY_UNROLL(kDifferenceRows)
    for (int i = 0; i < kRows; ++i) {
        for (int v = 0; v < kVectors; ++v) put(acc[i][v], out + i * ld, v);
    }
}

// The same for any number of rows and d features, tile by tile.
void add_differences(float* out, const float* a, const float* b, int64_t ld, Matrix w, int64_t rows, int64_t K,
                     int64_t d) {
    for (int64_t f = 0; f < d; f += kPanel) {
        const bool narrow = d - f <= kLanes;
        int64_t i = 0;
        for (; i + kDifferenceRows <= rows; i += kDifferenceRows) {
            const auto kernel =
                narrow ? difference_rows<kDifferenceRows, 1> : difference_rows<kDifferenceRows, kTileVectors>;
            kernel(out + i * ld + f, a + i * ld + f, b + f, ld, {w.at + i * w.row, w.row, w.col}, K);
        }
        for (; i < rows; ++i) {
            const auto kernel = narrow ? difference_rows<1, 1> : difference_rows<1, kTileVectors>;
            kernel(out + i * ld + f, a + i * ld + f, b + f, ld, {w.at + i * w.row, w.row, w.col}, K);
        }
    }
}

// ---- a chunk of queries ---------------------------------------------------------------------------------------------

struct Scratch {
    float* tile;      // (kRefs, kPanel) squared distances
    float* gradient;  // (kRefs, kPanel)
    float* dQ;        // (kChunk, ld)
    float* panels;    // (kChunk / kPanel, d + C, kPanel)
};

void authors_shifts(Panel* panels, const Backward& b, int64_t begin, int64_t end, const Scratch& s) {
    for (int64_t j = 0; j < b.in.m; j += kRefs) {
        for (int64_t i = begin; i < end; i += kPanel) {
            Panel& p = panels[(i - begin) / kPanel];
            const Pairs pairs = {i, std::min<int64_t>(kPanel, end - i), j, std::min(kRefs, b.in.m - j)};
            distance_tile(s.tile, b.in.R, p.q, b.in.d, pairs, b.in.leave_one_out);
            authors_shift(p, s.tile, worth_of(p, b.in, j, pairs.refs, s.gradient), pairs.refs);
        }
    }
}

void backward_tile(Panel& p, const Backward& b, const Pairs& pairs, float* dQ, float* dR, const Scratch& s) {
    distance_tile(s.tile, b.in.R, p.q, b.in.d, pairs, b.in.leave_one_out);
    const Worth worth = worth_of(p, b.in, pairs.j, pairs.refs, s.gradient);
    const auto gradient = b.in.form == NwForm::authors ? gradient_tile<true> : gradient_tile<false>;
    gradient(s.gradient, p, s.tile, worth, pairs.refs);
    if (b.in.soft != nullptr) add_rare_rows(s.gradient, p, s.tile, pairs, b.in);
    const float* q = b.Q + pairs.i * b.ld;
    const float* r = b.R + pairs.j * b.ld;
    add_differences(dQ, q, r, b.ld, {s.gradient, 1, kPanel}, pairs.rows, pairs.refs, b.in.d);
    add_differences(dR + pairs.j * b.ld, r, q, b.ld, {s.gradient, kPanel, 1}, pairs.refs, pairs.rows, b.in.d);
}

// Queries begin .. end, at most kChunk: their dQ and dgamma, and their share of dR (m, ld), which is added.
void backward_chunk(const Backward& b, int64_t begin, int64_t end, float* dR, float* scratch) {
    const NwSmooth& in = b.in;
    Panel panels[kChunk / kPanel];
    const Scratch s = {scratch, scratch + kRefs * kMaxPanel, scratch + 2 * kRefs * kMaxPanel,
                       scratch + 2 * kRefs * kMaxPanel + kChunk * b.ld};
    for (int64_t i = begin; i < end; i += kPanel) {
        Panel& p = panels[(i - begin) / kPanel];
        p.q = s.panels + (i - begin) * (in.d + in.C);
        p.A = p.q + in.d * kPanel;
        start_panel(p, b, i, std::min<int64_t>(kPanel, end - i));
    }
    if (in.form == NwForm::authors) authors_shifts(panels, b, begin, end, s);
    std::fill(s.dQ, s.dQ + kChunk * b.ld, 0.0f);
    for (int64_t j = 0; j < in.m; j += kRefs) {
        for (int64_t i = begin; i < end; i += kPanel) {
            const Pairs pairs = {i, std::min<int64_t>(kPanel, end - i), j, std::min(kRefs, in.m - j)};
            backward_tile(panels[(i - begin) / kPanel], b, pairs, s.dQ + (i - begin) * b.ld, dR, s);
        }
    }
    for (int64_t i = begin; i < end; ++i) {
        std::copy_n(s.dQ + (i - begin) * b.ld, in.d, b.dQ + i * in.d);
        if (b.row_dgamma == nullptr) continue;
        const int64_t l = i - begin;
        b.row_dgamma[i] = panels[l / kPanel].gamma_sum[l % kPanel] / in.gamma[in.gamma_per_row ? i : 0];
    }
}

}  // namespace
}  // namespace lc::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
    #include "kernels/nw_smooth_common.h"

namespace lc::cpu {
namespace {

HWY_EXPORT(backward_chunk);

constexpr int64_t kSlots = 16;        // partial sums of dR
constexpr int64_t kRowMultiple = 16;  // rows are padded to whole vectors of the widest target

using Floats = hwy::AlignedFreeUniquePtr<float[]>;

Floats floats(int64_t count) {
    Floats memory = hwy::AllocateAligned<float>(size_t(count));
    LC_CHECK(memory != nullptr, "nw_smooth_bwd: out of memory for " << count * 4 << " bytes of scratch");
    return memory;
}

// (rows, ld): rows of d features, then zeros.
Floats padded(const float* x, int64_t rows, int64_t d, int64_t ld) {
    Floats copy = floats(std::max<int64_t>(1, rows * ld));
    for_each_chunk(rows, 1024, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) {
            std::copy_n(x + i * d, d, copy.get() + i * ld);
            std::fill(copy.get() + i * ld + d, copy.get() + (i + 1) * ld, 0.0f);
        }
    });
    return copy;
}

// dR (m, d) = the sum of the slots (slots, m, ld), in their order.
void add_slots(float* dR, const float* slots, int64_t count, int64_t m, int64_t d, int64_t ld) {
    for_each_chunk(m, 256, [=](int64_t begin, int64_t end) {
        for (int64_t j = begin; j < end; ++j) {
            std::fill(dR + j * d, dR + (j + 1) * d, 0.0f);
            for (int64_t s = 0; s < count; ++s) {
                const float* row = slots + (s * m + j) * ld;
                for (int64_t k = 0; k < d; ++k) dR[j * d + k] += row[k];
            }
        }
    });
}

}  // namespace

void nw_smooth_bwd(const NwGradients& out, const float* dtheta, const float* dlog_label, const NwOutput& forward,
                   const NwSmooth& in, Stream) {
    check_nw_smooth_bwd(out, dtheta, dlog_label, forward, in);
    check_classes("nw_smooth_bwd", "labels", in.labels, in.m, in.C);
    if (dlog_label != nullptr) check_classes("nw_smooth_bwd", "query_labels", in.query_labels, in.n, in.C);

    const int64_t ld = ceil_div(in.d, kRowMultiple) * kRowMultiple;
    const Floats Q = padded(in.Q, in.n, in.d, ld), R = padded(in.R, in.m, in.d, ld), row_dgamma = floats(in.n + 1);
    const bool whole_dgamma = out.dgamma != nullptr && !in.gamma_per_row;
    const Backward b = {
        in, forward, dtheta, dlog_label, Q.get(), R.get(), ld, out.dQ, whole_dgamma ? row_dgamma.get() : out.dgamma};

    const int64_t chunks = ceil_div(in.n, kChunk), per_slot = std::max<int64_t>(1, ceil_div(chunks, kSlots));
    const int64_t slots = ceil_div(chunks, per_slot);
    const Floats dR = floats(slots * in.m * ld + 1);
    const int64_t scratch_floats = 2 * kRefs * kMaxPanel + kChunk * (ld + in.d + in.C);
    for_each_chunk_with_scratch(
        in.n, per_slot * kChunk, scratch_floats, [&](int64_t begin, int64_t end, float* scratch) {
            float* slot = dR.get() + begin / (per_slot * kChunk) * in.m * ld;
            std::fill(slot, slot + in.m * ld, 0.0f);
            for (int64_t i = begin; i < end; i += kChunk) {
                HWY_DYNAMIC_DISPATCH(backward_chunk)(b, i, std::min(end, i + kChunk), slot, scratch);
            }
        });
    add_slots(out.dR, dR.get(), slots, in.m, in.d, ld);
    if (!whole_dgamma) return;
    double sum = 0;
    for (int64_t i = 0; i < in.n; ++i) sum += double(row_dgamma[i]);
    *out.dgamma = float(sum);
}

}  // namespace lc::cpu
#endif  // HWY_ONCE

// nw_smooth.cpp -- CPU backend of nw_smooth (contract: nw_smooth.h; distances: nw_kernel.h).
//
// Idea     a thread takes kChunk queries, as a few panels, and walks over the references in blocks of kRefs.  For each
//          block and panel: squared distances, the nearest neighbour so far, weights relative to it, and their sums per
//          class.  When a block brings a nearer neighbour, what was summed before is scaled down first.
// exact    the neighbours of a query are two groups, those of its own class (where log_label is asked for) and the
//          others.  Each group has its own nearest neighbour, whose weight is 1, so neither sum can underflow, and
//
//              theta_own = e^(h near_own) sum_own / ( e^(h near_own) sum_own + e^(h near_other) sum_other )
//
//          is known in log space however far the own class is away.  (h = -1 / (2 gamma^2), near = squared distance)
// authors  weights are not relative to anything: two walks, first the sum of exp(h D), then the clamped weights.
// soft     theta (C, lanes) += Y^T (C, refs) W (refs, lanes): the weights are a packed panel as they lie.  Here
//          log_label is ln theta, and the few rows whose theta underflows are done again in double.
// Traffic  references are read from L2 or L3 once per chunk: some 0.6 B per cycle.  All else stays in L1.
// Numbers  float32; sums over references run in order, block after block, whatever the threads do.
// Profile  `make bench`
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/nw_smooth.cpp"
#include "kernels/nw_smooth.h"

#include <cmath>
#include <hwy/foreach_target.h>

#include "kernels/nw_kernel.h"

HWY_BEFORE_NAMESPACE();
namespace lc::cpu::HWY_NAMESPACE {
namespace {

struct Panel {     // kPanel queries and what is known about them so far
    float* q;      // (d, kPanel)
    float* theta;  // (C, kPanel): sums of weights per class
    HWY_ALIGN float h[kPanel];
    HWY_ALIGN float near_own[kPanel];    // squared distance to the nearest reference of its own class
    HWY_ALIGN float near_other[kPanel];  // to the nearest one of the others, or of all if no class is its own
    HWY_ALIGN float sum[kPanel];         // of weights, where they cannot be had from theta
    HWY_ALIGN float log_norm[kPanel];
    HWY_ALIGN int32_t own[kPanel];  // class; -1: none
};

void start_panel(Panel& p, const NwSmooth& in, int64_t i, int64_t rows, bool separate_own) {
    pack_panel(p.q, in.Q + i * in.d, rows, in.d);
    std::fill(p.theta, p.theta + in.C * kPanel, 0.0f);
    for (int64_t l = 0; l < kPanel; ++l) {
        const double gamma = l < rows ? double(in.gamma[in.gamma_per_row ? i + l : 0]) : 1.0;
        p.h[l] = float(-0.5 / (gamma * gamma));
        p.near_own[l] = p.near_other[l] = kFarthest;
        p.sum[l] = 0.0f;
        p.own[l] = separate_own && l < rows ? in.query_labels[i + l] : -1;
    }
}

// A block of references as the sums want it: its labels, or its soft labels turned round.
struct BlockLabels {
    const int32_t* hard;  // (refs)
    const float* turned;  // (C, kRefs)
};

// theta (C, kPanel) += the weights of the tile, each for its class or shared out by its soft labels.
void add_weights(Panel& p, const float* weights, const BlockLabels& labels, int64_t refs, int64_t C) {
    if (labels.hard != nullptr) {
        for (int64_t j = 0; j < refs; ++j) {
            float* row = p.theta + labels.hard[j] * kPanel;
            for (int v = 0; v < kTileVectors; ++v) put(hn::Add(at(row, v), at(weights + j * kPanel, v)), row, v);
        }
        return;
    }
    for (int64_t c = 0; c < C; c += kTileRows) {
        const int64_t rows = std::min<int64_t>(kTileRows, C - c);
        const Output out = {p.theta + c * kPanel, kPanel, 1.0f, 1.0f};
        micro_kernel_for(rows, kPanel)(out, labels.turned + c * kRefs, kRefs, weights, refs);
    }
}

// ---- exact ----------------------------------------------------------------------------------------------------------

// Scales what was summed so far to neighbours that are nearer.
void rescale(Panel& p, int v, const Nearest& old, const Nearest& now, int64_t C) {
    const V of_own = exp_weight_lanes(df, hn::Mul(at(p.h, v), hn::Sub(old.own, now.own)));
    const V of_other = exp_weight_lanes(df, hn::Mul(at(p.h, v), hn::Sub(old.other, now.other)));
    for (int64_t c = 0; c < C; ++c) {
        const V factor = hn::IfThenElse(own_lanes(p.own, v, int32_t(c)), of_own, of_other);
        put(hn::Mul(at(p.theta + c * kPanel, v), factor), p.theta + c * kPanel, v);
    }
    put(hn::Mul(at(p.sum, v), of_other), p.sum, v);
    put(now.own, p.near_own, v);
    put(now.other, p.near_other, v);
}

void exact_tile(Panel& p, float* tile, const BlockLabels& labels, int64_t refs, int64_t C) {
    for (int v = 0; v < kTileVectors; ++v) {
        const Nearest old = {at(p.near_own, v), at(p.near_other, v)};
        const Nearest now = nearest_of_groups(old, p.own, v, tile, labels.hard, refs);
        if (now.nearer_than(old)) rescale(p, v, old, now, C);
        const V h = at(p.h, v);
        V sum = hn::Zero(df);
        for (int64_t j = 0; j < refs; ++j) {
            const Mask mine = own_lanes(p.own, v, labels.hard == nullptr ? 0 : labels.hard[j]);
            const V near = hn::IfThenElse(mine, now.own, now.other);
            const V w = exp_weight_lanes(df, hn::Mul(h, hn::Sub(at(tile + j * kPanel, v), near)));
            sum = hn::Add(sum, w);
            put(w, tile + j * kPanel, v);
        }
        put(hn::Add(at(p.sum, v), sum), p.sum, v);
    }
    add_weights(p, tile, labels, refs, C);
}

// theta becomes the estimate; log_norm and log_label (kPanel) are written.
void finish_exact(Panel& p, float* log_label, int64_t C, bool hard) {
    for (int v = 0; v < kTileVectors; ++v) {
        const V h = at(p.h, v), own = at(p.near_own, v), other = at(p.near_other, v), nearest = hn::Min(own, other);
        const V of_own = exp_weight_lanes(df, hn::Mul(h, hn::Sub(own, nearest)));
        const V of_other = exp_weight_lanes(df, hn::Mul(h, hn::Sub(other, nearest)));
        V total = hn::Zero(df), own_sum = total;
        for (int64_t c = 0; c < C; ++c) {
            const Mask mine = own_lanes(p.own, v, int32_t(c));
            const V sum = at(p.theta + c * kPanel, v), scaled = hn::Mul(sum, hn::IfThenElse(mine, of_own, of_other));
            own_sum = hn::IfThenElse(mine, sum, own_sum);
            total = hn::Add(total, scaled);
            put(scaled, p.theta + c * kPanel, v);
        }
        if (!hard) total = at(p.sum, v);
        for (int64_t c = 0; c < C; ++c) put(hn::Div(at(p.theta + c * kPanel, v), total), p.theta + c * kPanel, v);
        const V log_total = log_lanes(df, total);
        put(hn::MulAdd(h, nearest, log_total), p.log_norm, v);
        const V log_own = hn::Sub(log_lanes(df, own_sum), log_total);
        put(hn::MulAdd(h, hn::Sub(own, nearest), log_own), log_label, v);
    }
}

// ---- authors --------------------------------------------------------------------------------------------------------

void authors_sum(Panel& p, const float* tile, int64_t refs) {
    for (int v = 0; v < kTileVectors; ++v) {
        V sum = hn::Zero(df);
        for (int64_t j = 0; j < refs; ++j) {
            sum = hn::Add(sum, exp_weight_lanes(df, hn::Mul(at(p.h, v), at(tile + j * kPanel, v))));
        }
        put(hn::Add(at(p.sum, v), sum), p.sum, v);
    }
}

void authors_norm(Panel& p) {
    for (int v = 0; v < kTileVectors; ++v) {
        put(log_lanes(df, hn::Add(at(p.sum, v), hn::Set(df, kAuthorsFloor))), p.log_norm, v);
    }
}

void authors_tile(Panel& p, float* tile, const BlockLabels& labels, int64_t refs, int64_t C) {
    const V least = hn::Set(df, kAuthorsFloor), most = hn::Set(df, 1.0f - kAuthorsFloor);
    for (int v = 0; v < kTileVectors; ++v) {
        const V h = at(p.h, v), log_norm = at(p.log_norm, v);
        for (int64_t j = 0; j < refs; ++j) {
            const V k = exp_weight_lanes(df, hn::MulSub(h, at(tile + j * kPanel, v), log_norm));
            const V clamped = hn::IfThenElse(hn::Lt(k, least), least, hn::IfThenElse(hn::Gt(k, most), most, k));
            put(clamped, tile + j * kPanel, v);  // a NaN is neither less nor greater
        }
    }
    add_weights(p, tile, labels, refs, C);
}

// ---- a chunk of queries ---------------------------------------------------------------------------------------------

// Calls body(panel, tile, labels, refs) for every block of references and every panel of the chunk.
template <class Body>
void for_tiles(Panel* panels, const NwSmooth& in, int64_t begin, int64_t end, float* tile, float* turned,
               const Body& body) {
    for (int64_t j = 0; j < in.m; j += kRefs) {
        const int64_t refs = std::min(kRefs, in.m - j);
        BlockLabels labels = {in.labels == nullptr ? nullptr : in.labels + j, turned};
        if (in.soft != nullptr) transpose_copy(turned, kRefs, in.soft + j * in.C, in.C, refs, in.C);
        for (int64_t i = begin; i < end; i += kPanel) {
            Panel& p = panels[(i - begin) / kPanel];
            distance_tile(tile, in.R, p.q, in.d, {i, std::min<int64_t>(kPanel, end - i), j, refs}, in.leave_one_out);
            body(p, tile, labels, refs);
        }
    }
}

void store_panel(const NwOutput& out, const NwSmooth& in, const Panel& p, const float* log_own, int64_t i,
                 int64_t rows) {
    transpose_copy(out.theta + i * in.C, in.C, p.theta, kPanel, in.C, rows);
    for (int64_t l = 0; l < rows; ++l) {
        out.log_norm[i + l] = p.log_norm[l];
        if (out.log_label == nullptr) continue;
        const int64_t y = in.query_labels[i + l];
        out.log_label[i + l] = p.own[l] >= 0 ? log_own[l] : std::log(p.theta[y * kPanel + l]);
    }
}

// Queries begin .. end, at most kChunk.  scratch: a tile, soft labels turned round, then q and theta of every panel.
void smooth_chunk(const NwOutput& out, const NwSmooth& in, int64_t begin, int64_t end, float* scratch) {
    const bool exact = in.form == NwForm::exact, hard = in.labels != nullptr;
    const int64_t C = in.C;
    Panel panels[kChunk / kPanel];
    float* const tile = scratch;
    float* const turned = tile + kRefs * kMaxPanel;
    float* next = turned + (hard ? 0 : C * kRefs);
    for (int64_t i = begin; i < end; i += kPanel, next += (in.d + C) * kPanel) {
        Panel& p = panels[(i - begin) / kPanel];
        p.q = next;
        p.theta = next + in.d * kPanel;
        start_panel(p, in, i, std::min<int64_t>(kPanel, end - i), exact && hard && out.log_label != nullptr);
    }
    const int64_t count = (end - begin + kPanel - 1) / kPanel;
    if (exact) {
        for_tiles(panels, in, begin, end, tile, turned,
                  [&](Panel& p, float* t, const BlockLabels& y, int64_t refs) { exact_tile(p, t, y, refs, C); });
    } else {
        for_tiles(panels, in, begin, end, tile, turned,
                  [&](Panel& p, float* t, const BlockLabels&, int64_t refs) { authors_sum(p, t, refs); });
        for (int64_t k = 0; k < count; ++k) authors_norm(panels[k]);
        for_tiles(panels, in, begin, end, tile, turned,
                  [&](Panel& p, float* t, const BlockLabels& y, int64_t refs) { authors_tile(p, t, y, refs, C); });
    }
    for (int64_t k = 0; k < count; ++k) {
        HWY_ALIGN float log_own[kPanel];
        const int64_t i = begin + k * kPanel;
        if (exact) finish_exact(panels[k], log_own, C, hard);
        store_panel(out, in, panels[k], log_own, i, std::min<int64_t>(kPanel, end - i));
    }
}

}  // namespace
}  // namespace lc::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
    #include "kernels/nw_smooth_common.h"
    #include "kernels/nw_threads.h"

namespace lc::cpu {
namespace {

HWY_EXPORT(smooth_chunk);

// ln sum_j exp(s_ij) Y_jl by itself, in double: for a query i whose theta_l is too small for float32.
double log_soft_sum(const NwSmooth& in, int64_t i) {
    const double gamma = double(in.gamma[in.gamma_per_row ? i : 0]);
    const int64_t l = in.query_labels[i];
    double top = -std::numeric_limits<double>::infinity(), sum = 0;
    for (int64_t j = 0; j < in.m; ++j) {
        const double y = double(in.soft[j * in.C + l]);
        if ((in.leave_one_out && j == i) || y == 0) continue;
        double D = 0;
        for (int64_t k = 0; k < in.d; ++k) {
            const double difference = double(in.Q[i * in.d + k]) - double(in.R[j * in.d + k]);
            D += difference * difference;
        }
        const double s = std::log(y) - D / (2 * gamma * gamma);
        if (s > top) {
            sum = sum * std::exp(top - s) + 1;
            top = s;
        } else {
            sum += std::exp(s - top);
        }
    }
    return top + std::log(sum);
}

}  // namespace

void nw_smooth(const NwOutput& out, const NwSmooth& in, Stream) {
    check_nw_smooth(out, in);
    check_classes("nw_smooth", "labels", in.labels, in.m, in.C);
    if (out.log_label != nullptr) check_classes("nw_smooth", "query_labels", in.query_labels, in.n, in.C);
    const bool soft = in.soft != nullptr;
    const int64_t floats = kRefs * kMaxPanel + (soft ? in.C * kRefs : 0) + kChunk * (in.d + in.C);
    for_each_chunk_with_scratch(in.n, kChunk, floats, [&](int64_t begin, int64_t end, float* scratch) {
        HWY_DYNAMIC_DISPATCH(smooth_chunk)(out, in, begin, end, scratch);
        if (!soft || in.form != NwForm::exact || out.log_label == nullptr) return;
        for (int64_t i = begin; i < end; ++i) {
            if (out.log_label[i] < kTrustedLog) out.log_label[i] = float(log_soft_sum(in, i) - double(out.log_norm[i]));
        }
    });
}

}  // namespace lc::cpu
#endif  // HWY_ONCE

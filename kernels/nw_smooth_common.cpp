// nw_smooth_common.cpp -- the checks of a call to nw_smooth and its relatives (contract: nw_smooth.h).
#include "kernels/nw_smooth_common.h"

#include <initializer_list>

#include "kernels/arguments.h"

namespace lc {
namespace {

constexpr int64_t kMostFeatures = 4096, kMostClasses = 1000, kMostBandwidths = 64;

void check_features(const char* op, int64_t rows, int64_t d) {
    LC_CHECK(d >= 1 && d <= kMostFeatures,
             op << ": d is a number of features from 1 to " << kMostFeatures << "; found d = " << d);
    check_shape(op, rows, d);
}

void check_sets(const char* op, const NwSmooth& in) {
    LC_CHECK(in.n >= 0, op << ": n is a number of queries, 0 or more; found n = " << in.n);
    LC_CHECK(in.m >= 1, op << ": m is a number of references, 1 or more; found m = " << in.m);
    LC_CHECK(
        !in.leave_one_out || in.n == in.m,
        op << ": leave_one_out needs the queries to be the references, n = m; found n = " << in.n << ", m = " << in.m);
    LC_CHECK(!in.leave_one_out || in.m >= 2,
             op << ": leave_one_out needs m >= 2, or nobody is left; found m = " << in.m);
    LC_CHECK(in.C >= 1 && in.C <= kMostClasses,
             op << ": C is a number of classes from 1 to " << kMostClasses << "; found C = " << in.C);
    check_features(op, in.n, in.d);
    check_features(op, in.m, in.d);
    LC_CHECK((in.labels == nullptr) != (in.soft == nullptr),
             op << ": exactly one of labels and soft is needed; found " << (in.labels == nullptr ? "none" : "both"));
    LC_CHECK(in.form == NwForm::exact || in.form == NwForm::authors,
             op << ": form is exact or authors; found number " << int(in.form));
    check_array(op, {"Q", in.Q, in.n * in.d});
    check_array(op, {"R", in.R, in.m * in.d});
    check_array(op, {"gamma", in.gamma, in.gamma_per_row ? in.n : 1});
}

void check_own_array(const char* op, Array out, const NwSmooth& in) {
    check_array(op, out);
    for (const Array& input : {Array{"Q", in.Q, in.n * in.d}, Array{"R", in.R, in.m * in.d},
                               Array{"labels", in.labels, in.labels == nullptr ? 0 : in.m},
                               Array{"soft", in.soft, in.soft == nullptr ? 0 : in.m * in.C},
                               Array{"query_labels", in.query_labels, in.query_labels == nullptr ? 0 : in.n},
                               Array{"gamma", in.gamma, in.gamma_per_row ? in.n : 1}}) {
        check_disjoint(op, out, input);
    }
}

}  // namespace

void check_nw_smooth(const NwOutput& out, const NwSmooth& in) {
    const char* const op = "nw_smooth";
    check_sets(op, in);
    LC_CHECK(out.log_label == nullptr || in.query_labels != nullptr || in.n == 0,
             op << ": log_label needs query_labels, the class of each query; pass them, or a null log_label");
    const Array theta = {"theta", out.theta, in.n * in.C}, log_norm = {"log_norm", out.log_norm, in.n};
    const Array log_label = {"log_label", out.log_label, out.log_label == nullptr ? 0 : in.n};
    for (const Array& a : {theta, log_norm, log_label}) check_own_array(op, a, in);
    check_disjoint(op, theta, log_norm);
    check_disjoint(op, theta, log_label);
    check_disjoint(op, log_norm, log_label);
}

void check_nw_smooth_bwd(const NwGradients& out, const float* dtheta, const float* dlog_label, const NwOutput& forward,
                         const NwSmooth& in) {
    const char* const op = "nw_smooth_bwd";
    check_sets(op, in);
    LC_CHECK(
        dlog_label == nullptr || (in.query_labels != nullptr && forward.log_label != nullptr) || in.n == 0,
        op << ": dlog_label needs query_labels and the log_label of the forward pass; pass them, or a null dlog_label");
    check_array(op, {"dtheta", dtheta, in.n * in.C});
    const int64_t label_rows = dlog_label == nullptr ? 0 : in.n;
    const int64_t dgamma_count = out.dgamma == nullptr ? 0 : in.gamma_per_row ? in.n : 1;
    const Array dQ = {"dQ", out.dQ, in.n * in.d}, dR = {"dR", out.dR, in.m * in.d};
    const Array dgamma = {"dgamma", out.dgamma, dgamma_count};
    for (const Array& a : {dQ, dR, dgamma}) {
        check_own_array(op, a, in);
        check_disjoint(op, a, {"dtheta", dtheta, in.n * in.C});
        check_disjoint(op, a, {"theta", forward.theta, in.n * in.C});
        check_disjoint(op, a, {"log_norm", forward.log_norm, in.n});
        check_disjoint(op, a, {"dlog_label", dlog_label, label_rows});
        check_disjoint(op, a, {"log_label", forward.log_label, label_rows});
    }
    check_disjoint(op, dQ, dR);
    check_disjoint(op, dQ, dgamma);
    check_disjoint(op, dR, dgamma);
}

void check_nw_bandwidth(const float* nll, const float* Z, const int32_t* labels, const float* gammas, int64_t n,
                        int64_t d, int64_t G) {
    const char* const op = "nw_bandwidth";
    LC_CHECK(n >= 2, op << ": leaving one out needs n >= 2 rows; found n = " << n);
    LC_CHECK(G >= 1 && G <= kMostBandwidths,
             op << ": G is a number of bandwidths from 1 to " << kMostBandwidths << "; found G = " << G);
    check_features(op, n, d);
    check_disjoint(op, {"nll", nll, n * G}, {"Z", Z, n * d});
    check_disjoint(op, {"nll", nll, n * G}, {"labels", labels, n});
    check_disjoint(op, {"nll", nll, n * G}, {"gammas", gammas, G});
}

}  // namespace lc

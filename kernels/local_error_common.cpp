// local_error_common.cpp -- the checks of a call to local_error (contract: local_error.h).
#include "kernels/local_error_common.h"

#include <initializer_list>

#include "kernels/arguments.h"

namespace lc {
namespace {

constexpr int64_t kMostFeatures = 4096, kMostClasses = 1000, kMostBandwidths = 64;

void check_range(const char* op, const char* name, const char* what, int64_t value, int64_t most) {
    LC_CHECK(value >= 1 && value <= most, op << ": " << name << " is a number of " << what << " from 1 to " << most
                                             << "; found " << name << " = " << value);
}

void check_input(const char* op, const LocalError& in) {
    LC_CHECK(in.n >= 1, op << ": n is a number of rows, 1 or more; found n = " << in.n);
    check_range(op, "d", "features", in.d, kMostFeatures);
    check_range(op, "C", "classes", in.C, kMostClasses);
    check_range(op, "G", "bandwidths", in.G, kMostBandwidths);
    check_shape(op, in.n, in.d);
    check_shape(op, in.n, in.C * in.G);
    check_array(op, {"Z", in.Z, in.n * in.d});
    check_array(op, {"residual", in.residual, in.n * in.C});
    check_array(op, {"bin", in.bin, in.n * in.C});
    check_array(op, {"gammas", in.gammas, in.G});
}

void check_output(const char* op, Array out, const LocalError& in) {
    for (const Array& input :
         {Array{"Z", in.Z, in.n * in.d}, Array{"residual", in.residual, in.n * in.C}, Array{"bin", in.bin, in.n * in.C},
          Array{"gammas", in.gammas, in.G}, Array{"phi", in.phi, in.phi == nullptr ? 0 : in.n * in.m}}) {
        check_disjoint(op, out, input);
    }
}

void check_disjoint_pairs(const char* op, std::initializer_list<Array> arrays) {
    for (const Array* a = arrays.begin(); a != arrays.end(); ++a) {
        for (const Array* b = a + 1; b != arrays.end(); ++b) check_disjoint(op, *a, *b);
    }
}

}  // namespace

void check_local_error(const LocalErrorOutput& out, const LocalError& in) {
    const char* const op = "local_error";
    check_input(op, in);
    LC_CHECK(out.spread == nullptr || in.phi != nullptr,
             op << ": spread needs phi, the vectors whose distances are averaged; pass them, or a null spread");
    if (out.spread != nullptr) {
        check_range(op, "m", "columns of phi", in.m, kMostFeatures);
        check_shape(op, in.n, in.m);
    }
    const auto output = [&](const char* name, float* x) {
        return Array{name, x, x == nullptr ? 0 : in.G * in.n * in.C};
    };
    const Array error = {"error", out.error, in.G * in.n * in.C}, weight = output("weight", out.weight),
                n_eff = output("n_eff", out.n_eff), spread = output("spread", out.spread);
    for (const Array& a : {error, weight, n_eff, spread}) check_output(op, a, in);
    check_disjoint_pairs(op, {error, weight, n_eff, spread});
}

void check_local_error_null(const LocalErrorNull& out, const LocalError& in, const int32_t* labels, int64_t B) {
    const char* const op = "local_error_null";
    check_input(op, in);
    LC_CHECK(in.G == 1, op << ": there is one bandwidth, G = 1; found G = " << in.G);
    LC_CHECK(B >= 1, op << ": B is a number of sets of labels, 1 or more; found B = " << B);
    check_shape(op, B, in.n);
    check_shape(op, B, in.C);
    const Array total = {"total", out.total, B * in.C}, largest = {"largest", out.largest, B * in.C},
                row_most = {"row_most", out.row_most, B};
    for (const Array& a : {total, largest, row_most}) {
        check_output(op, a, in);
        check_disjoint(op, a, {"labels", labels, B * in.n});
    }
    check_disjoint_pairs(op, {total, largest, row_most});
}

}  // namespace lc

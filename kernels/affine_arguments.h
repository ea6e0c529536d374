// affine_arguments.h -- the checks of the ops of affine.h, the same on every backend.
#pragma once
#include "kernels/affine.h"
#include "kernels/arguments.h"

namespace lc {

inline void check_affine(const float* out, const float* a, const float* x, const float* w, const float* b, int64_t N,
                         int64_t C, Columns columns) {
    check_shape("affine", N, C);
    const int64_t n = N * C, entries = columns.one ? (n > 0) : C;
    const Array result = {"out", out, n};
    check_same_or_disjoint("affine", result, {"x", x, n});
    if (a != nullptr) check_same_or_disjoint("affine", result, {"a", a, n});
    check_disjoint("affine", result, {"w", w, entries});
    check_disjoint("affine", result, {"b", b, entries});
}

inline void check_affine_bwd(const float* dw, const float* db, const float* dy, const float* x, int64_t N, int64_t C,
                             Columns columns) {
    check_shape("affine_bwd", N, C);
    const int64_t n = N * C, entries = columns.one ? 1 : C;
    for (const Array& out : {Array{"dw", dw, entries}, Array{"db", db, entries}}) {
        check_disjoint("affine_bwd", out, {"dy", dy, n});
        check_disjoint("affine_bwd", out, {"x", x, n});
    }
    check_disjoint("affine_bwd", {"dw", dw, entries}, {"db", db, entries});
}

inline void check_standardise(const float* out, const float* x, const float* mean, const float* inverse, int64_t N,
                              int64_t C) {
    check_shape("standardise", N, C);
    check_same_or_disjoint("standardise", {"out", out, N * C}, {"x", x, N * C});
    check_disjoint("standardise", {"out", out, N * C}, {"mean", mean, C});
    check_disjoint("standardise", {"out", out, N * C}, {"inverse", inverse, C});
}

inline void check_col_moment2(const float* out, const float* x, const float* mean, int64_t N, int64_t C) {
    check_shape("col_moment2", N, C);
    LC_CHECK(N > 0 || C == 0, "col_moment2: the mean of no squares does not exist; found N = 0");
    check_disjoint("col_moment2", {"out", out, C}, {"x", x, N * C});
    check_disjoint("col_moment2", {"out", out, C}, {"mean", mean, C});
}

inline void check_gather_rows(const float* out, const float* x, const int32_t* index, int64_t N, int64_t M, int64_t C) {
    check_shape("gather_rows", N, C);
    check_shape("gather_rows", M, C);
    check_disjoint("gather_rows", {"out", out, N * C}, {"x", x, M * C});
    check_disjoint("gather_rows", {"out", out, N * C}, {"index", index, N});
}

}  // namespace lc

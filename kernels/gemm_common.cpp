// gemm_common.cpp -- what all engines of gemm share on the host: their names, and the check of a call (contract: gemm.h).
#include <cmath>
#include <limits>

#include "kernels/check.h"
#include "kernels/gemm.h"

namespace lc {

GemmEngine gemm_engine(std::string_view name) {
    if (name == "own") return GemmEngine::own;
    if (name == "openblas") return GemmEngine::openblas;
    if (name == "cublas") return GemmEngine::cublas;
    if (name == "cutlass") return GemmEngine::cutlass;
    throw Error("gemm: there is no engine '" + std::string(name) + "'; choose own, openblas, cublas or cutlass");
}

namespace {

// One operand as it lies in memory: `batch` matrices (rows, cols).
struct Stored {
    const char* name;
    const float* data;
    int64_t rows, cols, ld, stride;

    bool empty() const { return rows == 0 || cols == 0; }
};

// Floats from the first to one past the last element of the batch; refuses what no address space holds.
int64_t span(const Stored& x, int64_t batch) {
    int64_t last_row = 0, last_matrix = 0, total = 0;
    bool overflow = __builtin_mul_overflow(x.rows - 1, x.ld, &last_row);
    overflow |= __builtin_mul_overflow(batch - 1, x.stride, &last_matrix);
    overflow |= __builtin_add_overflow(last_row, last_matrix, &total);
    overflow |= __builtin_add_overflow(total, x.cols, &total);
    LC_CHECK(!overflow && total <= std::numeric_limits<int64_t>::max() / int64_t(sizeof(float)),
             "gemm: " << x.name << " (" << x.rows << ", " << x.cols << ") with leading dimension " << x.ld << " and "
                      << batch << " batches of stride " << x.stride << " is larger than any memory; check the shape");
    return total;
}

void check_stored(const Stored& x, int64_t batch) {
    LC_CHECK(x.ld >= x.cols, "gemm: ld" << char(x.name[0] + 'a' - 'A') << " is the distance between rows of the stored "
                                        << x.name << ", at least its " << x.cols << " columns; found " << x.ld
                                        << " (0 stands for tightly packed)");
    LC_CHECK(x.stride >= 0, "gemm: stride_" << char(x.name[0] + 'a' - 'A') << " is 0 or more; found " << x.stride);
    if (x.empty() || batch == 0) return;
    LC_CHECK(x.data != nullptr, "gemm: " << x.name << " is a null pointer but (" << x.rows << ", " << x.cols
                                         << ") elements of it are needed");
    span(x, batch);
}

// The matrices of C may follow each other, or stand side by side within the rows of one wide matrix.
void check_batches_apart(const Stored& c, int64_t batch) {
    const bool follow = c.stride >= span(c, 1);
    const bool side_by_side = c.stride >= c.cols && (batch - 1) <= (c.ld - c.cols) / std::max<int64_t>(c.stride, 1);
    LC_CHECK(batch == 1 || follow || side_by_side,
             "gemm: stride_c = " << c.stride << " makes the C of one batch overlap the next; it needs at least "
                                 << span(c, 1) << " for M = " << c.rows << ", N = " << c.cols << ", ldc = " << c.ld);
}

// Two column slices of one wide matrix interleave in memory and still share no element.
bool share_elements(const Stored& c, const Stored& x, int64_t batch) {
    const std::uintptr_t c0 = reinterpret_cast<std::uintptr_t>(c.data), x0 = reinterpret_cast<std::uintptr_t>(x.data);
    const std::uintptr_t c1 = c0 + sizeof(float) * std::uintptr_t(span(c, batch));
    const std::uintptr_t x1 = x0 + sizeof(float) * std::uintptr_t(span(x, batch));
    if (c1 <= x0 || x1 <= c0) return false;
    if (batch != 1 || c.ld != x.ld || (c0 - x0) % sizeof(float) != 0) return true;
    const int64_t distance = (int64_t(c0) - int64_t(x0)) / int64_t(sizeof(float));
    const int64_t column = ((distance % c.ld) + c.ld) % c.ld;  // where C begins within a row of X
    return column < x.cols || column + c.cols > c.ld;
}

}  // namespace

Gemm checked(Gemm g, const float* C, const float* A, const float* B) {
    LC_CHECK(g.M >= 0 && g.N >= 0 && g.K >= 0,
             "gemm: M, N and K are 0 or more; found M = " << g.M << ", N = " << g.N << ", K = " << g.K);
    LC_CHECK(g.batch >= 0, "gemm: batch is 0 or more; found " << g.batch);

    Stored a = {"A", A, g.trans_a ? g.K : g.M, g.trans_a ? g.M : g.K, g.lda, g.stride_a};
    Stored b = {"B", B, g.trans_b ? g.N : g.K, g.trans_b ? g.K : g.N, g.ldb, g.stride_b};
    Stored c = {"C", C, g.M, g.N, g.ldc, g.stride_c};
    for (Stored* x : {&a, &b, &c}) {
        if (x->ld == 0) x->ld = std::max<int64_t>(x->cols, 1);
    }
    g.lda = a.ld, g.ldb = b.ld, g.ldc = c.ld;

    const bool inputs_read = g.alpha != 0.0f && !c.empty();  // else A and B may be anything, null included
    check_stored(c, g.batch);
    check_stored(a, inputs_read ? g.batch : 0);
    check_stored(b, inputs_read ? g.batch : 0);
    if (c.empty() || g.batch == 0) return g;
    check_batches_apart(c, g.batch);
    for (const Stored* x : {&a, &b}) {
        if (!inputs_read || x->empty()) continue;
        LC_CHECK(!share_elements(c, *x, g.batch), "gemm: C and " << x->name << " overlap in memory; C needs its own");
    }
    return g;
}

}  // namespace lc

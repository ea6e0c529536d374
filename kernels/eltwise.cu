// eltwise.cu -- CUDA backend of eltwise (contract and formulas: eltwise.h).
//
// Idea     one kernel, a small functor per op.  A thread owns four neighbouring elements: one 16-byte access per array,
//          and the four words that one call of Philox gives dropout.
// Launch   grid = ceil(n / 1024), block = 256, 1-D; thread t <-> elements 4t .. 4t + 3.  The last group may be short
//          and is then moved float by float; threads past the end find nothing to move.
// Shared   none.
// Traffic  each array once: add, add_relu, relu_bwd, softplus_bwd 12 B per element; scale, relu, bias, softplus, dropout 8 B
//          (b of bias stays in L1).  At most one flop per 4 bytes, and some 20 integer operations per element for dropout: bound by DRAM.
//          Pointers off 16-byte alignment take four 4-byte accesses, which share their sectors through L1.
// Numbers  one rounding per element, the same as the scalar formula.  The mask of dropout is drawn again, never stored.
// Profile  `make sim-profile OP=add` (or scale, bias, relu, add_relu, relu_bwd, softplus, softplus_bwd, dropout)
#include "kernels/arguments.h"
#include "kernels/device.cuh"
#include "kernels/eltwise.h"
#include "kernels/groups.cuh"

namespace lc::LC_CUDA_NS {

constexpr int kBlock = 256;
constexpr int kEach = 4;  // elements per thread, moved by load_group and store_group

// ---- the ops: prepare() learns where the group starts, then one call per element, in order --------------------------

struct AddOp {
    static constexpr int kInputs = 2;
    __device__ void prepare(int64_t) {}
    __device__ float operator()(float x, float y, int) { return x + y; }
};

struct ScaleOp {
    static constexpr int kInputs = 1;
    float a;
    __device__ void prepare(int64_t) {}
    __device__ float operator()(float x, float, int) { return a * x; }
};

struct BiasOp {
    static constexpr int kInputs = 1;
    const float* b;  // (C)
    int64_t C;
    int64_t c = 0;                                     // column of the next element
    __device__ void prepare(int64_t i) { c = i % C; }  // one division per four elements
    __device__ float operator()(float x, float, int) {
        const float sum = x + b[c];
        c = c + 1 == C ? 0 : c + 1;
        return sum;
    }
};

struct ReluOp {
    static constexpr int kInputs = 1;
    __device__ void prepare(int64_t) {}
    __device__ float operator()(float x, float, int) { return x <= 0.0f ? 0.0f : x; }  // NaN <= 0 is false: it stays
};

struct AddReluOp {
    static constexpr int kInputs = 2;
    __device__ void prepare(int64_t) {}
    __device__ float operator()(float x, float y, int) { return x + y <= 0.0f ? 0.0f : x + y; }
};

struct ReluBwdOp {
    static constexpr int kInputs = 2;
    __device__ void prepare(int64_t) {}
    __device__ float operator()(float dy, float y, int) { return y > 0.0f ? dy : 0.0f; }
};

struct SoftplusOp {
    static constexpr int kInputs = 1;
    __device__ void prepare(int64_t) {}
    __device__ float operator()(float x, float, int) { return (x < 0.0f ? 0.0f : x) + log1pf(expf(-fabsf(x))); }
};

struct SoftplusBwdOp {
    static constexpr int kInputs = 2;
    __device__ void prepare(int64_t) {}
    __device__ float operator()(float dy, float y, int) { return dy * -expm1f(-y); }
};

struct DropoutOp {
    static constexpr int kInputs = 1;
    DropoutRule rule;
    RandomKey key;
    Philox4 bits = {};
    __device__ void prepare(int64_t i) { bits = random_bits4(key, uint64_t(i / kEach)); }
    __device__ float operator()(float x, float, int e) {
        return bits.v[e] >= rule.threshold ? x * rule.keep_scale : 0.0f;
    }
};

// ---- the kernel -----------------------------------------------------------------------------------------------------

// No __restrict__: out may be x or y.  Every element is read and written by one thread alone, so in place is safe.
template <class Op>
__global__ void __launch_bounds__(kBlock) eltwise_kernel(float* out,      // (n)
                                                         const float* x,  // (n)
                                                         const float* y,  // (n), not read by ops with one input
                                                         int64_t n, bool aligned, Op op) {
    const int64_t i = (int64_t(blockIdx.x) * kBlock + threadIdx.x) * kEach;
    const bool vector = aligned && i + kEach <= n;
    float a[kEach], b[kEach] = {};
    load_group(a, x + i, n - i, vector);
    if constexpr (Op::kInputs == 2) load_group(b, y + i, n - i, vector);
    op.prepare(i);
#pragma unroll
    for (int e = 0; e < kEach; ++e) a[e] = op(a[e], b[e], e);
    store_group(out + i, a, n - i, vector);
}

// ---- launchers ------------------------------------------------------------------------------------------------------

static dim3 grid_for(int64_t n) { return grid_of(ceil_div(n, kBlock * kEach)); }

void add(float* out, const float* x, const float* y, int64_t n, Stream s) {
    check_length("add", n);
    check_same_or_disjoint("add", {"out", out, n}, {"x", x, n});
    check_same_or_disjoint("add", {"out", out, n}, {"y", y, n});
    if (n == 0) return;
    const bool aligned = aligned16(out) && aligned16(x) && aligned16(y);
    LC_LAUNCH(eltwise_kernel<AddOp>, grid_for(n), kBlock, 0, s, out, x, y, n, aligned, AddOp{});
}

void scale(float* out, const float* x, float a, int64_t n, Stream s) {
    check_length("scale", n);
    check_same_or_disjoint("scale", {"out", out, n}, {"x", x, n});
    if (n == 0) return;
    const bool aligned = aligned16(out) && aligned16(x);
    LC_LAUNCH(eltwise_kernel<ScaleOp>, grid_for(n), kBlock, 0, s, out, x, nullptr, n, aligned, ScaleOp{a});
}

void bias(float* out, const float* x, const float* b, int64_t N, int64_t C, Stream s) {
    check_shape("bias", N, C);
    const int64_t n = N * C;
    check_same_or_disjoint("bias", {"out", out, n}, {"x", x, n});
    check_same_or_disjoint("bias", {"out", out, n}, {"b", b, C});
    if (n == 0) return;
    const bool aligned = aligned16(out) && aligned16(x);
    LC_LAUNCH(eltwise_kernel<BiasOp>, grid_for(n), kBlock, 0, s, out, x, nullptr, n, aligned, BiasOp{b, C});
}

void relu(float* out, const float* x, int64_t n, Stream s) {
    check_length("relu", n);
    check_same_or_disjoint("relu", {"out", out, n}, {"x", x, n});
    if (n == 0) return;
    const bool aligned = aligned16(out) && aligned16(x);
    LC_LAUNCH(eltwise_kernel<ReluOp>, grid_for(n), kBlock, 0, s, out, x, nullptr, n, aligned, ReluOp{});
}

void add_relu(float* out, const float* x, const float* y, int64_t n, Stream s) {
    check_length("add_relu", n);
    check_same_or_disjoint("add_relu", {"out", out, n}, {"x", x, n});
    check_same_or_disjoint("add_relu", {"out", out, n}, {"y", y, n});
    if (n == 0) return;
    const bool aligned = aligned16(out) && aligned16(x) && aligned16(y);
    LC_LAUNCH(eltwise_kernel<AddReluOp>, grid_for(n), kBlock, 0, s, out, x, y, n, aligned, AddReluOp{});
}

void relu_bwd(float* dx, const float* dy, const float* y, int64_t n, Stream s) {
    check_length("relu_bwd", n);
    check_same_or_disjoint("relu_bwd", {"dx", dx, n}, {"dy", dy, n});
    check_same_or_disjoint("relu_bwd", {"dx", dx, n}, {"y", y, n});
    if (n == 0) return;
    const bool aligned = aligned16(dx) && aligned16(dy) && aligned16(y);
    LC_LAUNCH(eltwise_kernel<ReluBwdOp>, grid_for(n), kBlock, 0, s, dx, dy, y, n, aligned, ReluBwdOp{});
}

void softplus(float* out, const float* x, int64_t n, Stream s) {
    check_length("softplus", n);
    check_same_or_disjoint("softplus", {"out", out, n}, {"x", x, n});
    if (n == 0) return;
    const bool aligned = aligned16(out) && aligned16(x);
    LC_LAUNCH(eltwise_kernel<SoftplusOp>, grid_for(n), kBlock, 0, s, out, x, nullptr, n, aligned, SoftplusOp{});
}

void softplus_bwd(float* dx, const float* dy, const float* y, int64_t n, Stream s) {
    check_length("softplus_bwd", n);
    check_same_or_disjoint("softplus_bwd", {"dx", dx, n}, {"dy", dy, n});
    check_same_or_disjoint("softplus_bwd", {"dx", dx, n}, {"y", y, n});
    if (n == 0) return;
    const bool aligned = aligned16(dx) && aligned16(dy) && aligned16(y);
    LC_LAUNCH(eltwise_kernel<SoftplusBwdOp>, grid_for(n), kBlock, 0, s, dx, dy, y, n, aligned, SoftplusBwdOp{});
}

void dropout(float* out, const float* x, float p, RandomKey key, int64_t n, Stream s) {
    LC_CHECK(p >= 0.0f && p < 1.0f,
             "dropout: p is the probability of dropping an element, 0 <= p < 1; found p = " << p);
    check_length("dropout", n);
    check_same_or_disjoint("dropout", {"out", out, n}, {"x", x, n});
    if (n == 0) return;
    if (p == 0.0f) {  // a copy, because 1.0f * x rewrites the bits of a NaN
        if (out == x) return;
        const auto stream = static_cast<cudaStream_t>(s);
        LC_CUDA_CHECK(cudaMemcpyAsync(out, x, size_t(n) * sizeof(float), cudaMemcpyDeviceToDevice, stream));
        return;
    }
    const bool aligned = aligned16(out) && aligned16(x);
    const DropoutOp op{dropout_rule(p), key};
    LC_LAUNCH(eltwise_kernel<DropoutOp>, grid_for(n), kBlock, 0, s, out, x, nullptr, n, aligned, op);
}

}  // namespace lc::LC_CUDA_NS

// reduce.cu -- CUDA backend of reduce (contract and formulas: reduce.h).
//
// Idea     a launch shortens every row (or column) to one number per segment of fixed length, and the shorter matrix is
//          reduced again by the same kernel until one number per row is left.  Inside a segment each thread folds at
//          most 64 elements, 8 at a time, then the threads are folded by a tree.
//          Maxima travel as 64-bit keys, whose integer order is the order of the contract: NaN first, ties to the
//          lowest index.  The greatest key holds the maximum and its place at once.
//
//          row_reduce_kernel: `lanes` threads per segment      col_reduce_kernel: `width` columns x 256 / width threads
//              row r    [ 0 1 .. 31 0 1 .. 31 0 1 ..]              column     0  1 .. 31
//                         |  thread of the group                   row 0      t0 t1 .. t31     one block: 64 rows per
//                         a warp reads 32 neighbours               row 1      t32 t33 ..       thread, 512 at width 32
//
// Launch   block = 256, 1-D grids.  Rows: lanes = 1 .. 32 for C <= 1024 (256 / lanes rows per block), 256 beyond with
//          segments of 8192.  Columns: width = 1 .. 32, segments of 64 * 256 / width rows.  Idle threads fold nothing
//          but keep reaching shuffles and barriers.
// Shared   rows: 8 states (one per warp), only where lanes = 256.  Columns: 256 states, 1 or 2 KiB; a thread writes its
//          own, a barrier separates every level of the tree.
// Traffic  x once, 4 N C B; partial results at most 1/250 of it again.  One flop per 4 bytes: bound by DRAM.  All loads
//          are coalesced and none needs alignment, so the tree cannot depend on addresses.
// Numbers  float32.  No addition chain is longer than 8 + 8 + 8 per launch, so the error grows with log(length).
//          No atomics; segments depend on N and C only: bitwise repeatable.
// Profile  `make sim-profile OP=row_reduce` (or col_reduce, row_argmax, col_argmax)
#include "kernels/arguments.h"
#include "kernels/device.cuh"
#include "kernels/reduce.h"

namespace lc::LC_CUDA_NS {

constexpr int kUnroll = 8;                            // elements in flight per thread
constexpr int kRowSegment = kRowBlock * 4 * kUnroll;  // columns per segment of a long row
constexpr int kRowsPerThread = kUnroll * kUnroll;     // of a column
constexpr int64_t kMaxIndex = 0x7fffffff;             // arg-maxima are int32

// ---- what is reduced: elements become states, states are joined, the last one becomes the output -------------------

struct SumReduction : SumOf {
    __device__ static float element(float x, int64_t) { return x; }
    __device__ static void finish(float& out, float sum, float divisor) { out = sum / divisor; }
};

// A key holds a float and its place:   | value, as an integer in the same order : 32 | ~index : 31 | sign of x : 1 |
// Both zeros have one value here and differ in the last bit, so that they tie and the maximum still has its sign.
struct MaxReduction {
    using State = uint64_t;
    __device__ static State nothing() { return 0; }
    __device__ static State join(State a, State b) { return max(a, b); }

    __device__ static State element(float x, int64_t index) {
        const uint32_t bits = __float_as_uint(x), sign = bits >> 31;
        uint32_t value = sign ? ~bits : bits | 0x80000000u;  // negative floats count downwards
        if (x == 0.0f) value = 0x80000000u;
        if (x != x) value = 0xffffffffu;
        const uint32_t place = uint32_t(kMaxIndex - index) << 1;  // beyond 2^31 only the sign of a zero could suffer
        return uint64_t(value) << 32 | place | sign;
    }
    __device__ static State element(State key, int64_t) { return key; }

    __device__ static void finish(float& out, State key, float) {
        const uint32_t value = uint32_t(key >> 32);
        uint32_t bits = value & 0x80000000u ? value ^ 0x80000000u : ~value;
        if (bits == 0) bits = uint32_t(key) << 31;
        out = __uint_as_float(bits);
    }
    __device__ static void finish(int32_t& out, State key, float) {
        out = int32_t(kMaxIndex - int64_t(uint32_t(key) >> 1));
    }
};

// Joins elements first, first + step, ... below end; element i lies at line[i * stride].
template <class Op, class In>
static __device__ __forceinline__ typename Op::State fold(const In* line, int64_t first, int64_t end, int64_t step,
                                                          int64_t stride) {
    typename Op::State total = Op::nothing();
    for (int64_t i0 = first; i0 < end; i0 += kUnroll * step) {
        In v[kUnroll];  // loads first, so that many are in flight
#pragma unroll
        for (int u = 0; u < kUnroll; ++u) v[u] = i0 + u * step < end ? line[(i0 + u * step) * stride] : In(0);
        typename Op::State part = Op::element(v[0], i0);
#pragma unroll
        for (int u = 1; u < kUnroll; ++u) {
            const typename Op::State next = Op::element(v[u], i0 + u * step);  // not in a branch: a select costs less
            part = Op::join(part, i0 + u * step < end ? next : Op::nothing());
        }
        total = Op::join(total, part);
    }
    return total;
}

// ---- kernels: a segment's result goes to `out` where it is the only one of its line, else to `partial` --------------

template <class Op, class In, class Out>
__global__ void __launch_bounds__(kRowBlock)
    row_reduce_kernel(Out* __restrict__ out,                     // (N)
                      typename Op::State* __restrict__ partial,  // (N, segments)
                      const In* __restrict__ x,                  // (N, C)
                      int64_t N, int64_t C, int64_t segments, int lanes, float divisor) {
    const int64_t group = (int64_t(blockIdx.x) * kRowBlock + threadIdx.x) / lanes;  // which segment of which row
    const int64_t r = group / segments, first = (group - r * segments) * kRowSegment;
    const bool live = r < N;
    const int64_t end = live ? min(first + kRowSegment, C) : 0;  // without a row there is nothing to fold
    const int lane = int(threadIdx.x) & (lanes - 1);
    typename Op::State v = fold<Op>(x + r * C, first + lane, end, lanes, 1);
    v = group_reduce<Op>(v, lanes);
    if (!live || lane != 0) return;
    if (segments == 1) {
        Op::finish(out[r], v, divisor);
    } else {
        partial[group] = v;
    }
}

template <class Op, class In, class Out>
__global__ void __launch_bounds__(kRowBlock)
    col_reduce_kernel(Out* __restrict__ out,                     // (C)
                      typename Op::State* __restrict__ partial,  // (segments, C)
                      const In* __restrict__ x,                  // (N, C)
                      int64_t N, int64_t C, int64_t segments, int width, float divisor) {
    using State = typename Op::State;
    LC_SHARED(State, tree, [kRowBlock]);
    const int t = int(threadIdx.x), height = kRowBlock / width;
    const int64_t strips = ceil_div(C, width);  // blocks side by side
    const int64_t segment = blockIdx.x / strips, strip = blockIdx.x - segment * strips;
    const int64_t c = strip * width + (t & (width - 1)), first = segment * height * kRowsPerThread;
    const int64_t end = c < C ? min(first + height * kRowsPerThread, N) : 0;
    tree[t] = fold<Op>(x + c, first + t / width, end, height, C);
    __syncthreads();
    for (int half = kRowBlock / 2; half >= width; half /= 2) {
        if (t < half) tree[t] = Op::join(tree[t], tree[t + half]);
        __syncthreads();
    }
    if (t >= width || c >= C) return;
    if (segments == 1) {
        Op::finish(out[c], tree[t], divisor);
    } else {
        partial[segment * C + c] = tree[t];
    }
}

// ---- launchers ------------------------------------------------------------------------------------------------------

template <class Op, class In, class Out>
void reduce_rows(Out* out, const In* x, int64_t N, int64_t C, float divisor, Stream s) {
    using State = typename Op::State;
    const int lanes = row_lanes(C);
    const int64_t segments = ceil_div(C, kRowSegment);
    const dim3 grid = grid_of(ceil_div(N * segments * lanes, kRowBlock));
    if (segments == 1) {
        LC_LAUNCH((row_reduce_kernel<Op, In, Out>), grid, kRowBlock, 0, s, out, nullptr, x, N, C, 1, lanes, divisor);
        return;
    }
    const Workspace<State> partial(N * segments, s);
    LC_LAUNCH((row_reduce_kernel<Op, In, Out>), grid, kRowBlock, 0, s, nullptr, partial.data(), x, N, C, segments,
              lanes, divisor);
    reduce_rows<Op, State>(out, partial.data(), N, segments, divisor, s);
}

template <class Op, class In, class Out>
void reduce_columns(Out* out, const In* x, int64_t N, int64_t C, float divisor, Stream s) {
    using State = typename Op::State;
    int width = 1;
    while (width < kWarp && width < C) width *= 2;
    const int64_t segments = ceil_div(N, kRowsPerThread * (kRowBlock / width));
    const dim3 grid = grid_of(segments * ceil_div(C, width));
    if (segments == 1) {
        LC_LAUNCH((col_reduce_kernel<Op, In, Out>), grid, kRowBlock, 0, s, out, nullptr, x, N, C, 1, width, divisor);
        return;
    }
    const Workspace<State> partial(segments * C, s);
    LC_LAUNCH((col_reduce_kernel<Op, In, Out>), grid, kRowBlock, 0, s, nullptr, partial.data(), x, N, C, segments,
              width, divisor);
    reduce_columns<Op, State>(out, partial.data(), segments, C, divisor, s);
}

// `out` has one number per line of `length` elements.  True where there is something to do.
static bool check_lines(const char* op, Array out, const float* x, int64_t N, int64_t C, int64_t length,
                        bool may_be_empty) {
    check_shape(op, N, C);
    if (out.count == 0) return false;
    LC_CHECK(length > 0 || may_be_empty,
             op << ": only the sum of no elements exists; found N = " << N << ", C = " << C);
    check_disjoint(op, out, {"x", x, N * C});
    return true;
}

static void check_places(const char* op, int64_t N, int64_t C) {
    LC_CHECK(N <= kMaxIndex && C <= kMaxIndex,
             op << ": places are 32-bit, so N and C stay below 2^31; found N = " << N << ", C = " << C);
}

static void zero(float* out, int64_t n, Stream s) {
    LC_CUDA_CHECK(cudaMemsetAsync(out, 0, size_t(n) * sizeof(float), static_cast<cudaStream_t>(s)));
}

void row_reduce(float* out, const float* x, int64_t N, int64_t C, Reduction how, Stream s) {
    if (!check_lines("row_reduce", {"out", out, N}, x, N, C, C, how == Reduction::sum)) return;
    if (C == 0) return zero(out, N, s);
    if (how == Reduction::max) return reduce_rows<MaxReduction>(out, x, N, C, 1.0f, s);
    reduce_rows<SumReduction>(out, x, N, C, how == Reduction::mean ? float(C) : 1.0f, s);
}

void col_reduce(float* out, const float* x, int64_t N, int64_t C, Reduction how, Stream s) {
    if (!check_lines("col_reduce", {"out", out, C}, x, N, C, N, how == Reduction::sum)) return;
    if (N == 0) return zero(out, C, s);
    if (how == Reduction::max) return reduce_columns<MaxReduction>(out, x, N, C, 1.0f, s);
    reduce_columns<SumReduction>(out, x, N, C, how == Reduction::mean ? float(N) : 1.0f, s);
}

void row_argmax(int32_t* out, const float* x, int64_t N, int64_t C, Stream s) {
    check_places("row_argmax", N, C);
    if (!check_lines("row_argmax", {"out", out, N}, x, N, C, C, false)) return;
    reduce_rows<MaxReduction>(out, x, N, C, 1.0f, s);
}

void col_argmax(int32_t* out, const float* x, int64_t N, int64_t C, Stream s) {
    check_places("col_argmax", N, C);
    if (!check_lines("col_argmax", {"out", out, C}, x, N, C, N, false)) return;
    reduce_columns<MaxReduction>(out, x, N, C, 1.0f, s);
}

}  // namespace lc::LC_CUDA_NS

// ptx_opcodes.cu -- kernels for tests/test_ptx.cpp: one for every row of ptx_opcodes.h, and those that need a shape of
// their own.  Compiled by nvcc to PTX and translated; the simulator's source engine never sees this file.
#include <cstdint>

#include "tests/ptx_opcodes.h"

using b16 = uint16_t;
using u16 = uint16_t;
using s16 = int16_t;
using b32 = uint32_t;
using u32 = uint32_t;
using s32 = int32_t;
using b64 = uint64_t;
using u64 = uint64_t;
using s64 = int64_t;
using f32 = float;
using f64 = double;

// The letter by which inline assembly names a register of each type.
#define REG_b16 "h"
#define REG_u16 "h"
#define REG_s16 "h"
#define REG_b32 "r"
#define REG_u32 "r"
#define REG_s32 "r"
#define REG_b64 "l"
#define REG_u64 "l"
#define REG_s64 "l"
#define REG_f32 "f"
#define REG_f64 "d"

// Thread i computes element i.
#define KERNEL(name, d, a, b, c, e, text, ...)                                                            \
    extern "C" __global__ void __launch_bounds__(128)                                                     \
        op_##name(d* out, const a* x, const b* y, const c* z, const e* w, int n) {                        \
        const int i = int(blockIdx.x * blockDim.x + threadIdx.x);                                         \
        if (i >= n) return;                                                                               \
        d r;                                                                                              \
        asm volatile(text : "=" REG_##d(r) : REG_##a(x[i]), REG_##b(y[i]), REG_##c(z[i]), REG_##e(w[i])); \
        out[i] = r;                                                                                       \
    }
PTX_EXACT(KERNEL)
PTX_APPROXIMATIONS(KERNEL)

#define MATH(name, t, ulps, function, reference)                                          \
    extern "C" __global__ void __launch_bounds__(128)                                     \
        math_##name(t* out, const t* in, const t* other, const b32*, const b32*, int n) { \
        const int i = int(blockIdx.x * blockDim.x + threadIdx.x);                         \
        if (i >= n) return;                                                               \
        const t x = in[i], y = other[i];                                                  \
        out[i] = function;                                                                \
        (void)y;                                                                          \
    }
PTX_MATH(MATH)

#define SHAPED(name) extern "C" __global__ void __launch_bounds__(128) name(u32* out, u32* in)

// ---- memory ---------------------------------------------------------------------------------------------------------

SHAPED(load_store_types) {  // in: bytes 0xf1 f2 ...; out: what narrow loads make of them in wider registers
    const u32 i = threadIdx.x;
    u32 r[6];
    u64 q[4];
    u16 h[2];
    asm volatile("ld.global.s8 %0, [%1];" : "=r"(r[0]) : "l"(in));
    asm volatile("ld.global.u8 %0, [%1+1];" : "=r"(r[1]) : "l"(in));
    asm volatile("ld.global.s16 %0, [%1+2];" : "=r"(r[2]) : "l"(in));
    asm volatile("ld.global.u16 %0, [%1+4];" : "=r"(r[3]) : "l"(in));
    asm volatile("ld.global.b16 %0, [%1+-2];" : "=r"(r[4]) : "l"(in + 2));
    asm volatile("ld.global.b8 %0, [%1+7];" : "=r"(r[5]) : "l"(in));
    asm volatile("ld.global.s8 %0, [%1];" : "=l"(q[0]) : "l"(in));
    asm volatile("ld.global.s16 %0, [%1];" : "=l"(q[1]) : "l"(in));
    asm volatile("ld.global.s32 %0, [%1];" : "=l"(q[2]) : "l"(in));
    asm volatile("ld.global.u32 %0, [%1];" : "=l"(q[3]) : "l"(in));
    asm volatile("ld.global.s8 %0, [%1];" : "=h"(h[0]) : "l"(in));
    asm volatile("ld.global.u8 %0, [%1];" : "=h"(h[1]) : "l"(in));
    if (i != 0) return;
    for (int k = 0; k < 6; ++k) out[k] = r[k];
    for (int k = 0; k < 4; ++k) reinterpret_cast<u64*>(out)[3 + k] = q[k];
    out[14] = h[0] | u32(h[1]) << 16;
    out[15] = 0;
    asm volatile("st.global.u8 [%0], %1;" : : "l"(out + 15), "r"(r[0]));
    asm volatile("st.global.b16 [%0+2], %1;" : : "l"(out + 15), "r"(r[2]));
    asm volatile("st.global.b64 [%0], %1;" : : "l"(out + 16), "l"(q[0]));
    asm volatile("st.global.f32 [%0], %1;" : : "l"(out + 18), "f"(1.5f));
    asm volatile("st.global.f64 [%0], %1;" : : "l"(out + 20), "d"(-2.5));
    asm volatile("st.global.u32 [%0], %1;" : : "l"(out + 19), "l"(q[3]));
}

SHAPED(load_store_vectors) {  // copies 16 bytes a thread in every shape, elements in reverse order
    const u32* p = in + 4 * threadIdx.x;
    u32* to = out + 32 * threadIdx.x;
    asm volatile("{ .reg .b16 a, b, c, d; ld.global.v4.u8 {a, b, c, d}, [%0]; st.global.v4.u8 [%1], {d, c, b, a}; }"
                 :
                 : "l"(p), "l"(to));
    asm volatile("{ .reg .b16 a, b; ld.global.v2.u8 {a, b}, [%0+4]; st.global.v2.u8 [%1+4], {b, a}; }"
                 :
                 : "l"(p), "l"(to));
    asm volatile("{ .reg .b16 a, b, c, d; ld.global.v4.u16 {a, b, c, d}, [%0]; st.global.v4.u16 [%1+8], {d, c, b, a}; }"
                 :
                 : "l"(p), "l"(to));
    asm volatile("{ .reg .b16 a, b; ld.global.v2.b16 {a, b}, [%0]; st.global.v2.b16 [%1+16], {b, a}; }"
                 :
                 : "l"(p), "l"(to));
    asm volatile("{ .reg .b32 a, b; ld.global.v2.u32 {a, b}, [%0]; st.global.v2.u32 [%1+24], {b, a}; }"
                 :
                 : "l"(p), "l"(to));
    asm volatile(
        "{ .reg .b32 a, b, c, d; ld.global.v4.b32 {a, b, c, d}, [%0]; st.global.v4.b32 [%1+32], {d, c, b, a}; }"
        :
        : "l"(p), "l"(to));
    asm volatile("{ .reg .b64 a, b; ld.global.v2.u64 {a, b}, [%0]; st.global.v2.u64 [%1+48], {b, a}; }"
                 :
                 : "l"(p), "l"(to));
    asm volatile("{ .reg .f32 a, b; ld.global.v2.f32 {a, b}, [%0]; st.global.v2.f32 [%1+64], {b, a}; }"
                 :
                 : "l"(p), "l"(to));
    asm volatile(
        "{ .reg .f32 a, b, c, d; ld.global.v4.f32 {a, b, c, d}, [%0]; st.global.v4.f32 [%1+80], {d, c, b, a}; }"
        :
        : "l"(p), "l"(to));
    asm volatile("{ .reg .f64 a, b; ld.global.v2.f64 {a, b}, [%0]; st.global.v2.f64 [%1+96], {b, a}; }"
                 :
                 : "l"(p), "l"(to));
    asm volatile("{ .reg .s32 a; ld.global.v2.s8 {a, _}, [%0]; st.global.s32 [%1+112], a; }" : : "l"(p), "l"(to));
}

SHAPED(load_hints) {  // caches, scopes and orders make no difference here
    const u32 i = threadIdx.x;
    u32 r[8];
    asm volatile("ld.global.nc.u32 %0, [%1];" : "=r"(r[0]) : "l"(in + i));
    asm volatile("ld.volatile.global.u32 %0, [%1];" : "=r"(r[1]) : "l"(in + i));
    asm volatile("ld.relaxed.gpu.global.u32 %0, [%1];" : "=r"(r[2]) : "l"(in + i));
    asm volatile("ld.acquire.sys.global.u32 %0, [%1];" : "=r"(r[3]) : "l"(in + i));
    asm volatile("ld.global.cg.u32 %0, [%1];" : "=r"(r[4]) : "l"(in + i));
    asm volatile("ld.global.L1::no_allocate.L2::128B.u32 %0, [%1];" : "=r"(r[5]) : "l"(in + i));
    asm volatile("ldu.global.u32 %0, [%1];" : "=r"(r[6]) : "l"(in + i));
    asm volatile("ld.weak.global.cv.u32 %0, [%1];" : "=r"(r[7]) : "l"(in + i));
    u32 sum = 0;
    for (int k = 0; k < 8; ++k) sum += r[k] * u32(k + 1);
    asm volatile("st.release.cta.global.u32 [%0], %1;" : : "l"(out + 2 * i), "r"(sum));
    asm volatile("st.global.cs.u32 [%0+4], %1;" : : "l"(out + 2 * i), "r"(sum + 1));
    asm volatile("membar.gl; fence.acq_rel.gpu; fence.sc.sys; membar.cta;" : : : "memory");
}

SHAPED(shared_memory) {  // reverses a block's words in a shared array; a second array shifts them by one
    __shared__ u32 a[128];
    __shared__ double b[129];
    const u32 i = threadIdx.x, n = blockDim.x;
    a[i] = in[i];
    b[i + 1] = in[i];
    if (i == 0) b[0] = -1;
    __syncthreads();
    out[i] = a[n - 1 - i];
    out[n + i] = u32(int(b[i]));
}

SHAPED(dynamic_shared_memory) {
    extern __shared__ __align__(16) unsigned char bytes[];
    u32* words = reinterpret_cast<u32*>(bytes);
    const u32 i = threadIdx.x;
    words[i] = in[i];
    __syncthreads();
    u64 address;
    asm volatile("cvta.to.shared.u64 %0, %1;" : "=l"(address) : "l"(words + (i ^ 1)));
    asm volatile("ld.shared::cta.u32 %0, [%1];" : "=r"(out[i]) : "l"(address));
}

SHAPED(local_memory) {  // indexed by data: the compiler cannot keep the array in registers
    u32 a[16];
    for (int k = 0; k < 16; ++k) a[k] = in[k] * 3u;
    for (int k = 0; k < 16; ++k) a[in[k] % 16] += u32(k);
    u32 sum = 0;
    for (int k = 0; k < 16; ++k) sum = sum * 31u + a[(in[k] + threadIdx.x) % 16];
    out[threadIdx.x] = sum;
}

__constant__ float const_table[5] = {1.5f, -2.25f, 0.0f, 1e30f, -1e-30f};
__device__ const short device_table[4] = {-1, 2, -3, 4};
__device__ const unsigned long long wide_table[2] = {0x123456789abcdef0ull, ~0ull};
__device__ const double double_table[3] = {0.1, -0.0, 1e300};
SHAPED(constant_tables) {
    const u32 i = threadIdx.x, k = in[i];
    out[4 * i] = __float_as_uint(const_table[k % 5]);
    out[4 * i + 1] = u32(int(device_table[k % 4]));
    out[4 * i + 2] = u32(wide_table[k % 2] >> 7);
    out[4 * i + 3] = u32(__double_as_longlong(double_table[k % 3]) >> 32);
}

__device__ __noinline__ void put(u32* to, u32 value) { *to = value; }
SHAPED(generic_addresses) {  // one function writes to shared, local and global memory
    __shared__ u32 s[128];
    u32 l[2];
    const u32 i = threadIdx.x;
    l[0] = l[1] = 0;
    put(i % 3 == 0 ? s + i : i % 3 == 1 ? l + in[0] % 2 : out + i, 100 + i);
    if (i % 3 == 0) out[i] = s[i];
    if (i % 3 == 1) out[i] = l[0] + 1000 * l[1];
}

// ---- control --------------------------------------------------------------------------------------------------------

struct Pair {
    double a;
    u32 b;
    float c[3];
};
__device__ __noinline__ Pair rotate(Pair p, short s, bool negate, signed char c) {
    return {negate ? -p.a : p.a + s, p.b + u32(c), {p.c[2], p.c[0], p.c[1]}};
}
__device__ __noinline__ u32 fibonacci(u32 n) { return n < 2 ? n : fibonacci(n - 1) + fibonacci(n - 2); }
__device__ __noinline__ u32 twice(u32 n) { return 2 * n; }
__device__ __noinline__ u32 square(u32 n) { return n * n; }
__device__ __noinline__ void nothing() { asm volatile(""); }
SHAPED(calls) {
    const u32 i = threadIdx.x, v = in[i];
    const Pair p = rotate({double(v), v, {1.0f * v, 2.0f * v, 3.0f * v}}, short(-7), v % 2 == 1, (signed char)(-3));
    u32 (*f)(u32) = v % 3 == 0 ? twice : square;
    nothing();
    out[8 * i] = u32(int(p.a));
    out[8 * i + 1] = p.b;
    for (int k = 0; k < 3; ++k) out[8 * i + 2 + k] = u32(p.c[k]);
    out[8 * i + 5] = fibonacci(v % 10);
    out[8 * i + 6] = f(v);
    out[8 * i + 7] = u32(rint(pow(double(v), 2.0)));  // the library's own functions
}

SHAPED(branches) {  // Collatz: loops of different length in every thread
    u32 v = in[threadIdx.x], steps = 0;
    while (v != 1) {
        v = v % 2 ? 3 * v + 1 : v / 2;
        ++steps;
    }
    out[threadIdx.x] = steps;
}

SHAPED(branch_table) {
    u32 r = 0;
    asm volatile(
        "{ table: .branchtargets A, B, C;\n"
        "  brx.idx %1, table;\n"
        "  A: mov.u32 %0, 10; bra.uni DONE;\n"
        "  B: mov.u32 %0, 20; bra DONE;\n"
        "  C: mov.u32 %0, 30;\n"
        "  DONE: }"
        : "=r"(r)
        : "r"(in[threadIdx.x] % 3));
    out[threadIdx.x] = r;
}

SHAPED(leave_early) {
    out[threadIdx.x] = 1;
    asm volatile("{ .reg .pred p; setp.lt.u32 p, %0, 5; @p exit; }" : : "r"(in[threadIdx.x]));
    out[threadIdx.x] = 2;
}

SHAPED(special_registers) {  // launched with a three-dimensional grid and block
    const u32 rank = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
    const u32 block = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
    u32* r = out + 20 * (rank + blockDim.x * blockDim.y * blockDim.z * block);
    u32 lane, warp, eq, lt, le, gt, ge;
    asm volatile("mov.u32 %0, %%laneid;" : "=r"(lane));
    asm volatile("mov.u32 %0, %%warpid;" : "=r"(warp));
    asm volatile("mov.u32 %0, %%lanemask_eq;" : "=r"(eq));
    asm volatile("mov.u32 %0, %%lanemask_lt;" : "=r"(lt));
    asm volatile("mov.u32 %0, %%lanemask_le;" : "=r"(le));
    asm volatile("mov.u32 %0, %%lanemask_gt;" : "=r"(gt));
    asm volatile("mov.u32 %0, %%lanemask_ge;" : "=r"(ge));
    const u32 values[20] = {threadIdx.x, threadIdx.y, threadIdx.z, blockDim.x, blockDim.y, blockDim.z, blockIdx.x,
                            blockIdx.y,  blockIdx.z,  gridDim.x,   gridDim.y,  gridDim.z,  lane,       warp,
                            eq,          lt,          le,          gt,         ge,         in[0]};
    for (int k = 0; k < 20; ++k) r[k] = values[k];
}

SHAPED(stop) {
    if (in[threadIdx.x] == 3) asm volatile("trap;");
}

// ---- atomics --------------------------------------------------------------------------------------------------------

// Words of `in` are the targets; thread i adds, exchanges ... i.  out: the old values where their order does not matter.
SHAPED(atomics_u32) {
    const u32 i = threadIdx.x;
    int* s = reinterpret_cast<int*>(in);
    __shared__ u32 shared;
    if (i == 0) shared = 0;
    __syncthreads();
    atomicAdd(in, i);
    atomicMin(in + 1, i);
    atomicMax(in + 2, i);
    atomicMin(s + 3, int(i) - 50);
    atomicMax(s + 4, int(i) - 50);
    atomicAnd(in + 5, ~(1u << i % 32));
    atomicOr(in + 6, 1u << i % 32);
    atomicXor(in + 7, 1u << i % 32);
    const u32 inc = atomicInc(in + 8, 9);
    const u32 dec = atomicDec(in + 9, 9);
    const u32 old = atomicExch(in + 10, i);
    const u32 cas = atomicCAS(in + 11, 7u, 1000 + i);
    const u32 sum = atomicAdd(&shared, 1u);
    asm volatile("{ .reg .u32 a; atom.add.s32 a, [%0], -1; atom.relaxed.gpu.global.add.u32 _, [%0], 3; }"
                 :
                 : "l"(in + 12));
    __syncthreads();
    atomicAdd(in + 13, old);
    atomicAdd(in + 14, u32(cas == 7));
    atomicAdd(in + 15, sum);
    out[i] = inc;
    out[blockDim.x + i] = dec;
    if (i == 0) out[2 * blockDim.x] = shared;
}

SHAPED(atomics_u64) {
    const u32 i = threadIdx.x;
    auto* u = reinterpret_cast<unsigned long long*>(in);
    auto* s = reinterpret_cast<long long*>(in);
    atomicAdd(u, u64(i) << 32);
    atomicMin(u + 1, u64(i) << 33);
    atomicMax(u + 2, u64(i) << 33);
    atomicMin(s + 3, (s64(i) - 50) << 33);
    atomicMax(s + 4, (s64(i) - 50) << 33);
    atomicAnd(u + 5, ~(1ull << i % 64));
    atomicOr(u + 6, 1ull << i % 64);
    atomicXor(u + 7, 1ull << i % 64);
    const u64 old = atomicExch(u + 8, u64(i));
    const u64 cas = atomicCAS(u + 9, 7ull, 1000ull + i);
    atomicAdd(u + 10, old + (cas == 7 ? 1ull << 32 : 0));
    out[i] = 0;
}

SHAPED(atomics_float) {
    const u32 i = threadIdx.x;
    atomicAdd(reinterpret_cast<float*>(in), 0.5f * float(i));
    atomicAdd(reinterpret_cast<double*>(in + 2), 0.25 * double(i));
    const float old = atomicExch(reinterpret_cast<float*>(in + 4), float(i));
    atomicAdd(reinterpret_cast<float*>(in + 5), old);
    asm volatile("{ .reg .f32 a; atom.global.add.f32 a, [%0], 0f3F800000; }" : : "l"(in + 6));
    out[i] = 0;
}

SHAPED(reductions) {
    const u32 i = threadIdx.x;
    asm volatile("red.global.add.u32 [%0], %1;" : : "l"(in), "r"(i));
    asm volatile("red.global.max.s32 [%0+4], %1;" : : "l"(in), "r"(int(i) - 50));
    asm volatile("red.relaxed.gpu.global.add.f32 [%0+8], %1;" : : "l"(in), "f"(0.5f * float(i)));
    asm volatile("red.global.or.b32 [%0+12], %1;" : : "l"(in), "r"(1u << i % 32));
    asm volatile("red.global.add.f64 [%0+16], %1;" : : "l"(in), "d"(0.25 * double(i)));
    asm volatile("red.add.u64 [%0+24], %1;" : : "l"(in), "l"(u64(i) << 32));
    asm volatile("red.global.inc.u32 [%0+32], 9;" : : "l"(in));
    out[i] = 0;
}

// ---- warps and barriers ---------------------------------------------------------------------------------------------

SHAPED(shuffles) {  // every mode and width; two words for each: the value and the predicate
    const u32 i = threadIdx.x, v = in[i];
    u32* r = out + 48 * i;
#define SHUFFLE(mode, k, b, c)                                                                                  \
    asm volatile("{ .reg .pred p; shfl.sync." mode ".b32 %0|p, %2, %3, %4, 0xffffffff; selp.u32 %1, 1, 0, p; }" \
                 : "=r"(r[2 * (k)]), "=r"(r[2 * (k) + 1])                                                       \
                 : "r"(v), "r"(b), "r"(c));
#pragma unroll
    for (int k = 0; k < 6; ++k) {
        const u32 segment = u32(32 - (32 >> k)) << 8;  // widths 32, 16, ... 1
        SHUFFLE("up", 4 * k, 3u, segment)
        SHUFFLE("down", 4 * k + 1, 5u, segment | 31u)
        SHUFFLE("bfly", 4 * k + 2, 9u, segment | 31u)
        SHUFFLE("idx", 4 * k + 3, v, segment | 31u)
    }
}

SHAPED(shuffle_clamp) {  // clamps that CUDA never writes: lanes beyond 20, or before 4, are out of reach
    const u32 i = threadIdx.x;
    asm volatile("shfl.sync.down.b32 %0, %1, 4, 20, 0xffffffff;" : "=r"(out[3 * i]) : "r"(in[i]));
    asm volatile("shfl.sync.up.b32 %0, %1, 2, 4, 0xffffffff;" : "=r"(out[3 * i + 1]) : "r"(in[i]));
    out[3 * i + 2] = __shfl_xor_sync(0xffffffffu, in[i], 1);
}

SHAPED(votes) {
    const u32 i = threadIdx.x, mask = i < 16 ? 0xffffu : 0xffff0000u;
    u32 r[6];
    asm volatile("activemask.b32 %0;" : "=r"(r[4]));
    if (i < 16) {  // half a warp: the other half votes elsewhere
        r[0] = __ballot_sync(mask, in[i] > 5);
        r[1] = u32(__any_sync(mask, in[i] > 5));
    } else {
        r[0] = __ballot_sync(mask, in[i] <= 5);
        r[1] = u32(__any_sync(mask, in[i] > 1000));
    }
    r[2] = u32(__all_sync(0xffffffffu, in[i] < 1000));
    asm volatile(PRED("setp.lt.u32 p, %1, 1000; vote.sync.uni.pred p, !p, 0xffffffff;") : "=r"(r[3]) : "r"(in[i]));
    asm volatile(PRED("setp.lt.u32 p, %1, 5; vote.sync.uni.pred p, p, 0xffffffff;") : "=r"(r[5]) : "r"(in[i]));
    __syncwarp();
    for (int k = 0; k < 6; ++k) out[6 * i + k] = r[k];
}

SHAPED(matches) {
    const u32 i = threadIdx.x;
    int all_same = 0, not_same = 0;
    out[5 * i] = __match_any_sync(0xffffffffu, in[i]);
    out[5 * i + 1] = __match_any_sync(0xffffffffu, (unsigned long long)(in[i]) << 32);
    out[5 * i + 2] = __match_all_sync(0xffffffffu, in[i] / 1000, &all_same);
    out[5 * i + 3] = __match_all_sync(0xffffffffu, in[i], &not_same);
    out[5 * i + 4] = u32(all_same) | u32(not_same) << 1;
}

SHAPED(warp_reductions) {
    const u32 i = threadIdx.x;
    if (i >= 24) return;
    const u32 mask = 0x00ffffffu;
    u32* r = out + 8 * i;
    r[0] = __reduce_add_sync(mask, in[i]);
    r[1] = __reduce_min_sync(mask, in[i]);
    r[2] = __reduce_max_sync(mask, in[i]);
    r[3] = u32(__reduce_min_sync(mask, int(in[i]) - 100));
    r[4] = u32(__reduce_max_sync(mask, int(in[i]) - 100));
    r[5] = __reduce_and_sync(mask, in[i]);
    r[6] = __reduce_or_sync(mask, in[i]);
    r[7] = __reduce_xor_sync(mask, in[i]);
}

SHAPED(barriers) {  // the three spellings of __syncthreads
    __shared__ u32 s[128];
    const u32 i = threadIdx.x, n = blockDim.x;
    s[i] = in[i];
    asm volatile("bar.sync 0;" : : : "memory");
    const u32 a = s[(i + 1) % n];
    asm volatile("barrier.sync 0;" : : : "memory");
    s[i] = a;
    asm volatile("barrier.cta.sync.aligned 0;" : : : "memory");
    out[i] = s[(i + 1) % n];
}

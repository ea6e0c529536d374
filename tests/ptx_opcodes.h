// ptx_opcodes.h -- every opcode that kernels/sim/ptx knows, as a table: a kernel that executes it, what it must give.
//
//     X(name, d, a, b, c, e, "PTX; %0 is the result, %1 .. %4 the operands", expected C++ expression of x, y, z, w)
//
// d is the type of the result, a b c e those of x y z w.  tests/ptx_opcodes.cu makes a kernel of each row (by nvcc,
// from the PTX alone), tests/test_ptx.cpp runs it on edge values and compares with the expression (from ptx_oracle.h alone).
#pragma once

// clang-format off
#define PRED(text) "{ .reg .pred p; " text " selp.u32 %0, 1, 0, p; }"
#define SETP(what) PRED("setp." what " p, %1, %2;")
#define BOTH(what, c) "{ .reg .pred p, q, c; setp.ne.u32 c, %3, 0; setp." what " p|q, %1, %2, " c "; " \
                      "selp.u32 %0, 1, 0, p; @q or.b32 %0, %0, 2; }"

// Rows with fewer operands, and the same row for several types; the value comes last, because it may hold commas.
#define UNARY(X, name, d, a, text, ...)               X(name, d, a, b32, b32, b32, text, __VA_ARGS__)
#define BINARY(X, name, d, a, b, text, ...)           X(name, d, a, b, b32, b32, text, __VA_ARGS__)
#define TERNARY(X, name, d, a, b, c, text, ...)       X(name, d, a, b, c, b32, text, __VA_ARGS__)
#define QUATERNARY(X, name, d, a, b, c, e, text, ...) X(name, d, a, b, c, e, text, __VA_ARGS__)
#define SAME_1(X, n, op, t, ...) X(n##_##t, t, t, t, t, b32, op "." #t " %0, %1;", __VA_ARGS__)
#define SAME_2(X, n, op, t, ...) X(n##_##t, t, t, t, t, b32, op "." #t " %0, %1, %2;", __VA_ARGS__)
#define SAME_3(X, n, op, t, ...) X(n##_##t, t, t, t, t, b32, op "." #t " %0, %1, %2, %3;", __VA_ARGS__)
#define INT_1(X, n, op, ...) \
    SAME_1(X, n, op, s16, __VA_ARGS__) SAME_1(X, n, op, s32, __VA_ARGS__) SAME_1(X, n, op, s64, __VA_ARGS__)
#define INT_2(X, n, op, ...) \
    SAME_2(X, n, op, u16, __VA_ARGS__) SAME_2(X, n, op, u32, __VA_ARGS__) SAME_2(X, n, op, u64, __VA_ARGS__) \
    SAME_2(X, n, op, s16, __VA_ARGS__) SAME_2(X, n, op, s32, __VA_ARGS__) SAME_2(X, n, op, s64, __VA_ARGS__)
#define INT_3(X, n, op, ...) \
    SAME_3(X, n, op, u16, __VA_ARGS__) SAME_3(X, n, op, u32, __VA_ARGS__) SAME_3(X, n, op, u64, __VA_ARGS__) \
    SAME_3(X, n, op, s16, __VA_ARGS__) SAME_3(X, n, op, s32, __VA_ARGS__) SAME_3(X, n, op, s64, __VA_ARGS__)
#define BITS_2(X, n, op, ...) \
    SAME_2(X, n, op, b16, __VA_ARGS__) SAME_2(X, n, op, b32, __VA_ARGS__) SAME_2(X, n, op, b64, __VA_ARGS__)
#define FLT_1(X, n, op, ...) SAME_1(X, n, op, f32, __VA_ARGS__) SAME_1(X, n, op, f64, __VA_ARGS__)
#define FLT_2(X, n, op, ...) SAME_2(X, n, op, f32, __VA_ARGS__) SAME_2(X, n, op, f64, __VA_ARGS__)
#define FLT_3(X, n, op, ...) SAME_3(X, n, op, f32, __VA_ARGS__) SAME_3(X, n, op, f64, __VA_ARGS__)
#define ROUND_1(X, n, op, f) \
    FLT_1(X, n##_rz, op ".rz", f(rz, x)) FLT_1(X, n##_rm, op ".rm", f(rm, x)) \
    FLT_1(X, n##_rp, op ".rp", f(rp, x)) FLT_1(X, n##_rn, op ".rn", f(rn, x))
#define ROUND_2(X, n, op, f) \
    FLT_2(X, n##_rz, op ".rz", f(rz, x, y)) FLT_2(X, n##_rm, op ".rm", f(rm, x, y)) \
    FLT_2(X, n##_rp, op ".rp", f(rp, x, y)) FLT_2(X, n##_rn, op ".rn", f(rn, x, y))
#define ROUND_3(X, n, op, f) \
    FLT_3(X, n##_rz, op ".rz", f(rz, x, y, z)) FLT_3(X, n##_rm, op ".rm", f(rm, x, y, z)) \
    FLT_3(X, n##_rp, op ".rp", f(rp, x, y, z)) FLT_3(X, n##_rn, op ".rn", f(rn, x, y, z))

// ---- integers -------------------------------------------------------------------------------------------------------
#define PTX_INTEGERS(X) \
    INT_2(X, add, "add", i128(x) + y) \
    INT_2(X, sub, "sub", i128(x) - y) \
    INT_2(X, mul_lo, "mul.lo", uint64_t(x) * uint64_t(y)) \
    INT_2(X, mul_hi, "mul.hi", oracle::mul_hi(x, y)) \
    INT_3(X, mad_lo, "mad.lo", uint64_t(x) * uint64_t(y) + uint64_t(z)) \
    INT_3(X, mad_hi, "mad.hi", i128(oracle::mul_hi(x, y)) + z) \
    INT_2(X, div, "div", oracle::div(x, y)) \
    INT_2(X, rem, "rem", oracle::rem(x, y)) \
    INT_2(X, min, "min", y < x ? y : x) \
    INT_2(X, max, "max", y > x ? y : x) \
    INT_3(X, sad, "sad", i128(z) + (x < y ? i128(y) - x : i128(x) - y)) \
    INT_1(X, abs, "abs", x < 0 ? -i128(x) : i128(x)) \
    INT_1(X, neg, "neg", -i128(x)) \
    BINARY(X, add_sat, s32, s32, s32, "add.sat.s32 %0, %1, %2;", oracle::clamp<int32_t>(int64_t(x) + y)) \
    BINARY(X, sub_sat, s32, s32, s32, "sub.sat.s32 %0, %1, %2;", oracle::clamp<int32_t>(int64_t(x) - y)) \
    BINARY(X, mul_wide_u16, u32, u16, u16, "mul.wide.u16 %0, %1, %2;", i128(x) * y) \
    BINARY(X, mul_wide_s16, s32, s16, s16, "mul.wide.s16 %0, %1, %2;", i128(x) * y) \
    BINARY(X, mul_wide_u32, u64, u32, u32, "mul.wide.u32 %0, %1, %2;", i128(x) * y) \
    BINARY(X, mul_wide_s32, s64, s32, s32, "mul.wide.s32 %0, %1, %2;", i128(x) * y) \
    TERNARY(X, mad_wide_u16, u32, u16, u16, u32, "mad.wide.u16 %0, %1, %2, %3;", i128(x) * y + z) \
    TERNARY(X, mad_wide_u32, u64, u32, u32, u64, "mad.wide.u32 %0, %1, %2, %3;", i128(x) * y + z) \
    TERNARY(X, mad_wide_s32, s64, s32, s32, s64, "mad.wide.s32 %0, %1, %2, %3;", i128(x) * y + z) \
    BINARY(X, mul24_lo_s32, s32, s32, s32, "mul24.lo.s32 %0, %1, %2;", low24(x) * low24(y)) \
    BINARY(X, mul24_lo_u32, u32, u32, u32, "mul24.lo.u32 %0, %1, %2;", low24(x) * low24(y)) \
    BINARY(X, mul24_hi_s32, s32, s32, s32, "mul24.hi.s32 %0, %1, %2;", low24(x) * low24(y) >> 16) \
    BINARY(X, mul24_hi_u32, u32, u32, u32, "mul24.hi.u32 %0, %1, %2;", low24(x) * low24(y) >> 16) \
    TERNARY(X, mad24_lo_s32, s32, s32, s32, s32, "mad24.lo.s32 %0, %1, %2, %3;", low24(x) * low24(y) + z) \
    TERNARY(X, mad24_hi_u32, u32, u32, u32, u32, "mad24.hi.u32 %0, %1, %2, %3;", (low24(x) * low24(y) >> 16) + z) \
    TERNARY(X, dp4a_ss, s32, s32, s32, s32, "dp4a.s32.s32 %0, %1, %2, %3;", dp4a<int8_t, int8_t>(x, y) + z) \
    TERNARY(X, dp4a_uu, u32, u32, u32, u32, "dp4a.u32.u32 %0, %1, %2, %3;", dp4a<uint8_t, uint8_t>(x, y) + z) \
    TERNARY(X, dp4a_us, s32, u32, s32, s32, "dp4a.u32.s32 %0, %1, %2, %3;", dp4a<uint8_t, int8_t>(x, y) + z) \
    TERNARY(X, dp2a_lo_ss, s32, s32, s32, s32, \
        "dp2a.lo.s32.s32 %0, %1, %2, %3;", dp2a<int16_t, int8_t>(x, y, 0) + z) \
    TERNARY(X, dp2a_hi_uu, u32, u32, u32, u32, \
        "dp2a.hi.u32.u32 %0, %1, %2, %3;", dp2a<uint16_t, uint8_t>(x, y, 2) + z) \
    TERNARY(X, dp2a_hi_su, s32, s32, u32, s32, \
        "dp2a.hi.s32.u32 %0, %1, %2, %3;", dp2a<int16_t, uint8_t>(x, y, 2) + z)

// ---- carries: sums of two words against the sum of one wide word ----------------------------------------------------
#define TWO_WORDS(text) "{ .reg .u32 a, b, c, d; mov.b64 {a, b}, %1; mov.b64 {c, d}, %2; " text " mov.b64 %0, {a, b}; }"
#define PTX_CARRIES(X) \
    BINARY(X, add_cc_u32, u64, u64, u64, TWO_WORDS("add.cc.u32 a, a, c; addc.u32 b, b, d;"), x + y) \
    BINARY(X, sub_cc_u32, u64, u64, u64, TWO_WORDS("sub.cc.u32 a, a, c; subc.u32 b, b, d;"), x - y) \
    BINARY(X, addc_cc_u32, u64, u64, u64, \
        TWO_WORDS("add.cc.u32 a, a, c; addc.cc.u32 b, b, d; addc.u32 a, 0, 0; addc.u32 b, 0, 0;"), \
        x + y < x ? 0x100000001 : 0) \
    BINARY(X, subc_cc_u32, u64, u64, u64, \
        TWO_WORDS("sub.cc.u32 a, a, c; subc.cc.s32 b, b, d; subc.u32 a, 0, 0; subc.u32 b, 0, 0;"), x < y ? -1 : 0) \
    BINARY(X, add_cc_s64, u64, s64, s64, \
        "{ .reg .s64 a; add.cc.s64 a, %1, %2; addc.u64 %0, 0, 0; }", uint64_t(x) + uint64_t(y) < uint64_t(x)) \
    BINARY(X, sub_cc_u64, u64, u64, u64, \
        "{ .reg .u64 a; sub.cc.u64 a, %1, %2; subc.u64 %0, 0, 0; }", x < y ? -1 : 0) \
    TERNARY(X, mad_lo_cc, u64, u32, u32, u64, \
        "{ .reg .u32 a, b; mov.b64 {a, b}, %3; mad.lo.cc.u32 a, %1, %2, a; madc.hi.u32 b, %1, %2, b; " \
        "mov.b64 %0, {a, b}; }", \
        uint64_t(x) * y + z) \
    TERNARY(X, mad_hi_cc, u32, u32, u32, u32, \
        "{ .reg .u32 a; mad.hi.cc.u32 a, %1, %2, %3; addc.u32 %0, 0, 0; }", \
        (uint64_t(x) * y >> 32) + z > 0xffffffff) \
    TERNARY(X, madc_lo_cc, u32, u32, u32, u32, \
        "{ .reg .u32 a; add.cc.u32 a, %1, %1; madc.lo.cc.u32 a, %2, %3, 5; addc.u32 %0, a, 0; }", \
        carry_chain(uint32_t(y * z), 5, x > 0x7fffffff)) \
    TERNARY(X, madc_hi_cc, u32, u32, u32, u32, \
        "{ .reg .u32 a; add.cc.u32 a, %1, %1; madc.hi.cc.u32 a, %2, %3, %3; addc.u32 %0, a, 0; }", \
        carry_chain(uint32_t(uint64_t(y) * z >> 32), z, x > 0x7fffffff))

// ---- bits -----------------------------------------------------------------------------------------------------------
#define PTX_BITS(X) \
    BITS_2(X, and, "and", x & y) \
    BITS_2(X, or, "or", x | y) \
    BITS_2(X, xor, "xor", x ^ y) \
    UNARY(X, not_b16, b16, b16, "not.b16 %0, %1;", ~x) \
    UNARY(X, not_b32, b32, b32, "not.b32 %0, %1;", ~x) \
    UNARY(X, not_b64, b64, b64, "not.b64 %0, %1;", ~x) \
    UNARY(X, cnot_b16, b16, b16, "cnot.b16 %0, %1;", x == 0) \
    UNARY(X, cnot_b32, b32, b32, "cnot.b32 %0, %1;", x == 0) \
    UNARY(X, cnot_b64, b64, b64, "cnot.b64 %0, %1;", x == 0) \
    BINARY(X, and_pred, b32, b32, b32, \
        "{ .reg .pred p, q; setp.gt.u32 p, %1, 7; setp.gt.u32 q, %2, 7; and.pred p, p, q; selp.u32 %0, 1, 0, p; }", \
        x > 7 && y > 7) \
    BINARY(X, or_pred, b32, b32, b32, \
        "{ .reg .pred p, q; setp.gt.u32 p, %1, 7; setp.gt.u32 q, %2, 7; or.pred p, p, q; selp.u32 %0, 1, 0, p; }", \
        x > 7 || y > 7) \
    BINARY(X, xor_pred, b32, b32, b32, \
        "{ .reg .pred p, q; setp.gt.u32 p, %1, 7; setp.gt.u32 q, %2, 7; xor.pred p, p, q; selp.u32 %0, 1, 0, p; }", \
        (x > 7) != (y > 7)) \
    UNARY(X, not_pred, b32, b32, \
        "{ .reg .pred p; setp.gt.u32 p, %1, 7; not.pred p, p; selp.u32 %0, 1, 0, p; }", x <= 7) \
    BINARY(X, shl_b16, b16, b16, u32, "shl.b16 %0, %1, %2;", shl(x, y)) \
    BINARY(X, shl_b32, b32, b32, u32, "shl.b32 %0, %1, %2;", shl(x, y)) \
    BINARY(X, shl_b64, b64, b64, u32, "shl.b64 %0, %1, %2;", shl(x, y)) \
    BINARY(X, shr_b32, b32, b32, u32, "shr.b32 %0, %1, %2;", shr(x, y)) \
    BINARY(X, shr_u16, u16, u16, u32, "shr.u16 %0, %1, %2;", shr(x, y)) \
    BINARY(X, shr_s16, s16, s16, u32, "shr.s16 %0, %1, %2;", shr(x, y)) \
    BINARY(X, shr_u32, u32, u32, u32, "shr.u32 %0, %1, %2;", shr(x, y)) \
    BINARY(X, shr_s32, s32, s32, u32, "shr.s32 %0, %1, %2;", shr(x, y)) \
    BINARY(X, shr_u64, u64, u64, u32, "shr.u64 %0, %1, %2;", shr(x, y)) \
    BINARY(X, shr_s64, s64, s64, u32, "shr.s64 %0, %1, %2;", shr(x, y)) \
    UNARY(X, shl_by_5, b32, b32, "shl.b32 %0, %1, 5;", x << 5) \
    UNARY(X, shl_by_40, b64, b64, "shl.b64 %0, %1, 40;", x << 40) \
    UNARY(X, shl_by_40_b32, b32, b32, "shl.b32 %0, %1, 40;", 0) \
    UNARY(X, shl_by_5_b16, b16, b16, "shl.b16 %0, %1, 5;", x << 5) \
    UNARY(X, shr_by_31, s32, s32, "shr.s32 %0, %1, 31;", x < 0 ? -1 : 0) \
    UNARY(X, shr_by_9, u64, u64, "shr.u64 %0, %1, 9;", x >> 9) \
    TERNARY(X, shf_l_wrap, b32, b32, b32, u32, "shf.l.wrap.b32 %0, %1, %2, %3;", funnel(x, y, 32 - int(z % 32))) \
    TERNARY(X, shf_r_wrap, b32, b32, b32, u32, "shf.r.wrap.b32 %0, %1, %2, %3;", funnel(x, y, int(z % 32))) \
    TERNARY(X, shf_l_clamp, b32, b32, b32, u32, \
        "shf.l.clamp.b32 %0, %1, %2, %3;", funnel(x, y, 32 - int(z < 32 ? z : 32))) \
    TERNARY(X, shf_r_clamp, b32, b32, b32, u32, \
        "shf.r.clamp.b32 %0, %1, %2, %3;", funnel(x, y, int(z < 32 ? z : 32))) \
    UNARY(X, popc_b32, u32, b32, "popc.b32 %0, %1;", popc(x)) \
    UNARY(X, popc_b64, u32, b64, "popc.b64 %0, %1;", popc(x)) \
    UNARY(X, clz_b32, u32, b32, "clz.b32 %0, %1;", clz(x)) \
    UNARY(X, clz_b64, u32, b64, "clz.b64 %0, %1;", clz(x)) \
    UNARY(X, brev_b32, b32, b32, "brev.b32 %0, %1;", brev(x)) \
    UNARY(X, brev_b64, b64, b64, "brev.b64 %0, %1;", brev(x)) \
    UNARY(X, bfind_u32, u32, u32, "bfind.u32 %0, %1;", bfind(x)) \
    UNARY(X, bfind_s32, u32, s32, "bfind.s32 %0, %1;", bfind(x)) \
    UNARY(X, bfind_u64, u32, u64, "bfind.u64 %0, %1;", bfind(x)) \
    UNARY(X, bfind_s64, u32, s64, "bfind.s64 %0, %1;", bfind(x)) \
    UNARY(X, bfind_shiftamt_u32, u32, u32, "bfind.shiftamt.u32 %0, %1;", bfind(x) == ~0u ? ~0u : 31 - bfind(x)) \
    UNARY(X, bfind_shiftamt_s64, u32, s64, "bfind.shiftamt.s64 %0, %1;", bfind(x) == ~0u ? ~0u : 63 - bfind(x)) \
    TERNARY(X, bfe_u32, u32, u32, u32, u32, "bfe.u32 %0, %1, %2, %3;", bfe(x, y, z)) \
    TERNARY(X, bfe_s32, s32, s32, u32, u32, "bfe.s32 %0, %1, %2, %3;", bfe(x, y, z)) \
    TERNARY(X, bfe_u64, u64, u64, u32, u32, "bfe.u64 %0, %1, %2, %3;", bfe(x, y, z)) \
    TERNARY(X, bfe_s64, s64, s64, u32, u32, "bfe.s64 %0, %1, %2, %3;", bfe(x, y, z)) \
    QUATERNARY(X, bfi_b32, b32, b32, b32, u32, u32, "bfi.b32 %0, %1, %2, %3, %4;", bfi(x, y, z, w)) \
    QUATERNARY(X, bfi_b64, b64, b64, b64, u32, u32, "bfi.b64 %0, %1, %2, %3, %4;", bfi(x, y, z, w)) \
    TERNARY(X, prmt, b32, b32, b32, b32, "prmt.b32 %0, %1, %2, %3;", prmt(x, y, z)) \
    TERNARY(X, lop3_and_xor, b32, b32, b32, b32, "lop3.b32 %0, %1, %2, %3, 0x6a;", (x & y) ^ z) \
    TERNARY(X, lop3_or_not, b32, b32, b32, b32, "lop3.b32 %0, %1, %2, %3, 0xab;", ~(x | y) | z)

// ---- floats ---------------------------------------------------------------------------------------------------------
#define PTX_FLOATS(X) \
    FLT_2(X, fadd, "add", oracle::add(rn, x, y)) \
    FLT_2(X, fsub, "sub", oracle::sub(rn, x, y)) \
    FLT_2(X, fmul, "mul", oracle::mul(rn, x, y)) \
    ROUND_2(X, fadd, "add", oracle::add) \
    ROUND_2(X, fsub, "sub", oracle::sub) \
    ROUND_2(X, fmul, "mul", oracle::mul) \
    ROUND_2(X, fdiv, "div", oracle::div) \
    ROUND_3(X, fma, "fma", oracle::fma) \
    ROUND_1(X, sqrt, "sqrt", oracle::sqrt) \
    FLT_1(X, rcp_rn, "rcp.rn", oracle::div(rn, decltype(x)(1), x)) \
    FLT_1(X, rcp_rz, "rcp.rz", oracle::div(rz, decltype(x)(1), x)) \
    FLT_1(X, rcp_rm, "rcp.rm", oracle::div(rm, decltype(x)(1), x)) \
    FLT_1(X, rcp_rp, "rcp.rp", oracle::div(rp, decltype(x)(1), x)) \
    FLT_3(X, fmad, "mad.rn", oracle::fma(rn, x, y, z)) \
    FLT_1(X, fneg, "neg", flip_sign(x)) \
    FLT_1(X, fabs, "abs", signbit(x) ? flip_sign(x) : x) \
    FLT_2(X, fmin, "min", oracle::min(x, y)) \
    FLT_2(X, fmax, "max", oracle::max(x, y)) \
    FLT_2(X, copysign, "copysign", signbit(x) == signbit(y) ? y : flip_sign(y)) \
    BINARY(X, fmin_nan, f32, f32, f32, \
        "min.NaN.f32 %0, %1, %2;", any_nan(x, y) ? canonical_nan<float>() : oracle::min(x, y)) \
    BINARY(X, fmax_nan, f32, f32, f32, \
        "max.NaN.f32 %0, %1, %2;", any_nan(x, y) ? canonical_nan<float>() : oracle::max(x, y)) \
    BINARY(X, fmin_ftz, f32, f32, f32, "min.ftz.f32 %0, %1, %2;", oracle::min(ftz(x), ftz(y))) \
    BINARY(X, fadd_ftz, f32, f32, f32, "add.ftz.f32 %0, %1, %2;", ftz(oracle::add(rn, ftz(x), ftz(y)))) \
    BINARY(X, fmul_ftz, f32, f32, f32, "mul.ftz.f32 %0, %1, %2;", ftz(oracle::mul(rn, ftz(x), ftz(y)))) \
    TERNARY(X, fma_ftz, f32, f32, f32, f32, \
        "fma.rn.ftz.f32 %0, %1, %2, %3;", ftz(oracle::fma(rn, ftz(x), ftz(y), ftz(z)))) \
    UNARY(X, fneg_ftz, f32, f32, "neg.ftz.f32 %0, %1;", flip_sign(ftz(x))) \
    UNARY(X, rcp_ftz, f32, f32, "rcp.rn.ftz.f32 %0, %1;", ftz(oracle::div(rn, 1.0f, ftz(x)))) \
    BINARY(X, fadd_sat, f32, f32, f32, "add.sat.f32 %0, %1, %2;", sat(oracle::add(rn, x, y))) \
    TERNARY(X, fma_sat, f32, f32, f32, f32, "fma.rn.sat.f32 %0, %1, %2, %3;", sat(oracle::fma(rn, x, y, z))) \
    BINARY(X, fadd_rp_sat, f32, f32, f32, "add.rp.sat.f32 %0, %1, %2;", sat(oracle::add(rp, x, y))) \
    UNARY(X, literal_bits, f32, f32, "add.f32 %0, %1, 0f3FC00000;", oracle::add(rn, x, 1.5f)) \
    UNARY(X, literal_double, f64, f64, "add.f64 %0, %1, 0dBFF8000000000000;", oracle::add(rn, x, -1.5)) \
    UNARY(X, literal_decimal, f32, f32, "mul.f32 %0, %1, 0.25;", oracle::mul(rn, x, 0.25f)) \
    UNARY(X, testp_finite, u32, f32, PRED("testp.finite.f32 p, %1;"), isfinite(x)) \
    UNARY(X, testp_infinite, u32, f64, PRED("testp.infinite.f64 p, %1;"), isinf(x)) \
    UNARY(X, testp_number, u32, f32, PRED("testp.number.f32 p, %1;"), !isnan(x)) \
    UNARY(X, testp_notanumber, u32, f64, PRED("testp.notanumber.f64 p, %1;"), isnan(x)) \
    UNARY(X, testp_normal, u32, f32, PRED("testp.normal.f32 p, %1;"), isnormal(x)) \
    UNARY(X, testp_subnormal, u32, f64, PRED("testp.subnormal.f64 p, %1;"), fpclassify(x) == FP_SUBNORMAL) \
    UNARY(X, rcp_approx_f64, f64, f64, "rcp.approx.ftz.f64 %0, %1;", high_word(ftz64(1.0 / ftz64(high_word(x))))) \
    UNARY(X, rsqrt_approx_ftz_f64, f64, f64, \
        "rsqrt.approx.ftz.f64 %0, %1;", high_word(1.0 / std::sqrt(ftz64(high_word(x))))) \
    UNARY(X, rsqrt_approx_f64, f64, f64, "rsqrt.approx.f64 %0, %1;", 1.0 / std::sqrt(x))

// ---- approximations: exact here up to one unit in the last place ----------------------------------------------------
#define PTX_APPROXIMATIONS(X) \
    UNARY(X, rcp_approx, f32, f32, "rcp.approx.f32 %0, %1;", 1.0L / x) \
    UNARY(X, sqrt_approx, f32, f32, "sqrt.approx.f32 %0, %1;", sqrtl(x)) \
    UNARY(X, rsqrt_approx, f32, f32, "rsqrt.approx.f32 %0, %1;", 1.0L / sqrtl(x)) \
    UNARY(X, ex2_approx, f32, f32, "ex2.approx.f32 %0, %1;", exp2l(x)) \
    UNARY(X, lg2_approx, f32, f32, "lg2.approx.f32 %0, %1;", log2l(x)) \
    UNARY(X, sin_approx, f32, f32, "sin.approx.f32 %0, %1;", sinl(x)) \
    UNARY(X, cos_approx, f32, f32, "cos.approx.f32 %0, %1;", cosl(x)) \
    UNARY(X, tanh_approx, f32, f32, "tanh.approx.f32 %0, %1;", tanhl(x)) \
    BINARY(X, div_approx, f32, f32, f32, "div.approx.f32 %0, %1, %2;", (long double)x / y) \
    BINARY(X, div_full, f32, f32, f32, "div.full.f32 %0, %1, %2;", (long double)x / y) \
    UNARY(X, ex2_approx_ftz, f32, f32, "ex2.approx.ftz.f32 %0, %1;", ftz(float(exp2l(ftz(x))))) \
    UNARY(X, lg2_approx_ftz, f32, f32, "lg2.approx.ftz.f32 %0, %1;", ftz(float(log2l(ftz(x))))) \
    UNARY(X, rcp_approx_ftz, f32, f32, "rcp.approx.ftz.f32 %0, %1;", ftz(float(1.0L / ftz(x)))) \
    BINARY(X, div_approx_ftz, f32, f32, f32, \
        "div.approx.ftz.f32 %0, %1, %2;", ftz(float((long double)ftz(x) / ftz(y)))) \
    UNARY(X, rsqrt_approx_ftz, f32, f32, "rsqrt.approx.ftz.f32 %0, %1;", ftz(float(1.0L / sqrtl(ftz(x)))))

// ---- comparison and selection ---------------------------------------------------------------------------------------
#define COMPARE(X, word, t, ...) BINARY(X, setp_##word##_##t, u32, t, t, SETP(#word "." #t), __VA_ARGS__)
#define COMPARE_I(X, t) \
    COMPARE(X, eq, t, x == y) COMPARE(X, ne, t, x != y) COMPARE(X, lt, t, x < y) \
    COMPARE(X, le, t, x <= y) COMPARE(X, gt, t, x > y) COMPARE(X, ge, t, x >= y)
#define COMPARE_F(X, t) \
    COMPARE(X, eq, t, x == y) COMPARE(X, lt, t, x < y) COMPARE(X, le, t, x <= y) COMPARE(X, gt, t, x > y) \
    COMPARE(X, ge, t, x >= y) COMPARE(X, ne, t, !any_nan(x, y) && x != y) \
    COMPARE(X, equ, t, any_nan(x, y) || x == y) COMPARE(X, neu, t, any_nan(x, y) || x != y) \
    COMPARE(X, ltu, t, any_nan(x, y) || x < y) COMPARE(X, leu, t, any_nan(x, y) || x <= y) \
    COMPARE(X, gtu, t, any_nan(x, y) || x > y) COMPARE(X, geu, t, any_nan(x, y) || x >= y) \
    COMPARE(X, num, t, !any_nan(x, y)) COMPARE(X, nan, t, any_nan(x, y))
#define SELECT(X, t) \
    TERNARY(X, selp_##t, t, t, t, u32, \
        "{ .reg .pred p; setp.gt.u32 p, %3, 7; selp." #t " %0, %1, %2, p; }", z > 7 ? x : y)
#define PTX_COMPARISONS(X) \
    COMPARE_F(X, f32) COMPARE_F(X, f64) COMPARE_I(X, u16) COMPARE_I(X, s16) COMPARE_I(X, u32) \
    COMPARE_I(X, s32) COMPARE_I(X, u64) COMPARE_I(X, s64) \
    BINARY(X, setp_lo, u32, u32, u32, SETP("lo.u32"), x < y) \
    BINARY(X, setp_ls, u32, u32, u32, SETP("ls.u32"), x <= y) \
    BINARY(X, setp_hi, u32, u64, u64, SETP("hi.u64"), x > y) \
    BINARY(X, setp_hs, u32, u16, u16, SETP("hs.u16"), x >= y) \
    BINARY(X, setp_eq_b32, u32, b32, b32, SETP("eq.b32"), x == y) \
    BINARY(X, setp_ne_b64, u32, b64, b64, SETP("ne.b64"), x != y) \
    BINARY(X, setp_lt_ftz, u32, f32, f32, SETP("lt.ftz.f32"), ftz(x) < ftz(y)) \
    TERNARY(X, setp_and, u32, f32, f32, b32, BOTH("lt.and.f32", "c"), (x < y && z) | (!(x < y) && z) << 1) \
    TERNARY(X, setp_or, u32, s32, s32, b32, BOTH("le.or.s32", "c"), (x <= y || z) | (!(x <= y) || z) << 1) \
    TERNARY(X, setp_xor, u32, u64, u64, b32, BOTH("eq.xor.u64", "!c"), ((x == y) != !z) | ((x != y) != !z) << 1) \
    BINARY(X, setp_two, u32, u32, u32, \
        "{ .reg .pred p, q; setp.lt.u32 p|q, %1, %2; selp.u32 %0, 1, 0, p; @q or.b32 %0, %0, 2; }", x < y ? 1 : 2) \
    TERNARY(X, setp_into_c, u32, u32, u32, b32, \
        "{ .reg .pred p, c; setp.ne.u32 c, %3, 0; setp.lt.and.u32 c|p, %1, %2, c; " \
        "selp.u32 %0, 1, 0, c; @p or.b32 %0, %0, 2; }", \
        (x < y && z) | (!(x < y) && z) << 1) \
    BINARY(X, set_u32_f32, u32, f32, f32, "set.lt.u32.f32 %0, %1, %2;", x < y ? 0xffffffffu : 0) \
    BINARY(X, set_s32_s64, s32, s64, s64, "set.ge.s32.s64 %0, %1, %2;", x >= y ? -1 : 0) \
    BINARY(X, set_f32_u16, f32, u16, u16, "set.ne.f32.u16 %0, %1, %2;", x != y ? 1.0f : 0.0f) \
    TERNARY(X, set_and, u32, f32, f32, b32, \
        "{ .reg .pred c; setp.ne.u32 c, %3, 0; set.leu.and.u32.f32 %0, %1, %2, c; }", \
        (any_nan(x, y) || x <= y) && z ? -1 : 0) \
    SELECT(X, u16) SELECT(X, s16) SELECT(X, b16) SELECT(X, u32) SELECT(X, s32) SELECT(X, b32) SELECT(X, u64) \
    SELECT(X, s64) SELECT(X, b64) SELECT(X, f32) SELECT(X, f64) \
    TERNARY(X, slct_u32_s32, u32, u32, u32, s32, "slct.u32.s32 %0, %1, %2, %3;", z >= 0 ? x : y) \
    TERNARY(X, slct_f64_f32, f64, f64, f64, f32, "slct.f64.f32 %0, %1, %2, %3;", z >= 0 ? x : y) \
    TERNARY(X, slct_ftz, b64, b64, b64, f32, "slct.ftz.b64.f32 %0, %1, %2, %3;", ftz(z) >= 0 ? x : y)

// ---- conversions ----------------------------------------------------------------------------------------------------
#define CVT(X, mode, to, from, ...) \
    UNARY(X, cvt_##mode##_##to##_##from, to, from, "cvt." #mode "." #to "." #from " %0, %1;", __VA_ARGS__)
#define TO_INT(X, t, f) \
    CVT(X, rni, t, f, to_int<decltype(r)>(rn, x)) CVT(X, rzi, t, f, to_int<decltype(r)>(rz, x)) \
    CVT(X, rmi, t, f, to_int<decltype(r)>(rm, x)) CVT(X, rpi, t, f, to_int<decltype(r)>(rp, x))
#define TO_FLOAT(X, f, t) \
    CVT(X, rn, f, t, oracle::to_float<decltype(r)>(rn, x)) CVT(X, rz, f, t, oracle::to_float<decltype(r)>(rz, x)) \
    CVT(X, rm, f, t, oracle::to_float<decltype(r)>(rm, x)) CVT(X, rp, f, t, oracle::to_float<decltype(r)>(rp, x))
#define ROUND_INT(X, f) \
    CVT(X, rni, f, f, integral(rn, x)) CVT(X, rzi, f, f, integral(rz, x)) \
    CVT(X, rmi, f, f, integral(rm, x)) CVT(X, rpi, f, f, integral(rp, x))
#define CAST(X, to, from)     UNARY(X, cvt_##to##_##from, to, from, "cvt." #to "." #from " %0, %1;", x)
#define CAST_SAT(X, to, from) CVT(X, sat, to, from, clamp<decltype(r)>(x))
// 8-bit values live in the low part of wider registers.
#define CAST_8(X, to, small, type) UNARY(X, cvt_##to##_##small, to, b16, "cvt." #to "." #small " %0, %1;", type(x))
#define PTX_CONVERSIONS(X) \
    TO_INT(X, s32, f32) TO_INT(X, u32, f32) TO_INT(X, s64, f32) TO_INT(X, u64, f32) TO_INT(X, s16, f32) \
    TO_INT(X, u16, f32) TO_INT(X, s32, f64) TO_INT(X, u32, f64) TO_INT(X, s64, f64) TO_INT(X, u64, f64) \
    TO_INT(X, s16, f64) TO_INT(X, u16, f64) TO_FLOAT(X, f32, s16) TO_FLOAT(X, f32, u16) TO_FLOAT(X, f32, s32) \
    TO_FLOAT(X, f32, u32) TO_FLOAT(X, f32, s64) TO_FLOAT(X, f32, u64) TO_FLOAT(X, f64, s16) TO_FLOAT(X, f64, u16) \
    TO_FLOAT(X, f64, s32) TO_FLOAT(X, f64, u32) TO_FLOAT(X, f64, s64) TO_FLOAT(X, f64, u64) TO_FLOAT(X, f32, f64) \
    ROUND_INT(X, f32) ROUND_INT(X, f64) \
    UNARY(X, cvt_f64_f32, f64, f32, "cvt.f64.f32 %0, %1;", double(x)) \
    CVT(X, sat, f32, f32, sat(x)) \
    UNARY(X, cvt_rn_sat_f32_f64, f32, f64, "cvt.rn.sat.f32.f64 %0, %1;", sat(oracle::to_float<float>(rn, x))) \
    UNARY(X, cvt_sat_f32_s32, f32, s32, "cvt.rn.sat.f32.s32 %0, %1;", sat(float(x))) \
    UNARY(X, cvt_ftz_f64_f32, f64, f32, "cvt.ftz.f64.f32 %0, %1;", double(ftz(x))) \
    UNARY(X, cvt_ftz_f32_f64, f32, f64, "cvt.rn.ftz.f32.f64 %0, %1;", ftz(oracle::to_float<float>(rn, x))) \
    UNARY(X, cvt_rzi_ftz, s32, f32, "cvt.rpi.ftz.s32.f32 %0, %1;", to_int<int32_t>(rp, ftz(x))) \
    UNARY(X, cvt_f32_f16, f32, b16, "cvt.f32.f16 %0, %1;", half_value(x)) \
    UNARY(X, cvt_f64_f16, f64, b16, "cvt.f64.f16 %0, %1;", half_value(x)) \
    UNARY(X, cvt_rn_f16_f32, b16, f32, "cvt.rn.f16.f32 %0, %1;", to_half(x)) \
    CAST(X, u16, u32) CAST(X, s16, s32) CAST(X, u16, u64) CAST(X, u32, u16) CAST(X, s32, s16) CAST(X, u32, s16) \
    CAST(X, u64, u16) CAST(X, s64, s16) CAST(X, u32, u64) CAST(X, s32, s64) CAST(X, u64, u32) CAST(X, s64, s32) \
    CAST(X, u64, s32) CAST(X, s64, u32) CAST_8(X, u32, u8, uint8_t) CAST_8(X, s32, s8, int8_t) \
    CAST_8(X, s64, s8, int8_t) CAST_8(X, u16, u8, uint8_t) CAST_8(X, s16, s8, int8_t) \
    UNARY(X, cvt_s8_s32, s32, s32, "cvt.s8.s32 %0, %1;", int8_t(x)) \
    UNARY(X, cvt_u8_u32, u32, u32, "cvt.u8.u32 %0, %1;", uint8_t(x)) \
    CAST_SAT(X, u32, s32) CAST_SAT(X, s32, u32) CAST_SAT(X, s16, s32) CAST_SAT(X, u16, s64) CAST_SAT(X, s32, s64) \
    CAST_SAT(X, u32, u64) CAST_SAT(X, s64, u64) CAST_SAT(X, u64, s64) \
    UNARY(X, cvt_sat_u8, u32, s32, "cvt.sat.u8.s32 %0, %1;", clamp<uint8_t>(x)) \
    UNARY(X, mov_b32_f32, b32, f32, "mov.b32 %0, %1;", bits<uint32_t>(x)) \
    UNARY(X, mov_f64_b64, f64, b64, "mov.b64 %0, %1;", bits<double>(x)) \
    UNARY(X, mov_unpack, b32, b64, \
        "{ .reg .b32 a, b; mov.b64 {a, b}, %1; sub.u32 %0, b, a; }", uint32_t(x >> 32) - uint32_t(x)) \
    UNARY(X, mov_unpack_4, b32, b64, \
        "{ .reg .b16 a, b, c, d; mov.b64 {a, b, c, d}, %1; mov.b32 %0, {d, b}; }", \
        uint32_t(x >> 48) | (x >> 16 & 0xffff) << 16) \
    UNARY(X, mov_unpack_sink, b32, b64, "mov.b64 {_, %0}, %1;", x >> 32) \
    BINARY(X, mov_pack, b64, f32, b32, "mov.b64 %0, {%1, %2};", uint64_t(y) << 32 | bits<uint32_t>(x)) \
    UNARY(X, mov_pred, b32, b32, \
        "{ .reg .pred p, q; setp.gt.u32 p, %1, 7; mov.pred q, p; mov.pred p, 0; " \
        "selp.u32 %0, 1, 0, q; @p mov.u32 %0, 9; }", \
        x > 7) \
    TERNARY(X, guards, b32, b32, b32, b32, \
        "{ .reg .pred p; setp.gt.u32 p, %1, 7; mov.u32 %0, 5; @p mov.u32 %0, %2; @!p add.u32 %0, %0, %3; }", \
        x > 7 ? y : 5 + z) \
    UNARY(X, shadowing, b32, b32, \
        "{ .reg .u32 %%r1, a; mov.u32 %%r1, %1; { .reg .u32 a; add.u32 a, %%r1, 1; mov.u32 %0, a; } " \
        "mov.u32 a, 3; add.u32 %0, %0, a; }", \
        x + 4) \
    UNARY(X, literals, b32, b32, \
        "{ add.u32 %0, %1, 0x10; sub.u32 %0, %0, -5; xor.b32 %0, %0, 0b101; " \
        "add.u32 %0, %0, 7U; add.u32 %0, %0, WARP_SZ; }", \
        ((x + 16 + 5) ^ 5) + 39)

// ---- whole functions of CUDA's library, as nvcc expands them -----------------------------------------------------------

// X(name, type, error in units in the last place that CUDA documents, CUDA's function, the same in long double)
#define PTX_MATH(X) \
    X(expf, f32, 1, expf(x), expl(x))          X(logf, f32, 1, logf(x), logl(x))        X(sinf, f32, 2, sinf(x), sinl(x)) \
    X(cosf, f32, 2, cosf(x), cosl(x))          X(tanf, f32, 4, tanf(x), tanl(x))        X(tanhf, f32, 2, tanhf(x), tanhl(x)) \
    X(exp2f, f32, 2, exp2f(x), exp2l(x))       X(log2f, f32, 1, log2f(x), log2l(x))     X(log1pf, f32, 1, log1pf(x), log1pl(x)) \
    X(expm1f, f32, 1, expm1f(x), expm1l(x))    X(erff, f32, 2, erff(x), erfl(x))        X(cbrtf, f32, 1, cbrtf(x), cbrtl(x)) \
    X(powf, f32, 4, powf(x, y), powl(x, y))    X(sqrtf, f32, 0, sqrtf(x), sqrtl(x))     X(rsqrtf, f32, 2, rsqrtf(x), 1 / sqrtl(x)) \
    X(divf, f32, 0, x / y, (long double)x / y) X(fmodf, f32, 0, fmodf(x, y), fmodl(x, y)) \
    X(floorf, f32, 0, floorf(x), floorl(x))    X(rintf, f32, 0, rintf(x), rintl(x))     X(hypotf, f32, 3, hypotf(x, y), hypotl(x, y)) \
    X(exp, f64, 1, exp(x), expl(x))            X(log, f64, 1, log(x), logl(x))          X(sin, f64, 2, sin(x), sinl(x)) \
    X(cos, f64, 2, cos(x), cosl(x))            X(pow, f64, 2, pow(x, y), powl(x, y))    X(tanh, f64, 2, tanh(x), tanhl(x)) \
    X(erf, f64, 2, erf(x), erfl(x))            X(log1p, f64, 1, log1p(x), log1pl(x))    X(cbrt, f64, 1, cbrt(x), cbrtl(x)) \
    X(sqrt, f64, 0, sqrt(x), sqrtl(x))         X(fmod, f64, 0, fmod(x, y), fmodl(x, y)) X(round, f64, 0, round(x), roundl(x))
// clang-format on

#define PTX_EXACT(X) PTX_INTEGERS(X) PTX_CARRIES(X) PTX_BITS(X) PTX_FLOATS(X) PTX_COMPARISONS(X) PTX_CONVERSIONS(X)

// ---- kernels with a shape of their own (bodies: ptx_opcodes.cu, expectations: test_ptx.cpp) -------------------------

// All of them: (uint32_t* out, uint32_t* in).
#define PTX_SHAPED(X)        \
    X(load_store_types)      \
    X(load_store_vectors)    \
    X(load_hints)            \
    X(shared_memory)         \
    X(dynamic_shared_memory) \
    X(local_memory)          \
    X(constant_tables)       \
    X(generic_addresses)     \
    X(calls)                 \
    X(branches)              \
    X(branch_table)          \
    X(leave_early)           \
    X(special_registers)     \
    X(atomics_u32)           \
    X(atomics_u64)           \
    X(atomics_float)         \
    X(reductions)            \
    X(shuffles)              \
    X(shuffle_clamp)         \
    X(votes)                 \
    X(matches)               \
    X(warp_reductions)       \
    X(barriers)              \
    X(stop)

// Cases of gemm.h.
#include "tests/oracle/gemm.h"

#include <array>

#include "tests/harness.h"

using namespace test;
using lc::Backend;
using lc::Gemm;
using lc::GemmEngine;

namespace {

std::string name_of(const Gemm& g) {
    return std::to_string(g.M) + "x" + std::to_string(g.N) + "x" + std::to_string(g.K) + "_" + (g.trans_a ? "t" : "n") +
           (g.trans_b ? "t" : "n");
}

// Elements from the first to the last one of a batch of stored matrices.
int64_t span(int64_t rows, int64_t columns, int64_t ld, int64_t batch, int64_t stride) {
    if (rows == 0 || columns == 0 || batch == 0) return 0;
    return (batch - 1) * stride + (rows - 1) * (ld ? ld : columns) + columns;
}

Case gemm_case(const Gemm& g, const std::string& suffix = "", const std::string& values = "normal") {
    Case c{.op = "gemm", .name = name_of(g) + suffix};
    c.make = [=](Random& r) {
        const int64_t a =
            g.trans_a ? span(g.K, g.M, g.lda, g.batch, g.stride_a) : span(g.M, g.K, g.lda, g.batch, g.stride_a);
        const int64_t b =
            g.trans_b ? span(g.N, g.K, g.ldb, g.batch, g.stride_b) : span(g.K, g.N, g.ldb, g.batch, g.stride_b);
        const int64_t n = span(g.M, g.N, g.ldc, g.batch, g.stride_c);
        Operands o = {in_out("C", r.fill(n, values)), in("A", r.fill(a, values)), in("B", r.fill(b, values))};
        if (g.beta == 0 && g.ldc == 0 && g.stride_c <= g.M * g.N) o[0] = out("C", n);  // every element must be written
        return o;
    };
    c.run = [=](const Backend& b, const Device& d) { b.gemm(d[0], d[1], d[2], g, d.stream); };
    c.reference = reference([=](auto& v) { oracle::gemm(v[0], v[1], v[2], g); });
    c.flops = lc::gemm_flops(g);
    return c;
}

const std::pair<bool, bool> kTransposes[] = {{false, false}, {true, false}, {false, true}, {true, true}};

}  // namespace

CASES(gemm) {
    // (M, N, K): nothing, single, around the micro-kernel (6 x 16), the CUDA tiles (64, 128, k 8) and the cache blocks
    // (k 256).
    const int64_t shapes[][3] = {
        {0, 3, 4},      {3, 0, 4},      {3, 4, 0},     {1, 1, 1},     {1, 1, 7},     {1, 17, 5},   {13, 1, 9},
        {5, 15, 7},     {6, 16, 8},     {7, 17, 9},    {63, 65, 15},  {64, 64, 16},  {65, 63, 17}, {127, 129, 8},
        {128, 128, 32}, {129, 127, 33}, {131, 7, 257}, {7, 131, 256}, {37, 41, 255}, {2, 200, 31}, {200, 2, 31}};
    for (const auto& s : shapes) {
        for (auto [ta, tb] : kTransposes)
            add_case(gemm_case({.M = s[0], .N = s[1], .K = s[2], .trans_a = ta, .trans_b = tb}));
    }
    for (const auto& s : {std::array<int64_t, 3>{300, 200, 700}, {193, 1031, 517}, {1031, 97, 1025}, {100, 64, 2048}}) {
        for (auto [ta, tb] : kTransposes)
            add_case(gemm_case({.M = s[0], .N = s[1], .K = s[2], .trans_a = ta, .trans_b = tb}));
    }
    for (const std::string& values : kValueSets) {
        add_case(gemm_case({.M = 67, .N = 35, .K = 129, .trans_b = true}, "_" + values, values));
    }
    for (auto [ta, tb] : kTransposes) {
        const Gemm g{.M = 70, .N = 66, .K = 40, .trans_a = ta, .trans_b = tb};
        for (float beta : {0.0f, 1.0f, -0.5f}) {
            Gemm h = g;
            h.alpha = 0.75f, h.beta = beta, h.lda = 83, h.ldb = 91, h.ldc = 77;
            add_case(gemm_case(h, "_ld_beta" + std::to_string(int(beta * 10 + 5))));
            h.lda = 84, h.ldb = 92, h.ldc = 80;  // rows start on 16 bytes: the vector path
            add_case(gemm_case(h, "_ld4_beta" + std::to_string(int(beta * 10 + 5))));
        }
        Case shifted = gemm_case(g, "_offset1");
        shifted.offset = 1;
        add_case(shifted);
        Gemm b = g;
        b.batch = 5, b.stride_a = 70 * 40 + 8, b.stride_b = 40 * 66, b.stride_c = 70 * 66;
        add_case(gemm_case(b, "_batch5"));
        b.stride_b = 0;  // one B for all
        b.M = 9, b.batch = 300, b.stride_c = 9 * 66;
        add_case(gemm_case(b, "_batch300_shared"));
    }
}

// The CUDA backend takes its large tiles (128 x 128) only where there are 96 of them or more.
CASES(gemm_large_tiles) {
    const auto packed_batch = [](Gemm g) {
        g.stride_a = g.M * g.K, g.stride_b = g.K * g.N, g.stride_c = g.M * g.N;
        add_case(gemm_case(g, "_batch" + std::to_string(g.batch)));
    };
    for (auto [ta, tb] : kTransposes) {
        packed_batch({.M = 68, .N = 68, .K = 4, .trans_a = ta, .trans_b = tb, .batch = 96});
        packed_batch({.M = 132, .N = 124, .K = 20, .trans_a = ta, .trans_b = tb, .batch = 48});
    }
}

// alpha = 0, K = 0 and beta = 0 are promises about what is not read: NaN there must not come through.
CASES(gemm_edges) {
    const auto poisoned = [](const Gemm& g, const std::string& name, int which) {
        Case c = gemm_case(g, name);
        const auto make = c.make;
        c.make = [=](Random& r) {
            Operands o = make(r);
            for (double& x : o[size_t(which)].v) x = NAN;
            if (which == 0) o[0].role = Role::in_out;
            return o;
        };
        add_case(c);
    };
    poisoned({.M = 33, .N = 18, .K = 5, .beta = 0}, "_nan_in_c", 0);
    poisoned({.M = 33, .N = 18, .K = 5, .alpha = 0, .beta = 2}, "_alpha0_nan_in_a", 1);
    poisoned({.M = 33, .N = 18, .K = 5, .alpha = 0, .beta = 0}, "_alpha0_nan_in_b", 2);
    Case one = gemm_case({.M = 40, .N = 40, .K = 40}, "_one_nan");  // a NaN in A spoils its row and nothing else
    const auto make = one.make;
    one.make = [=](Random& r) {
        Operands o = make(r);
        o[1].v[7 * 40 + 3] = NAN;
        return o;
    };
    add_case(one);
    add_case(gemm_case({.M = 9, .N = 9, .K = 0, .beta = 0.5f}, "_k0_beta"));
}

CASES(gemm_refusals) {
    static float x[64];
    // Where C and A start in x; the refusal comes before anything is read or written.
    const auto call = [](const Gemm& g, float* C = nullptr, const float* A = nullptr) {
        return [=](const Backend& b) { b.gemm(C ? C : x, A ? A : x + 16, x + 32, g, nullptr); };
    };
    add_refusal({"gemm", "negative_m", "M", call({.M = -1, .N = 2, .K = 2})});
    add_refusal({"gemm", "short_lda", "lda", call({.M = 2, .N = 2, .K = 4, .lda = 3})});
    add_refusal({"gemm", "short_ldb", "ldb", call({.M = 2, .N = 4, .K = 2, .ldb = 3})});
    add_refusal({"gemm", "short_ldc", "ldc", call({.M = 2, .N = 4, .K = 2, .ldc = 3})});
    add_refusal({"gemm", "negative_batch", "batch", call({.M = 2, .N = 2, .K = 2, .batch = -1})});
    add_refusal({"gemm", "c_overlaps_a", "overlap", call({.M = 2, .N = 2, .K = 2}, x, x + 3)});
    add_refusal({"gemm", "batches_overlap", "stride_c", call({.M = 2, .N = 2, .K = 2, .batch = 2, .stride_c = 3})});
    add_refusal({"gemm", "null_pointer", "null",
                 [](const Backend& b) { b.gemm(nullptr, x, x, {.M = 2, .N = 2, .K = 2}, nullptr); }});
}

CASES(gemm_speed) {
    const auto speed = [](const Gemm& g) {
        Case c = gemm_case(g);
        c.bytes = 4.0 * double(g.M * g.K + g.K * g.N + g.M * g.N);
        c.bench = c.bench_only = true;
        add_case(c);
    };
    speed({.M = 1024, .N = 1024, .K = 1024});
    speed({.M = 10000, .N = 64, .K = 2048, .trans_b = true});
    speed({.M = 64, .N = 2048, .K = 10000, .trans_a = true});
}

// dA = dC B^T and dB = A^T dC.
CASES(gemm_gradient) {
    Random r(5);
    const std::vector<double> ab = r.normal(6 + 12);  // A (2, 3), then B (3, 4)
    const auto part = [](const std::vector<double>& v, int64_t from, int64_t to) {
        return std::vector<double>(v.begin() + from, v.begin() + to);
    };
    add_gradient({"gemm", "both", ab, r.normal(8),
                  [=](const std::vector<double>& x) {
                      std::vector<double> c(8);
                      oracle::gemm(c, part(x, 0, 6), part(x, 6, 18), {.M = 2, .N = 4, .K = 3});
                      return c;
                  },
                  [=](const std::vector<double>& x, const std::vector<double>& dc) {
                      std::vector<double> da(6), db(12);
                      oracle::gemm(da, dc, part(x, 6, 18), {.M = 2, .N = 3, .K = 4, .trans_b = true});
                      oracle::gemm(db, part(x, 0, 6), dc, {.M = 3, .N = 4, .K = 2, .trans_a = true});
                      da.insert(da.end(), db.begin(), db.end());
                      return da;
                  }});
}

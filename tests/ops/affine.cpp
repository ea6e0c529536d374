// Cases of affine.h.
#include "tests/oracle/affine.h"

#include <array>

#include "tests/harness.h"

using namespace test;
using lc::Backend;

namespace {

// Around a warp, a pattern of 256 elements, a block, the segments of the sums (512 rows at 32 columns, 16384 at one).
const std::pair<int64_t, int64_t> kShapes[] = {{0, 3},    {3, 0},    {1, 1},    {7, 1},    {1, 7},    {5, 2},
                                               {129, 10}, {33, 31},  {31, 33},  {64, 64},  {3, 1000}, {257, 17},
                                               {511, 32}, {512, 33}, {513, 32}, {1030, 5}, {2, 4099}};

std::string shape_name(int64_t N, int64_t C) { return std::to_string(N) + "x" + std::to_string(C); }

enum class With { a, nothing, out_is_a, out_is_x };

void add_affine(int64_t N, int64_t C, bool one, With with, const std::string& values, int64_t offset = 0) {
    const char* const names[] = {"", "_no_a", "_out_is_a", "_out_is_x"};
    Case c{.op = "affine", .name = shape_name(N, C) + (one ? "_one_" : "_") + values + names[int(with)]};
    if (offset > 0) c.name += "_offset" + std::to_string(offset);
    const int64_t entries = one ? 1 : C;
    c.make = [=](Random& r) {
        const auto x = r.fill(N * C, values), a = r.fill(N * C, values);
        const Operand w = in("w", r.uniform(entries, -0.9, 0.9)), b = in("b", r.normal(entries));  // |w x| < FLT_MAX
        switch (with) {
            case With::a:
                return Operands{out("out", N * C), in("a", a), in("x", x), w, b};
            case With::nothing:
                return Operands{out("out", N * C), in("a", {}), in("x", x), w, b};
            case With::out_is_a:
                return Operands{in_out("out", a), in("a", {}), in("x", x), w, b};
            default:
                return Operands{in_out("out", x), in("a", a), in("x", {}), w, b};
        }
    };
    c.run = [=](const Backend& b, const Device& d) {
        const float* a = with == With::nothing ? nullptr : with == With::out_is_a ? d[0] : d[1];
        b.affine(d[0], a, with == With::out_is_x ? d[0] : d[2], d[3], d[4], N, C, {one}, d.stream);
    };
    c.reference = reference([=](auto& v) {
        const auto a = with == With::out_is_a ? v[0] : v[1], x = with == With::out_is_x ? v[0] : v[2];
        oracle::affine(v[0], a, x, v[3], v[4]);
    });
    c.offset = offset;
    c.flops = double(N * C) * 3;
    add_case(c);
}

void add_affine_bwd(int64_t N, int64_t C, bool one, const std::string& values) {
    Case c{.op = "affine_bwd", .name = shape_name(N, C) + (one ? "_one_" : "_") + values};
    const int64_t entries = one ? 1 : C;
    c.make = [=](Random& r) {
        return Operands{out("dw", entries), out("db", entries), in("dy", r.fill(N * C, values)),
                        in("x", r.fill(N * C, values))};
    };
    c.run = [=](const Backend& b, const Device& d) { b.affine_bwd(d[0], d[1], d[2], d[3], N, C, {one}, d.stream); };
    c.reference = reference([](auto& v) { oracle::affine_bwd(v[0], v[1], v[2], v[3]); });
    c.flops = double(N * C) * 3;
    add_case(c);
}

void add_standardise(int64_t N, int64_t C, const std::string& values, bool in_place, int64_t offset = 0) {
    Case c{.op = "standardise", .name = shape_name(N, C) + "_" + values + (in_place ? "_in_place" : "")};
    if (offset > 0) c.name += "_offset" + std::to_string(offset);
    c.make = [=](Random& r) {
        const auto x = r.fill(N * C, values);
        auto inverse = r.uniform(C, 0.1, 2);
        if (C > 1) inverse[1] = 0;  // a constant column
        return Operands{in_place ? in_out("out", x) : out("out", N * C), in("x", in_place ? std::vector<double>() : x),
                        in("mean", r.normal(C)), in("inverse", inverse)};
    };
    c.run = [=](const Backend& b, const Device& d) {
        b.standardise(d[0], in_place ? d[0] : d[1], d[2], d[3], N, C, d.stream);
    };
    c.reference = reference([=](auto& v) { oracle::standardise(v[0], std::vector(v[in_place ? 0 : 1]), v[2], v[3]); });
    c.compare = Compare::exact;
    c.offset = offset;
    c.flops = double(N * C) * 2;
    add_case(c);
}

void add_moment2(int64_t N, int64_t C, const std::string& values) {
    Case c{.op = "col_moment2", .name = shape_name(N, C) + "_" + values};
    c.make = [=](Random& r) {
        const auto x = r.fill(N * C, values);
        return Operands{out("out", C), in("x", x), in("mean", std::vector<double>(x.begin(), x.begin() + C))};
    };
    c.run = [=](const Backend& b, const Device& d) { b.col_moment2(d[0], d[1], d[2], N, C, d.stream); };
    c.reference = reference([](auto& v) { oracle::col_moment2(v[0], v[1], v[2]); });
    c.flops = double(N * C) * 3;
    add_case(c);
}

void add_gather(int64_t N, int64_t M, int64_t C) {
    Case c{.op = "gather_rows", .name = std::to_string(N) + "_of_" + shape_name(M, C)};
    c.make = [=](Random& r) {
        auto index = r.integers(N, 0, M - 1);
        if (N > 1) index[0] = 0, index[1] = double(M - 1);
        return Operands{out("out", N * C), in("x", r.fill(M * C, "special")), in_ints("index", index)};
    };
    c.run = [=](const Backend& b, const Device& d) { b.gather_rows(d[0], d[1], d.ints(2), N, M, C, d.stream); };
    c.reference = reference([=](auto& v) { oracle::gather_rows(v[0], v[1], v[2], size_t(C)); });
    c.compare = Compare::exact;
    c.flops = double(N * C);
    add_case(c);
}

}  // namespace

CASES(affine) {
    for (bool one : {false, true}) {
        for (auto [N, C] : kShapes) {
            add_affine(N, C, one, With::a, "normal");
            add_affine_bwd(N, C, one, "normal");
        }
        for (With with : {With::nothing, With::out_is_a, With::out_is_x}) {
            add_affine(129, 10, one, with, "normal");
            add_affine(5, 700, one, with, "special");
        }
        add_affine(33, 31, one, With::a, "normal", 1);
        for (const std::string& values : kValueSets) {
            if (values != "normal") add_affine(129, 10, one, With::a, values);
            add_affine_bwd(130, 10, one, values);
            add_affine_bwd(70, 100, one, values);
        }
        add_affine_bwd(40000, 1, one, "shifted");
        add_affine_bwd(3000, 300, one, "shifted");
    }
    for (auto [N, C] : kShapes) add_standardise(N, C, "normal", false);
    add_standardise(129, 10, "special", false);
    add_standardise(129, 10, "special", true);
    add_standardise(5, 700, "huge", true);
    add_standardise(33, 31, "normal", false, 1);
    for (auto [N, C] : kShapes) {
        if (N > 0) add_moment2(N, C, "normal");
    }
    for (const std::string& values : kValueSets) add_moment2(130, 10, values);
    add_moment2(130, 10, "special");
    add_moment2(40000, 1, "shifted");
    add_moment2(3000, 300, "shifted");
    for (auto [N, M, C] : {std::array<int64_t, 3>{0, 3, 4},
                           {5, 1, 1},
                           {100, 7, 1},
                           {33, 50, 10},
                           {9, 20, 31},
                           {9, 20, 32},
                           {9, 20, 33},
                           {7, 4, 1024},
                           {7, 4, 1025},
                           {300, 9, 3},
                           {4, 5, 0}}) {
        add_gather(N, M, C);
    }
}

CASES(affine_refusals) {
    float* const none = nullptr;
    add_refusal({"affine", "negative_rows", "N",
                 [=](const Backend& b) { b.affine(none, none, none, none, none, -1, 3, {}, nullptr); }});
    add_refusal({"affine", "null_pointer", "null",
                 [=](const Backend& b) { b.affine(none, none, none, none, none, 2, 3, {true}, nullptr); }});
    add_refusal({"affine", "overlap", "overlaps", [](const Backend& b) {
                     const lc::Buffer<float> x(b, 16);
                     float* const p = x.data();
                     b.affine(p, nullptr, p + 1, p + 12, p + 12, 2, 3, {true}, nullptr);
                 }});
    add_refusal({"affine_bwd", "negative_columns", "C",
                 [=](const Backend& b) { b.affine_bwd(none, none, none, none, 3, -1, {}, nullptr); }});
    add_refusal({"affine_bwd", "in_place", "overlaps", [](const Backend& b) {
                     const lc::Buffer<float> x(b, 16);
                     float* const p = x.data();
                     b.affine_bwd(p, p + 12, p + 2, p + 8, 1, 4, {}, nullptr);
                 }});
    add_refusal({"standardise", "negative_rows", "N",
                 [=](const Backend& b) { b.standardise(none, none, none, none, -1, 3, nullptr); }});
    add_refusal(
        {"col_moment2", "no_rows", "N", [=](const Backend& b) { b.col_moment2(none, none, none, 0, 3, nullptr); }});
    add_refusal({"col_moment2", "negative_rows", "N",
                 [=](const Backend& b) { b.col_moment2(none, none, none, -2, 3, nullptr); }});
    add_refusal({"gather_rows", "negative_rows", "N",
                 [=](const Backend& b) { b.gather_rows(none, none, nullptr, -1, 2, 3, nullptr); }});
    add_refusal({"gather_rows", "negative_table", "N",
                 [=](const Backend& b) { b.gather_rows(none, none, nullptr, 1, -2, 3, nullptr); }});
}

// x, w, b in one vector; da = dy needs no test.
CASES(affine_gradient) {
    constexpr size_t n = 12;  // (4, 3)
    for (bool one : {false, true}) {
        const size_t entries = one ? 1 : 3;
        Random r(7);
        const std::vector<double> x = r.normal(n), a = r.normal(n);
        add_gradient({"affine", one ? "one" : "columns", r.normal(int64_t(2 * entries)), r.normal(n),
                      [=](const std::vector<double>& wb) {
                          const auto b = wb.begin() + int64_t(entries);
                          std::vector<double> y(n);
                          oracle::affine(y, a, x, {wb.begin(), b}, {b, wb.end()});
                          return y;
                      },
                      [=](const std::vector<double>&, const std::vector<double>& dy) {
                          std::vector<double> dw(entries), db(entries);
                          oracle::affine_bwd(dw, db, dy, x);
                          dw.insert(dw.end(), db.begin(), db.end());
                          return dw;
                      }});
    }
}

CASES(affine_speed) {
    for (int64_t C : {50, 2048}) {
        const int64_t N = 4000000 / C;
        const auto speed = [=](const std::string& op, int64_t outputs, int arrays,
                               std::function<void(const Backend&, const Device&)> run) {
            Case c{.op = op, .name = shape_name(N, C)};
            c.make = [=](Random& r) {
                return Operands{out("out", outputs),
                                out("out2", C),
                                in("x", r.normal(N * C)),
                                in("y", r.normal(N * C)),
                                in("w", r.normal(C)),
                                in("b", r.normal(C)),
                                in_ints("index", r.integers(N, 0, N - 1))};
            };
            c.run = std::move(run);
            c.bytes = 4.0 * double(N * C) * arrays;
            c.bench = c.bench_only = true;
            add_case(c);
        };
        speed("affine", N * C, 3, [=](const Backend& b, const Device& d) {
            b.affine(d[0], d[2], d[3], d[4], d[5], N, C, {false}, d.stream);
        });
        speed("affine_bwd", C, 2, [=](const Backend& b, const Device& d) {
            b.affine_bwd(d[0], d[1], d[2], d[3], N, C, {false}, d.stream);
        });
        speed("standardise", N * C, 2,
              [=](const Backend& b, const Device& d) { b.standardise(d[0], d[2], d[4], d[5], N, C, d.stream); });
        speed("col_moment2", C, 1,
              [=](const Backend& b, const Device& d) { b.col_moment2(d[0], d[2], d[4], N, C, d.stream); });
        speed("gather_rows", N * C, 2,
              [=](const Backend& b, const Device& d) { b.gather_rows(d[0], d[2], d.ints(6), N, N, C, d.stream); });
    }
}

// Cases of reduce.h.
#include "tests/oracle/reduce.h"

#include "tests/harness.h"

using namespace test;
using lc::Backend;
using lc::Reduction;

namespace {

const std::pair<Reduction, std::string> kReductions[] = {
    {Reduction::sum, "sum"}, {Reduction::mean, "mean"}, {Reduction::max, "max"}};

// (N, C): empty, single, around a warp, a vector and a block, prime, tall, wide.
const std::pair<int64_t, int64_t> kShapes[] = {{0, 5},     {1, 1},     {1, 7},     {7, 1},     {31, 33},  {32, 32},
                                               {33, 31},   {129, 10},  {2, 1023},  {3, 1024},  {2, 1025}, {5, 4099},
                                               {1025, 2},  {4099, 5},  {1, 20011}, {20011, 1}, {257, 64}, {64, 257},
                                               {255, 127}, {513, 100}, {2048, 32}, {3001, 129}};

std::string shape_name(int64_t N, int64_t C) { return std::to_string(N) + "x" + std::to_string(C); }

void add_reduction(int64_t N, int64_t C, Reduction how, const std::string& how_name, const std::string& values,
                   bool rows) {
    Case c{.op = rows ? "row_reduce" : "col_reduce", .name = shape_name(N, C) + "_" + how_name + "_" + values};
    c.make = [=](Random& r) { return Operands{out("out", rows ? N : C), in("x", r.fill(N * C, values))}; };
    c.run = [=](const Backend& b, const Device& d) {
        (rows ? b.row_reduce : b.col_reduce)(d[0], d[1], N, C, how, d.stream);
    };
    c.reference = reference(
        [=](auto& v) { rows ? oracle::row_reduce(v[0], v[1], N, C, how) : oracle::col_reduce(v[0], v[1], N, C, how); });
    if (how == Reduction::max) c.compare = Compare::exact;
    c.flops = double(N * C);
    add_case(c);
}

void add_argmax(int64_t N, int64_t C, const std::string& values, bool rows) {
    Case c{.op = rows ? "row_argmax" : "col_argmax", .name = shape_name(N, C) + "_" + values};
    c.make = [=](Random& r) { return Operands{out("out", rows ? N : C, Type::i32), in("x", r.fill(N * C, values))}; };
    c.run = [=](const Backend& b, const Device& d) {
        (rows ? b.row_argmax : b.col_argmax)(d.ints(0), d[1], N, C, d.stream);
    };
    c.reference =
        reference([=](auto& v) { rows ? oracle::row_argmax(v[0], v[1], N, C) : oracle::col_argmax(v[0], v[1], N, C); });
    c.flops = double(N * C);
    add_case(c);
}

void add_speed(int64_t N, int64_t C, bool rows) {
    Case c{.op = rows ? "row_reduce" : "col_reduce", .name = shape_name(N, C) + "_sum"};
    c.make = [=](Random& r) { return Operands{out("out", rows ? N : C), in("x", r.uniform(N * C, -1, 1))}; };
    c.run = [=](const Backend& b, const Device& d) {
        (rows ? b.row_reduce : b.col_reduce)(d[0], d[1], N, C, Reduction::sum, d.stream);
    };
    c.flops = double(N * C);
    c.bytes = 4.0 * double(N * C);
    c.bench = c.bench_only = true;
    add_case(c);
}

}  // namespace

CASES(reduce) {
    for (bool rows : {true, false}) {
        for (auto [N, C] : kShapes) {
            for (const auto& [how, name] : kReductions) {
                if ((rows ? C : N) == 0 && how != Reduction::sum) continue;
                add_reduction(N, C, how, name, "normal", rows);
            }
            if ((rows ? C : N) > 0) add_argmax(N, C, "normal", rows);
        }
        for (const char* values : {"ties", "zeros", "one_hot", "huge", "shifted", "near", "special"}) {
            for (auto [N, C] : {std::pair<int64_t, int64_t>{37, 53}, {5, 2111}, {2111, 5}}) {
                for (const auto& [how, name] : kReductions) {
                    // Sums of the largest numbers overflow or not depending on the order; a maximum does not care.
                    if (std::string(values) == "special" && how != Reduction::max) continue;
                    add_reduction(N, C, how, name, values, rows);
                }
                add_argmax(N, C, values, rows);
            }
        }
        add_reduction(rows ? 3 : 300000, rows ? 300000 : 3, Reduction::sum, "sum", "shifted", rows);
    }
    for (bool rows : {true, false}) {
        add_speed(1000000, 10, rows);
        add_speed(10, 1000000, rows);
        add_speed(4096, 4096, rows);
    }
}

// A row with one NaN: sum and mean must show it, in that row only.
CASES(reduce_nan) {
    for (bool rows : {true, false}) {
        for (const auto& [how, name] : kReductions) {
            Case c{.op = rows ? "row_reduce" : "col_reduce", .name = std::string("one_nan_") + name};
            c.make = [=](Random& r) {
                Operands o = {out("out", 40), in("x", r.normal(40 * 40))};
                o[1].v[13 * 40 + 13] = NAN;
                return o;
            };
            c.run = [=, how = how](const Backend& b, const Device& d) {
                (rows ? b.row_reduce : b.col_reduce)(d[0], d[1], 40, 40, how, d.stream);
            };
            c.reference = reference([=, how = how](auto& v) {
                rows ? oracle::row_reduce(v[0], v[1], 40, 40, how) : oracle::col_reduce(v[0], v[1], 40, 40, how);
            });
            c.flops = 1600;
            add_case(c);
        }
    }
}

CASES(reduce_refusals) {
    float* const none = nullptr;
    add_refusal({"row_reduce", "negative_rows", "N",
                 [=](const Backend& b) { b.row_reduce(none, none, -1, 2, Reduction::sum, nullptr); }});
    add_refusal({"col_reduce", "negative_columns", "C",
                 [=](const Backend& b) { b.col_reduce(none, none, 2, -1, Reduction::sum, nullptr); }});
    add_refusal({"row_reduce", "max_of_nothing", "C",
                 [=](const Backend& b) { b.row_reduce(none, none, 3, 0, Reduction::max, nullptr); }});
    add_refusal({"col_reduce", "mean_of_nothing", "N",
                 [=](const Backend& b) { b.col_reduce(none, none, 0, 3, Reduction::mean, nullptr); }});
    add_refusal(
        {"row_argmax", "of_nothing", "C", [=](const Backend& b) { b.row_argmax(nullptr, none, 3, 0, nullptr); }});
    add_refusal(
        {"col_argmax", "of_nothing", "N", [=](const Backend& b) { b.col_argmax(nullptr, none, 0, 3, nullptr); }});
    add_refusal({"row_argmax", "too_wide", "C",
                 [=](const Backend& b) { b.row_argmax(nullptr, none, 1, int64_t(1) << 31, nullptr); }});
}

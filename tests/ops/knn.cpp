// Cases of knn.h.
#include "tests/oracle/knn.h"

#include <array>
#include <cmath>

#include "tests/harness.h"

using namespace test;
using lc::Backend;
using lc::Knn;

namespace {

std::string name_of(const Knn& g) {
    return std::to_string(g.n) + "_of_" + std::to_string(g.m) + "x" + std::to_string(g.d) + "_k" + std::to_string(g.k);
}

// With leave_one_out Q is R itself.
void add_knn(const Knn& g, const std::string& name, const std::function<std::vector<double>(Random&, int64_t)>& rows) {
    Case c{.op = "knn", .name = name_of(g) + (g.leave_one_out ? "_self_" : "_") + name};
    c.make = [=](Random& r) {
        return Operands{out("distance", g.n * g.k), in("R", rows(r, g.m)),
                        in("Q", g.leave_one_out ? std::vector<double>() : rows(r, g.n))};
    };
    c.run = [=](const Backend& b, const Device& d) { b.knn(d[0], g.leave_one_out ? d[1] : d[2], d[1], g, d.stream); };
    c.reference = reference([=](auto& v) { oracle::knn(v[0], v[g.leave_one_out ? 1 : 2], v[1], g); });
    c.compare = Compare::relative;
    c.flops = 3.0 * double(g.n * g.m * g.d);
    add_case(c);
}

void add_knn(const Knn& g, const std::string& values) {
    add_knn(g, values, [=](Random& r, int64_t rows) { return r.fill(rows * g.d, values); });
}

}  // namespace

CASES(knn) {
    // Around 16 references of a panel, 64 queries and references of a step, 8 and 512 features, 4 queries of a group.
    for (auto [n, m, d, k] : {std::array<int64_t, 4>{0, 3, 2, 1},
                              {1, 1, 1, 1},
                              {1, 5, 3, 5},
                              {3, 15, 2, 4},
                              {4, 16, 7, 16},
                              {5, 17, 8, 3},
                              {7, 63, 9, 31},
                              {63, 64, 5, 32},
                              {64, 65, 4, 33},
                              {65, 127, 3, 63},
                              {66, 129, 2, 64},
                              {130, 200, 6, 10},
                              {9, 80, 511, 5},
                              {9, 80, 512, 5},
                              {9, 80, 513, 5},
                              {3, 20, 2048, 4}}) {
        add_knn({.n = n, .m = m, .d = d, .k = k}, "normal");
    }
    for (auto [n, d, k] : {std::array<int64_t, 3>{2, 3, 1}, {17, 4, 16}, {65, 5, 64}, {130, 10, 10}, {64, 1, 3}}) {
        add_knn({.n = n, .m = n, .d = d, .k = k, .leave_one_out = true}, "normal");
    }
    for (const std::string& values : kValueSets) {
        add_knn({.n = 70, .m = 90, .d = 5, .k = 7}, values);
        add_knn({.n = 70, .m = 70, .d = 5, .k = 7, .leave_one_out = true}, values);
    }
    add_knn({.n = 40, .m = 60, .d = 3, .k = 50}, "broken", [](Random& r, int64_t rows) {  // lists that end in NaN
        std::vector<double> x = r.normal(rows * 3);
        for (size_t i = 0; i < x.size(); i += 7) x[i] = NAN;
        return x;
    });
    add_knn({.n = 40, .m = 60, .d = 3, .k = 60}, "infinite", [](Random& r, int64_t rows) {
        std::vector<double> x = r.normal(rows * 3);
        for (size_t i = 0; i < x.size(); i += 11) x[i] = i % 2 == 0 ? INFINITY : -INFINITY;
        return x;
    });
    add_knn({.n = 100, .m = 100, .d = 2, .k = 5, .leave_one_out = true}, "duplicates", [](Random& r, int64_t rows) {
        std::vector<double> x = r.normal(rows * 2);
        std::copy(x.begin(), x.begin() + rows, x.begin() + rows);  // the second half repeats the first
        return x;
    });
    add_knn({.n = 3, .m = 500, .d = 2, .k = 20}, "descending",
            [](Random&, int64_t rows) {  // each one nearer: all enter
                std::vector<double> x;
                for (int64_t i = 0; i < rows; ++i) x.push_back(double(rows - i)), x.push_back(0);
                return x;
            });

    Case c{.op = "knn", .name = "4000_of_4000x50_k10"};
    c.make = [](Random& r) { return Operands{out("distance", 40000), in("R", r.normal(200000))}; };
    c.run = [](const Backend& b, const Device& d) {
        b.knn(d[0], d[1], d[1], {.n = 4000, .m = 4000, .d = 50, .k = 10, .leave_one_out = true}, d.stream);
    };
    c.flops = 3.0 * 4000 * 4000 * 50;
    c.bytes = 4.0 * (200000 + 40000);
    c.bench = c.bench_only = true;
    add_case(c);
}

CASES(knn_refusals) {
    const auto refused = [](const std::string& name, const std::string& says, const Knn& g) {
        add_refusal({"knn", name, says, [=](const Backend& b) { b.knn(nullptr, nullptr, nullptr, g, nullptr); }});
    };
    refused("negative_rows", "N", {.n = -1, .m = 5, .d = 2, .k = 1});
    refused("no_features", "d", {.n = 1, .m = 5, .d = 0, .k = 1});
    refused("too_many_features", "d", {.n = 1, .m = 5, .d = 4097, .k = 1});
    refused("no_neighbours", "k", {.n = 1, .m = 5, .d = 2, .k = 0});
    refused("too_many_neighbours", "k", {.n = 1, .m = 500, .d = 2, .k = 65});
    refused("too_few_references", "lower k", {.n = 1, .m = 5, .d = 2, .k = 6});
    refused("too_few_others", "lower k", {.n = 5, .m = 5, .d = 2, .k = 5, .leave_one_out = true});
    refused("two_sets", "leave_one_out", {.n = 4, .m = 5, .d = 2, .k = 1, .leave_one_out = true});
    refused("null_pointer", "null", {.n = 4, .m = 5, .d = 2, .k = 1});
}

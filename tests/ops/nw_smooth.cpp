// Cases of nw_smooth.h.
#include "tests/oracle/nw_smooth.h"

#include <cmath>

#include "tests/harness.h"

using namespace test;
using lc::Backend;
using oracle::NwShape;

namespace {

using Features = std::function<std::vector<double>(Random&, int64_t rows, int64_t d)>;

struct Setup {
    NwShape s;
    std::string name;
    double gamma = 2;
    bool log_label = true, dgamma = true, same = false;  // same: R is Q itself
    std::function<std::vector<double>(Random&, int64_t rows, int64_t d)> features =
        [](Random& r, int64_t rows, int64_t d) { return r.normal(rows * d); };
    double k = 4;
};

std::string name_of(const Setup& t) {
    const NwShape& s = t.s;
    return std::to_string(s.n) + "x" + std::to_string(s.m) + "x" + std::to_string(s.d) + "_C" + std::to_string(s.C) +
           (s.authors ? "_authors" : "") + (s.leave_one_out ? "_loo" : "") + (s.soft ? "_soft" : "") +
           (s.gamma_per_row ? "_rows" : "") + (t.log_label ? "" : "_nolabel") + (t.name.empty() ? "" : "_" + t.name);
}

double flops_of(const NwShape& s, int64_t walks) { return double(s.n * s.m) * double(3 * s.d * walks + 2 * s.C + 40); }

// Q, R, Y, query labels, gamma: the last five operands of both ops.
Operands inputs(const Setup& t, Random& r) {
    const NwShape& s = t.s;
    const std::vector<double> Q = t.features(r, s.n, s.d);
    const std::vector<double> R = t.same ? Q : t.features(r, s.m, s.d);
    const std::vector<double> gamma =
        r.uniform(s.gamma_per_row ? s.n : 1, t.gamma, s.gamma_per_row ? 2 * t.gamma : t.gamma);
    std::vector<double> Y = r.integers(s.m, 0, s.C - 1);
    for (size_t j = 0; j < Y.size() && s.C > 2; j += 7) Y[j] = 0;  // the last class is rare, some classes are absent
    const std::vector<double> labels = r.integers(t.log_label ? s.n : 0, 0, s.C - 1);
    return {in("Q", Q), in("R", R), s.soft ? in("soft", r.simplex(s.m, s.C)) : in_ints("labels", Y),
            in_ints("query_labels", labels), in("gamma", gamma)};
}

template <class T>
oracle::NwInput<T> oracle_input(const NwShape& s, const Values<T>& v, size_t first) {
    return {s, v[first], v[first + 1], v[first + 2], v[first + 3], v[first + 4]};
}

lc::NwSmooth op_input(const Setup& t, const Device& d, size_t first) {
    const NwShape& s = t.s;
    lc::NwSmooth in{.n = s.n, .m = s.m, .d = s.d, .C = s.C, .Q = d[first], .R = d[t.same ? first : first + 1]};
    in.soft = s.soft ? d[first + 2] : nullptr;
    in.labels = s.soft ? nullptr : d.ints(first + 2);
    in.query_labels = t.log_label ? d.ints(first + 3) : nullptr;
    in.gamma = d[first + 4];
    in.gamma_per_row = s.gamma_per_row;
    in.leave_one_out = s.leave_one_out;
    in.form = s.authors ? lc::NwForm::authors : lc::NwForm::exact;
    return in;
}

void add_forward(const Setup& t) {
    Case c{.op = "nw_smooth", .name = name_of(t)};
    c.make = [=](Random& r) {
        Operands all = {out("theta", t.s.n * t.s.C), out("log_norm", t.s.n), out("log_label", t.log_label ? t.s.n : 0)};
        for (Operand& o : inputs(t, r)) all.push_back(std::move(o));
        return all;
    };
    c.run = [=](const Backend& b, const Device& d) {
        b.nw_smooth({d[0], d[1], t.log_label ? d[2] : nullptr}, op_input(t, d, 3), d.stream);
    };
    c.reference = reference([=](auto& v) { oracle::nw_smooth(v[0], v[1], v[2], oracle_input(t.s, v, 3)); });
    c.k = t.k;
    c.flops = flops_of(t.s, t.s.authors ? 2 : 1);
    add_case(c);
}

// The forward results come from the oracle, the upstream gradients are random.
void add_backward(const Setup& t) {
    const NwShape& s = t.s;
    Case c{.op = "nw_smooth_bwd", .name = name_of(t)};
    const int64_t label_rows = t.log_label ? s.n : 0, gammas = !t.dgamma ? 0 : s.gamma_per_row ? s.n : 1;
    c.make = [=](Random& r) {
        Operands all = {out("dQ", s.n * s.d), out("dR", s.m * s.d), out("dgamma", gammas),
                        in("dtheta", r.normal(s.n * s.C)), in("dlog_label", r.normal(label_rows))};
        const Operands last = inputs(t, r);
        Values<double> v;
        for (const Operand& o : last) v.push_back(o.v);
        std::vector<double> theta(size_t(s.n * s.C)), log_norm(static_cast<size_t>(s.n)),
            log_label(static_cast<size_t>(label_rows));
        oracle::nw_smooth(theta, log_norm, log_label, oracle_input(s, v, 0));
        for (auto* x : {&theta, &log_norm, &log_label}) {
            for (double& value : *x) value = double(float(value));
        }
        all.push_back(in("theta", theta));
        all.push_back(in("log_norm", log_norm));
        all.push_back(in("log_label", log_label));
        all.insert(all.end(), last.begin(), last.end());
        return all;
    };
    c.run = [=](const Backend& b, const Device& d) {
        const lc::NwOutput forward = {d[5], d[6], t.log_label ? d[7] : nullptr};
        b.nw_smooth_bwd({d[0], d[1], t.dgamma ? d[2] : nullptr}, d[3], t.log_label ? d[4] : nullptr, forward,
                        op_input(t, d, 8), d.stream);
    };
    c.reference = reference([=](auto& v) {
        using T = std::decay_t<decltype(v[0][0])>;
        oracle::nw_smooth_bwd(v[0], v[1], v[2], oracle::NwUpstream<T>{v[3], v[4], v[5], v[6], v[7]},
                              oracle_input(t.s, v, 8));
    });
    c.k = gammas == 1 && s.n > 1 ? 50 : 2 * t.k;  // one number: the float32 loops may happen to hit it
    c.flops = 3 * flops_of(s, s.authors ? 2 : 1);
    add_case(c);
}

void add_both(const Setup& t) {
    add_forward(t);
    add_backward(t);
}

// Every kind of call, on a shape.
void add_variants(NwShape s, double gamma) {
    for (bool authors : {false, true}) {
        for (bool soft : {false, true}) {
            for (bool leave_one_out : {false, true}) {
                for (bool rows : {false, true}) {
                    NwShape v = s;
                    v.authors = authors, v.soft = soft, v.leave_one_out = leave_one_out, v.gamma_per_row = rows;
                    if (leave_one_out) v.m = v.n;
                    add_both({.s = v, .name = "", .gamma = gamma, .log_label = rows, .same = leave_one_out && !rows});
                    if (!rows) add_both({.s = v, .name = "", .gamma = gamma, .dgamma = false});
                }
            }
        }
    }
}

// ---- nw_bandwidth ---------------------------------------------------------------------------------------------------

// G bandwidths from `largest` downwards in steps of sqrt 2.
void add_bandwidth(int64_t n, int64_t d, int64_t C, int64_t G, double largest, const std::string& name,
                   const Features& features) {
    Case c{.op = "nw_bandwidth",
           .name = std::to_string(n) + "x" + std::to_string(d) + "_C" + std::to_string(C) + "_G" + std::to_string(G) +
                   "_" + name};
    c.make = [=](Random& r) {
        std::vector<double> gammas;
        for (int64_t g = 0; g < G; ++g) gammas.push_back(double(float(largest * std::pow(2.0, -0.5 * double(g)))));
        return Operands{out("nll", n * G), in("Z", features(r, n, d)), in_ints("labels", r.integers(n, 0, C - 1)),
                        in("gammas", gammas)};
    };
    c.run = [=](const Backend& b, const Device& v) { b.nw_bandwidth(v[0], v[1], v.ints(2), v[3], n, d, G, v.stream); };
    c.reference = reference([=](auto& v) { oracle::nw_bandwidth(v[0], v[1], v[2], v[3], n, d); });
    c.flops = double(n * n) * double(3 * d + 25 * G);
    add_case(c);
}

// ---- features that break kernels ------------------------------------------------------------------------------------

Features of_kind(const std::string& kind) {
    return [=](Random& r, int64_t rows, int64_t d) { return r.fill(rows * d, kind); };
}

// Rows 0 and 1 are equal, so are 2 and 3, ...: leaving one out must keep its duplicate.
std::vector<double> pairs_of_duplicates(Random& r, int64_t rows, int64_t d) {
    std::vector<double> x = r.normal(rows * d);
    for (int64_t i = d; i < rows * d; ++i) {
        if (i / d % 2 == 1) x[size_t(i)] = x[size_t(i - d)];
    }
    return x;
}

// Clouds of diameter 1 around +-1e4: |q|^2 + |r|^2 - 2 q r would have no digit left.
std::vector<double> far_clouds(Random& r, int64_t rows, int64_t d) {
    std::vector<double> x = r.normal(rows * d);
    for (int64_t i = 0; i < rows * d; ++i) x[size_t(i)] = double(float(x[size_t(i)] + (i / d % 2 == 0 ? 1e4 : -1e4)));
    return x;
}

Features with_nan(int64_t row) {
    return [=](Random& r, int64_t rows, int64_t d) {
        std::vector<double> x = r.normal(rows * d);
        if (row < rows) x[size_t(row * d + d / 2)] = NAN;
        return x;
    };
}

void add_values(const std::string& name, double gamma, const Features& features) {
    for (bool authors : {false, true}) {
        for (bool soft : {false, true}) {
            for (bool leave_one_out : {false, true}) {
                const NwShape s = {40, leave_one_out ? 40 : 50, 5, 4, leave_one_out, soft, true, authors};
                const Setup t = {.s = s, .name = name, .gamma = gamma, .same = leave_one_out, .features = features};
                add_forward(t);
                // Backward has P_ij from log_norm, which has no digits behind the point where it is 1e7.
                if (name != "far_apart") add_backward(t);
            }
        }
    }
    add_bandwidth(40, 5, 4, 5, gamma, name, features);
}

}  // namespace

CASES(nw_smooth) {
    // Around the panels (8, 16, 32 queries), chunks (64), blocks of references (192) and register tiles (6, 12).
    const auto sizes = [](NwShape s, const std::string& name, double gamma = 2) {
        s.gamma_per_row = true;
        add_both({.s = s, .name = name, .gamma = gamma});
    };
    for (int64_t n : {1, 2, 7, 15, 16, 17, 33, 63, 64, 65, 130}) sizes({n, 13, 3, 4}, "queries");
    for (int64_t m : {1, 2, 5, 6, 7, 11, 12, 13, 31, 32, 33, 191, 192, 193, 400}) {
        sizes({9, m, 3, 4}, "references");
    }
    for (int64_t d : {1, 2, 3, 7, 8, 9, 15, 16, 17, 31, 33, 50, 64, 129}) {
        sizes({20, 30, d, 3}, "features", std::sqrt(double(d)));
    }
    for (int64_t C : {1, 2, 10, 100, 1000}) sizes({20, 70, 5, C}, "classes");
    sizes({0, 5, 3, 2}, "no_queries");
    sizes({5, 7, 4096, 3}, "many_features", 60);
    sizes({2, 2, 3, 2, true}, "pair");
    add_variants({37, 203, 6, 5}, 1.0);
    add_both({.s = {512, 512, 50, 10, true}, .name = "batch", .gamma = 5, .dgamma = false, .same = true});
}

CASES(nw_values) {
    const std::vector<std::pair<std::string, double>> kinds = {
        {"normal", 1}, {"ties", 1}, {"zeros", 1}, {"one_hot", 0.5}, {"huge", 5e3}, {"shifted", 1}, {"near", 1e-6}};
    for (const auto& [kind, gamma] : kinds) add_values(kind, gamma, of_kind(kind));
    add_values("isolated", 0.02, of_kind("normal"));  // every weight underflows without logarithms
    add_values("far_apart", 1, of_kind("huge"));
    add_values("duplicates", 0.1, pairs_of_duplicates);
    add_values("clouds", 1, far_clouds);
    add_values("nan", 1, with_nan(33));                                                 // in both sets
    add_forward({.s = {60, 50, 3, 4}, .name = "nan_query", .features = with_nan(55)});  // beyond the references
    add_backward({.s = {60, 50, 3, 4, false, false, true}, .name = "nan_query", .features = with_nan(55)});
}

CASES(nw_bandwidth) {
    const Features normal = of_kind("normal");
    for (int64_t n : {2, 3, 16, 17, 63, 64, 65, 191, 193, 400}) add_bandwidth(n, 3, 3, 13, 3, "rows", normal);
    for (int64_t d : {1, 50, 129}) add_bandwidth(30, d, 5, 13, std::sqrt(double(d)), "features", normal);
    for (int64_t G : {1, 2, 64}) add_bandwidth(30, 4, 2, G, 4, "grid", normal);
    add_bandwidth(30, 4, 1, 13, 2, "one_class", normal);
    add_bandwidth(30, 4, 1000, 13, 2, "lonely", normal);  // most rows are the only one of their class
    add_bandwidth(300, 50, 10, 13, 8, "batch", normal);
}

CASES(nw_refusals) {
    static float x[64] = {};
    static const int32_t classes[8] = {};
    const lc::NwSmooth good = {
        .n = 3, .m = 3, .d = 2, .C = 2, .Q = x, .R = x, .labels = classes, .query_labels = classes, .gamma = x + 8};
    const lc::NwOutput output = {x + 16, x + 32, x + 40};
    const auto refuse = [=](const std::string& name, const std::string& says, auto change) {
        lc::NwSmooth bad = good;
        lc::NwOutput o = output;
        change(bad, o);
        add_refusal({"nw_smooth", name, says, [=](const Backend& b) { b.nw_smooth(o, bad, nullptr); }});
        if (says == "log_label" || says == "theta") return;  // not arguments of backward
        add_refusal({"nw_smooth_bwd", name, says, [=](const Backend& b) {
                         b.nw_smooth_bwd({x + 48, x + 56, nullptr}, x + 16, nullptr, o, bad, nullptr);
                     }});
    };
    refuse("negative_n", "n = -1", [](auto& in, auto&) { in.n = -1; });
    refuse("no_references", "m = 0", [](auto& in, auto&) { in.m = 0; });
    refuse("unequal_sets", "n = m", [](auto& in, auto&) { in.leave_one_out = true, in.n = 2; });
    refuse("nobody_left", "m >= 2", [](auto& in, auto&) { in.leave_one_out = true, in.n = in.m = 1; });
    refuse("no_features", "d = 0", [](auto& in, auto&) { in.d = 0; });
    refuse("too_many_features", "d = 4097", [](auto& in, auto&) { in.d = 4097; });
    refuse("no_classes", "C = 0", [](auto& in, auto&) { in.C = 0; });
    refuse("too_many_classes", "C = 1001", [](auto& in, auto&) { in.C = 1001; });
    refuse("no_labels", "found none", [](auto& in, auto&) { in.labels = nullptr; });
    refuse("two_labels", "found both", [](auto& in, auto&) { in.soft = x; });
    refuse("no_gamma", "gamma", [](auto& in, auto&) { in.gamma = nullptr; });
    refuse("strange_form", "form", [](auto& in, auto&) { in.form = lc::NwForm(7); });
    refuse("no_query_labels", "log_label", [](auto& in, auto&) { in.query_labels = nullptr; });
    refuse("no_theta", "theta", [](auto&, auto& o) { o.theta = nullptr; });
    refuse("theta_over_features", "theta", [](auto&, auto& o) { o.theta = x + 1; });
    add_refusal(
        {"nw_smooth_bwd", "no_log_label", "dlog_label", [=](const Backend& b) {
             b.nw_smooth_bwd({x + 48, x + 56, nullptr}, x + 16, x + 24, {x + 32, x + 40, nullptr}, good, nullptr);
         }});
    add_refusal(
        {"nw_smooth_bwd", "one_gradient", "dQ overlaps dR", [=](const Backend& b) {
             b.nw_smooth_bwd({x + 48, x + 48, nullptr}, x + 16, nullptr, {x + 32, x + 40, nullptr}, good, nullptr);
         }});
    const auto refuse_grid = [=](const std::string& name, const std::string& says, int64_t n, int64_t d, int64_t G) {
        add_refusal({"nw_bandwidth", name, says,
                     [=](const Backend& b) { b.nw_bandwidth(x + 32, x, classes, x + 16, n, d, G, nullptr); }});
    };
    refuse_grid("one_row", "n = 1", 1, 2, 2);
    refuse_grid("no_grid", "G = 0", 2, 2, 0);
    refuse_grid("large_grid", "G = 65", 2, 2, 65);
    refuse_grid("no_features", "d = 0", 2, 0, 1);
    refuse_grid("overlap", "nll overlaps", 8, 8, 2);
}

// x = Q, R, gamma against y = theta, log_label.
CASES(nw_gradient) {
    for (bool authors : {false, true}) {
        for (bool soft : {false, true}) {
            for (bool leave_one_out : {false, true}) {
                const NwShape s = {4, leave_one_out ? 4 : 5, 2, 3, leave_one_out, soft, leave_one_out, authors};
                Random r(7);
                const size_t nQ = size_t(s.n * s.d), nR = size_t(s.m * s.d), nG = size_t(s.gamma_per_row ? s.n : 1);
                const std::vector<double> Y = soft ? r.simplex(s.m, s.C) : r.integers(s.m, 0, s.C - 1);
                const std::vector<double> labels = {0, 1, 2, 1}, x = r.uniform(int64_t(nQ + nR + nG), 0.5, 1.5);
                const auto parts = [=](const std::vector<double>& v) {
                    const auto at = [&](size_t k) { return v.begin() + int64_t(k); };
                    return Values<double>{{at(0), at(nQ)}, {at(nQ), at(nQ + nR)}, Y, labels, {at(nQ + nR), v.end()}};
                };
                const auto outputs = [=](const Values<double>& v) {
                    Values<double> y = {std::vector<double>(size_t(s.n * s.C)), std::vector<double>(4),
                                        std::vector<double>(4)};
                    oracle::nw_smooth(y[0], y[1], y[2], oracle_input(s, v, 0));
                    return y;
                };
                const auto forward = [=](const std::vector<double>& v) {
                    Values<double> y = outputs(parts(v));
                    for (double& l : y[2]) y[0].push_back(std::isinf(l) ? 0 : l);
                    return y[0];
                };
                const auto backward = [=](const std::vector<double>& v, const std::vector<double>& dy) {
                    const Values<double> p = parts(v), y = outputs(p);
                    const std::vector<double> dtheta(dy.begin(), dy.begin() + s.n * s.C),
                        dlog(dy.begin() + s.n * s.C, dy.end());
                    std::vector<double> dQ(nQ), dR(nR), dgamma(nG);
                    oracle::nw_smooth_bwd(dQ, dR, dgamma, oracle::NwUpstream<double>{dtheta, dlog, y[0], y[1], y[2]},
                                          oracle_input(s, p, 0));
                    dQ.insert(dQ.end(), dR.begin(), dR.end());
                    dQ.insert(dQ.end(), dgamma.begin(), dgamma.end());
                    return dQ;
                };
                const std::string name =
                    std::string(authors ? "authors" : "exact") + (soft ? "_soft" : "") + (leave_one_out ? "_loo" : "");
                add_gradient({"nw_smooth", name, x, r.normal(s.n * s.C + s.n), forward, backward});
            }
        }
    }
}

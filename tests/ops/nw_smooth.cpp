// Cases of nw_smooth.h: nw_smooth and nw_smooth_bwd.
#include "tests/oracle/nw_smooth.h"

#include <cmath>

#include "tests/harness.h"

using namespace test;
using lc::Backend;
using oracle::NwShape;

namespace {

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
    c.k = gammas == 1 && s.n > 1 ? 50 : t.k;  // one number: the float32 loops may happen to hit it
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

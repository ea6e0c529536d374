// Cases of local_error.h.
#include "tests/oracle/local_error.h"

#include <cmath>

#include "tests/harness.h"

using namespace test;
using lc::Backend;
using oracle::LocalShape;

namespace {

using Features = std::function<std::vector<double>(Random&, int64_t rows, int64_t d)>;
using Bins = std::function<std::vector<double>(Random&, int64_t rows, int64_t C)>;

std::vector<double> normal_features(Random& r, int64_t rows, int64_t d) { return r.normal(rows * d); }

// ---- bins -----------------------------------------------------------------------------------------------------------

// As with many classes: almost everything in bin 0, some in others, some left out.
std::vector<double> most_in_one(Random& r, int64_t rows, int64_t C) {
    std::vector<double> bins = r.integers(rows * C, -8, 22);
    for (double& b : bins) b = b < -5 ? -1 : b > 14 || b < 0 ? 0 : b;
    return bins;
}
std::vector<double> one_bin(Random&, int64_t rows, int64_t C) { return std::vector<double>(size_t(rows * C), 3.0); }
std::vector<double> all_left_out(Random&, int64_t rows, int64_t C) { return std::vector<double>(size_t(rows * C), -1); }
std::vector<double> all_different(Random&, int64_t rows, int64_t C) {
    std::vector<double> bins;
    for (int64_t e = 0; e < rows * C; ++e) bins.push_back(double(e / C));
    bins[0] = lc::kMostBins - 1;
    return bins;
}
std::vector<double> four_bins(Random&, int64_t rows, int64_t C) {
    std::vector<double> bins;
    for (int64_t e = 0; e < rows * C; ++e) bins.push_back(double(e / C % 4));
    return bins;
}

// ---- progress -------------------------------------------------------------------------------------------------------

// From 0 to 1, never back.
struct Listener {
    bool listens;
    std::vector<double> fractions = {};

    lc::Progress callback() {
        if (!listens) return {};
        return [this](double fraction, std::string_view) { fractions.push_back(fraction); };
    }
    void check() const {
        if (!listens) return;
        LC_CHECK(fractions.size() >= 2 && fractions.front() == 0 && fractions.back() == 1,
                 "progress goes from 0 to 1; found " << fractions.size() << " reports");
        for (size_t i = 1; i < fractions.size(); ++i) {
            LC_CHECK(fractions[i] >= fractions[i - 1], "progress went back to " << fractions[i]);
        }
    }
};

// ---- one case of either op ------------------------------------------------------------------------------------------

struct Setup {
    LocalShape s;
    std::string name;
    double gamma = 1;
    int64_t B = 5;  // sets of labels, for local_error_null
    Bins bins = most_in_one;
    Features features = normal_features;
    bool weight = true, n_eff = true, listens = false;
    size_t nan_Z = SIZE_MAX, nan_residual = SIZE_MAX;  // elements that are no numbers
};

std::string name_of(const Setup& t) {
    const LocalShape& s = t.s;
    return std::to_string(s.n) + "x" + std::to_string(s.d) + "_C" + std::to_string(s.C) +
           (s.G > 1 ? "_G" + std::to_string(s.G) : "") + (s.m > 0 ? "_m" + std::to_string(s.m) : "") +
           (s.include_self ? "" : "_others") + (t.name.empty() ? "" : "_" + t.name);
}

// Z, residual, bin, gammas, phi: the operands that both ops have.  The null has probabilities for residuals.
Operands inputs(const Setup& t, Random& r, bool null) {
    const LocalShape& s = t.s;
    std::vector<double> Z = t.features(r, s.n, s.d), gammas;
    std::vector<double> residual = null ? r.simplex(s.n, s.C) : r.uniform(s.n * s.C, -1, 1);
    for (int64_t g = 0; g < s.G; ++g) gammas.push_back(double(float(t.gamma * std::pow(1.7, double(g)))));
    if (t.nan_Z < Z.size()) Z[t.nan_Z] = NAN;
    if (t.nan_residual < residual.size()) residual[t.nan_residual] = NAN;
    return {in("Z", Z), in("residual", residual), in_ints("bin", t.bins(r, s.n, s.C)), in("gammas", gammas),
            in("phi", r.uniform(s.n * s.m, 0, 1))};
}

lc::LocalError op_input(const LocalShape& s, const Device& d, size_t first) {
    return {.n = s.n,
            .d = s.d,
            .C = s.C,
            .G = s.G,
            .Z = d[first],
            .residual = d[first + 1],
            .bin = d.ints(first + 2),
            .gammas = d[first + 3],
            .include_self = s.include_self,
            .phi = s.m > 0 ? d[first + 4] : nullptr,
            .m = s.m};
}

template <class T>
oracle::LocalInput<T> oracle_input(const LocalShape& s, const Values<T>& v, size_t first) {
    return {s, v[first], v[first + 1], v[first + 2], v[first + 3], v[first + 4]};
}

double flops_of(const LocalShape& s) { return double(s.n * s.n) * double(3 * s.d + 3 * s.m + s.G * (3 * s.C + 10)); }

void append(Operands& all, Operands more) {
    for (Operand& o : more) all.push_back(std::move(o));
}

void add_values(const Setup& t, int64_t offset = 0) {
    const LocalShape& s = t.s;
    const int64_t entries = s.G * s.n * s.C;
    Case c{.op = "local_error", .name = name_of(t) + (offset > 0 ? "_offset" : "")};
    c.make = [=](Random& r) {
        Operands all = {out("error", entries), out("weight", t.weight ? entries : 0),
                        out("n_eff", t.n_eff ? entries : 0), out("spread", s.m > 0 ? entries : 0)};
        append(all, inputs(t, r, false));
        return all;
    };
    c.run = [=](const Backend& b, const Device& d) {
        const lc::LocalErrorOutput o = {d[0], t.weight ? d[1] : nullptr, t.n_eff ? d[2] : nullptr,
                                        s.m > 0 ? d[3] : nullptr};
        Listener listener{t.listens};
        b.local_error(o, op_input(s, d, 4), listener.callback(), d.stream);
        listener.check();
    };
    c.reference = reference([=](auto& v) {
        using T = std::decay_t<decltype(v[0][0])>;
        oracle::local_error(oracle::LocalOutput<T>{v[0], v[1], v[2], v[3]}, oracle_input(s, v, 4));
    });
    c.offset = offset;
    c.flops = flops_of(s);
    add_case(c);
}

void add_null(const Setup& t) {
    const LocalShape& s = t.s;
    Case c{.op = "local_error_null", .name = name_of(t) + "_B" + std::to_string(t.B)};
    c.make = [=](Random& r) {
        Operands all = {out("total", t.B * s.C), out("largest", t.B * s.C), out("row_most", t.B)};
        append(all, inputs(t, r, true));
        all.push_back(in_ints("labels", r.integers(t.B * s.n, -1, s.C)));  // -1 and C are nobody's
        return all;
    };
    c.run = [=](const Backend& b, const Device& d) {
        Listener listener{t.listens};
        b.local_error_null({d[0], d[1], d[2]}, op_input(s, d, 3), d.ints(8), t.B, listener.callback(), d.stream);
        listener.check();
    };
    c.reference = reference([=](auto& v) {
        using T = std::decay_t<decltype(v[0][0])>;
        oracle::local_error_null(oracle::LocalNull<T>{v[0], v[1], v[2]}, oracle_input(s, v, 3), v[8]);
    });
    c.k = 16;  // few numbers: the float32 loops may happen to hit them
    c.flops = flops_of(s) + double(s.n * s.n * t.B) * 4;
    add_case(c);
}

void add_both(const Setup& t) {
    add_values(t);
    if (t.s.G == 1) add_null(t);
}

// ---- features that break kernels ------------------------------------------------------------------------------------

Features of_kind(const std::string& kind) {
    return [=](Random& r, int64_t rows, int64_t d) { return r.fill(rows * d, kind); };
}

// Rows 0 and 1 are equal, so are 2 and 3, ...: leaving a row out must keep its duplicate.
std::vector<double> pairs_of_duplicates(Random& r, int64_t rows, int64_t d) {
    std::vector<double> x = r.normal(rows * d);
    for (int64_t i = d; i < rows * d; ++i) {
        if (i / d % 2 == 1) x[size_t(i)] = x[size_t(i - d)];
    }
    return x;
}

// Rows 4 q .. 4 q + 3 in one place; from place to place it is 5 gammas, 5.5, 5.5, 5, ...: with four_bins and without
// itself, a row has a weight of 4e-6 or of 5e-7, on either side of the limit.
std::vector<double> fading(Random&, int64_t rows, int64_t d) {
    std::vector<double> x;
    double place = 0;
    for (int64_t i = 0; i < rows; ++i) {
        if (i > 0 && i % 4 == 0) place += i / 4 % 3 == 1 ? 5 : 5.5;
        for (int64_t k = 0; k < d; ++k) x.push_back(k == 0 ? place : 0);
    }
    return x;
}

void add_kinds(const std::string& name, double gamma, const Features& features, const Bins& bins = most_in_one) {
    for (bool include_self : {true, false}) {
        const LocalShape s = {33, 5, 6, 1, include_self};
        add_both({.s = s, .name = name, .gamma = gamma, .bins = bins, .features = features});
    }
}

// ---- a NaN ----------------------------------------------------------------------------------------------------------

// The contract lets a NaN spoil more than the entries that would have used it, never less: what `want` has lost, the op
// must have lost too, and what the op still has must be right.
void check_spoilt(const std::string& what, const std::vector<float>& got, const std::vector<double>& want) {
    for (size_t i = 0; i < want.size(); ++i) {
        if (std::isnan(got[i])) continue;
        LC_CHECK(std::fabs(double(got[i]) - want[i]) <= 1e-4 * (1 + std::fabs(want[i])),
                 what << "[" << i << "]: got " << got[i] << ", want " << want[i]);
    }
}

std::vector<float> to_host(const Backend& b, const lc::Buffer<float>& x, lc::Stream s) {
    std::vector<float> host(static_cast<size_t>(x.size()));
    b.copy(host.data(), x.data(), x.bytes(), lc::Copy::to_host, s);
    b.sync(s);
    return host;
}

void add_nan(const Setup& t) {
    const LocalShape& s = t.s;
    const auto values = [=](Random r, bool null) {
        Values<double> v;
        for (const Operand& o : inputs(t, r, null)) v.push_back(o.v);
        return v;
    };
    Case c{.op = "local_error", .name = name_of(t)};
    c.make = [=](Random& r) { return inputs(t, r, false); };
    c.run = [=](const Backend& b, const Device& d) {
        const int64_t entries = s.n * s.C;
        lc::Buffer<float> got[4];
        std::vector<double> want[4];
        for (int o = 0; o < 4; ++o) got[o] = lc::Buffer<float>(b, entries), want[o].resize(size_t(entries));
        b.local_error({got[0].data(), got[1].data(), got[2].data(), got[3].data()}, op_input(s, d, 0), {}, d.stream);
        oracle::local_error(oracle::LocalOutput<double>{want[0], want[1], want[2], want[3]},
                            oracle_input(s, values(Random(seed()), false), 0));
        const char* const names[] = {"error", "weight", "n_eff", "spread"};
        for (int o = 0; o < 4; ++o) check_spoilt(names[o], to_host(b, got[o], d.stream), want[o]);
    };
    c.reference = reference([](auto&) {});
    c.flops = flops_of(s);
    add_case(c);

    c.op = "local_error_null";
    c.make = [=](Random& r) {
        Operands all = inputs(t, r, true);
        all.push_back(in_ints("labels", std::vector<double>(size_t(t.B * s.n), 1)));
        return all;
    };
    c.run = [=](const Backend& b, const Device& d) {
        const std::vector<double> labels(size_t(t.B * s.n), 1);
        const int64_t sizes[] = {t.B * s.C, t.B * s.C, t.B};
        lc::Buffer<float> got[3];
        std::vector<double> want[3];
        for (int o = 0; o < 3; ++o) got[o] = lc::Buffer<float>(b, sizes[o]), want[o].resize(size_t(sizes[o]));
        b.local_error_null({got[0].data(), got[1].data(), got[2].data()}, op_input(s, d, 0), d.ints(5), t.B, {},
                           d.stream);
        oracle::local_error_null(oracle::LocalNull<double>{want[0], want[1], want[2]},
                                 oracle_input(s, values(Random(seed()), true), 0), labels);
        const char* const names[] = {"total", "largest", "row_most"};
        for (int o = 0; o < 3; ++o) check_spoilt(names[o], to_host(b, got[o], d.stream), want[o]);
    };
    add_case(c);
}

}  // namespace

CASES(local_error) {
    // Around the panels (16 queries), tiles and chunks (64), blocks of rows (192).
    for (int64_t n : {1, 2, 15, 16, 17, 63, 64, 65, 191, 192, 193}) {
        add_values({.s = {n, 2, 3, n < 100 ? 3 : 1, n % 2 == 0, 2}, .name = "rows"});
    }
    for (int64_t n : {1, 2, 17, 64, 65, 193}) add_null({.s = {n, 2, 3, 1, n % 2 == 1}, .name = "rows", .B = 3});
    add_values({.s = {385, 1, 1}, .name = "rows"});
    for (int64_t d : {1, 3, 15, 16, 17, 50}) {
        add_both({.s = {20, d, 3}, .name = "features", .gamma = std::sqrt(double(d))});
    }
    add_both({.s = {20, 4096, 3}, .name = "features", .gamma = 60});
    for (int64_t C : {1, 2, 4, 10, 15, 16, 17, 40, 63, 64, 65, 101, 1000}) {
        add_both({.s = {C < 1000 ? 20 : 40, 3, C}, .name = "classes", .B = C < 100 ? 3 : 1});
    }
    add_both({.s = {66, 2, 64}, .name = "listener", .B = 1, .listens = true});
    for (int64_t m : {1, 3, 16, 17, 101}) add_values({.s = {20, 2, 4, 1, true, m}, .name = "spread"});
    add_values({.s = {5, 2, 2, 1, true, 513}, .name = "spread"});
    for (int64_t G : {2, 13, 64}) add_values({.s = {20, 2, 5, G}, .name = "grid", .gamma = 0.1});
    for (bool weight : {false, true}) {
        for (bool n_eff : {false, true}) {
            for (int64_t m : {0, 3}) {
                const LocalShape s = {66, 3, 18, 1, true, m};
                add_values({.s = s, .name = weight ? "weight" : "alone", .weight = weight, .n_eff = n_eff});
            }
        }
    }
    add_values({.s = {66, 6, 5, 2, false, 3}, .name = "moved"}, 1);
}

CASES(local_error_bins) {
    for (bool include_self : {true, false}) {
        const LocalShape s = {include_self ? 66 : 20, 3, 5, 1, include_self};
        add_both({.s = s, .name = "one_bin", .bins = one_bin});
        add_both({.s = s, .name = "all_different", .bins = all_different});
        add_both({.s = s, .name = "left_out", .bins = all_left_out});
        add_both({.s = s, .name = "four_bins", .bins = four_bins});
    }
}

CASES(local_error_sets) {
    for (int64_t B : {1, 2, 3, 4, 7, 8, 9, 31, 32, 33, 65}) add_null({.s = {20, 2, 3}, .name = "sets", .B = B});
    add_null({.s = {20, 2, 40}, .name = "sets", .B = 9});
    add_null({.s = {66, 2, 3, 1, false}, .name = "sets", .B = 33});
}

CASES(local_error_values) {
    const std::vector<std::pair<std::string, double>> kinds = {
        {"normal", 1}, {"ties", 1}, {"zeros", 1}, {"one_hot", 0.5}, {"huge", 5e3}, {"shifted", 1}, {"near", 1e-6}};
    for (const auto& [kind, gamma] : kinds) add_kinds(kind, gamma, of_kind(kind));
    add_kinds("isolated", 0.02, of_kind("normal"));  // nearly every weight underflows
    add_kinds("duplicates", 0.02, pairs_of_duplicates);
    add_kinds("fading", 1, fading, four_bins);
    for (double gamma : {1e-30, 1e-15, 1e15, 1e30}) {
        add_kinds("gamma" + std::to_string(int(std::log10(gamma))), gamma, pairs_of_duplicates);
    }
}

CASES(local_error_nan) {
    for (bool include_self : {true, false}) {
        const LocalShape s = {70, 3, 6, 1, include_self, 2};
        add_nan({.s = s, .name = "nan_Z", .nan_Z = 66 * 3 + 1});
        add_nan({.s = s, .name = "nan_residual", .nan_residual = 5 * 6 + 1});
        add_nan({.s = s, .name = "nan_both", .bins = four_bins, .nan_Z = 1, .nan_residual = 66 * 6 + 1});
    }
}

CASES(local_error_refusals) {
    static float x[64] = {};
    static const int32_t ints[16] = {};
    const lc::LocalError good = {
        .n = 3, .d = 2, .C = 2, .Z = x, .residual = x + 8, .bin = ints, .gammas = x + 16, .phi = x + 17, .m = 1};
    const lc::LocalErrorOutput output = {x + 24, x + 32, x + 40, x + 48};
    const lc::LocalErrorNull null = {x + 24, x + 32, x + 40};
    const auto refuse = [=](const std::string& name, const std::string& says, auto change) {  // both ops
        lc::LocalError bad = good;
        change(bad);
        add_refusal({"local_error", name, says, [=](const Backend& b) { b.local_error(output, bad, {}, nullptr); }});
        add_refusal({"local_error_null", name, says,
                     [=](const Backend& b) { b.local_error_null(null, bad, ints + 8, 2, {}, nullptr); }});
    };
    refuse("no_rows", "n = 0", [](auto& in) { in.n = 0; });
    refuse("no_features", "d = 0", [](auto& in) { in.d = 0; });
    refuse("too_many_features", "d = 4097", [](auto& in) { in.d = 4097; });
    refuse("no_classes", "C = 0", [](auto& in) { in.C = 0; });
    refuse("too_many_classes", "C = 1001", [](auto& in) { in.C = 1001; });
    refuse("no_bandwidths", "G = 0", [](auto& in) { in.G = 0; });
    refuse("too_many_bandwidths", "G = 65", [](auto& in) { in.G = 65; });
    refuse("no_Z", "Z needs", [](auto& in) { in.Z = nullptr; });
    refuse("no_residual", "residual needs", [](auto& in) { in.residual = nullptr; });
    refuse("no_bin", "bin needs", [](auto& in) { in.bin = nullptr; });
    refuse("no_gammas", "gammas needs", [](auto& in) { in.gammas = nullptr; });
    refuse("output_over_Z", "overlaps Z", [](auto& in) { in.Z = x + 23; });
    refuse("output_over_residual", "overlaps residual", [](auto& in) { in.residual = x + 26; });
    refuse("output_over_gammas", "overlaps gammas", [](auto& in) { in.gammas = x + 25; });
    const auto refuse_output = [=](const std::string& name, const std::string& says, auto change) {
        lc::LocalError bad = good;
        lc::LocalErrorOutput o = output;
        change(bad, o);
        add_refusal({"local_error", name, says, [=](const Backend& b) { b.local_error(o, bad, {}, nullptr); }});
    };
    refuse_output("no_error", "error needs", [](auto&, auto& o) { o.error = nullptr; });
    refuse_output("no_phi", "spread needs phi", [](auto& in, auto&) { in.phi = nullptr; });
    refuse_output("no_columns_of_phi", "m = 0", [](auto& in, auto&) { in.m = 0; });
    refuse_output("too_many_columns_of_phi", "m = 4097", [](auto& in, auto&) { in.m = 4097; });
    refuse_output("output_over_phi", "spread overlaps phi", [](auto& in, auto&) { in.phi = x + 50; });
    refuse_output("one_output", "error overlaps n_eff", [](auto&, auto& o) { o.n_eff = o.error + 1; });
    const auto refuse_null = [=](const std::string& name, const std::string& says, auto change) {
        lc::LocalError bad = good;
        lc::LocalErrorNull o = null;
        const int32_t* labels = ints + 8;
        int64_t B = 2;
        change(bad, o, labels, B);
        add_refusal({"local_error_null", name, says,
                     [=](const Backend& b) { b.local_error_null(o, bad, labels, B, {}, nullptr); }});
    };
    refuse_null("no_sets", "B = 0", [](auto&, auto&, auto&, int64_t& B) { B = 0; });
    refuse_null("two_bandwidths", "G = 2", [](auto& in, auto&, auto&, auto&) { in.G = 2; });
    refuse_null("no_labels", "labels needs", [](auto&, auto&, auto& labels, auto&) { labels = nullptr; });
    refuse_null("no_total", "total needs", [](auto&, auto& o, auto&, auto&) { o.total = nullptr; });
    refuse_null("one_output", "total overlaps largest", [](auto&, auto& o, auto&, auto&) { o.largest = o.total; });
}

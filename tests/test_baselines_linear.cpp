// NC, TS, VS, MS and DC: numbers computed elsewhere, what must hold for any data, and data that break careless code.
#include <algorithm>
#include <cfloat>
#include <cmath>
#include <omp.h>

#include "calib/linear_logits.h"
#include "calib/methods.h"
#include "calib/odir_search.h"
#include "calib/temperature.h"
#include "kernels/random.h"
#include "metrics/ecce.h"
#include "metrics/ece.h"
#include "metrics/proper.h"
#include "tests/long.h"
#include "tests/real_data.h"

namespace {

using lc::Prediction;
using lc::Samples;
using Options = std::map<std::string, std::string>;

const lc::Context kQuiet = {.backend = lc::find_backend("cpu")};

std::unique_ptr<lc::Calibrator> fitted(const std::string& method, const Samples& s, const Options& options = {}) {
    auto c = lc::make_calibrator(method, options);
    c->fit(s, kQuiet);
    return c;
}

double number(const lc::Calibrator& c, const std::string& name) {
    for (const lc::Finding& f : c.findings()) {
        if (f.name == name) return f.number;
    }
    ADD_FAILURE() << c.method() << " found no " << name;
    return NAN;
}
std::string text(const lc::Calibrator& c, const std::string& name) {
    for (const lc::Finding& f : c.findings()) {
        if (f.name == name) return f.text;
    }
    return "";
}

lc::Predictions predictions(const lc::Calibrator& c, const Samples& s) {
    const Prediction p = c.predict(s, kQuiet);
    lc::Predictions scored = lc::predictions_from_probs(p.probs.data(), s.labels, s.n, s.C);
    scored.log_p = p.log_probs;
    return scored;
}
double nll(const lc::Calibrator& c, const Samples& s) { return lc::nll(predictions(c, s), lc::NllMode::logits).value; }

// ---- numbers computed elsewhere -------------------------------------------------------------------------------------

class BaselinesReference : public test::RealData {};

constexpr int64_t kSplit = 5000;

struct RecordRows {  // probabilities as they are, and their logarithms
    test::Record r;
    std::vector<double> probs;
    std::vector<float> logits;

    explicit RecordRows(test::Record record) : r(std::move(record)), probs(r.probs.begin(), r.probs.end()) {
        for (float p : r.probs) logits.push_back(std::log(std::max(p, FLT_MIN)));
    }
    Samples rows(int64_t begin, int64_t end) const {
        return Samples{r.n, 0, r.C, nullptr, logits.data(), r.labels.data(), probs.data()}.rows(begin, end);
    }
    Samples cal() const { return rows(0, kSplit); }
    Samples test() const { return rows(kSplit, r.n); }
};

struct Row {
    double acc, nll, ece_top, ece, ecce, ecce_r;
};
void expect_row(const lc::Calibrator& c, const Samples& s, const Row& want) {
    const lc::Predictions p = predictions(c, s);
    const lc::BinTable t = tabulate(p, assign_bins_by_class(p, {}), 15);
    const std::vector<double> pi = lc::uniform_weights(s.C);
    EXPECT_NEAR(acc(p), want.acc, 1e-12) << c.method();
    EXPECT_NEAR(lc::nll(p, lc::NllMode::authors).value, want.nll, 1e-6) << c.method();
    EXPECT_NEAR(ece_top(p), want.ece_top, 1e-6) << c.method();
    EXPECT_NEAR(ece(t, pi), want.ece, 1e-6) << c.method();
    EXPECT_NEAR(ecce(t, pi, lc::EcceMode::authors), want.ecce, 1e-6) << c.method();
    EXPECT_NEAR(cumulative_error(top_label(p)).range, want.ecce_r, 1e-6) << c.method();
}

TEST_F(BaselinesReference, wideresnet_nc_and_ts) {
    const RecordRows r(record("wideresnet-16-4-cifar-10"));
    expect_row(*fitted("nc", r.cal()), r.test(), {.9112, .37370871, .05517313, .01261470, .00554232, .05517313});
    const auto ts = fitted("ts", r.cal());
    EXPECT_NEAR(number(*ts, "temperature"), 2.0592242160, 1e-8);
    expect_row(*ts, r.test(), {.9112, .27042202, .00691790, .00973423, .00556504, .00438899});
}

TEST_F(BaselinesReference, densenet_nc_and_ts) {
    const RecordRows r(record("densenet-bc-100-cifar-100"));
    expect_row(*fitted("nc", r.cal()), r.test(), {.7538, 1.21156347, .14472724, .00374711, .00128490, .14449940});
    const auto ts = fitted("ts", r.cal());
    EXPECT_NEAR(number(*ts, "temperature"), 2.1208989168, 1e-8);
    expect_row(*ts, r.test(), {.7538, .86655200, .01373784, .00247894, .00074694, .00846210});
}

TEST_F(BaselinesReference, wideresnet_dc_with_given_penalties) {
    const RecordRows r(record("wideresnet-16-4-cifar-10"));
    const auto none = fitted("dc", r.cal(), {{"lambda", "0"}});
    EXPECT_NEAR(number(*none, "objective"), .2304232939, 1e-8);
    EXPECT_NE(text(*none, "ended").find("converged"), std::string::npos) << text(*none, "ended");
    expect_row(*none, r.test(), {.9226, .23136175, .00779363, .00435789, .00119038, .00388314});
    // Plain sums with .01 are ours with .01 C (C - 1) and .01 C.
    const auto some = fitted("dc", r.cal(), {{"lambda", "0.9"}, {"mu", "0.1"}});
    EXPECT_NEAR(number(*some, "objective"), .2349659823, 1e-8);
    expect_row(*some, r.test(), {.9244, .23089578, .01081903, .00470363, .00099655, .00498264});
}

TEST_F(BaselinesReference, authors_solvers_end_where_the_published_ones_do) {
    LC_LONG_TEST();
    const RecordRows r(record("wideresnet-16-4-cifar-10"));
    const auto ts = fitted("ts:authors", r.cal());
    EXPECT_NEAR(number(*ts, "temperature"), 1.9559265, 1e-4);
    EXPECT_NEAR(lc::nll(predictions(*ts, r.test()), lc::NllMode::authors).value, .27087211, 1e-4);
    const auto dc = fitted("dc:authors", r.cal());
    EXPECT_NEAR(lc::nll(predictions(*dc, r.test()), lc::NllMode::authors).value, .23144834, 1e-4);
}

TEST_F(BaselinesReference, temperatures_of_the_dumps) {
    const auto expect = [](const test::Dump& d, double T, double nll_nc, double nll_ts) {
        const auto ts = fitted("ts", d.rows(0, 5000));
        EXPECT_NEAR(number(*ts, "temperature"), T, 1e-8);
        EXPECT_NEAR(nll(*ts, d.rows(5000, 10000)), nll_ts, 1e-6);
        EXPECT_NEAR(nll(*fitted("nc", d.rows(0, 5000)), d.rows(5000, 10000)), nll_nc, 1e-6);
    };
    expect(dump("cifar10_resnet20"), 2.3858945711, .34497533, .23591019);
    expect(dump("cifar100_resnet56"), 1.7387417187, 1.30110846, 1.04620308);
}

TEST_F(BaselinesReference, dc_and_ms_with_their_search_beat_temperature_on_ten_classes) {
    LC_LONG_TEST();
    const RecordRows r(record("wideresnet-16-4-cifar-10"));
    const double ts = nll(*fitted("ts", r.cal()), r.test());
    for (const char* method : {"vs", "ms", "dc"})
        EXPECT_LT(nll(*fitted(method, r.cal()), r.test()), ts - .01) << method;
}

// ---- what must hold for any data ------------------------------------------------------------------------------------

// Labels drawn from softmax(g / 2 + shift of the class): what VS can mend and TS cannot.
struct Drawn {
    int64_t n, C;
    std::vector<float> logits;
    std::vector<int32_t> labels;

    Drawn(int64_t rows, int64_t classes, uint64_t seed = 1) : n(rows), C(classes) {
        logits = lc::random_normal({seed, 1}, n * C, 0, 3);
        for (int64_t i = 0; i < n; ++i) {
            const float* const g = logits.data() + i * C;
            std::vector<double> sums = {0};
            for (int64_t c = 0; c < C; ++c)
                sums.push_back(sums.back() + std::exp(double(g[c]) / 2 + double(c % 3) / 2));
            const double u = lc::random_unit({seed, 2}, uint64_t(i)) * sums.back();
            labels.push_back(int32_t(std::upper_bound(sums.begin() + 1, sums.end() - 1, u) - sums.begin() - 1));
        }
    }
    Samples samples() const { return {n, 0, C, nullptr, logits.data(), labels.data()}; }
};

class LinearBaseline : public testing::TestWithParam<const char*> {};

void expect_distributions(const Prediction& p) {
    for (int64_t i = 0; i < p.n; ++i) {
        double sum = 0;
        for (int64_t c = 0; c < p.C; ++c) {
            const double v = p.probs[size_t(i * p.C + c)], l = p.log_probs[size_t(i * p.C + c)];
            ASSERT_TRUE(v >= 0 && v <= 1 && std::isfinite(l) && l <= 0) << "row " << i << ": " << v << ", " << l;
            ASSERT_NEAR(double(v), std::exp(double(l)), 1e-6);
            sum += double(v);
        }
        ASSERT_NEAR(sum, 1, 1e-5) << "row " << i;
    }
}

void expect_no_worse_than_nc(const lc::Calibrator& c, const Samples& s) {
    if (c.method() == "ts:authors") return;  // it starts at 1.5 and need not come back
    EXPECT_LE(nll(c, s), nll(*fitted("nc", s), s) + 1e-6);
}

TEST_P(LinearBaseline, gives_distributions) {
    const Drawn cal(300, 4), test(100, 4, 2);
    const auto c = fitted(GetParam(), cal.samples());
    EXPECT_EQ(c->features_expected(), 0);
    EXPECT_EQ(c->classes_expected(), 4);
    expect_distributions(c->predict(test.samples(), kQuiet));
}

TEST_P(LinearBaseline, does_not_see_the_order_of_the_rows) {
    const Drawn cal(200, 3), test(50, 3, 2);
    Drawn other = cal;
    const std::vector<int64_t> order = lc::random_permutation({7, 7}, cal.n);
    for (int64_t i = 0; i < cal.n; ++i) {
        const int64_t from = order[size_t(i)];
        std::copy_n(&cal.logits[size_t(from * 3)], 3, &other.logits[size_t(i * 3)]);
        other.labels[size_t(i)] = cal.labels[size_t(from)];
    }
    EXPECT_EQ(fitted(GetParam(), cal.samples())->predict(test.samples(), kQuiet).log_probs,
              fitted(GetParam(), other.samples())->predict(test.samples(), kQuiet).log_probs);
}

TEST_P(LinearBaseline, loads_what_it_saved_and_takes_pieces) {
    const Drawn cal(200, 3), test(601, 3, 2);
    const auto c = fitted(GetParam(), cal.samples());
    const std::string path = testing::TempDir() + "baseline.safetensors";
    lc::save_calibrator(path, *c);
    const auto loaded = lc::load_calibrator(path);
    EXPECT_EQ(loaded->method(), c->method());
    EXPECT_EQ(loaded->options(), c->options());
    EXPECT_EQ(loaded->keeps_order(), c->keeps_order());
    const Prediction a = c->predict(test.samples(), kQuiet), b = loaded->predict(test.samples(), kQuiet);
    EXPECT_EQ(a.probs, b.probs);
    EXPECT_EQ(a.log_probs, b.log_probs);
    const Prediction piece = loaded->predict(test.samples().rows(255, 262), kQuiet);
    EXPECT_TRUE(std::equal(piece.log_probs.begin(), piece.log_probs.end(), a.log_probs.begin() + 255 * 3));
}

TEST_P(LinearBaseline, gives_the_same_bits_for_any_number_of_threads) {
    const Drawn cal(700, 13);
    const auto with = [&](int threads) {
        const int before = omp_get_max_threads();
        omp_set_num_threads(threads);
        const Prediction p = fitted(GetParam(), cal.samples())->predict(cal.samples(), kQuiet);
        omp_set_num_threads(before);
        return p.log_probs;
    };
    EXPECT_EQ(with(1), with(3));
}

TEST_P(LinearBaseline, takes_two_classes_and_few_rows) {
    for (int64_t n : {5, 40}) {
        Drawn cal(n, 2);
        cal.labels[0] = 0, cal.labels[1] = 1;
        expect_distributions(fitted(GetParam(), cal.samples())->predict(cal.samples(), kQuiet));
    }
}

TEST_P(LinearBaseline, takes_labels_that_the_logits_separate) {
    Drawn cal(120, 3);
    for (int64_t i = 0; i < cal.n; ++i) {
        const float* const g = &cal.logits[size_t(i * 3)];
        cal.labels[size_t(i)] = int32_t(std::max_element(g, g + 3) - g);
    }
    const auto c = fitted(GetParam(), cal.samples());
    expect_distributions(c->predict(cal.samples(), kQuiet));
    expect_no_worse_than_nc(*c, cal.samples());
}

TEST_P(LinearBaseline, takes_a_class_without_rows) {
    Drawn cal(200, 4);
    for (int32_t& y : cal.labels) y = y == 2 ? 1 : y;
    std::string said;
    const auto c = lc::make_calibrator(GetParam(), {});
    c->fit(cal.samples(), {.backend = kQuiet.backend, .note = [&](const std::string& s) { said += s; }});
    EXPECT_EQ(text(*c, "absent"), "class 2");
    EXPECT_NE(said.find("class 2"), std::string::npos);
    expect_distributions(c->predict(cal.samples(), kQuiet));
}

TEST_P(LinearBaseline, takes_equal_logits) {
    Drawn cal(60, 3);
    cal.logits.assign(cal.logits.size(), 1.5f);
    const auto c = fitted(GetParam(), cal.samples());
    const Prediction p = c->predict(cal.samples(), kQuiet);
    expect_distributions(p);
    EXPECT_LE(nll(*c, cal.samples()), std::log(3.0) + 1e-6);
}

// A quarter of the rows at exactly 1 in float32, and so at exactly 0 for the other classes.
TEST_P(LinearBaseline, takes_saturated_probabilities) {
    const Drawn d(400, 3);
    std::vector<double> probs;
    std::vector<float> logits;
    for (int64_t i = 0; i < d.n; ++i) {
        const float* const g = &d.logits[size_t(i * 3)];
        std::vector<double> row(g, g + 3);
        lc::log_softmax_row(row.data(), 3);
        for (int64_t c = 0; c < 3; ++c) {
            probs.push_back(i % 4 == 0 ? double(c == std::max_element(g, g + 3) - g) : std::exp(row[size_t(c)]));
            logits.push_back(std::log(std::max(float(probs.back()), FLT_MIN)));
        }
    }
    const Samples s = {d.n, 0, 3, nullptr, logits.data(), d.labels.data(), probs.data()};
    const auto c = fitted(GetParam(), s);
    expect_distributions(c->predict(s, kQuiet));
    expect_no_worse_than_nc(*c, s);
}

INSTANTIATE_TEST_SUITE_P(Baselines, LinearBaseline,
                         testing::Values("nc", "ts", "ts:authors", "vs", "ms", "dc", "dc:authors"), [](const auto& i) {
                             std::string name = i.param;
                             std::replace(name.begin(), name.end(), ':', '_');
                             return name;
                         });

TEST(Baselines, log_loss_of_the_fitted_rows_never_rises) {
    for (uint64_t seed : {1, 2, 3}) {
        const Drawn cal(150, 5, seed);
        const auto loss = [&](const char* method) { return nll(*fitted(method, cal.samples()), cal.samples()); };
        const double nc = loss("nc"), ts = loss("ts");
        EXPECT_LE(ts, nc + 1e-7);
        for (const char* method : {"vs", "ms", "dc"}) EXPECT_LE(loss(method), ts + 1e-7) << method;
    }
}

TEST(Baselines, those_that_keep_the_order_keep_it) {
    const Drawn cal(300, 6);
    for (const char* method : {"nc", "ts", "ts:authors", "vs", "ms", "dc", "dc:authors"}) {
        const auto c = fitted(method, cal.samples());
        const Prediction p = c->predict(cal.samples(), kQuiet);
        int64_t swapped = 0;
        for (int64_t i = 0; i < cal.n; ++i) {
            const float* const g = &cal.logits[size_t(i * 6)];
            const double* const l = &p.log_probs[size_t(i * 6)];
            for (int a = 0; a < 6; ++a) {
                for (int b = 0; b < 6; ++b) swapped += g[a] < g[b] && l[a] > l[b];
            }
        }
        EXPECT_EQ(swapped == 0, c->keeps_order()) << method << ": " << swapped;
    }
}

TEST(Baselines, temperature_without_a_minimum_is_left_alone_and_said) {
    for (float margin : {0.01f, 1.0f, 3.0f, 20.0f}) {  // Newton alone would take a thousand small steps from some
        const std::vector<float> logits = {margin, 0, 0, margin};
        for (const std::vector<int32_t>& labels : {std::vector<int32_t>{0, 1}, {1, 0}}) {
            const auto c = fitted("ts", {2, 0, 2, nullptr, logits.data(), labels.data()});
            EXPECT_EQ(number(*c, "temperature"), 1) << margin;
            EXPECT_NE(text(*c, "ended").find("at a bound"), std::string::npos) << margin;
        }
    }
}

TEST(Baselines, a_thousand_classes) {
    LC_LONG_TEST();
    const Drawn cal(1500, 1000);
    double before = INFINITY;
    for (const char* method : {"nc", "ts", "vs"}) {
        const auto c = fitted(method, cal.samples());
        expect_distributions(c->predict(cal.samples().rows(0, 20), kQuiet));
        EXPECT_LE(nll(*c, cal.samples()), before + 1e-6) << method;
        before = nll(*c, cal.samples());
    }
    for (const char* method : {"ms", "dc", "dc:authors"}) {
        try {
            fitted(method, cal.samples());
            ADD_FAILURE() << method << " was not refused";
        } catch (const lc::Error& e) {
            const std::string what = e.what();
            EXPECT_NE(what.find(" GB"), std::string::npos) << what;
            EXPECT_TRUE(what.find("minutes") != std::string::npos || what.find("hours") != std::string::npos) << what;
        }
    }
}

// ---- the loss of MS and DC ------------------------------------------------------------------------------------------

lc::LinearRows drawn_rows(int64_t n, int64_t C) {
    const Drawn d(n, C);
    return lc::linear_rows(lc::scored_rows(d.samples(), lc::Scores::logits));
}

TEST(LinearLoss, derivatives_agree_with_differences) {
    const lc::LinearRows rows = drawn_rows(700, 3);
    const lc::LinearLoss loss(rows, {0.7, 0.3});
    const std::vector<float> noise = lc::random_normal({3, 3}, 12, 0, 0.3);
    std::vector<double> theta(noise.begin(), noise.end()), g(12), g2(12), hessian(144), low(12), high(12);
    EXPECT_NEAR(loss(theta, g), loss.second_order(theta, g2.data(), hessian.data()), 1e-15);
    const std::vector<double> diagonal = loss.curvature(theta);
    for (size_t k = 0; k < 12; ++k) {
        EXPECT_NEAR(g[k], g2[k], 1e-15);
        constexpr double h = 1e-5;
        std::vector<double> t = theta;
        t[k] += h;
        const double above = loss(t, high);
        t[k] -= 2 * h;
        const double below = loss(t, low);
        EXPECT_NEAR(g[k], (above - below) / (2 * h), 1e-8);
        for (size_t j = k; j < 12; ++j) EXPECT_NEAR(hessian[j * 12 + k], (high[j] - low[j]) / (2 * h), 1e-7);
        EXPECT_NEAR(diagonal[k], hessian[k * 13], 1e-12);
    }
}

TEST(LinearLoss, the_penalty_is_divided_by_the_number_of_its_terms) {
    const lc::LinearRows rows = drawn_rows(50, 4);
    const std::vector<double> theta(20, 2.0);  // 12 off-diagonals and 4 intercepts of 2
    std::vector<double> unused(20);
    const double plain = lc::LinearLoss(rows, {}).nll(theta);
    EXPECT_NEAR(lc::LinearLoss(rows, {1, 0})(theta, unused), plain + 4, 1e-12);
    EXPECT_NEAR(lc::LinearLoss(rows, {0, 1})(theta, unused), plain + 4, 1e-12);
}

TEST(LinearLoss, newton_and_lbfgs_end_at_the_same_place) {
    const lc::LinearRows rows = drawn_rows(500, 5);
    std::vector<double> a = lc::diagonal_theta(5, 1), b = a;
    const lc::LinearLoss loss(rows, {0.01, 0.01});
    const lc::Solved newton = lc::fit_linear(rows, {0.01, 0.01}, a);
    const lc::Solved lbfgs = lc::minimise_lbfgs([&](auto t, auto g) { return loss(t, g); }, b);
    EXPECT_EQ(newton.ended, lc::Ended::converged);
    EXPECT_EQ(lbfgs.ended, lc::Ended::converged) << lbfgs.text();
    EXPECT_NEAR(newton.value, lbfgs.value, 1e-12);
    for (size_t k = 0; k < a.size(); ++k) EXPECT_NEAR(a[k], b[k], 1e-4);
}

TEST(OdirSearch, walks_the_grid_and_takes_its_best) {
    const lc::LinearRows rows = drawn_rows(300, 3);
    for (bool square : {false, true}) {
        const std::vector<lc::Odir> grid = lc::odir_grid(square);
        ASSERT_EQ(grid.size(), square ? 49u : 7u);
        EXPECT_NEAR(grid[0].lambda, 100, 1e-12);
        EXPECT_NEAR(grid.back().lambda, 1e-4, 1e-16);
        double last = -1;
        const lc::OdirSearch s =
            lc::search_odir(rows, grid, 5, lc::diagonal_theta(3, 1), [&](double f, std::string_view) {
                EXPECT_GT(f, last);
                last = f;
            });
        EXPECT_NEAR(last, 1, 1e-12);
        ASSERT_EQ(s.curve.size(), grid.size());
        for (const lc::OdirPoint& p : s.curve) {
            if (p.penalty.lambda == s.best.lambda && p.penalty.mu == s.best.mu) {
                for (const lc::OdirPoint& q : s.curve) EXPECT_LE(p.nll, q.nll);
            }
        }
    }
}

TEST(OdirSearch, the_curve_is_found_and_a_warm_start_changes_nothing) {
    const Drawn cal(300, 3);
    EXPECT_NE(text(*fitted("dc", cal.samples()), "curve").find("1e-04: "), std::string::npos);
    const lc::LinearRows rows = drawn_rows(300, 3);
    const auto alone = lc::search_odir(rows, {{1e-2, 1e-2}}, 5, lc::diagonal_theta(3, 1), {});
    const auto along = lc::search_odir(rows, lc::odir_grid(false), 5, lc::diagonal_theta(3, 1), {});
    EXPECT_NEAR(alone.curve[0].nll, along.curve[4].nll, 1e-7);
}

// ---- names and refusals ---------------------------------------------------------------------------------------------

TEST(Baselines, are_known_by_their_usual_names) {
    const std::pair<const char*, const char*> names[] = {{"none", "nc"},
                                                         {"uncalibrated", "nc"},
                                                         {"temp-scaling", "ts"},
                                                         {"temperature:authors", "ts:authors"},
                                                         {"ts:auto", "ts"},
                                                         {"vector-scaling", "vs"},
                                                         {"matrix-scaling", "ms"},
                                                         {"dirichlet", "dc"},
                                                         {"dirichlet:authors", "dc:authors"}};
    for (const auto& [name, method] : names) EXPECT_EQ(lc::make_calibrator(name, {})->method(), method);
}

TEST(Baselines, bad_choices_are_refused) {
    const auto expect_refused = [](const char* method, const Options& options, const char* says) {
        try {
            lc::make_calibrator(method, options);
            ADD_FAILURE() << method << " was not refused; expected: " << says;
        } catch (const lc::Error& e) {
            EXPECT_NE(std::string(e.what()).find(says), std::string::npos) << e.what();
        }
    };
    expect_refused("xx", {}, "nc, ts");
    expect_refused("nc:authors", {}, "'authors'");
    expect_refused("ts", {{"lambda", "1"}}, "'lambda' of ts");
    expect_refused("dc", {{"lambda", "-1"}}, "--lambda");
    expect_refused("dc", {{"mu", "1"}}, "--mu alone");
    expect_refused("dc", {{"folds", "1"}}, "--folds");
    expect_refused("dc", {{"folds", "2.5"}}, "whole number");
    expect_refused("dc", {{"grid", "cube"}}, "line, square");
    expect_refused("dc", {{"hidden", "3"}}, "'hidden' of dc");
    expect_refused("dc:authors", {{"lambda", "1"}}, "no options");
    const Drawn cal(4, 2);
    EXPECT_THROW(lc::make_calibrator("ts", {})->predict(cal.samples(), kQuiet), lc::Error);
}

}  // namespace

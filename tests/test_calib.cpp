// LN, KC and KO as a user of the library meets them: fit, predict, save, load, resume, and what they refuse.
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <gtest/gtest.h>

#include "calib/bandwidth.h"
#include "calib/methods.h"
#include "calib/options.h"
#include "calib/temperature.h"
#include "kernels/random.h"
#include "metrics/proper.h"
#include "tests/long.h"

namespace {

using lc::Context;
using lc::Prediction;
using lc::Samples;

const lc::Backend& cpu() { return *lc::find_backend("cpu"); }

// Three clouds in eight dimensions, and a classifier that is overconfident on one side of each cloud only: what a single
// temperature cannot mend.
struct Clouds {
    int64_t n, d = 8, C = 3;
    std::vector<float> features, logits;
    std::vector<int32_t> labels;

    explicit Clouds(int64_t rows, uint64_t seed = 1) : n(rows) {
        const std::vector<float> noise = lc::random_normal({seed, 1}, n * d);
        for (int64_t i = 0; i < n; ++i) {
            const int32_t cloud = int32_t(i % C);
            float* x = &*features.insert(features.end(), noise.begin() + i * d, noise.begin() + (i + 1) * d);
            x[cloud] += 3;
            const bool hard = x[3] > 0;  // here a third of the labels are drawn at random, and the logits do not know
            const bool redrawn = hard && lc::random_unit({seed, 2}, uint64_t(i)) < 0.6;
            labels.push_back(redrawn ? int32_t(lc::random_word({seed, 3}, uint64_t(i)) % 3) : cloud);
            for (int64_t c = 0; c < C; ++c) logits.push_back(c == cloud ? 4.0f : 0.0f);
        }
    }
    Samples samples() const { return {n, d, C, features.data(), logits.data(), labels.data()}; }
};

Prediction fit_and_predict(const std::string& method, const std::map<std::string, std::string>& options,
                           const Clouds& cal, const Clouds& test, uint64_t seed = 1) {
    const auto c = lc::make_calibrator(method, options);
    c->fit(cal.samples(), {.backend = &cpu(), .seed = seed});
    return c->predict(test.samples(), {.backend = &cpu()});
}

double nll(const Prediction& p, const Clouds& test) {
    const auto s = lc::predictions_from_logits(p.log_probs.data(), test.labels.data(), test.n, test.C);
    return lc::nll(s, lc::NllMode::logits).value;
}

const std::map<std::string, std::string> kShort = {{"epochs", "6"}, {"batch", "128"}, {"fit-gamma", "1.5"}};
const std::map<std::string, std::string> kShortAuto = {{"epochs", "6"}, {"batch", "128"}};

class EveryMethod : public testing::TestWithParam<const char*> {
  protected:
    std::map<std::string, std::string> options() const {
        return std::string(GetParam()).find("auto") == std::string::npos ? kShort : kShortAuto;
    }
};

TEST_P(EveryMethod, probabilities_are_probabilities) {
    const Clouds cal(400), test(100, 2);
    const Prediction p = fit_and_predict(GetParam(), options(), cal, test);
    ASSERT_EQ(p.probs.size(), size_t(test.n * test.C));
    ASSERT_EQ(p.features.size(), size_t(test.n * p.k));
    for (int64_t i = 0; i < test.n; ++i) {
        double sum = 0;
        for (int64_t c = 0; c < test.C; ++c) {
            const double v = p.probs[size_t(i * test.C + c)];
            EXPECT_TRUE(v >= 0 && v <= 1);
            EXPECT_NEAR(std::log(v), p.log_probs[size_t(i * test.C + c)], 1e-4);
            sum += v;
        }
        EXPECT_NEAR(sum, 1, 1e-5);
    }
}

TEST_P(EveryMethod, the_same_seed_gives_the_same_bits_and_another_seed_others) {
    const Clouds cal(400), test(50, 2);
    const Prediction a = fit_and_predict(GetParam(), options(), cal, test, 5);
    EXPECT_EQ(a.probs, fit_and_predict(GetParam(), options(), cal, test, 5).probs);
    if (std::string(GetParam()) != "ln:auto") {  // its verdict may be the same temperature whatever the seed
        EXPECT_NE(a.probs, fit_and_predict(GetParam(), options(), cal, test, 6).probs);
    }
}

TEST_P(EveryMethod, a_loaded_model_predicts_the_same_bits) {
    const Clouds cal(400), test(77, 2);
    const auto c = lc::make_calibrator(GetParam(), options());
    c->fit(cal.samples(), {.backend = &cpu()});
    const std::string path = testing::TempDir() + "calibrator.safetensors";
    lc::save_calibrator(path, *c);
    const auto loaded = lc::load_calibrator(path);
    EXPECT_EQ(loaded->method(), c->method());
    EXPECT_EQ(loaded->options(), c->options());
    const Prediction a = c->predict(test.samples(), {.backend = &cpu()});
    const Prediction b = loaded->predict(test.samples(), {.backend = &cpu()});
    EXPECT_EQ(a.probs, b.probs);
    EXPECT_EQ(a.features, b.features);
}

TEST_P(EveryMethod, an_interrupted_training_goes_on_bit_for_bit) {
    const Clouds cal(400), test(50, 2);
    const std::string path = testing::TempDir() + "training.checkpoint";
    std::filesystem::remove(path);
    std::filesystem::remove(path + ".2");
    setenv("LC_CHECKPOINT_SECONDS", "0", 1);
    struct Interrupted {};
    int calls = 0;
    const auto stop_after = [&](int limit) {
        return [&, limit](double, std::string_view) {
            if (++calls > limit) throw Interrupted();
        };
    };
    for (const int limit : {4, 9}) {  // in the first training and, where there is one, in the second
        const auto c = lc::make_calibrator(GetParam(), options());
        calls = 0;
        try {
            c->fit(cal.samples(), {.backend = &cpu(), .seed = 3, .progress = stop_after(limit), .checkpoint = path});
        } catch (const Interrupted&) {}
    }
    const auto c = lc::make_calibrator(GetParam(), options());
    c->fit(cal.samples(), {.backend = &cpu(), .seed = 3, .checkpoint = path});
    unsetenv("LC_CHECKPOINT_SECONDS");
    EXPECT_EQ(c->predict(test.samples(), {.backend = &cpu()}).probs,
              fit_and_predict(GetParam(), options(), cal, test, 3).probs);
    EXPECT_FALSE(std::filesystem::exists(path)) << "a finished run cleans up";
}

TEST_P(EveryMethod, pieces_predict_the_same_as_the_whole) {
    const Clouds cal(400), test(64, 2);
    const auto c = lc::make_calibrator(GetParam(), options());
    c->fit(cal.samples(), {.backend = &cpu()});
    const Prediction whole = c->predict(test.samples(), {.backend = &cpu()});
    const Prediction part = c->predict(test.samples().rows(10, 30), {.backend = &cpu()});
    for (size_t i = 0; i < part.probs.size(); ++i)
        EXPECT_NEAR(part.probs[i], whole.probs[size_t(10 * test.C) + i], 1e-6);
}

INSTANTIATE_TEST_SUITE_P(Calib, EveryMethod,
                         testing::Values("ln:paper", "ln:authors", "ln:auto", "kc:paper", "kc:authors", "kc:auto",
                                         "ko:paper", "ko:authors", "ko:auto"),
                         [](const auto& info) {
                             std::string name = info.param;
                             name[2] = '_';
                             return name;
                         });

// ---- what the methods achieve ---------------------------------------------------------------------------------------

TEST(Calib, local_methods_mend_what_a_temperature_cannot) {
    LC_LONG_TEST();
    const Clouds cal(3000), test(3000, 2);
    const lc::Temperature t = lc::fit_temperature(cal.logits.data(), cal.labels.data(), cal.n, cal.C);
    const double ts = lc::nll_of_logits(test.logits.data(), test.labels.data(), test.n, test.C, t.beta);
    for (const char* method : {"ln", "kc", "ko"}) {
        EXPECT_LT(nll(fit_and_predict(method, {{"lr", "0.005"}}, cal, test), test), ts - 0.02) << method;
    }
}

TEST(Calib, a_bandwidth_per_row_works_too) {
    const Clouds cal(600), test(200, 2);
    for (const char* bandwidth : {"knn", "learned"}) {
        for (const char* method : {"ln:paper", "kc:paper", "ko:paper"}) {
            const Prediction p = fit_and_predict(
                method, {{"epochs", "6"}, {"batch", "128"}, {"fit-gamma", "1.5"}, {"bandwidth", bandwidth}}, cal, test);
            EXPECT_LT(nll(p, test), std::log(3.0)) << method << " " << bandwidth;
        }
    }
}

TEST(Calib, auto_falls_back_on_temperature_scaling_where_the_features_say_nothing) {
    LC_LONG_TEST();
    Clouds cal(600), test(50, 2);
    cal.features = lc::random_normal({9, 9}, cal.n * cal.d);  // noise
    for (int64_t i = 0; i < cal.n; ++i) cal.logits[size_t(i * 3 + cal.labels[size_t(i)])] += 1.0f;
    const auto c = lc::make_calibrator("ln", {});
    std::string said;
    c->fit(cal.samples(), {.backend = &cpu(), .note = [&](const std::string& s) { said += s; }});
    const lc::Temperature t = lc::fit_temperature(cal.logits.data(), cal.labels.data(), cal.n, cal.C);
    if (said.find("not better") == std::string::npos) GTEST_FAIL() << "expected the fallback, got: " << said;
    const Prediction p = c->predict(test.samples(), {.backend = &cpu()});
    const double e = std::exp(4.0 / t.T);
    EXPECT_NEAR(p.probs[0], e / (e + 2), 1e-4);  // row 0 has the logits 4, 0, 0
}

TEST(Calib, gamma_auto_sees_the_scale_of_the_features) {
    const Clouds cal(900);
    const auto gamma_of = [&](float factor) {
        std::vector<float> z = cal.features;
        for (float& x : z) x *= factor;
        const lc::Tensor t = lc::Tensor::from(cpu(), {cal.n, cal.d}, z);
        return lc::choose_bandwidth(t, lc::to_device(cpu(), cal.labels));
    };
    const lc::BandwidthChoice one = gamma_of(1);
    EXPECT_EQ(one.grid.size(), 13u);
    EXPECT_NEAR(one.grid[0] / one.grid[1], std::sqrt(2.0), 1e-12);
    EXPECT_NEAR(gamma_of(1000).gamma, 1000 * one.gamma, one.gamma);
}

// ---- temperature ----------------------------------------------------------------------------------------------------

TEST(Calib, temperature_ends_where_the_slope_is_zero) {
    const Clouds cal(500);
    const lc::Temperature t = lc::fit_temperature(cal.logits.data(), cal.labels.data(), cal.n, cal.C);
    EXPECT_FALSE(t.at_bound);
    for (double shift : {0.999, 1.001}) {
        EXPECT_GT(lc::nll_of_logits(cal.logits.data(), cal.labels.data(), cal.n, cal.C, t.beta * shift), t.nll);
    }
}

TEST(Calib, temperature_of_separable_or_useless_logits_is_reported) {
    const std::vector<float> logits = {1, 0, 0, 1};
    const std::vector<int32_t> right = {0, 1}, wrong = {1, 0};
    EXPECT_TRUE(lc::fit_temperature(logits.data(), right.data(), 2, 2).at_bound);
    EXPECT_TRUE(lc::fit_temperature(logits.data(), wrong.data(), 2, 2).at_bound);
}

// ---- refusals -------------------------------------------------------------------------------------------------------

void expect_refused(const std::function<void()>& what, const std::string& says) {
    try {
        what();
        ADD_FAILURE() << "not refused; expected: " << says;
    } catch (const lc::Error& e) {
        EXPECT_NE(std::string(e.what()).find(says), std::string::npos) << e.what();
    }
}

TEST(Calib, bad_rows_are_refused) {
    const Clouds good(100);
    const auto fit = [](const Samples& s) {
        return [s] { lc::make_calibrator("ln:paper", kShort)->fit(s, {.backend = &cpu()}); };
    };
    Clouds c = good;
    c.features[8 * 5 + 2] = NAN;
    expect_refused(fit(c.samples()), "row 5, column 2");
    c = good, c.logits[7] = INFINITY;
    expect_refused(fit(c.samples()), "row 2, column 1");
    c = good, c.labels[4] = 3;
    expect_refused(fit(c.samples()), "found 3 in row 4");
    c = good, c.labels[4] = -1;
    expect_refused(fit(c.samples()), "found -1 in row 4");
    c = good, c.labels.assign(size_t(c.n), 1);
    expect_refused(fit(c.samples()), "only class 1");
    Samples s = good.samples();
    s.n = 1;
    expect_refused(fit(s), "at least 2 rows");
    s = good.samples(), s.C = 1;
    expect_refused(fit(s), "at least 2 classes");
    s = good.samples(), s.features = nullptr;
    expect_refused(fit(s), "features");
    s = good.samples(), s.labels = nullptr;
    expect_refused(fit(s), "labels");
    s = good.samples(), s.n = 20;
    expect_refused([&] { lc::make_calibrator("ln:auto", {})->fit(s, {.backend = &cpu()}); }, "too few");
}

TEST(Calib, bad_choices_are_refused_before_any_work) {
    const auto make = [](const std::string& method, const std::map<std::string, std::string>& options) {
        return [=] { lc::make_calibrator(method, options); };
    };
    expect_refused(make("lm", {}), "'lm'");
    expect_refused(make("ln:best", {}), "'best'");
    expect_refused(make("ln:paper", {{"js", "symmetric"}}), "categorical, classwise");
    expect_refused(make("ln:paper", {{"hidden", "0"}}), "--hidden");
    expect_refused(make("ln:paper", {{"dropout", "1.5"}}), "--dropout");
    expect_refused(make("ln:paper", {{"fit-gamma", "-3"}}), "--fit-gamma");
    expect_refused(make("ln:paper", {{"setting", "imagenet"}}), "cifar10");
    expect_refused(make("ln:paper", {{"colour", "blue"}}), "colour");
    expect_refused(make("ln:auto", {{"stop", "fixed"}}), "--preset auto");
    expect_refused(make("ln:paper", {{"reference", "validation"}}), "kc and ko");
}

TEST(Calib, a_loss_that_is_not_finite_stops_with_epoch_and_batch) {
    const Clouds cal(300);
    const auto c = lc::make_calibrator("ln:paper", {{"epochs", "5"}, {"lr", "1000"}, {"fit-gamma", "1e-15"}});
    expect_refused([&] { c->fit(cal.samples(), {.backend = &cpu()}); }, "epoch");
}

TEST(Calib, files_of_other_kinds_are_refused) {
    const std::string path = testing::TempDir() + "other.safetensors";
    lc::SafetensorsWriter out;
    out.write(path);
    expect_refused([&] { lc::load_calibrator(path); }, "no schema");
    out.metadata = {{"schema", "localcal.calibrator/99"}};
    out.write(path);
    expect_refused([&] { lc::load_calibrator(path); }, "localcal.calibrator/99");
    out.metadata = {{"schema", "localcal.calibrator/1"}, {"method", "magic"}};
    out.write(path);
    expect_refused([&] { lc::load_calibrator(path); }, "magic");
}

TEST(Calib, a_model_for_other_shapes_is_refused) {
    const Clouds cal(100);
    const auto c = lc::make_calibrator("ln:paper", kShort);
    c->fit(cal.samples(), {.backend = &cpu()});
    Samples s = cal.samples();
    s.d = 7;
    expect_refused([&] { lc::check_fits(*c, s, "test.npz"); }, "fitted on 8 features, found 7");
    s = cal.samples(), s.C = 4;
    expect_refused([&] { lc::check_fits(*c, s, "test.npz"); }, "fitted on 3 classes, found 4");
}

TEST(Calib, a_checkpoint_of_another_run_is_refused) {
    const Clouds cal(100);
    const std::string path = testing::TempDir() + "foreign.checkpoint";
    lc::SafetensorsWriter out;
    out.metadata = {{"schema", "localcal.checkpoint/1"}, {"fingerprint", "another"}};
    out.write(path);
    const auto c = lc::make_calibrator("ln:paper", kShort);
    expect_refused([&] { c->fit(cal.samples(), {.backend = &cpu(), .checkpoint = path}); }, "another run");
    std::filesystem::remove(path);
}

}  // namespace

// local_error.cpp -- speed and memory of the exact local calibration error on the CPU, its null distribution, its sweep.
//
//     build/release/cuda/bench/local_error [--quick | --large]                      (`make bench` runs it)
//     build/release/cuda/bench/local_error --data FILE.npz --gamma 10 --json        one file: for tests/bench/pytorch.py
//
// Rows     d = 50 normal features around a centre of the row's class.  Logits are normal with a deviation of 2.5, that of the
//          row's class is 8.5 higher: sure of most rows and in doubt about some, as a classifier is.  The entries of a row
//          outside the lowest of 15 bins, which the time depends on, are counted and printed.
// Counted  3 d operations (subtract, multiply, add) for the distance of a pair, done once for (i, j) and (j, i); 2 C for
//          what row j adds to row i in the fullest bin of each class, done for both.  Exponentials, the other bins and the
//          sums of n_eff are work too, but not counted.
// Peak     multiply-adds, two operations each, measured between the turns: the best time and the best peak count.  A
//          subtraction fills the place of a multiply-add, so distances alone could reach 75 %.
// Memory   how far the op drives the process's peak, beyond its arguments.
#include "kernels/local_error.h"

#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <functional>
#include <malloc.h>
#include <omp.h>
#include <string>

#include "data/npy.h"
#include "kernels/random.h"
#include "metrics/local.h"
#include "metrics/null.h"
#include "tests/bench/peak.h"

namespace {

using Run = std::function<void()>;

// What is scored, and the arrays that the op reads and writes.
struct Rows {
    int64_t n, d, C;
    std::vector<float> Z, gammas;
    lc::Predictions s;
    std::vector<float> residual;
    lc::LocalErrors e;

    Rows(std::vector<float> features, lc::Predictions predictions, float gamma)
        : n(predictions.n),
          d(int64_t(features.size()) / n),
          C(predictions.C),
          Z(std::move(features)),
          gammas{gamma},
          s(std::move(predictions)) {
        prepare();
    }
    void prepare() {
        e = {.n = n, .C = C, .options = {.gamma = double(gammas[0])}, .bin = lc::class_bins(s, 15, 20)};
        residual.assign(s.p.begin(), s.p.end());
        for (int64_t i = 0; i < n; ++i) residual[size_t(i * C + s.labels[size_t(i)])] -= 1;
        resize_outputs();
    }
    void resize_outputs() {
        for (auto* x : {&e.error, &e.weight, &e.n_eff}) x->assign(gammas.size() * size_t(n * C), 0.0f);
    }
    lc::LocalError in() const {
        return {.n = n,
                .d = d,
                .C = C,
                .G = int64_t(gammas.size()),
                .Z = Z.data(),
                .residual = residual.data(),
                .bin = e.bin.data(),
                .gammas = gammas.data()};
    }
    void value() { lc::cpu::local_error({e.error.data(), e.weight.data(), nullptr, nullptr}, in(), {}, nullptr); }
    void with_n_eff() {
        lc::cpu::local_error({e.error.data(), e.weight.data(), e.n_eff.data(), nullptr}, in(), {}, nullptr);
    }
    double flops() const { return double(n) * double(n) * (1.5 * double(d) + 2 * double(C)); }
    double pairs() const { return double(n) * double(n); }
    double entries_outside() const {  // the lowest bin, per row
        int64_t outside = 0;
        for (const double p : s.p) outside += p >= 1.0 / 15;
        return double(outside) / double(n);
    }
};

Rows synthetic(int64_t n, int64_t C) {
    constexpr int64_t d = 50;
    std::vector<float> Z = lc::random_normal({1, 1}, n * d), logits = lc::random_normal({1, 2}, n * C, 0, 2.5);
    const std::vector<float> centre = lc::random_normal({1, 3}, C * d, 0, 0.5);
    std::vector<int32_t> labels;
    for (int64_t i = 0; i < n; ++i) {
        const int64_t y = int64_t(lc::random_word({1, 4}, uint64_t(i)) % uint64_t(C));
        for (int64_t k = 0; k < d; ++k) Z[size_t(i * d + k)] += centre[size_t(y * d + k)];
        logits[size_t(i * C + y)] += 8.5f;
        labels.push_back(int32_t(y));
    }
    return {std::move(Z), lc::predictions_from_logits(logits.data(), labels.data(), n, C), 3.0f};
}

double seconds_of(const Run& run) {
    const auto start = std::chrono::steady_clock::now();
    run();
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

double budget = 2;  // seconds that turns of the same thing may take together; the first one is always taken

// The shortest of as many turns as fit; `between` runs after each.
double best_of(const Run& run, const Run& between = {}) {
    double best = 1e30, spent = 0;
    for (int turn = 0; turn == 0 || (turn < 9 && spent + best <= budget); ++turn) {
        const double t = seconds_of(run);
        best = std::min(best, t);
        spent += t;
        if (between) between();
    }
    return best;
}

// ---- memory ---------------------------------------------------------------------------------------------------------

double peak_megabytes() {  // VmHWM: the most that was resident at a time
    std::ifstream status("/proc/self/status");
    std::string word;
    double kilobytes = 0;
    while (status >> word) {
        if (word == "VmHWM:") status >> kilobytes;
    }
    return kilobytes / 1024;
}

// Where the kernel will not forget an earlier peak, only a higher one shows.
double forget_peak_megabytes() {
    malloc_trim(0);
    std::ofstream("/proc/self/clear_refs") << 5 << std::flush;
    return peak_megabytes();
}

// ---- tables ---------------------------------------------------------------------------------------------------------

struct ExactRow {
    const char* what;
    const Rows* rows;
    double seconds;
};

double exact_rows(Rows& ten, Rows& hundred, int threads) {  // the peak, in GFLOP/s
    omp_set_num_threads(threads);
    double peak = bench::fma_peak(threads, 0.1);
    const Run between = [&] { peak = std::max(peak, bench::fma_peak(threads, 0.05)); };
    std::vector<ExactRow> all;
    for (Rows* x : {&ten, &hundred}) {
        all.push_back({"value", x, best_of([x] { x->value(); }, between)});
        all.push_back({"with n_eff", x, best_of([x] { x->with_n_eff(); }, between)});
    }
    for (const ExactRow& r : all) {
        const double rate = r.rows->flops() / r.seconds * 1e-9;
        std::printf("%-14s %8ld %5ld %8d %10.3f %12.2f %10.1f %8.0f%%\n", r.what, long(r.rows->n), long(r.rows->C),
                    threads, r.seconds, r.rows->pairs() / r.seconds * 1e-9, rate, 100 * rate / peak);
    }
    return peak;
}

void exact_table(Rows& ten, Rows& hundred) {
    std::printf("%-14s %8s %5s %8s %10s %12s %10s %9s\n", "LCE, d = 50", "n", "C", "threads", "seconds", "10^9 pairs/s",
                "GFLOP/s", "of peak");
    const int all = omp_get_max_threads();
    const double one = all > 1 ? exact_rows(ten, hundred, 1) : 0, peak = exact_rows(ten, hundred, all);
    std::printf(
        "peak of %d threads: %.0f GFLOP/s%s\n", all, peak,
        peak < 0.75 * one * all ? "; something else runs on this machine, the percentages above mean little" : "");
    for (const Rows* x : {&ten, &hundred}) {
        std::printf("C = %ld: %.2f entries of a row outside the lowest bin, median n_eff %.0f\n", long(x->C),
                    x->entries_outside(), lc::counts_of(x->e).median_n_eff);
    }
}

void scaling_table(const std::vector<std::pair<int64_t, int64_t>>& shapes) {
    std::printf("\n%-14s %8s %5s %10s %10s %10s %12s\n", "value", "n", "C", "seconds", "exponent", "MB", "bytes a row");
    double last_n = 0, last_seconds = 0;
    int64_t last_C = 0;
    for (const auto& [n, C] : shapes) {
        Rows x = synthetic(n, C);
        const double before = forget_peak_megabytes();
        const double seconds = best_of([&] { x.value(); }), megabytes = peak_megabytes() - before;
        char exponent[16] = "";
        if (C == last_C) {
            std::snprintf(exponent, sizeof exponent, "%.2f",
                          std::log(seconds / last_seconds) / std::log(double(n) / last_n));
        }
        std::printf("%-14s %8ld %5ld %10.3f %10s %10.1f %12.0f\n", "", long(n), long(C), seconds, exponent, megabytes,
                    megabytes * 1048576 / double(n));
        std::fflush(stdout);
        last_n = double(n), last_C = C, last_seconds = seconds;
    }
}

void null_table(const std::vector<Rows*>& all) {
    constexpr int64_t kSets = 200;
    std::printf("\n%-14s %8s %5s %8s %10s %14s\n", "null", "n", "C", "sets", "seconds", "of one value");
    for (Rows* x : all) {
        const std::vector<int32_t> labels = lc::draw_labels(x->s, kSets, 1);
        const std::vector<float> p(x->s.p.begin(), x->s.p.end());
        std::vector<float> total(size_t(kSets * x->C)), largest(size_t(kSets * x->C)), row_most(kSets);
        const lc::LocalErrorNull out = {total.data(), largest.data(), row_most.data()};
        lc::LocalError in = x->in();
        in.residual = p.data();
        const double null = best_of([&] { lc::cpu::local_error_null(out, in, labels.data(), kSets, {}, nullptr); });
        const double value = best_of([&] { x->value(); });
        std::printf("%-14s %8ld %5ld %8ld %10.3f %13.1fx\n", "", long(x->n), long(x->C), long(kSets), null,
                    null / value);
        std::fflush(stdout);
    }
}

void sweep_table(const std::vector<Rows*>& all) {
    const std::vector<float> eight = {0.5f, 1, 2, 3, 4, 6, 10, 20};
    std::printf("\n%-14s %8s %5s %8s %10s %14s %14s\n", "sweep, n_eff", "n", "C", "gammas", "seconds", "one by one",
                "of one by one");
    for (Rows* x : all) {
        x->gammas = eight;
        x->resize_outputs();
        const double together = best_of([&] { x->with_n_eff(); });
        const double apart = best_of([&] {
            for (const float gamma : eight) {
                x->gammas = {gamma};
                x->with_n_eff();
            }
        });
        std::printf("%-14s %8ld %5ld %8zu %10.3f %14.3f %14.2f\n", "", long(x->n), long(x->C), eight.size(), together,
                    apart, together / apart);
        std::fflush(stdout);
    }
}

// ---- one file -------------------------------------------------------------------------------------------------------

// Bins, residuals, the op, the mean: what it takes from probabilities to the LCE.
int score_file(const std::string& path, float gamma) {
    const auto arrays = lc::read_npz(path);
    const std::vector<int64_t>& shape = arrays.at("logits").shape;
    const std::vector<int64_t> wide = arrays.at("labels").to_integers();
    const std::vector<int32_t> labels(wide.begin(), wide.end());
    Rows x(arrays.at("features").to_floats(),
           lc::predictions_from_logits(arrays.at("logits").to_floats().data(), labels.data(), shape[0], shape[1]),
           gamma);
    const auto lce = [&](const std::vector<double>& weights) {
        return lc::lce_of(x.e, weights, lc::LceMode::kept_rows);
    };
    const std::vector<double> uniform = lc::uniform_weights(x.C);
    double value = 0;
    const double seconds = best_of([&] {
        x.prepare();
        x.value();
        value = lce(uniform);
    });
    std::printf("{\"seconds\": %.6f, \"lce\": %.9g, \"lce_by_class\": [", seconds, value);
    for (int64_t c = 0; c < x.C; ++c) {
        std::vector<double> only(size_t(x.C), 0.0);
        only[size_t(c)] = 1;
        std::printf("%s%.9g", c == 0 ? "" : ", ", lce(only));
    }
    std::printf("]}\n");
    return 0;
}

}  // namespace

int main(int argc, char** argv) {
    const auto flag = [&](const char* name) {
        for (int i = 1; i < argc; ++i) {
            if (std::strcmp(argv[i], name) == 0) return i;
        }
        return 0;
    };
    if (const int data = flag("--data"), gamma = flag("--gamma"); data > 0) {
        if (gamma > 0 && data + 1 < argc && gamma + 1 < argc && flag("--json") > 0) {
            return score_file(argv[data + 1], std::strtof(argv[gamma + 1], nullptr));
        }
        std::fprintf(stderr, "usage: %s --data FILE.npz --gamma X --json\n", argv[0]);
        return 2;
    }
    const bool quick = flag("--quick") > 0, large = flag("--large") > 0;
    if (argc > 2 || (argc == 2 && !quick && !large)) {
        std::fprintf(stderr, "usage: %s [--quick | --large]\nunknown argument '%s'\n", argv[0], argv[argc - 1]);
        return 2;
    }
    Rows ten = synthetic(10000, 10), hundred = synthetic(10000, 100);
    if (quick) budget = 0.3;
    exact_table(ten, hundred);
    std::vector<std::pair<int64_t, int64_t>> shapes = {{5000, 10}, {10000, 10}, {20000, 10}};
    if (!quick) shapes.insert(shapes.end(), {{40000, 10}, {80000, 10}, {82733, 8}});
    if (large) shapes.insert(shapes.end(), {{160000, 10}, {20000, 1000}});
    scaling_table(shapes);
    null_table({&ten, &hundred});
    sweep_table({&ten, &hundred});
    return 0;
}

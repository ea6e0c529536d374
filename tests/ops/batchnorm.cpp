// Cases of batchnorm.h.
#include "tests/oracle/batchnorm.h"

#include <cmath>

#include "tests/harness.h"

using namespace test;
using lc::Backend;
using lc::BatchNorm;

namespace {

// Around a warp, a pattern, a block, the segments of the sums (512 rows at 32 channels) and the chunks of the CPU.
const std::pair<int64_t, int64_t> kShapes[] = {
    {2, 1},    {7, 1},    {2, 7},    {5, 2},    {16, 3},   {17, 3},   {129, 10}, {33, 31},  {31, 33},  {64, 64},
    {3, 1000}, {257, 17}, {511, 32}, {512, 33}, {513, 32}, {1030, 5}, {63, 100}, {2, 4099}, {300, 16}, {49, 260}};

std::string shape_name(int64_t N, int64_t C) { return std::to_string(N) + "x" + std::to_string(C); }

using Doubles = std::vector<double>;

// As fill, with a mean and a deviation per channel where it says normal; and "broken": a NaN in channel 1, an infinity in 2.
Doubles fill(Random& r, int64_t N, int64_t C, const std::string& values) {
    if (values != "broken" && values != "normal") return r.fill(N * C, values);
    Doubles x = r.normal(N * C);
    const Doubles mean = r.normal(C), deviation = r.uniform(C, 0.1, 2);
    for (size_t i = 0; i < x.size(); ++i) x[i] = double(float(mean[i % size_t(C)] + x[i] * deviation[i % size_t(C)]));
    if (values == "broken") x[size_t(C * (N / 2) + 1)] = NAN, x[size_t(C * (N - 1) + 2)] = INFINITY;
    return x;
}

void add_batchnorm(int64_t N, int64_t C, const std::string& values, bool in_place = false, bool running = true,
                   int64_t offset = 0) {
    Case c{.op = "batchnorm", .name = shape_name(N, C) + "_" + values};
    if (in_place) c.name += "_in_place";
    if (!running) c.name += "_no_running";
    if (offset > 0) c.name += "_offset" + std::to_string(offset);
    const BatchNorm shape{.N = N, .C = C, .eps = 1e-5f, .momentum = 0.1f};
    c.make = [=](Random& r) {
        const Doubles x = fill(r, N, C, values);
        const int64_t kept = running ? C : 0;
        return Operands{in_place ? in_out("y", x) : out("y", N * C),
                        out("mean", C),
                        out("rstd", C),
                        in_out("running_mean", r.normal(kept)),
                        in_out("running_var", r.uniform(kept, 0.5, 2)),
                        in("x", in_place ? Doubles() : x),
                        in("gamma", r.normal(C)),
                        in("beta", r.normal(C))};
    };
    c.run = [=](const Backend& b, const Device& d) {
        const lc::RunningStats kept = running ? lc::RunningStats{d[3], d[4]} : lc::RunningStats{};
        b.batchnorm(d[0], {d[1], d[2]}, kept, in_place ? d[0] : d[5], d[6], d[7], shape, d.stream);
    };
    c.reference = reference([=](auto& v) {
        const auto x = in_place ? v[0] : v[5];
        oracle::batchnorm({v[0], v[1], v[2], v[3], v[4]}, x, v[6], v[7], shape);
    });
    if (C == 1) c.k = 16;  // of a single number the yardstick may have no error at all, by luck
    c.offset = offset;
    c.flops = double(N * C) * 7;
    add_case(c);
}

// Channels that do not vary, of any size: y is beta to the last bit.
void add_constant(int64_t N, int64_t C) {
    Case c{.op = "batchnorm", .name = shape_name(N, C) + "_constant"};
    const BatchNorm shape{.N = N, .C = C, .eps = 0.25f, .momentum = 1};
    c.make = [=](Random& r) {
        const Doubles value = r.uniform(C, -1e4, 1e4);
        Doubles x(static_cast<size_t>(N * C));
        for (size_t i = 0; i < x.size(); ++i) x[i] = value[i % size_t(C)];
        return Operands{out("y", N * C),
                        out("mean", C),
                        out("rstd", C),
                        in_out("running_mean", value),
                        in_out("running_var", value),
                        in("x", x),
                        in("gamma", r.normal(C)),
                        in("beta", r.normal(C))};
    };
    c.run = [=](const Backend& b, const Device& d) {
        b.batchnorm(d[0], {d[1], d[2]}, {d[3], d[4]}, d[5], d[6], d[7], shape, d.stream);
    };
    c.reference = reference([](auto& v) {
        for (size_t i = 0; i < v[0].size(); ++i) v[0][i] = v[7][i % v[7].size()];
        for (size_t i = 0; i < v[1].size(); ++i) v[1][i] = v[3][i] = v[5][i], v[2][i] = 2, v[4][i] = 0;
    });
    c.compare = Compare::exact;
    c.flops = double(N * C) * 7;
    add_case(c);
}

void add_infer(int64_t N, int64_t C, const std::string& values, bool in_place = false, int64_t offset = 0) {
    Case c{.op = "batchnorm_infer", .name = shape_name(N, C) + "_" + values + (in_place ? "_in_place" : "")};
    if (offset > 0) c.name += "_offset" + std::to_string(offset);
    const BatchNorm shape{.N = N, .C = C, .eps = 1e-3f};
    c.make = [=](Random& r) {
        const Doubles x = r.fill(N * C, values);
        return Operands{in_place ? in_out("y", x) : out("y", N * C),
                        in("x", in_place ? Doubles() : x),
                        in("mean", r.normal(C)),
                        in("var", r.uniform(C, 1, 3)),
                        in("gamma", r.uniform(C, -0.9, 0.9)),  // |gamma x| < FLT_MAX
                        in("beta", r.normal(C))};
    };
    c.run = [=](const Backend& b, const Device& d) {
        b.batchnorm_infer(d[0], in_place ? d[0] : d[1], d[2], d[3], d[4], d[5], shape, d.stream);
    };
    c.reference = reference([=](auto& v) {
        const auto x = v[in_place ? 0 : 1];
        oracle::batchnorm_infer(v[0], x, v[2], v[3], v[4], v[5], shape);
    });
    c.offset = offset;
    c.flops = double(N * C) * 4;
    add_case(c);
}

enum class Want { all, dx, sums, all_in_place };

void add_bwd(int64_t N, int64_t C, const std::string& values, bool frozen, Want want = Want::all, int64_t offset = 0) {
    const char* const names[] = {"", "_dx", "_sums", "_in_place"};
    Case c{.op = "batchnorm_bwd", .name = shape_name(N, C) + "_" + values + (frozen ? "_frozen" : "")};
    c.name += names[int(want)];
    if (offset > 0) c.name += "_offset" + std::to_string(offset);
    const BatchNorm shape{.N = N, .C = C};
    const bool in_place = want == Want::all_in_place, dx = want != Want::sums, sums = want != Want::dx;
    c.make = [=](Random& r) {
        const Doubles x = fill(r, N, C, values == "broken" ? "normal" : values);
        const Doubles dy = fill(r, N, C, values == "shifted" || values == "near" ? "normal" : values);
        Doubles y(x.size()), mean(static_cast<size_t>(C)), rstd(mean), none, gamma = r.normal(C);
        oracle::batchnorm<double>({y, mean, rstd, none, none}, x, gamma, gamma, shape);
        for (Doubles* v : {&mean, &rstd}) {
            for (double& e : *v) e = double(float(std::isnan(e) ? 0 : e));  // N = 0
        }
        return Operands{in_place ? in_out("dx", dy) : out("dx", dx ? N * C : 0),
                        out("dgamma", sums ? C : 0),
                        out("dbeta", sums ? C : 0),
                        in("dy", in_place ? Doubles() : dy),
                        in("x", x),
                        in("mean", mean),
                        in("rstd", rstd),
                        in("gamma", gamma)};
    };
    c.run = [=](const Backend& b, const Device& d) {
        const lc::BatchNormGrads out = {dx ? d[0] : nullptr, sums ? d[1] : nullptr, sums ? d[2] : nullptr};
        b.batchnorm_bwd(out, in_place ? d[0] : d[3], d[4], {d[5], d[6]}, d[7], frozen, shape, d.stream);
    };
    c.reference = reference([=](auto& v) {
        const auto dy = v[in_place ? 0 : 3];
        oracle::batchnorm_bwd(v[0], v[1], v[2], dy, v[4], v[5], v[6], v[7], frozen, shape);
    });
    if (C == 1) c.k = 16;
    c.offset = offset;
    c.flops = double(N * C) * 12;
    add_case(c);
}

}  // namespace

CASES(batchnorm) {
    for (auto [N, C] : kShapes) add_batchnorm(N, C, "normal");
    for (const std::string& values : kValueSets) {
        if (values != "normal") add_batchnorm(130, 10, values);
        add_batchnorm(70, 100, values);
    }
    add_batchnorm(130, 10, "broken");
    add_batchnorm(600, 33, "broken");
    add_batchnorm(129, 10, "normal", true);
    add_batchnorm(70, 100, "shifted", true, false);
    add_batchnorm(5, 700, "normal", false, false);
    add_batchnorm(33, 31, "normal", false, true, 1);
    add_batchnorm(64, 64, "normal", false, true, 1);
    add_batchnorm(32800, 17, "normal");  // more segments on CUDA than one round of joining takes
    add_batchnorm(100003, 3, "shifted");
    add_batchnorm(9001, 64, "shifted");
    add_batchnorm(3000, 300, "shifted");
    for (auto [N, C] : kShapes) {
        if (N * C < 10000) add_constant(N, C);
    }
    add_constant(20003, 17);
}

CASES(batchnorm_infer) {
    for (auto [N, C] : kShapes) add_infer(N, C, "normal");
    for (auto [N, C] : {std::pair<int64_t, int64_t>{0, 3}, {3, 0}, {1, 5}}) add_infer(N, C, "normal");
    for (const std::string& values : kValueSets) add_infer(130, 12, values);
    add_infer(130, 10, "special");
    add_infer(130, 12, "special", true);
    add_infer(5, 700, "huge", true);
    add_infer(33, 31, "normal", false, 1);
    add_infer(33, 32, "normal", false, 2);
}

CASES(batchnorm_bwd) {
    for (bool frozen : {false, true}) {
        for (auto [N, C] : kShapes) add_bwd(N, C, "normal", frozen);
        for (auto [N, C] : {std::pair<int64_t, int64_t>{0, 3}, {3, 0}, {1, 5}}) add_bwd(N, C, "normal", frozen);
        for (const std::string& values : kValueSets) add_bwd(130, 10, values, frozen);
        for (Want want : {Want::dx, Want::sums, Want::all_in_place}) {
            add_bwd(129, 10, "normal", frozen, want);
            add_bwd(70, 100, "shifted", frozen, want);
            add_bwd(0, 4, "normal", frozen, want);
        }
        add_bwd(130, 10, "broken", frozen);
        add_bwd(33, 31, "normal", frozen, Want::all, 1);
        add_bwd(33, 32, "normal", frozen, Want::all, 2);
        add_bwd(100003, 3, "shifted", frozen);
        add_bwd(9001, 64, "shifted", frozen);
        add_bwd(3000, 300, "shifted", frozen);
    }
}

CASES(batchnorm_refusals) {
    float* const none = nullptr;
    const auto forward = [=](const std::string& name, const std::string& says, BatchNorm shape) {
        add_refusal({"batchnorm", name, says, [=](const Backend& b) {
                         b.batchnorm(none, {none, none}, {}, none, none, none, shape, nullptr);
                     }});
    };
    forward("negative_rows", "N", {.N = -1, .C = 3});
    forward("negative_columns", "C", {.N = 3, .C = -3});
    forward("no_rows", "two rows", {.N = 0, .C = 3});
    forward("one_row", "two rows", {.N = 1, .C = 3});
    forward("eps_zero", "eps", {.N = 3, .C = 3, .eps = 0});
    forward("eps_nan", "eps", {.N = 3, .C = 3, .eps = NAN});
    forward("momentum_above_one", "momentum", {.N = 3, .C = 3, .momentum = 1.5f});
    forward("momentum_negative", "momentum", {.N = 3, .C = 3, .momentum = -0.1f});
    forward("null_pointer", "null", {.N = 3, .C = 3});
    add_refusal({"batchnorm", "half_running", "both or neither", [=](const Backend& b) {
                     const lc::Buffer<float> x(b, 8);
                     b.batchnorm(none, {none, none}, {x.data(), none}, none, none, none, {.N = 2, .C = 2}, nullptr);
                 }});
    const auto overlap = [](const std::string& name, int64_t y, int64_t mean, int64_t running) {
        add_refusal({"batchnorm", name, "overlaps", [=](const Backend& b) {
                         const lc::Buffer<float> buffer(b, 64);
                         float* const p = buffer.data();
                         b.batchnorm(p + y, {p + mean, p + 20}, {p + running, p + 36}, p + 40, p + 48, p + 52,
                                     {.N = 2, .C = 4}, nullptr);
                     }});
    };
    overlap("y_is_part_of_x", 44, 16, 32);
    overlap("mean_is_gamma", 0, 48, 32);
    overlap("running_is_y", 0, 16, 4);
    add_refusal({"batchnorm_infer", "negative_rows", "N", [=](const Backend& b) {
                     b.batchnorm_infer(none, none, none, none, none, none, {.N = -1, .C = 3}, nullptr);
                 }});
    add_refusal({"batchnorm_infer", "eps_negative", "eps", [=](const Backend& b) {
                     b.batchnorm_infer(none, none, none, none, none, none, {.N = 0, .C = 3, .eps = -1}, nullptr);
                 }});
    add_refusal(
        {"batchnorm_bwd", "negative_columns", "C", [=](const Backend& b) {
             b.batchnorm_bwd({none, none, none}, none, none, {none, none}, none, false, {.N = 1, .C = -3}, nullptr);
         }});
    add_refusal(
        {"batchnorm_bwd", "dgamma_alone", "both or neither", [=](const Backend& b) {
             const lc::Buffer<float> x(b, 8);
             b.batchnorm_bwd({none, x.data(), none}, none, none, {none, none}, none, true, {.N = 2, .C = 2}, nullptr);
         }});
    add_refusal(
        {"batchnorm_bwd", "dx_is_x", "overlaps", [=](const Backend& b) {
             const lc::Buffer<float> buffer(b, 64);
             float* const p = buffer.data();
             b.batchnorm_bwd({p, none, none}, p + 8, p, {p + 16, p + 20}, p + 24, false, {.N = 2, .C = 4}, nullptr);
         }});
}

// x (4, 3), gamma (3) and beta (3) in one vector.
CASES(batchnorm_gradient) {
    const BatchNorm shape{.N = 4, .C = 3, .eps = 0.01f};
    constexpr size_t n = 12;
    Random r(7);
    const Doubles all = r.normal(18), dy = r.normal(n), fixed_mean = r.normal(3), fixed_var = r.uniform(3, 0.5, 2);
    struct Parts {
        Doubles x, gamma, beta;
        explicit Parts(const Doubles& v)
            : x(v.begin(), v.begin() + n), gamma(v.begin() + n, v.begin() + n + 3), beta(v.begin() + n + 3, v.end()) {}
    };
    const auto backward = [=](const Parts& p, const Doubles& slope, const Doubles& mean, const Doubles& rstd,
                              bool frozen) {
        Doubles dx(n), dgamma(3), dbeta(3);
        oracle::batchnorm_bwd(dx, dgamma, dbeta, slope, p.x, mean, rstd, p.gamma, frozen, shape);
        dx.insert(dx.end(), dgamma.begin(), dgamma.end());
        dx.insert(dx.end(), dbeta.begin(), dbeta.end());
        return dx;
    };
    add_gradient({"batchnorm", "training", all, dy,
                  [=](const Doubles& v) {
                      const Parts p(v);
                      Doubles y(n), mean(3), rstd(3), none;
                      oracle::batchnorm<double>({y, mean, rstd, none, none}, p.x, p.gamma, p.beta, shape);
                      return y;
                  },
                  [=](const Doubles& v, const Doubles& slope) {
                      const Parts p(v);
                      Doubles y(n), mean(3), rstd(3), none;
                      oracle::batchnorm<double>({y, mean, rstd, none, none}, p.x, p.gamma, p.beta, shape);
                      return backward(p, slope, mean, rstd, false);
                  }});
    add_gradient({"batchnorm_infer", "frozen", all, dy,
                  [=](const Doubles& v) {
                      const Parts p(v);
                      Doubles y(n);
                      oracle::batchnorm_infer(y, p.x, fixed_mean, fixed_var, p.gamma, p.beta, shape);
                      return y;
                  },
                  [=](const Doubles& v, const Doubles& slope) {
                      Doubles rstd = fixed_var;
                      for (double& e : rstd) e = 1 / std::sqrt(e + double(shape.eps));
                      return backward(Parts(v), slope, fixed_mean, rstd, true);
                  }});
}

// Batches of ResNet-50 at 112 x 112, 56 x 56 and 7 x 7.  Bytes as the ops need them beyond the caches: inputs twice.
CASES(batchnorm_speed) {
    for (auto [N, C] : {std::pair<int64_t, int64_t>{200704, 64}, {50176, 256}, {1568, 2048}}) {
        const BatchNorm shape{.N = N, .C = C};
        const auto speed = [=, N = N, C = C](const std::string& op, int arrays,
                                             std::function<void(const Backend&, const Device&)> run) {
            Case c{.op = op, .name = shape_name(N, C)};
            c.make = [=](Random& r) {
                Operands o = {out("out", N * C), in("x", r.uniform(N * C, -1, 1)), in("dy", r.uniform(N * C, -1, 1))};
                for (int k = 0; k < 6; ++k) o.push_back(in_out("row", r.uniform(C, 0.5, 2)));
                return o;
            };
            c.run = std::move(run);
            c.bytes = 4.0 * double(N * C) * arrays;
            c.bench = c.bench_only = true;
            add_case(c);
        };
        speed("batchnorm", 3, [=](const Backend& b, const Device& d) {
            b.batchnorm(d[0], {d[3], d[4]}, {d[5], d[6]}, d[1], d[7], d[8], shape, d.stream);
        });
        speed("batchnorm_infer", 2, [=](const Backend& b, const Device& d) {
            b.batchnorm_infer(d[0], d[1], d[3], d[4], d[5], d[6], shape, d.stream);
        });
        speed("batchnorm_bwd", 5, [=](const Backend& b, const Device& d) {
            b.batchnorm_bwd({d[0], d[3], d[4]}, d[2], d[1], {d[5], d[6]}, d[7], false, shape, d.stream);
        });
    }
}

// Cases of pool.h.
#include "tests/oracle/pool.h"

#include <cmath>

#include "tests/harness.h"

using namespace test;
using lc::Backend;
using lc::Pool;

namespace {

// Overlap, gaps between windows, padding on all sides, images smaller than a window, channels around a vector, a warp and
// a block; ResNet's 3 x 3 with stride 2.
const Pool kShapes[] = {
    {0, 5, 5, 3, 3, 2, 1},   {1, 1, 1, 1, 1, 1, 0},   {2, 5, 7, 3, 3, 2, 1},    {2, 14, 14, 64, 3, 2, 1},
    {1, 8, 8, 17, 2, 2, 0},  {3, 6, 5, 16, 3, 1, 1},  {1, 4, 4, 33, 4, 4, 3},   {2, 7, 3, 1, 2, 3, 1},
    {1, 9, 9, 5, 5, 2, 2},   {1, 3, 3, 256, 3, 3, 0}, {1, 2, 100, 3, 2, 1, 1},  {1, 3, 2, 65, 1, 2, 0},
    {2, 8, 8, 300, 3, 2, 1}, {1, 1, 2, 31, 3, 1, 2},  {1, 11, 10, 32, 7, 3, 0}, {5, 3, 4, 127, 2, 1, 0}};

std::string name_of(const Pool& s, bool windows) {
    std::string name =
        std::to_string(s.N) + "x" + std::to_string(s.H) + "x" + std::to_string(s.W) + "x" + std::to_string(s.C);
    if (!windows) return name;
    return name + "_" + std::to_string(s.window) + "_" + std::to_string(s.stride) + "_" + std::to_string(s.pad);
}
int64_t pixels(const Pool& s) { return s.N * s.H * s.W * s.C; }
int64_t windows(const Pool& s) { return s.N * s.P() * s.Q() * s.C; }

void add_maxpool(const Pool& s, const std::string& values, bool with_place = true, int64_t offset = 0) {
    Case c{.op = "maxpool", .name = name_of(s, true) + "_" + values + (with_place ? "" : "_no_place")};
    if (offset > 0) c.name += "_offset" + std::to_string(offset);
    c.make = [=](Random& r) {
        return Operands{out("y", windows(s)), out("place", with_place ? windows(s) : 0, Type::i32),
                        in("x", r.fill(pixels(s), values))};
    };
    c.run = [=](const Backend& b, const Device& d) {
        b.maxpool(d[0], with_place ? d.ints(1) : nullptr, d[2], s, d.stream);
    };
    c.reference = reference([=](auto& v) {
        auto place = v[0];
        oracle::maxpool(v[0], place, v[2], s);
        if (with_place) v[1] = place;
    });
    c.compare = Compare::exact;
    c.offset = offset;
    c.flops = double(windows(s)) * double(s.window * s.window);
    add_case(c);
}

// Places of a real maxpool, or "hostile": any number, those of other pixels among them.
void add_maxpool_bwd(const Pool& s, const std::string& values, int64_t offset = 0) {
    Case c{.op = "maxpool_bwd", .name = name_of(s, true) + "_" + values};
    if (offset > 0) c.name += "_offset" + std::to_string(offset);
    c.make = [=](Random& r) {
        const bool hostile = values == "hostile";
        std::vector<double> place = r.integers(windows(s), -3, s.window * s.window + 3), y(place.size());
        if (!hostile) oracle::maxpool(y, place, r.fill(pixels(s), values), s);
        return Operands{out("dx", pixels(s)), in("dy", r.fill(windows(s), hostile ? "normal" : values)),
                        in_ints("place", place)};
    };
    c.run = [=](const Backend& b, const Device& d) { b.maxpool_bwd(d[0], d[1], d.ints(2), s, d.stream); };
    c.reference = reference([=](auto& v) { oracle::maxpool_bwd(v[0], v[1], v[2], s); });
    c.compare = Compare::exact;
    c.offset = offset;
    c.flops = double(windows(s)) * double(s.window * s.window);
    add_case(c);
}

void add_avgpool(const Pool& s, const std::string& values) {
    Case c{.op = "avgpool", .name = name_of(s, false) + "_" + values};
    c.make = [=](Random& r) {
        std::vector<double> x = r.fill(pixels(s), values);
        for (double& v : x) v = std::isfinite(v) && std::fabs(v) > 1e38 ? 1 : v;  // their sum would overflow
        return Operands{out("y", s.N * s.C), in("x", x)};
    };
    c.run = [=](const Backend& b, const Device& d) { b.avgpool(d[0], d[1], s, d.stream); };
    c.reference = reference([=](auto& v) { oracle::avgpool(v[0], v[1], s); });
    c.flops = double(pixels(s));
    add_case(c);
}

void add_avgpool_bwd(const Pool& s, const std::string& values) {
    Case c{.op = "avgpool_bwd", .name = name_of(s, false) + "_" + values};
    c.make = [=](Random& r) { return Operands{out("dx", pixels(s)), in("dy", r.fill(s.N * s.C, values))}; };
    c.run = [=](const Backend& b, const Device& d) { b.avgpool_bwd(d[0], d[1], s, d.stream); };
    c.reference = reference([=](auto& v) { oracle::avgpool_bwd(v[0], v[1], s); });
    c.compare = Compare::exact;
    c.flops = double(pixels(s));
    add_case(c);
}

}  // namespace

CASES(maxpool) {
    for (const Pool& s : kShapes) {
        add_maxpool(s, "normal");
        add_maxpool_bwd(s, "normal");
        add_maxpool_bwd(s, "hostile");
    }
    const Pool small = {2, 9, 8, 21, 3, 2, 1};
    for (std::string values : {"ties", "zeros", "one_hot", "huge", "shifted", "near", "special"}) {
        add_maxpool(small, values);
        add_maxpool_bwd(small, values);
    }
    add_maxpool(small, "special", false);
    add_maxpool(small, "normal", true, 1);
    add_maxpool_bwd(small, "normal", 1);
    add_maxpool({2, 30, 31, 70, 3, 2, 1}, "special");  // several chunks on the CPU
    add_maxpool_bwd({2, 30, 31, 70, 3, 2, 1}, "special");
}

CASES(avgpool) {
    for (const Pool& s : {Pool{0, 2, 2, 3}, Pool{1, 1, 1, 1}, Pool{2, 7, 7, 100}, Pool{3, 2, 2, 33}, Pool{1, 9, 9, 1},
                          Pool{2, 8, 8, 64}, Pool{1, 5, 13, 17}, Pool{2, 3, 5, 2050}, Pool{1, 40, 50, 3},
                          Pool{9, 2, 2, 16}, Pool{1, 23, 23, 64}, Pool{1, 8, 8, 31}, Pool{1, 8, 8, 32}}) {
        add_avgpool(s, "normal");
        add_avgpool_bwd(s, "normal");
    }
    for (const std::string& values : kValueSets) add_avgpool({3, 7, 7, 20}, values);
    add_avgpool({3, 3, 3, 20}, "special");
    add_avgpool_bwd({3, 3, 3, 20}, "special");
    add_avgpool({20, 30, 30, 70}, "shifted");
}

CASES(pool_refusals) {
    float* const none = nullptr;
    const auto windows_refused = [=](const std::string& name, const std::string& says, Pool s) {
        add_refusal({"maxpool", name, says, [=](const Backend& b) { b.maxpool(none, nullptr, none, s, nullptr); }});
        add_refusal(
            {"maxpool_bwd", name, says, [=](const Backend& b) { b.maxpool_bwd(none, none, nullptr, s, nullptr); }});
    };
    const auto images_refused = [=](const std::string& name, const std::string& says, Pool s) {
        windows_refused(name, says, s);
        add_refusal({"avgpool", name, says, [=](const Backend& b) { b.avgpool(none, none, s, nullptr); }});
        add_refusal({"avgpool_bwd", name, says, [=](const Backend& b) { b.avgpool_bwd(none, none, s, nullptr); }});
    };
    images_refused("negative_images", "N", {-1, 4, 4, 3, 2, 2, 0});
    images_refused("no_height", "H", {1, 0, 4, 3, 2, 2, 0});
    images_refused("no_width", "W", {1, 4, 0, 3, 2, 2, 0});
    images_refused("no_channels", "C", {1, 4, 4, 0, 2, 2, 0});
    images_refused("too_many", "cannot exist", {int64_t(1) << 40, 1 << 10, 1 << 10, 1 << 10, 2, 2, 0});
    images_refused("long_row", "2^31", {1, 2, 1 << 16, 1 << 15, 2, 2, 0});
    images_refused("null_pointer", "null", {1, 4, 4, 3, 2, 2, 0});
    windows_refused("no_window", "window", {1, 4, 4, 3, 0, 2, 0});
    windows_refused("huge_window", "window", {1, 4, 4, 3, int64_t(1) << 40, 2, (int64_t(1) << 40) - 1});
    windows_refused("no_stride", "stride", {1, 4, 4, 3, 2, 0, 0});
    windows_refused("negative_pad", "pad", {1, 4, 4, 3, 2, 2, -1});
    windows_refused("pad_of_a_window", "pad", {1, 4, 4, 3, 2, 2, 2});
    windows_refused("window_too_large", "fits", {1, 4, 3, 3, 4, 2, 0});
    add_refusal({"maxpool", "in_place", "overlaps", [](const Backend& b) {
                     const lc::Buffer<float> x(b, 16);
                     b.maxpool(x.data(), nullptr, x.data(), {1, 4, 4, 1, 1, 1, 0}, nullptr);
                 }});
    add_refusal({"avgpool_bwd", "in_place", "overlaps", [](const Backend& b) {
                     const lc::Buffer<float> x(b, 16);
                     b.avgpool_bwd(x.data(), x.data() + 2, {1, 4, 4, 1}, nullptr);
                 }});
}

CASES(pool_gradients) {
    Random r(3);
    const Pool s = {2, 5, 4, 2, 3, 2, 1};
    std::vector<double> x = r.normal(pixels(s));
    for (size_t i = 0; i < x.size(); ++i) x[i] += 0.01 * double(i);  // no ties: they are kinks
    add_gradient({"maxpool", "input", x, r.normal(windows(s)),
                  [=](const std::vector<double>& v) {
                      std::vector<double> y(static_cast<size_t>(windows(s))), place(y);
                      oracle::maxpool(y, place, v, s);
                      return y;
                  },
                  [=](const std::vector<double>& v, const std::vector<double>& dy) {
                      std::vector<double> y(dy.size()), place(y), dx(v.size());
                      oracle::maxpool(y, place, v, s);
                      oracle::maxpool_bwd(dx, dy, place, s);
                      return dx;
                  }});
    add_gradient({"avgpool", "input", x, r.normal(s.N * s.C),
                  [=](const std::vector<double>& v) {
                      std::vector<double> y(static_cast<size_t>(s.N * s.C));
                      oracle::avgpool(y, v, s);
                      return y;
                  },
                  [=](const std::vector<double>& v, const std::vector<double>& dy) {
                      std::vector<double> dx(v.size());
                      oracle::avgpool_bwd(dx, dy, s);
                      return dx;
                  }});
}

// ResNet's maximum after the first convolution, and its last averages at 224 x 224 and 64 x 64.
CASES(pool_speed) {
    const auto speed = [](const std::string& op, const Pool& s, int64_t outputs, double elements,
                          std::function<void(const Backend&, const Device&)> run) {
        Case c{.op = op, .name = name_of(s, op.starts_with("max"))};
        c.make = [=](Random& r) {
            return Operands{out("out", outputs),
                            in("in", r.uniform(op.ends_with("bwd") ? windows(s) : pixels(s), -1, 1)),
                            Operand{"place", Role::in_out, Type::i32, r.integers(windows(s), 0, 8)}};
        };
        c.run = std::move(run);
        c.bytes = 4 * elements;
        c.bench = c.bench_only = true;
        add_case(c);
    };
    const Pool first = {16, 112, 112, 64, 3, 2, 1};
    const double whole = double(pixels(first)) + 2 * double(windows(first));
    speed("maxpool", first, windows(first), whole,
          [=](const Backend& b, const Device& d) { b.maxpool(d[0], d.ints(2), d[1], first, d.stream); });
    speed("maxpool_bwd", first, pixels(first), whole,
          [=](const Backend& b, const Device& d) { b.maxpool_bwd(d[0], d[1], d.ints(2), first, d.stream); });
    for (const Pool& last : {Pool{128, 7, 7, 2048, 7, 7, 0}, Pool{1024, 2, 2, 2048, 2, 2, 0}}) {
        speed("avgpool", last, windows(last), double(pixels(last) + windows(last)),
              [=](const Backend& b, const Device& d) { b.avgpool(d[0], d[1], last, d.stream); });
        speed("avgpool_bwd", last, pixels(last), double(pixels(last) + windows(last)),
              [=](const Backend& b, const Device& d) { b.avgpool_bwd(d[0], d[1], last, d.stream); });
    }
}

// Cases of conv2d.h.  What `prepared` holds is a backend's business, so a case prepares the filters and then runs the op.
//
// Tolerances: engine gemm is judged like every op, by the error of the same sums in float32.  Winograd's natural error is
// larger; its yardstick is Winograd's algorithm itself in float32 loops (the judge remains the definition in double), and
// conv2d_digits holds it to the digits that the contract promises.
#include "tests/oracle/conv2d.h"

#include <cmath>

#include "tests/harness.h"

using namespace test;
using lc::Backend;
using lc::Buffer;
using lc::Conv2d;
using lc::ConvEngine;
using lc::ConvPass;

namespace {

struct Wanted {  // of the epilogue
    bool bias = false, residual = false, relu = false, in_place = false;
};

std::string name_of(const Conv2d& s) {
    static const char* const engines[] = {"", "_gemm", "_winograd2", "_winograd4"};
    const auto str = [](int64_t n) { return std::to_string(n); };
    return str(s.N) + "x" + str(s.H) + "x" + str(s.W) + "x" + str(s.C) + "_" + str(s.R) + "x" + str(s.S) + "x" +
           str(s.K) + "_s" + str(s.stride) + "_p" + str(s.pad) + engines[int(s.engine)];
}

int64_t tile_of(const Conv2d& s, ConvPass pass) {  // 0: no Winograd
    const ConvEngine e = lc::conv2d_engine(s, pass);
    return e == ConvEngine::winograd2 ? 2 : e == ConvEngine::winograd4 ? 4 : 0;
}

int64_t size_x(const Conv2d& s) { return s.N * s.H * s.W * s.C; }
int64_t size_w(const Conv2d& s) { return s.R * s.S * s.C * s.K; }
int64_t size_y(const Conv2d& s) { return s.N * s.P() * s.Q() * s.K; }

// Filters prepared with some other N, because they serve any.
Buffer<float> prepare(const Backend& b, const float* w, Conv2d s, ConvPass pass, lc::Stream stream) {
    s.N = 1;
    Buffer<float> prepared(b, lc::conv2d_prepared_floats(s, pass));
    b.conv2d_prepare(prepared.data(), w, s, pass, stream);
    return prepared;
}

// ---- the three ops --------------------------------------------------------------------------------------------------

Case forward(const Conv2d& s, Wanted e = {}, const std::string& values = "normal") {
    Case c{.op = "conv2d", .name = name_of(s)};
    if (e.bias) c.name += "_bias";
    if (e.residual) c.name += e.in_place ? "_residual_in_place" : "_residual";
    if (e.relu) c.name += "_relu";
    if (values != "normal") c.name += "_" + values;
    c.make = [=](Random& r) {
        Operands o = {out("y", size_y(s)), in("x", r.fill(size_x(s), values)), in("w", r.fill(size_w(s), values)),
                      in("bias", r.normal(e.bias ? s.K : 0)), in("residual", r.normal(e.residual ? size_y(s) : 0))};
        if (e.in_place) o[0] = in_out("y", std::exchange(o[4].v, {}));
        return o;
    };
    c.run = [=](const Backend& b, const Device& d) {
        const Buffer<float> prepared = prepare(b, d[2], s, ConvPass::forward, d.stream);
        const float* const residual = e.in_place ? d[0] : d[4];
        b.conv2d(d[0], d[1], prepared.data(), {e.bias ? d[3] : nullptr, e.residual ? residual : nullptr, e.relu}, s,
                 d.stream);
        b.sync(d.stream);  // before prepared goes
    };
    const int64_t m = tile_of(s, ConvPass::forward);
    const auto finish = [=](auto& v, const auto& y) {
        const auto residual = e.in_place ? v[0] : v[4];
        v[0] = y;
        oracle::conv2d_epilogue(v[0], v[3], residual, e.relu);
    };
    const auto direct = [=](auto& v) {
        auto y = v[0];
        oracle::conv2d(y, v[1], v[2], s);
        finish(v, y);
    };
    c.reference = reference(direct);
    if (m != 0) {
        c.reference.yardstick = [=](Values<float>& v) {
            auto y = v[0];
            oracle::conv2d_winograd(y, v[1], v[2], s, m);
            finish(v, y);
        };
    }
    c.flops = lc::conv2d_flops(s);
    return c;
}

Case bwd_data(const Conv2d& s, const std::string& values = "normal") {
    Case c{.op = "conv2d_bwd_data", .name = name_of(s) + (values == "normal" ? "" : "_" + values)};
    c.make = [=](Random& r) {
        return Operands{out("dx", size_x(s)), in("dy", r.fill(size_y(s), values)), in("w", r.fill(size_w(s), values))};
    };
    c.run = [=](const Backend& b, const Device& d) {
        const Buffer<float> prepared = prepare(b, d[2], s, ConvPass::bwd_data, d.stream);
        b.conv2d_bwd_data(d[0], d[1], prepared.data(), s, d.stream);
        b.sync(d.stream);
    };
    c.reference = reference([=](auto& v) { oracle::conv2d_bwd_data(v[0], v[1], v[2], s); });
    const int64_t m = tile_of(s, ConvPass::bwd_data);
    if (m != 0) {
        c.reference.yardstick = [=](Values<float>& v) { oracle::conv2d_bwd_data_winograd(v[0], v[1], v[2], s, m); };
    }
    c.flops = lc::conv2d_flops(s);
    return c;
}

Case bwd_filter(const Conv2d& s, const std::string& values = "normal") {
    Case c{.op = "conv2d_bwd_filter", .name = name_of(s) + (values == "normal" ? "" : "_" + values)};
    c.make = [=](Random& r) {
        return Operands{out("dw", size_w(s)), in("x", r.fill(size_x(s), values)), in("dy", r.fill(size_y(s), values))};
    };
    c.run = [=](const Backend& b, const Device& d) { b.conv2d_bwd_filter(d[0], d[1], d[2], s, d.stream); };
    c.reference = reference([=](auto& v) { oracle::conv2d_bwd_filter(v[0], v[1], v[2], s); });
    c.flops = lc::conv2d_flops(s);
    return c;
}

void add_all(const Conv2d& s) {
    add_case(forward(s));
    add_case(bwd_data(s));
    add_case(bwd_filter(s));
}

Conv2d with(Conv2d s, ConvEngine engine) {
    s.engine = engine;
    return s;
}

const ConvEngine kWinograd[] = {ConvEngine::winograd2, ConvEngine::winograd4};
const ConvEngine kEngines[] = {ConvEngine::gemm, ConvEngine::winograd2, ConvEngine::winograd4};

}  // namespace

// ---- shapes ---------------------------------------------------------------------------------------------------------

CASES(conv2d_shapes) {
    // Filters of every size and stride, even ones, oblong ones, with all kinds of padding; strides larger than the filter.
    const Conv2d filters[] = {
        {.N = 2, .H = 9, .W = 11, .C = 5, .K = 7, .R = 1, .S = 1},
        {.N = 2, .H = 9, .W = 10, .C = 5, .K = 7, .R = 1, .S = 1, .stride = 2},
        {.N = 1, .H = 10, .W = 11, .C = 6, .K = 4, .R = 1, .S = 1, .stride = 3},
        {.N = 2, .H = 9, .W = 8, .C = 3, .K = 5, .R = 3, .S = 3},
        {.N = 2, .H = 9, .W = 8, .C = 3, .K = 5, .R = 3, .S = 3, .pad = 1},
        {.N = 2, .H = 9, .W = 8, .C = 3, .K = 5, .R = 3, .S = 3, .stride = 2, .pad = 1},
        {.N = 2, .H = 10, .W = 11, .C = 17, .K = 16, .R = 3, .S = 3, .stride = 3, .pad = 2},
        {.N = 1, .H = 12, .W = 13, .C = 4, .K = 8, .R = 5, .S = 5, .pad = 2},
        {.N = 1, .H = 12, .W = 13, .C = 4, .K = 8, .R = 5, .S = 5, .stride = 3, .pad = 4},
        {.N = 2, .H = 23, .W = 22, .C = 3, .K = 33, .R = 7, .S = 7, .stride = 2, .pad = 3},
        {.N = 2, .H = 7, .W = 8, .C = 3, .K = 3, .R = 2, .S = 2},
        {.N = 2, .H = 7, .W = 8, .C = 3, .K = 3, .R = 4, .S = 4, .stride = 2, .pad = 1},
        {.N = 2, .H = 8, .W = 9, .C = 3, .K = 4, .R = 2, .S = 5, .pad = 1},
        {.N = 2, .H = 8, .W = 9, .C = 3, .K = 4, .R = 5, .S = 2, .stride = 2, .pad = 1},
        {.N = 1, .H = 3, .W = 3, .C = 2, .K = 2, .R = 3, .S = 3},               // one output
        {.N = 1, .H = 1, .W = 1, .C = 1, .K = 1, .R = 1, .S = 1},               // one of everything
        {.N = 1, .H = 1, .W = 1, .C = 3, .K = 2, .R = 3, .S = 3, .pad = 1},     // more border than image
        {.N = 1, .H = 8, .W = 8, .C = 2, .K = 2, .R = 2, .S = 2, .stride = 3},  // pixels that nobody reads
        {.N = 3, .H = 6, .W = 5, .C = 4, .K = 4, .R = 3, .S = 1},               // no padding to the sides
    };
    for (const Conv2d& s : filters) add_all(with(s, ConvEngine::gemm));
    // Channels around the widths of vectors, panels and tiles; pixels around blocks of 64, 96 and 128.
    for (int64_t C : {1, 3, 16, 17, 65})
        for (int64_t K : {1, 17, 64}) add_all({.N = 1, .H = 7, .W = 9, .C = C, .K = K, .R = 3, .S = 3, .pad = 1});
    for (int64_t W : {63, 64, 65, 96, 97, 129}) {
        add_all({.N = 1, .H = 1, .W = W, .C = 8, .K = 33, .R = 1, .S = 1});
        add_all({.N = 1, .H = 2, .W = W, .C = 8, .K = 12, .R = 3, .S = 3, .pad = 1});
    }
    for (int64_t N : {0, 1, 2, 3}) {
        add_all({.N = N, .H = 5, .W = 6, .C = 16, .K = 24, .R = 3, .S = 3, .stride = 2, .pad = 1});
        add_all({.N = N, .H = 5, .W = 6, .C = 16, .K = 24, .R = 3, .S = 3, .pad = 1});
        add_all({.N = N, .H = 5, .W = 6, .C = 16, .K = 24, .R = 1, .S = 1});
    }
    add_all(
        {.N = 2, .H = 6, .W = 7, .C = 130, .K = 70, .R = 3, .S = 3, .stride = 2, .pad = 1});  // several blocks of depth
    add_all({.N = 3, .H = 7, .W = 7, .C = 150, .K = 520, .R = 1, .S = 1});                    // and of columns
    add_all({.N = 4, .H = 14, .W = 14, .C = 40, .K = 48, .R = 3, .S = 3, .pad = 1});          // several tiles
    add_all({.N = 2, .H = 28, .W = 28, .C = 64, .K = 96, .R = 3, .S = 3, .stride = 2, .pad = 1});
    add_all({.N = 1, .H = 56, .W = 60, .C = 3, .K = 64, .R = 7, .S = 7, .stride = 2, .pad = 3});
    // On the CPU two stretches of pixels.
    add_case(bwd_filter({.N = 1, .H = 58, .W = 61, .C = 560, .K = 40, .R = 1, .S = 1, .stride = 3}));
}

// What the CUDA backend does by the shape: channels that are multiples of 4 and not of 8; large tiles, where there are 96
// of 128 x 128, over all classes of the stride; slices of 256 pixels or more, which begin amid images and rows.
CASES(conv2d_cuda_tiles) {
    const Conv2d shapes[] = {
        {.N = 2, .H = 7, .W = 9, .C = 12, .K = 20, .R = 3, .S = 3, .pad = 1},
        {.N = 2, .H = 9, .W = 8, .C = 20, .K = 12, .R = 3, .S = 3, .stride = 2, .pad = 1},
        {.N = 1, .H = 13, .W = 14, .C = 64, .K = 64, .R = 3, .S = 3, .stride = 2, .pad = 1},
        {.N = 1, .H = 10, .W = 13, .C = 64, .K = 68, .R = 1, .S = 1},
        {.N = 1, .H = 22, .W = 20, .C = 3, .K = 64, .R = 7, .S = 7, .stride = 2, .pad = 3},
        {.N = 2, .H = 5, .W = 3, .C = 8, .K = 12, .R = 2, .S = 2, .stride = 9, .pad = 1},  // classes without a pixel
    };
    for (const Conv2d& s : shapes) add_all(with(s, ConvEngine::gemm));
    for (int64_t side : {10, 20})  // 100 classes of 70 rows, with one tap and with four
        add_case(bwd_data({.N = 2, .H = 50, .W = 70, .C = 68, .K = 4, .R = side, .S = side, .stride = 10}));
    add_case(forward({.N = 3, .H = 64, .W = 65, .C = 4, .K = 68, .R = 1, .S = 1}, {true, true, true}));
    for (int64_t N : {2, 9}) add_case(bwd_filter({.N = N, .H = 55, .W = 57, .C = 4, .K = 68, .R = 55, .S = 57}));
    for (int64_t C : {7, 8})
        for (int64_t K : {5, 8}) {
            add_case(bwd_filter({.N = 3, .H = 15, .W = 17, .C = C, .K = K, .R = 3, .S = 3, .pad = 1}));
            add_case(bwd_filter({.N = 100, .H = 5, .W = 6, .C = C, .K = K, .R = 2, .S = 2, .stride = 2}));
            add_case(bwd_filter({.N = 261, .H = 2, .W = 3, .C = C, .K = K, .R = 2, .S = 2}));
        }
}

CASES(conv2d_winograd) {
    for (ConvEngine e : kWinograd) {
        for (int64_t H : {1, 2, 3, 4, 5, 8, 9})  // around the tiles
            for (int64_t pad : {0, 1, 2}) {
                const Conv2d s = {
                    .N = 1, .H = H + 2 - (pad > 0), .W = 11 - H, .C = 4, .K = 5, .R = 3, .S = 3, .pad = pad};
                if (s.W + 2 * pad < 3) continue;
                add_case(forward(with(s, e)));
                add_case(bwd_data(with(s, e)));
            }
        for (int64_t C : {1, 3, 16, 17, 65})  // around the vectors and panels
            for (int64_t K : {1, 16, 33}) {
                const Conv2d s = {.N = 2, .H = 6, .W = 5, .C = C, .K = K, .R = 3, .S = 3, .pad = 1};
                add_case(forward(with(s, e)));
                add_case(bwd_data(with(s, e)));
            }
        for (int64_t N : {0, 1, 3}) {  // a tile count that leaves ragged blocks
            const Conv2d s = {.N = N, .H = 13, .W = 14, .C = 24, .K = 20, .R = 3, .S = 3, .pad = 1};
            add_case(forward(with(s, e)));
            add_case(bwd_data(with(s, e)));
        }
        const Conv2d deep = {
            .N = 2, .H = 4, .W = 4, .C = 400, .K = 40, .R = 3, .S = 3, .pad = 1};  // several blocks of depth
        add_case(forward(with(deep, e)));
        add_case(bwd_data(with(deep, e)));
        // On the CPU more than one block of tiles that threads share.
        const int64_t images = e == ConvEngine::winograd2 ? 260 : 120;
        const Conv2d blocks = {.N = images, .H = 1, .W = 1, .C = 1024, .K = 17, .R = 3, .S = 3, .pad = 1};
        add_case(forward(with(blocks, e)));
        const Conv2d many = {.N = 4, .H = 29, .W = 30, .C = 16, .K = 66, .R = 3, .S = 3, .pad = 1};
        add_case(forward(with(many, e), {.bias = true, .residual = true, .relu = true}));
        add_case(bwd_data(with(many, e)));
    }
}

// The promise: winograd2 loses at most half a decimal digit against the float32 sums of the definition, winograd4 two.
CASES(conv2d_digits) {
    for (ConvEngine e : kWinograd) {
        const Conv2d s = {.N = 1, .H = 8, .W = 8, .C = 64, .K = 32, .R = 3, .S = 3, .pad = 1, .engine = e};
        for (Case c : {forward(s), bwd_data(s)}) {
            const bool is_forward = c.op == "conv2d";
            c.reference.yardstick = [=](Values<float>& v) {
                is_forward ? oracle::conv2d(v[0], v[1], v[2], s) : oracle::conv2d_bwd_data(v[0], v[1], v[2], s);
            };
            c.k = e == ConvEngine::winograd2 ? 3.2 : 100;
            c.name += "_digits";
            add_case(c);
        }
    }
}

// ---- the epilogue, places in memory, values -------------------------------------------------------------------------

CASES(conv2d_epilogue) {
    for (ConvEngine e : kEngines)
        for (int i = 1; i < 8; ++i) {
            const Conv2d s = {.N = 2, .H = 5, .W = 7, .C = 6, .K = 19, .R = 3, .S = 3, .pad = 1, .engine = e};
            const bool bias = (i & 1) != 0, residual = (i & 2) != 0, relu = (i & 4) != 0;
            add_case(forward(s, {bias, residual, relu}));
            if (residual) add_case(forward(s, {bias, residual, relu, true}));
        }
    const Wanted all = {true, true, true};
    add_case(forward({.N = 2, .H = 7, .W = 8, .C = 70, .K = 64, .R = 1, .S = 1}, all));
    add_case(
        forward({.N = 2, .H = 7, .W = 8, .C = 500, .K = 50, .R = 1, .S = 1}, all));  // after the last block of depth
    add_case(forward({.N = 2, .H = 9, .W = 8, .C = 8, .K = 40, .R = 3, .S = 3, .stride = 2, .pad = 1}, all));
}

CASES(conv2d_offset) {  // no array but prepared is promised to be aligned
    for (ConvEngine e : kEngines) {
        const Conv2d s = {.N = 2, .H = 6, .W = 7, .C = 16, .K = 32, .R = 3, .S = 3, .pad = 1, .engine = e};
        for (Case c : {forward(s, {true, true, true}), bwd_data(s), bwd_filter(s)}) {
            if (e != ConvEngine::gemm && c.op == "conv2d_bwd_filter") continue;
            // prepare() allocates by itself, so only the operands move.
            c.offset = 1;
            c.name += "_offset1";
            add_case(c);
        }
    }
}

CASES(conv2d_values) {
    for (const std::string& values : kValueSets) {
        const Conv2d s = {.N = 2, .H = 6, .W = 7, .C = 9, .K = 18, .R = 3, .S = 3, .pad = 1};
        for (ConvEngine e : kEngines) {
            add_case(forward(with(s, e), {}, values));
            add_case(bwd_data(with(s, e), values));
        }
        add_case(bwd_filter(s, values));
        add_case(bwd_data({.N = 2, .H = 6, .W = 7, .C = 9, .K = 18, .R = 3, .S = 3, .stride = 2, .pad = 1}, values));
    }
}

// One NaN reaches the outputs that read it and no other; under Winograd the whole tile.  It lies where only the first
// tile of the second image reads it.
CASES(conv2d_nan) {
    const auto poisoned = [](Case c, int64_t at) {
        const auto make = c.make;
        c.make = [=](Random& r) {
            Operands o = make(r);
            o[1].v[size_t(at)] = NAN;
            return o;
        };
        c.name += "_nan";
        return c;
    };
    for (ConvEngine e : kEngines) {
        const Conv2d s = {.N = 2, .H = 9, .W = 9, .C = 3, .K = 17, .R = 3, .S = 3, .pad = 1, .engine = e};
        const int64_t m = tile_of(s, ConvPass::forward), row = m == 2 ? 0 : 1;
        Case f = poisoned(forward(s), ((s.H + row) * s.W + row) * s.C + 1);
        Case b = poisoned(bwd_data(s), ((s.P() + row) * s.Q() + row) * s.K + 1);
        if (m != 0) {
            f.reference.judge = [=](Values<double>& v) { oracle::conv2d_winograd(v[0], v[1], v[2], s, m); };
            b.reference.judge = [=](Values<double>& v) { oracle::conv2d_bwd_data_winograd(v[0], v[1], v[2], s, m); };
        }
        add_case(f);
        add_case(b);
    }
    const Conv2d s = {.N = 2, .H = 9, .W = 9, .C = 3, .K = 17, .R = 3, .S = 3, .stride = 2, .pad = 1};
    add_case(poisoned(forward(s, {.bias = true, .relu = true}), ((s.H + 2) * s.W + 4) * s.C + 2));
    add_case(poisoned(bwd_data(s), ((s.P() + 2) * s.Q() + 1) * s.K + 3));
    add_case(poisoned(bwd_filter(s), ((s.H + 2) * s.W + 4) * s.C + 2));
    // Infinities too, where no border meets them; two of different sign in one sum give NaN.
    const Conv2d plain = {.N = 2, .H = 3, .W = 5, .C = 4, .K = 7, .R = 1, .S = 1};
    for (Case c : {forward(plain, {true, true, true}), bwd_data(plain), bwd_filter(plain)}) {
        const auto make = c.make;
        c.make = [=](Random& r) {
            Operands o = make(r);
            o[1].v[9] = INFINITY, o[1].v[42] = INFINITY, o[1].v[43] = -INFINITY, o[1].v[71] = -INFINITY;
            return o;
        };
        add_case(poisoned(c, 65));
    }
}

// An image gives the same bits alone and in a batch: the difference is 0.
CASES(conv2d_alone) {
    const auto alone = [](const Conv2d& s, ConvPass pass) {
        const bool is_forward = pass == ConvPass::forward;
        Case c{.op = is_forward ? "conv2d" : "conv2d_bwd_data", .name = name_of(s) + "_alone"};
        const int64_t size_in = is_forward ? size_x(s) : size_y(s), size_out = is_forward ? size_y(s) : size_x(s);
        c.make = [=](Random& r) {
            return Operands{out("difference", size_out), in("x", r.normal(size_in)), in("w", r.normal(size_w(s)))};
        };
        c.run = [=](const Backend& b, const Device& d) {
            const Buffer<float> prepared = prepare(b, d[2], s, pass, d.stream), one(b, size_out), all(b, size_out);
            const auto run = [&](float* y, const float* x, const Conv2d& shape) {
                is_forward ? b.conv2d(y, x, prepared.data(), {}, shape, d.stream)
                           : b.conv2d_bwd_data(y, x, prepared.data(), shape, d.stream);
            };
            run(all.data(), d[1], s);
            Conv2d single = s;
            single.N = 1;
            for (int64_t n = 0; n < s.N; ++n)
                run(one.data() + n * (size_out / s.N), d[1] + n * (size_in / s.N), single);
            b.scale(one.data(), one.data(), -1.0f, size_out, d.stream);
            b.add(d[0], all.data(), one.data(), size_out, d.stream);
            b.sync(d.stream);
        };
        c.reference = reference([](auto& v) { std::fill(v[0].begin(), v[0].end(), 0); });
        c.compare = Compare::exact;
        c.flops = 2 * lc::conv2d_flops(s);
        return c;
    };
    for (ConvEngine e : kEngines) {
        const Conv2d s = {.N = 3, .H = 9, .W = 7, .C = 45, .K = 24, .R = 3, .S = 3, .pad = 1, .engine = e};
        add_case(alone(s, ConvPass::forward));
        add_case(alone(s, ConvPass::bwd_data));
    }
    const Conv2d s = {.N = 3, .H = 9, .W = 8, .C = 45, .K = 50, .R = 3, .S = 3, .stride = 2, .pad = 1};
    add_case(alone(s, ConvPass::forward));
    add_case(alone(s, ConvPass::bwd_data));
}

// ---- refusals -------------------------------------------------------------------------------------------------------

CASES(conv2d_refusals) {
    alignas(64) static float x[4096];
    static const Conv2d good = {.N = 1, .H = 4, .W = 4, .C = 2, .K = 3, .R = 3, .S = 3, .pad = 1};
    const auto refuse = [](const std::string& name, const std::string& says, const Conv2d& s) {
        add_refusal({"conv2d", name, says, [=](const Backend& b) { b.conv2d(x, x + 64, x + 128, {}, s, nullptr); }});
        add_refusal({"conv2d_prepare", name, says,
                     [=](const Backend& b) { b.conv2d_prepare(x, x + 2048, s, ConvPass::forward, nullptr); }});
        add_refusal({"conv2d_bwd_data", name, says,
                     [=](const Backend& b) { b.conv2d_bwd_data(x, x + 64, x + 128, s, nullptr); }});
        add_refusal({"conv2d_bwd_filter", name, says,
                     [=](const Backend& b) { b.conv2d_bwd_filter(x, x + 64, x + 128, s, nullptr); }});
    };
    const auto changed = [](auto change) {
        Conv2d s = good;
        change(s);
        return s;
    };
    refuse("negative_n", "N", changed([](Conv2d& s) { s.N = -1; }));
    refuse("no_height", "H", changed([](Conv2d& s) { s.H = 0; }));
    refuse("no_channels", "C", changed([](Conv2d& s) { s.C = 0; }));
    refuse("no_filters", "K", changed([](Conv2d& s) { s.K = 0; }));
    refuse("stride_0", "stride", changed([](Conv2d& s) { s.stride = 0; }));
    refuse("pad_3", "pad", changed([](Conv2d& s) { s.pad = 3; }));
    refuse("negative_pad", "pad", changed([](Conv2d& s) { s.pad = -1; }));
    refuse("filter_too_large", "does not fit", changed([](Conv2d& s) { s.R = 9, s.S = 9; }));
    refuse("too_large", "memory", changed([](Conv2d& s) { s.N = int64_t(1) << 60; }));
    refuse("far_too_large", "memory", changed([](Conv2d& s) { s.H = INT64_MAX; }));
    refuse("winograd_stride", "winograd", changed([](Conv2d& s) { s.engine = ConvEngine::winograd4, s.stride = 2; }));
    refuse("winograd_5x5", "winograd", changed([](Conv2d& s) { s.engine = ConvEngine::winograd2, s.R = s.S = 5; }));
    refuse("unknown_engine", "engine", changed([](Conv2d& s) { s.engine = ConvEngine(9); }));

    const auto call = [](const std::string& op, const std::string& name, const std::string& says, auto f) {
        add_refusal({op, name, says, [=](const Backend& b) { f(b); }});
    };
    call("conv2d", "null_x", "null", [](const Backend& b) { b.conv2d(x, nullptr, x + 1024, {}, good, nullptr); });
    call("conv2d", "null_prepared", "null", [](const Backend& b) { b.conv2d(x, x + 512, nullptr, {}, good, nullptr); });
    call("conv2d", "y_overlaps_x", "overlap",
         [](const Backend& b) { b.conv2d(x, x + 8, x + 1024, {}, good, nullptr); });
    call("conv2d", "y_overlaps_bias", "overlap",
         [](const Backend& b) { b.conv2d(x, x + 512, x + 1024, {.bias = x + 8}, good, nullptr); });
    call("conv2d", "residual_shifted", "overlap",
         [](const Backend& b) { b.conv2d(x, x + 512, x + 1024, {.residual = x + 8}, good, nullptr); });
    call("conv2d", "prepared_unaligned", "64 bytes",
         [](const Backend& b) { b.conv2d(x, x + 512, x + 1025, {}, good, nullptr); });
    call("conv2d_prepare", "overlap", "overlap",
         [](const Backend& b) { b.conv2d_prepare(x, x + 8, good, ConvPass::forward, nullptr); });
    call("conv2d_prepare", "pass", "pass",
         [](const Backend& b) { b.conv2d_prepare(x, x, good, ConvPass(7), nullptr); });
    call("conv2d_bwd_data", "overlap", "overlap",
         [](const Backend& b) { b.conv2d_bwd_data(x, x + 8, x + 1024, good, nullptr); });
    call("conv2d_bwd_filter", "overlap", "overlap",
         [](const Backend& b) { b.conv2d_bwd_filter(x, x + 512, x + 8, good, nullptr); });
    call("conv2d", "engine_name", "winograd4", [](const Backend&) { lc::conv2d_engine_named("fft"); });
}

// ---- gradients ------------------------------------------------------------------------------------------------------

CASES(conv2d_gradient) {
    const Conv2d shapes[] = {{.N = 2, .H = 4, .W = 5, .C = 2, .K = 3, .R = 3, .S = 3, .pad = 1},
                             {.N = 1, .H = 5, .W = 6, .C = 2, .K = 2, .R = 3, .S = 2, .stride = 2, .pad = 1}};
    for (const Conv2d& s : shapes) {
        Random r(7);
        const std::vector<double> x = r.normal(size_x(s)), w = r.normal(size_w(s)), dy = r.normal(size_y(s));
        add_gradient({"conv2d_bwd_data", name_of(s), x, dy,
                      [=](const std::vector<double>& at) {
                          std::vector<double> y(size_t(size_y(s)));
                          oracle::conv2d(y, at, w, s);
                          return y;
                      },
                      [=](const std::vector<double>& at, const std::vector<double>& up) {
                          std::vector<double> dx(at.size());
                          oracle::conv2d_bwd_data(dx, up, w, s);
                          return dx;
                      }});
        add_gradient({"conv2d_bwd_filter", name_of(s), w, dy,
                      [=](const std::vector<double>& at) {
                          std::vector<double> y(size_t(size_y(s)));
                          oracle::conv2d(y, x, at, s);
                          return y;
                      },
                      [=](const std::vector<double>& at, const std::vector<double>& up) {
                          std::vector<double> dw(at.size());
                          oracle::conv2d_bwd_filter(dw, x, up, s);
                          return dw;
                      }});
    }
}

// conv2d_common.cpp -- what all backends of conv2d share on the host: names and choice of the engines, the size of
// prepared filters, and the checks of a call (contract: conv2d.h).
#include "kernels/conv2d_common.h"

#include <algorithm>
#include <initializer_list>

#include "kernels/arguments.h"

namespace lc {
namespace {

constexpr int64_t round_up(int64_t n, int64_t unit) { return (n + unit - 1) / unit * unit; }

bool fits_winograd(const Conv2d& s) { return s.R == 3 && s.S == 3 && s.stride == 1; }

// The product of sizes that are 1 or more (N may be 0), or a refusal where no memory could hold so many floats.
int64_t volume(const char* op, const char* name, std::initializer_list<int64_t> sizes) {
    constexpr int64_t kMost = std::numeric_limits<int64_t>::max() / 1024;  // room for padding, transforms and bytes
    int64_t product = 1;
    for (int64_t n : sizes) {
        LC_CHECK(n == 0 || product <= kMost / n,
                 op << ": " << name << " has more elements than any memory; check the shape");
        product *= n;
    }
    return product;
}

struct Volumes {
    int64_t x, w, y;
};
Volumes volumes(const char* op, const Conv2d& s) {
    return {volume(op, "x (N, H, W, C)", {s.N, s.H, s.W, s.C}), volume(op, "w (R, S, C, K)", {s.R, s.S, s.C, s.K}),
            volume(op, "y (N, P, Q, K)", {s.N, s.P(), s.Q(), s.K})};
}

Array prepared_array(const char* op, const float* prepared, const Conv2d& s, ConvPass pass) {
    const Array a = {"prepared", prepared, conv2d_prepared_floats(s, pass)};
    check_array(op, a);
    LC_CHECK(a.begin() % 64 == 0, op << ": prepared begins on a multiple of 64 bytes; found address " << prepared
                                     << ", so give it an allocation of its own");
    return a;
}

}  // namespace

// ---- engines --------------------------------------------------------------------------------------------------------

ConvEngine conv2d_engine_named(std::string_view name) {
    if (name == "automatic") return ConvEngine::automatic;
    if (name == "gemm") return ConvEngine::gemm;
    if (name == "winograd2") return ConvEngine::winograd2;
    if (name == "winograd4") return ConvEngine::winograd4;
    throw Error("conv2d: there is no engine '" + std::string(name) +
                "'; choose automatic, gemm, winograd2 or winograd4");
}

// Winograd trades products for transforms of its inputs and outputs, so it wants many channels on both sides, and tiles that
// are mostly filled.  Its products also run slower, because each of them is a smaller matrix; the factors 1.5 and 1.75 and
// the fewest channels were measured on the CPU.
ConvEngine conv2d_engine(const Conv2d& s, ConvPass pass) {
    constexpr int64_t kFewestChannels = 16;
    if (s.engine != ConvEngine::automatic) return s.engine;
    if (!fits_winograd(s) || std::min(s.C, s.K) < kFewestChannels) return ConvEngine::gemm;
    const bool forward = pass == ConvPass::forward;
    const int64_t rows = forward ? s.P() : s.H, columns = forward ? s.Q() : s.W;
    const auto tiles = [=](int64_t m) { return double((rows + m - 1) / m) * double((columns + m - 1) / m); };
    const double gemm = 9 * tiles(1), winograd2 = 1.5 * 16 * tiles(2), winograd4 = 1.75 * 36 * tiles(4);
    if (gemm <= std::min(winograd2, winograd4)) return ConvEngine::gemm;
    return winograd2 < winograd4 ? ConvEngine::winograd2 : ConvEngine::winograd4;
}

// One matrix per tap, or per product of a Winograd tile: from the channels that are read, in steps of 8, to the channels
// that are written, in steps of 32.
int64_t conv2d_prepared_floats(const Conv2d& s, ConvPass pass) {
    check_conv2d("conv2d_prepared_floats", s);
    const ConvEngine engine = conv2d_engine(s, pass);
    const int64_t matrices = engine == ConvEngine::winograd4 ? 36 : engine == ConvEngine::winograd2 ? 16 : s.R * s.S;
    const bool forward = pass == ConvPass::forward;
    return matrices * round_up(forward ? s.C : s.K, 8) * round_up(forward ? s.K : s.C, 32);
}

// ---- checks ---------------------------------------------------------------------------------------------------------

void check_conv2d(const char* op, const Conv2d& s) {
    LC_CHECK(s.N >= 0, op << ": N is a number of images, 0 or more; found N = " << s.N);
    LC_CHECK(s.H >= 1 && s.W >= 1 && s.C >= 1,
             op << ": an image has H, W, C >= 1; found H = " << s.H << ", W = " << s.W << ", C = " << s.C);
    LC_CHECK(s.K >= 1 && s.R >= 1 && s.S >= 1,
             op << ": filters have K, R, S >= 1; found K = " << s.K << ", R = " << s.R << ", S = " << s.S);
    LC_CHECK(s.stride >= 1, op << ": stride is 1 or more; found stride = " << s.stride);
    LC_CHECK(s.pad >= 0 && s.pad < s.R && s.pad < s.S,
             op << ": pad is 0 or more and less than R = " << s.R << " and S = " << s.S
                << ", or filters would see nothing but border; found pad = " << s.pad);
    volume(op, "an image (H, W, C)", {s.H, s.W, s.C});  // before H + 2 pad could overflow
    volume(op, "w (R, S, C, K)", {s.R, s.S, s.C, s.K});
    LC_CHECK(s.H + 2 * s.pad >= s.R && s.W + 2 * s.pad >= s.S,
             op << ": a filter of R = " << s.R << " times S = " << s.S << " does not fit an image of H = " << s.H
                << " times W = " << s.W << " with pad = " << s.pad << "; use a smaller filter or a larger pad");
    volumes(op, s);
    volume(op, "a patch of every pixel (N, P, Q, R, S, C)", {s.N, s.P(), s.Q(), s.R, s.S, s.C});
    const bool winograd = s.engine == ConvEngine::winograd2 || s.engine == ConvEngine::winograd4;
    LC_CHECK(winograd || s.engine == ConvEngine::automatic || s.engine == ConvEngine::gemm,
             op << ": engine is automatic, gemm, winograd2 or winograd4; found number " << int(s.engine));
    LC_CHECK(!winograd || fits_winograd(s),
             op << ": engine winograd is for filters of 3 x 3 with stride 1; found R = " << s.R << ", S = " << s.S
                << ", stride = " << s.stride << ", so choose automatic or gemm");
}

void check_conv2d_prepare(const float* prepared, const float* w, const Conv2d& s, ConvPass pass) {
    const char* const op = "conv2d_prepare";
    check_conv2d(op, s);
    LC_CHECK(pass == ConvPass::forward || pass == ConvPass::bwd_data,
             op << ": pass is forward or bwd_data; found number " << int(pass));
    check_disjoint(op, prepared_array(op, prepared, s, pass), {"w", w, volumes(op, s).w});
}

void check_conv2d_forward(const float* y, const float* x, const float* prepared, const ConvEpilogue& epilogue,
                          const Conv2d& s) {
    const char* const op = "conv2d";
    check_conv2d(op, s);
    const Volumes v = volumes(op, s);
    const Array out = {"y", y, v.y};
    check_disjoint(op, out, {"x", x, v.x});
    check_disjoint(op, out, prepared_array(op, prepared, s, ConvPass::forward));
    if (epilogue.bias != nullptr) check_disjoint(op, out, {"bias", epilogue.bias, s.K});
    if (epilogue.residual != nullptr) check_same_or_disjoint(op, out, {"residual", epilogue.residual, v.y});
}

void check_conv2d_bwd_data(const float* dx, const float* dy, const float* prepared, const Conv2d& s) {
    const char* const op = "conv2d_bwd_data";
    check_conv2d(op, s);
    const Volumes v = volumes(op, s);
    check_disjoint(op, {"dx", dx, v.x}, {"dy", dy, v.y});
    check_disjoint(op, {"dx", dx, v.x}, prepared_array(op, prepared, s, ConvPass::bwd_data));
}

void check_conv2d_bwd_filter(const float* dw, const float* x, const float* dy, const Conv2d& s) {
    const char* const op = "conv2d_bwd_filter";
    check_conv2d(op, s);
    const Volumes v = volumes(op, s);
    check_disjoint(op, {"dw", dw, v.w}, {"x", x, v.x});
    check_disjoint(op, {"dw", dw, v.w}, {"dy", dy, v.y});
}

}  // namespace lc

// pool_arguments.h -- the checks of the pool ops, the same on every backend (contract: pool.h).
#pragma once
#include "kernels/arguments.h"
#include "kernels/pool.h"

namespace lc {

inline void check_pixel_row(const char* op, int64_t W, int64_t C) {
    LC_CHECK(W * C < int64_t(1) << 31,
             op << ": a row of pixels has fewer than 2^31 numbers; found " << W << " pixels of " << C << " channels");
}

inline void check_images(const char* op, const Pool& s) {
    LC_CHECK(s.N >= 0, op << ": N is a number of images, 0 or more; found N = " << s.N);
    LC_CHECK(s.H >= 1 && s.W >= 1 && s.C >= 1, op << ": an image has a pixel and a channel at least; found H = " << s.H
                                                  << ", W = " << s.W << ", C = " << s.C);
    check_shape(op, s.H, s.W);
    check_shape(op, s.H * s.W, s.C);
    check_shape(op, s.N, s.H * s.W * s.C);
    check_pixel_row(op, s.W, s.C);
}

inline void check_windows(const char* op, const Pool& s) {
    check_images(op, s);
    constexpr int64_t kWidest = 32768;  // a place is r window + s, an int32
    LC_CHECK(s.window >= 1 && s.window <= kWidest,
             op << ": a window has 1 to " << kWidest << " pixels along a side; found window = " << s.window);
    LC_CHECK(s.stride >= 1, op << ": stride is 1 or more; found stride = " << s.stride);
    LC_CHECK(s.pad >= 0 && s.pad < s.window,
             op << ": 0 <= pad < window, so that every window sees a pixel; found pad = " << s.pad
                << ", window = " << s.window);
    LC_CHECK(s.H + 2 * s.pad >= s.window && s.W + 2 * s.pad >= s.window,
             op << ": the window fits into the padded image; found window = " << s.window << ", H = " << s.H
                << ", W = " << s.W << ", pad = " << s.pad);
    check_shape(op, s.P(), s.Q());
    check_shape(op, s.P() * s.Q(), s.C);
    check_shape(op, s.N, s.P() * s.Q() * s.C);
    check_pixel_row(op, s.Q(), s.C);
}

inline void check_maxpool(const float* y, const int32_t* place, const float* x, const Pool& s) {
    check_windows("maxpool", s);
    const int64_t outputs = s.N * s.P() * s.Q() * s.C;
    const Array in = {"x", x, s.N * s.H * s.W * s.C}, out = {"y", y, outputs};
    const Array places = {"place", place, place != nullptr ? outputs : 0};
    check_disjoint("maxpool", out, in);
    check_disjoint("maxpool", places, in);
    check_disjoint("maxpool", places, out);
}

inline void check_maxpool_bwd(const float* dx, const float* dy, const int32_t* place, const Pool& s) {
    check_windows("maxpool_bwd", s);
    const int64_t outputs = s.N * s.P() * s.Q() * s.C;
    const Array out = {"dx", dx, s.N * s.H * s.W * s.C};
    check_disjoint("maxpool_bwd", out, {"dy", dy, outputs});
    check_disjoint("maxpool_bwd", out, {"place", place, outputs});
}

}  // namespace lc

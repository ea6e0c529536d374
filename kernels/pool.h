// pool -- neighbourhoods of an image become one pixel, channels last.
//
//     maxpool      y[n,p,q,c] = max of x[n, p u + r - pad, q u + s - pad, c] over 0 <= r, s < window          u = stride
//                  place[n,p,q,c] = r window + s of the maximum, the first one on ties
//     maxpool_bwd  dx[n,h,w,c] = sum of dy[n,p,q,c] over the windows (p, q) whose place is the pixel (h, w)
//     avgpool      y[n,c] = mean of x[n,h,w,c] over the whole image
//     avgpool_bwd  dx[n,h,w,c] = dy[n,c] / (H W)
//
//     x, dx (N, H, W, C)   maxpool: y, dy, place (N, P, Q, C)   avgpool: y, dy (N, C)     place int32, the others float32
//     P = (H + 2 pad - window) / u + 1, rounded down; Q likewise
//
// Needs    N >= 0 (zero is a no-op); H, W, C, stride >= 1; 1 <= window <= 32768; 0 <= pad < window; P, Q >= 1; a row of
//          pixels has fewer than 2^31 numbers.  A window sees
//          the pixels that exist, one at least, because pad < window.  place may be null where no backward follows.  No op
//          works in place.
// Promises maxpool and avgpool_bwd equal the scalar formula bit for bit.  Sums in a fixed order, that of p, then q, and that
//          of reduce.h: bitwise repeatable, no atomics.
// Edges    a NaN in a window is its maximum, the first one, so that a broken input stays visible; of zeros of either sign
//          the first one.  place is read as it is: one that names no pixel of its window moves no gradient.
#pragma once
#include "kernels/op.h"

namespace lc {

struct Pool {
    int64_t N = 0, H = 1, W = 1, C = 1;
    int64_t window = 1, stride = 1, pad = 0;  // maxpool only

    int64_t P() const { return (H + 2 * pad - window) / stride + 1; }
    int64_t Q() const { return (W + 2 * pad - window) / stride + 1; }
};

LC_OP(maxpool, float* y, int32_t* place, const float* x, const Pool& shape, Stream s);
LC_OP(maxpool_bwd, float* dx, const float* dy, const int32_t* place, const Pool& shape, Stream s);
LC_OP(avgpool, float* y, const float* x, const Pool& shape, Stream s);
LC_OP(avgpool_bwd, float* dx, const float* dy, const Pool& shape, Stream s);

}  // namespace lc

// pool.cpp -- CPU backend of pool (contract and formulas: pool.h).
//
// Idea     vectors run along the channels, which are neighbours in memory.  maxpool: the window of an output pixel is walked
//          once per vector, maximum and place stay in registers.  maxpool_bwd: an input pixel looks at the windows that see
//          it, one, two or four with ResNet's windows, and takes their gradients where their place is this pixel.  avgpool: an image is a matrix (H W, C) whose
//          columns are summed (simd_columns.h).  Threads share rows of pixels, or images.
// Traffic  each array once from memory, its overlapping windows from the caches: bound by memory.  A dx too large for the
//          caches is written past them.
// Numbers  maxpool, avgpool_bwd: exactly rounded.  avgpool: float32 over 64 pixels, blocks joined in double.
// Profile  `make bench`
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/pool.cpp"
#include "kernels/pool.h"

#include <hwy/cache_control.h>
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/simd_columns.h"
#include "kernels/simd_map.h"

#ifndef LC_KERNELS_POOL_RANGE
    #define LC_KERNELS_POOL_RANGE  // once, not per target
namespace lc::cpu {

struct Range {
    int64_t begin, end;
};

// The rows of window p that exist in an image of H rows, counted inside the window.
inline Range rows_inside(const Pool& s, int64_t p, int64_t H) {
    const int64_t first = p * s.stride - s.pad;
    return {std::max<int64_t>(0, -first), std::min(s.window, H - first)};
}

// The windows, of P, that see row h.
inline Range windows_over(const Pool& s, int64_t h, int64_t P) {
    const int64_t below = h + s.pad - s.window + 1;  // the first window starts here or later
    return {std::max<int64_t>(0, ceil_div(std::max<int64_t>(0, below), s.stride)),
            std::min(P, (h + s.pad) / s.stride + 1)};
}

}  // namespace lc::cpu
#endif

HWY_BEFORE_NAMESPACE();
namespace lc::cpu::HWY_NAMESPACE {
namespace {

// Calls body(tag, c) for the channels, whole vectors where they fit.
template <class Body>
HWY_INLINE void for_channels(int64_t C, const Body& body) {
    const hn::ScalableTag<float> d;
    const hn::CappedTag<float, 1> one;
    const int64_t lanes = int64_t(hn::Lanes(d));
    int64_t c = 0;
    for (; c + lanes <= C; c += lanes) body(d, c);
    for (; c < C; ++c) body(one, c);
}

// One row of output pixels.
void maxpool_row(float* y, int32_t* place, const float* image, const Pool& s, int64_t p) {
    const Range r = rows_inside(s, p, s.H);
    for (int64_t q = 0; q < s.Q(); ++q) {
        const Range w = rows_inside(s, q, s.W);
        const float* const corner = image + ((p * s.stride - s.pad) * s.W + q * s.stride - s.pad) * s.C;
        for_channels(s.C, [&](auto d, int64_t c) HWY_ATTR {
            const hn::RebindToSigned<decltype(d)> di;
            auto best = hn::LoadU(d, corner + (r.begin * s.W + w.begin) * s.C + c);
            auto at = hn::Set(di, int32_t(r.begin * s.window + w.begin));
            for (int64_t i = r.begin; i < r.end; ++i) {
                for (int64_t j = w.begin; j < w.end; ++j) {
                    const auto v = hn::LoadU(d, corner + (i * s.W + j) * s.C + c);
                    const auto better = hn::AndNot(hn::IsNaN(best), hn::Not(hn::Le(v, best)));  // a NaN is, once
                    best = hn::IfThenElse(better, v, best);
                    at = hn::IfThenElse(hn::RebindMask(di, better), hn::Set(di, int32_t(i * s.window + j)), at);
                }
            }
            hn::StoreU(best, d, y + q * s.C + c);
            if (place != nullptr) hn::StoreU(at, di, place + q * s.C + c);
        });
    }
}

// A window that sees the pixel in question: where its channels start in dy and place, and the place that names the pixel.
struct Witness {
    int64_t first;
    int32_t place;
};

// dx_c = the gradients of the windows whose place is this pixel; kCount of them, known here so that the loop is none.
template <int kCount>
HWY_INLINE void gather_pixel(float* dx, const float* dy, const int32_t* place, const Witness* windows, int64_t C,
                             bool stream) {
    for_channels(C, [&](auto d, int64_t c) HWY_ATTR {
        const hn::RebindToSigned<decltype(d)> di;
        auto sum = hn::Zero(d);
        for (int k = 0; k < kCount; ++k) {
            const int64_t i = windows[k].first + c;
            const auto mine = hn::RebindMask(d, hn::Eq(hn::LoadU(di, place + i), hn::Set(di, windows[k].place)));
            sum = hn::Add(sum, hn::IfThenElseZero(mine, hn::LoadU(d, dy + i)));
        }
        stream ? hn::Stream(sum, d, dx + c) : hn::StoreU(sum, d, dx + c);
    });
}

// The same for any number of windows.
HWY_INLINE void gather_pixel(float* dx, const float* dy, const int32_t* place, const Pool& s, int64_t h, int64_t w,
                             Range over, Range across) {
    for (int64_t c = 0; c < s.C; ++c) dx[c] = 0;
    for (int64_t p = over.begin; p < over.end; ++p) {
        for (int64_t q = across.begin; q < across.end; ++q) {
            const int64_t first = (p * s.Q() + q) * s.C;
            const int32_t here = int32_t((h + s.pad - p * s.stride) * s.window + w + s.pad - q * s.stride);
            for_channels(s.C, [&](auto d, int64_t c) HWY_ATTR {
                const hn::RebindToSigned<decltype(d)> di;
                const auto mine = hn::RebindMask(d, hn::Eq(hn::LoadU(di, place + first + c), hn::Set(di, here)));
                const auto gradient = hn::IfThenElseZero(mine, hn::LoadU(d, dy + first + c));
                hn::StoreU(hn::Add(hn::LoadU(d, dx + c), gradient), d, dx + c);
            });
        }
    }
}

// One row of input pixels; dy and place are those of the image.  `stream`: past the caches, for dx on whole vectors.
void maxpool_bwd_row(float* dx, const float* dy, const int32_t* place, const Pool& s, int64_t h, bool stream) {
    const Range over = windows_over(s, h, s.P());
    const int64_t Q = s.Q();
    for (int64_t w = 0; w < s.W; ++w, dx += s.C) {
        const Range across = windows_over(s, w, Q);
        const int64_t count = (over.end - over.begin) * (across.end - across.begin);
        if (count != 1 && count != 2 && count != 4) {  // never with windows of 3 and stride 2
            gather_pixel(dx, dy, place, s, h, w, over, across);
            continue;
        }
        Witness windows[4], *next = windows;
        for (int64_t p = over.begin; p < over.end; ++p) {
            for (int64_t q = across.begin; q < across.end; ++q) {
                const int64_t at = (h + s.pad - p * s.stride) * s.window + w + s.pad - q * s.stride;
                *next++ = {(p * Q + q) * s.C, int32_t(at)};
            }
        }
        if (count == 1) gather_pixel<1>(dx, dy, place, windows, s.C, stream);
        if (count == 2) gather_pixel<2>(dx, dy, place, windows, s.C, stream);
        if (count == 4) gather_pixel<4>(dx, dy, place, windows, s.C, stream);
    }
    if (stream) hwy::FlushStream();
}

struct PixelTerm {
    const float* x;
    template <class D>
    HWY_INLINE hn::Vec<D> operator()(D d, int64_t i, int64_t) const {
        return hn::LoadU(d, x + i);
    }
};
// Up to kTile channels of one image of `pixels`.
void avgpool_tile(float* y, const float* x, int64_t pixels, int64_t C, int64_t width) {
    double total[kTile];
    sum_tile_of(total, PixelTerm{x}, C, pixels, width);
    const double share = 1 / double(pixels);
    for (int64_t c = 0; c < width; ++c) y[c] = float(total[c] * share);
}

struct Quotient {
    float divisor;
    template <class D, class V>
    HWY_INLINE V operator()(D d, V x) const {
        return hn::Div(x, hn::Set(d, divisor));
    }
};
void avgpool_bwd_pixel(float* dx, const float* dy, float pixels, int64_t C) { map(dx, C, false, Quotient{pixels}, dy); }

}  // namespace
}  // namespace lc::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
    #include "kernels/pool_arguments.h"
    #include "kernels/streaming.h"

namespace lc::cpu {
HWY_EXPORT(maxpool_row);
HWY_EXPORT(maxpool_bwd_row);
HWY_EXPORT(avgpool_tile);
HWY_EXPORT(avgpool_bwd_pixel);

constexpr int64_t kPoolChunk = 1 << 14;  // elements that one thread takes: the work worth waking it for

void maxpool(float* y, int32_t* place, const float* x, const Pool& shape, Stream) {
    check_maxpool(y, place, x, shape);
    const Pool s = shape;
    const int64_t row = s.Q() * s.C, image = s.H * s.W * s.C;
    for_each_chunk(s.N * s.P(), ceil_div(kPoolChunk, row), [=](int64_t k, int64_t end) {
        for (; k < end; ++k) {
            int32_t* const places = place != nullptr ? place + k * row : nullptr;
            HWY_DYNAMIC_DISPATCH(maxpool_row)(y + k * row, places, x + k / s.P() * image, s, k % s.P());
        }
    });
}

void maxpool_bwd(float* dx, const float* dy, const int32_t* place, const Pool& shape, Stream) {
    check_maxpool_bwd(dx, dy, place, shape);
    const Pool s = shape;
    const int64_t row = s.W * s.C, windows = s.P() * s.Q() * s.C;
    const bool whole = s.C % 16 == 0 && reinterpret_cast<uintptr_t>(dx) % 64 == 0;  // vectors of the widest target
    const bool stream = whole && should_stream(dx, s.N * s.H * row, dy);
    for_each_chunk(s.N * s.H, ceil_div(kPoolChunk, row), [=](int64_t k, int64_t end) {
        for (; k < end; ++k) {
            const int64_t n = k / s.H;
            HWY_DYNAMIC_DISPATCH(maxpool_bwd_row)
            (dx + k * row, dy + n * windows, place + n * windows, s, k % s.H, stream);
        }
    });
}

void avgpool(float* y, const float* x, const Pool& shape, Stream) {
    check_images("avgpool", shape);
    const int64_t N = shape.N, pixels = shape.H * shape.W, C = shape.C, tiles = ceil_div(C, kTile);
    check_disjoint("avgpool", {"y", y, N * C}, {"x", x, N * pixels * C});
    for_each_chunk(N * tiles, ceil_div(kPoolChunk, pixels * std::min(C, kTile)), [=](int64_t k, int64_t end) {
        for (; k < end; ++k) {
            const int64_t n = k / tiles, c = k % tiles * kTile;
            HWY_DYNAMIC_DISPATCH(avgpool_tile)
            (y + n * C + c, x + n * pixels * C + c, pixels, C, std::min(kTile, C - c));
        }
    });
}

void avgpool_bwd(float* dx, const float* dy, const Pool& shape, Stream) {
    check_images("avgpool_bwd", shape);
    const int64_t N = shape.N, pixels = shape.H * shape.W, C = shape.C;
    check_disjoint("avgpool_bwd", {"dx", dx, N * pixels * C}, {"dy", dy, N * C});
    for_each_chunk(N * pixels, ceil_div(kPoolChunk, C), [=](int64_t k, int64_t end) {
        for (; k < end; ++k) HWY_DYNAMIC_DISPATCH(avgpool_bwd_pixel)(dx + k * C, dy + k / pixels * C, float(pixels), C);
    });
}

}  // namespace lc::cpu
#endif  // HWY_ONCE

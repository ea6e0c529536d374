// op.h -- how a contract declares an op: one signature, one definition per backend.
//
//     LC_OP(softmax, float* y, const float* x, int64_t N, int64_t C, Stream s);
//
// declares lc::cpu::softmax (softmax.cpp), lc::cuda::softmax (softmax.cu by nvcc) and lc::sim::softmax (softmax.cu by
// g++ on kernels/sim), all of type lc::softmax_fn.  Callers go through the table in backend.h, never to these directly.
#pragma once
#include <cstddef>
#include <cstdint>

namespace lc {
using Stream = void*;  // an ordered queue of work on one backend; nullptr is the backend's default stream
}

// clang-format off
#define LC_OP(name, ...)                 \
    using name##_fn = void(__VA_ARGS__); \
    namespace cpu  { name##_fn name; }   \
    namespace cuda { name##_fn name; }   \
    namespace sim  { name##_fn name; }   \
    static_assert(true, "swallow the semicolon")
// clang-format on

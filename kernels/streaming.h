// streaming.h -- when a CPU op writes past the caches.
#pragma once
#include <cstdint>

namespace lc::cpu {

// Streaming stores pay where the output would not stay in the cache anyway; in place, its lines are there already.
template <class... In>
bool should_stream(const float* out, int64_t n, const In*... in) {
    constexpr int64_t kBeyondCache = 1 << 22;  // elements, 16 MiB
    return n >= kBeyondCache && (... && (out != in));
}

}  // namespace lc::cpu

// random.cpp -- see random.h.
#include "kernels/random.h"

#include <cmath>
#include <numbers>
#include <numeric>
#include <utility>

#include "kernels/check.h"

namespace lc {

uint32_t random_word(RandomKey key, uint64_t i) { return random_bits4(key, i / 4).v[i % 4]; }

double random_unit(RandomKey key, uint64_t i) { return (double(random_word(key, i)) + 0.5) * 0x1p-32; }

std::vector<float> random_normal(RandomKey key, int64_t n, double mean, double deviation) {
    LC_CHECK(n >= 0, "cannot draw " << n << " numbers");
    std::vector<float> v(static_cast<size_t>(n));
    for (size_t i = 0; i < v.size(); ++i) {  // words 2i and 2i + 1 make one number: no state between draws
        const double radius = std::sqrt(-2.0 * std::log(random_unit(key, 2 * i)));
        const double angle = 2.0 * std::numbers::pi * random_unit(key, 2 * i + 1);
        v[i] = float(mean + deviation * radius * std::cos(angle));
    }
    return v;
}

std::vector<float> random_uniform(RandomKey key, int64_t n, double low, double high) {
    LC_CHECK(n >= 0, "cannot draw " << n << " numbers");
    std::vector<float> v(static_cast<size_t>(n));
    for (size_t i = 0; i < v.size(); ++i) v[i] = float(low + (high - low) * random_unit(key, i));
    return v;
}

// A number below `bound`, every one equally likely: 64 bits are drawn, and the few that would favour small numbers again.
static uint64_t random_below(RandomKey key, uint64_t bound, uint64_t& word) {
    for (;;) {
        const uint64_t high = random_word(key, word++);
        const uint64_t x = high << 32 | random_word(key, word++);
        if (x < UINT64_MAX - UINT64_MAX % bound) return x % bound;
    }
}

std::vector<int64_t> random_permutation(RandomKey key, int64_t n) {
    LC_CHECK(n >= 0, "cannot permute " << n << " elements");
    std::vector<int64_t> p(static_cast<size_t>(n));
    std::iota(p.begin(), p.end(), int64_t(0));
    uint64_t word = 0;
    for (size_t i = p.size(); i > 1; --i) std::swap(p[i - 1], p[random_below(key, i, word)]);
    return p;
}

}  // namespace lc

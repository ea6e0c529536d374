// philox.h -- Philox4x32-10 counter-based random bits (Salmon, Moraes, Dror, Shaw: "Parallel Random Numbers: As Easy as
// 1, 2, 3", SC 2011).
//
//     bits = philox(counter, key)        128 bits in, 128 bits out, no state: draw a million costs the same as draw 0
//
// A pure function of integers, so the same bits fall on every backend and for every number of threads.  Whatever needs
// log or cos (normal variates) is drawn on the host and copied: those functions differ between libraries.
#pragma once
#include <cstdint>

#include "kernels/launch_qualifiers.h"

namespace lc {

struct Philox4 {
    uint32_t v[4];
};

LC_HOST_DEVICE inline uint32_t mul_hi(uint32_t a, uint32_t b) { return uint32_t((uint64_t(a) * b) >> 32); }

LC_HOST_DEVICE inline Philox4 philox(Philox4 c, uint32_t k0, uint32_t k1) {
    constexpr uint32_t kMul0 = 0xD2511F53u, kMul1 = 0xCD9E8D57u;    // multipliers of the two lanes
    constexpr uint32_t kWeyl0 = 0x9E3779B9u, kWeyl1 = 0xBB67AE85u;  // key schedule: golden ratio, sqrt(3) - 1
    for (int round = 0; round < 10; ++round) {
        const uint32_t hi0 = mul_hi(kMul0, c.v[0]), lo0 = kMul0 * c.v[0];
        const uint32_t hi1 = mul_hi(kMul1, c.v[2]), lo1 = kMul1 * c.v[2];
        c = {{hi1 ^ c.v[1] ^ k0, lo1, hi0 ^ c.v[3] ^ k1, lo0}};
        k0 += kWeyl0;
        k1 += kWeyl1;
    }
    return c;
}

// Word i of the stream named by (seed, stream): what every op that draws random bits uses.
struct RandomKey {
    uint64_t seed = 0;    // the run's seed
    uint64_t stream = 0;  // which draw of the run: a layer and step, an epoch's shuffle, ...
};
LC_HOST_DEVICE inline Philox4 random_bits4(RandomKey key, uint64_t group) {  // words 4*group .. 4*group+3
    return philox({{uint32_t(group), uint32_t(group >> 32), uint32_t(key.stream), uint32_t(key.stream >> 32)}},
                  uint32_t(key.seed), uint32_t(key.seed >> 32));
}

}  // namespace lc

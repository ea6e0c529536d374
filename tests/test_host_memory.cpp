// Memory of the CPU backend: what is kept, what is handed out again, and that it stays bounded.
#include <cstdint>
#include <cstring>
#include <gtest/gtest.h>
#include <vector>

#include "kernels/host_memory.h"
#include "kernels/random.h"

namespace {

constexpr size_t kMiB = size_t(1) << 20;

TEST(HostMemory, a_large_block_is_handed_out_again) {
#ifdef LC_SANITIZED
    GTEST_SKIP() << "sanitizers see every block come and go";
#endif
    const lc::cpu::HostMemory before = lc::cpu::host_memory();
    void* const p = lc::cpu::take_memory(37 * kMiB);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(p) % 256, 0u);
    EXPECT_EQ(lc::cpu::host_memory().used, before.used + 37 * kMiB);
    lc::cpu::give_back(p);
    EXPECT_EQ(lc::cpu::host_memory().used, before.used);
    EXPECT_GE(lc::cpu::host_memory().kept, 37 * kMiB);
    void* const q = lc::cpu::take_memory(36 * kMiB);
    EXPECT_EQ(q, p) << "a little smaller: the same block";
    void* const r = lc::cpu::take_memory(36 * kMiB);
    EXPECT_NE(r, q) << "in use";
    lc::cpu::give_back(q);
    lc::cpu::give_back(r);
}

TEST(HostMemory, blocks_in_use_never_meet_and_with_those_kept_never_exceed_what_was_once_used) {
    struct Block {
        uint8_t* p;
        size_t size;
        uint8_t mark;
    };
    std::vector<Block> live;
    for (uint64_t i = 0; i < 600; ++i) {
        const uint64_t r = lc::random_word({1, 2}, i);
        if (live.size() < 12 && r % 5 < 3) {
            const size_t size = size_t(1000 + (r >> 8) % (6 * kMiB));
            live.push_back({static_cast<uint8_t*>(lc::cpu::take_memory(size)), size, uint8_t(i)});
            ASSERT_NE(live.back().p, nullptr);
            std::memset(live.back().p, live.back().mark, size);
        } else if (!live.empty()) {
            std::swap(live[(r >> 8) % live.size()], live.back());
            const Block b = live.back();
            ASSERT_EQ(b.p[0], b.mark);
            ASSERT_EQ(std::memcmp(b.p, b.p + 1, b.size - 1), 0) << "somebody else wrote here";
            lc::cpu::give_back(b.p);
            live.pop_back();
        }
        const lc::cpu::HostMemory m = lc::cpu::host_memory();
        ASSERT_LE(m.used + m.kept, m.most_used);
    }
    for (const Block& b : live) lc::cpu::give_back(b.p);
}

TEST(HostMemory, nothing_and_too_much) {
    void* const p = lc::cpu::take_memory(0);
    EXPECT_NE(p, nullptr);
    lc::cpu::give_back(p);
    lc::cpu::give_back(nullptr);
    EXPECT_EQ(lc::cpu::take_memory(SIZE_MAX - 3), nullptr);
#ifndef LC_SANITIZED  // AddressSanitizer ends the program instead
    EXPECT_EQ(lc::cpu::take_memory(SIZE_MAX / 4), nullptr) << "more than an address space";
#endif
}

}  // namespace

// Rows kept on disk: what is read is what was written, runs that were cut off go on, and what is no cache is refused.
#include <cmath>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>

#include "data/element.h"
#include "data/row_cache.h"
#include "kernels/check.h"
#include "kernels/random.h"

namespace {

using lc::CacheType;
namespace fs = std::filesystem;

std::string fresh(const std::string& name) {
    const std::string path = testing::TempDir() + name;
    fs::remove(path);
    fs::remove(path + ".partial");
    return path;
}

std::vector<float> read_all(const std::string& path, std::vector<int64_t> rows) {
    const lc::RowCache in(path);
    std::vector<float> out(rows.size() * 6);
    in.read(out.data(), rows);
    return out;
}

TEST(RowCache, what_is_read_is_what_was_written) {
    const std::vector<float> x = lc::random_normal({1, 1}, 40 * 6);
    for (const CacheType type : {CacheType::f32, CacheType::f16}) {
        const std::string path = fresh("rows.npy");
        lc::RowCacheWriter out(path, 40, {2, 3}, type);
        out.append(x.data(), 25);
        EXPECT_FALSE(fs::exists(path)) << "not before all rows are there";
        EXPECT_THROW(out.commit(), lc::Error);
        out.append(x.data() + 25 * 6, 15);
        EXPECT_THROW(out.append(x.data(), 1), lc::Error);
        out.commit();
        EXPECT_FALSE(fs::exists(path + ".partial"));
        const lc::NpyArray npy = lc::read_npy(path);
        EXPECT_EQ(npy.shape, (std::vector<int64_t>{40, 2, 3}));
        EXPECT_EQ(npy.dtype(), type == CacheType::f32 ? "float32" : "float16");
        const std::vector<float> got = read_all(path, {39, 0, 17, 17});
        for (size_t i = 0; i < 4; ++i) {
            const size_t row = std::vector<size_t>{39, 0, 17, 17}[i];
            for (size_t j = 0; j < 6; ++j) {
                const float want = x[row * 6 + j];
                if (type == CacheType::f32) {
                    EXPECT_EQ(got[i * 6 + j], want);
                }
                EXPECT_NEAR(got[i * 6 + j], want, std::abs(want) * 0x1p-11f + 0x1p-25f);
            }
        }
        EXPECT_THROW(read_all(path, {40}), lc::Error);
        EXPECT_THROW(read_all(path, {-1}), lc::Error);
    }
}

TEST(RowCache, goes_on_behind_the_last_whole_row) {
    const std::vector<float> x = lc::random_normal({1, 1}, 10 * 6);
    const std::string path = fresh("cut.npy");
    {
        lc::RowCacheWriter out(path, 10, {6}, CacheType::f32);
        out.append(x.data(), 7);
    }
    fs::resize_file(path + ".partial", fs::file_size(path + ".partial") - 5);  // killed within a row
    {
        lc::RowCacheWriter out(path, 10, {6}, CacheType::f32);
        EXPECT_EQ(out.rows_done(), 6);
        EXPECT_THROW(lc::RowCacheWriter(path, 10, {6}, CacheType::f32), lc::Error) << "one writer at a time";
        out.append(x.data() + 6 * 6, 4);
        out.commit();
    }
    std::vector<int64_t> all = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9};
    EXPECT_EQ(read_all(path, all), x);
    {
        lc::RowCacheWriter out(path, 10, {6}, CacheType::f32);
        out.append(x.data(), 7);
    }
    EXPECT_EQ(lc::RowCacheWriter(path, 11, {6}, CacheType::f32).rows_done(), 0) << "another shape begins anew";
}

TEST(RowCache, refuses_what_it_cannot_keep) {
    std::vector<float> x(6, 1.0f);
    lc::RowCacheWriter half(fresh("half.npy"), 1, {6}, CacheType::f16);
    x[3] = 70000;
    EXPECT_THROW(half.append(x.data(), 1), lc::Error);
    lc::RowCacheWriter full(fresh("full.npy"), 1, {6}, CacheType::f32);
    x[3] = NAN;
    EXPECT_THROW(full.append(x.data(), 1), lc::Error);
    EXPECT_THROW(lc::RowCacheWriter("/nowhere/x.npy", 1, {6}, CacheType::f32), lc::Error);
    const std::string path = fresh("truncated.npy");
    std::ofstream(path) << "no array";
    EXPECT_THROW(lc::RowCache{path}, lc::Error);
}

// Every half that is a number comes back from its own value, and what lies between two goes to the nearer one.
TEST(RowCache, halves_are_rounded_to_nearest_even) {
    const auto value = [](uint16_t h) {
        float f = 0;
        lc::convert(lc::Element::f16, false, reinterpret_cast<const std::byte*>(&h), 2, 1, &f);
        return f;
    };
    for (uint32_t h = 0; h < 0x7c00; ++h) {
        ASSERT_EQ(lc::to_half(value(uint16_t(h))), h);
        ASSERT_EQ(lc::to_half(-value(uint16_t(h))), h | 0x8000u);
        if (h == 0x7bff) break;
        const double middle = (double(value(uint16_t(h))) + double(value(uint16_t(h + 1)))) / 2;
        ASSERT_EQ(lc::to_half(float(middle)), h % 2 == 0 ? h : h + 1) << h;
        ASSERT_EQ(lc::to_half(std::nextafter(float(middle), 0.0f)), h);
        ASSERT_EQ(lc::to_half(std::nextafter(float(middle), 1e9f)), h + 1);
    }
    EXPECT_EQ(lc::to_half(65519.99f), 0x7bff);
    EXPECT_EQ(lc::to_half(65520.0f), 0x7c00);
    EXPECT_EQ(lc::to_half(INFINITY), 0x7c00);
    EXPECT_EQ(lc::to_half(NAN) & 0x7e00, 0x7e00);
}

}  // namespace

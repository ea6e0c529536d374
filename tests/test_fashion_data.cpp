// The split of a training set, and Fashion-MNIST's rows.
#include <algorithm>
#include <gtest/gtest.h>

#include "data/split.h"
#include "experiments/fashion_data.h"

namespace {

TEST(Split, every_row_in_one_part_and_always_the_same) {
    const lc::Split s = lc::split_rows(60000);
    EXPECT_EQ(s.train.size(), 27000u);
    EXPECT_EQ(s.validation.size(), 6000u);
    EXPECT_EQ(s.rest.size(), 27000u);
    std::vector<int64_t> all = s.train;
    all.insert(all.end(), s.validation.begin(), s.validation.end());
    all.insert(all.end(), s.rest.begin(), s.rest.end());
    std::sort(all.begin(), all.end());
    for (size_t i = 0; i < all.size(); ++i) ASSERT_EQ(all[i], int64_t(i));
    EXPECT_EQ(s.train, lc::split_rows(60000).train);
    EXPECT_FALSE(std::is_sorted(s.train.begin(), s.train.end())) << "shuffled, whatever the order of the file";
}

TEST(Split, sizes_that_do_not_divide) {
    const lc::Split s = lc::split_rows(29);
    EXPECT_EQ(s.train.size(), 13u);
    EXPECT_EQ(s.validation.size(), 2u);
    EXPECT_EQ(s.rest.size(), 14u);
}

TEST(ImageRows, pixels_become_numbers_from_0_to_1) {
    const lc::ImageRows rows = {2, 2, {0, 255, 51, 102}, {0, 1}};
    EXPECT_EQ(rows.scaled(), (std::vector<float>{0, 1, 0.2f, 0.4f}));
}

}  // namespace

// split.cpp -- see split.h.
#include "data/split.h"

#include "kernels/check.h"
#include "kernels/random.h"

namespace lc {

Split split_rows(int64_t n, int64_t train_percent, int64_t validation_percent) {
    constexpr uint64_t kSeed = 42;
    LC_CHECK(
        train_percent >= 0 && validation_percent >= 0 && train_percent + validation_percent <= 100,
        "a split is two shares of at most 100 % together; found " << train_percent << " and " << validation_percent);
    const std::vector<int64_t> order = random_permutation({kSeed, 0}, n);
    const auto first = order.begin(), second = first + n * train_percent / 100;
    const auto third = second + n * validation_percent / 100;
    return {{first, second}, {second, third}, {third, order.end()}};
}

}  // namespace lc

// What the case list of nw_smooth cannot say, because it holds on the CPU alone: labels are looked at there.
#include <gtest/gtest.h>
#include <string>

#include "kernels/check.h"
#include "kernels/nw_smooth.h"

namespace {

std::string refusal_of(int32_t label, int32_t query_label) {
    const float x[2] = {0, 1}, gamma = 1;
    const int32_t labels[2] = {0, label}, query_labels[2] = {query_label, 0};
    float theta[6] = {}, log_norm[2], log_label[2];
    try {
        lc::cpu::nw_smooth({theta, log_norm, log_label},
                           {.n = 2,
                            .m = 2,
                            .d = 1,
                            .C = 3,
                            .Q = x,
                            .R = x,
                            .labels = labels,
                            .query_labels = query_labels,
                            .gamma = &gamma},
                           nullptr);
    } catch (const lc::Error& e) {
        return e.what();
    }
    return "";
}

TEST(NwSmooth, CpuRefusesLabelsOutsideTheClasses) {
    EXPECT_EQ(refusal_of(2, 2), "");
    EXPECT_NE(refusal_of(3, 0).find("labels[1] = 3"), std::string::npos) << refusal_of(3, 0);
    EXPECT_NE(refusal_of(-1, 0).find("labels[1] = -1"), std::string::npos);
    EXPECT_NE(refusal_of(0, 3).find("query_labels[0] = 3"), std::string::npos);
}

}  // namespace

// test_backend.cpp -- which device --device means, on machines we do not have.
#include <gtest/gtest.h>

#include "kernels/backend.h"
#include "kernels/device_name.h"

namespace lc {
namespace {

using Machine = std::vector<DeviceInfo>;

const Machine kNoCuda = {{"cpu", "the CPU"}};
const Machine kNoGpu = {{"cpu", "the CPU"}, {"cuda", "no CUDA device", false, "the CUDA runtime answers: no device"}};
const Machine kThreeGpus = {
    {"cpu", "the CPU"}, {"cuda:0", "an old one", false, "its sm_30 is too old"}, {"cuda:1", "A"}, {"cuda:2", "B"}};

std::string refusal(const char* device, const Machine& machine) {
    try {
        return "took " + pick_device(device, machine).name;
    } catch (const Error& e) {
        return e.what();
    }
}

TEST(PickDevice, AutoTakesTheFirstUsableGpuElseTheCpu) {
    std::string why;
    EXPECT_EQ(pick_device("auto", kThreeGpus, &why).name, "cuda:1");
    EXPECT_EQ(why, "device cuda:1 (A): auto takes the first GPU that answers");
    EXPECT_EQ(pick_device("auto", kNoGpu, &why).name, "cpu");
    EXPECT_EQ(why, "device cpu (the CPU): auto takes the CPU because the CUDA runtime answers: no device");
    EXPECT_EQ(pick_device("auto", kNoCuda, &why).name, "cpu");
    EXPECT_EQ(why, "device cpu (the CPU): auto takes the CPU because this binary was built without CUDA");
}

TEST(PickDevice, TakesWhatWasAskedFor) {
    std::string why;
    EXPECT_EQ(pick_device("cpu", kThreeGpus, &why).name, "cpu");
    EXPECT_EQ(why, "device cpu (the CPU): as asked");
    EXPECT_EQ(pick_device("cuda", kThreeGpus).name, "cuda:1");
    EXPECT_EQ(pick_device("cuda:2", kThreeGpus, &why).name, "cuda:2");
    EXPECT_EQ(why, "device cuda:2 (B): as asked");
}

TEST(PickDevice, RefusesWhatCannotBeHad) {
    EXPECT_NE(refusal("cuda", kNoCuda).find("built without CUDA: install the CUDA Toolkit"), std::string::npos);
    EXPECT_NE(refusal("cuda:0", kNoCuda).find("--device cuda:0: this binary was built"), std::string::npos);
    EXPECT_NE(refusal("cuda", kNoGpu).find("the CUDA runtime answers: no device; see"), std::string::npos);
    EXPECT_EQ(refusal("cuda:0", kThreeGpus),
              "--device cuda:0: its sm_30 is too old; this machine has cpu, cuda:0 (not usable), cuda:1, cuda:2");
    EXPECT_EQ(refusal("cuda:3", kThreeGpus),
              "--device cuda:3: there is no such device; this machine has cpu, cuda:0 (not usable), cuda:1, cuda:2");
    EXPECT_NE(refusal("sim", kNoGpu).find("found 'sim'; this binary has cpu, cuda (not usable)"), std::string::npos);
}

TEST(DeviceName, PrintsBackToItsText) {
    for (const char* text : {"auto", "cpu", "cuda", "cuda:0", "cuda:7", "cuda:10", "cuda:1023"}) {
        EXPECT_EQ(to_string(parse_device(text)), text);
    }
    for (const char* text : {"", "Auto", "cpu ", "cpu:0", "cuda:", "cuda:00", "cuda:01", "cuda:1024", "cuda:+1",
                             "cuda:-1", "cuda: 1", "cuda:1a", "cuda:99999999999999999999", "sim", "cuda0"}) {
        EXPECT_THROW(parse_device(text), Error) << text;
    }
}

TEST(FindBackend, KnowsBareNamesOnly) {
    ASSERT_NE(find_backend("cpu"), nullptr);
    EXPECT_EQ(find_backend("cpu")->name, "cpu");
    EXPECT_EQ(find_backend("cpu"), &choose_backend("cpu"));
    for (const char* name : {"", "auto", "cuda:0", "CPU"}) EXPECT_EQ(find_backend(name), nullptr) << name;
}

}  // namespace
}  // namespace lc

// The runtime under the ops: memory, copies, streams, choice of a device, and what happens when something is missing.
#include <cstdint>
#include <cstring>
#include <gtest/gtest.h>
#include <numeric>

#include "kernels/backend.h"
#include "kernels/device_name.h"

namespace {

using lc::Backend;

const Backend& cpu() { return *lc::find_backend("cpu"); }

template <class F>
std::string refusal(F call) {
    try {
        call();
    } catch (const lc::Error& e) {
        return e.what();
    }
    return "nothing was thrown";
}

TEST(Backend, AMissingOpIsAClearError) {
    Backend b = cpu();
    b.softmax.fn = nullptr;
    const std::string text = refusal([&] { b.softmax(nullptr, nullptr, 0, 1, nullptr); });
    EXPECT_NE(text.find("backend 'cpu' has no op 'softmax'"), std::string::npos) << text;
}

TEST(Backend, TheCpuHasEveryOp) {
#define EXPECT_ENTRY(op) EXPECT_NE(cpu().op.fn, nullptr) << #op;
    LC_ALL_OPS(EXPECT_ENTRY)
#undef EXPECT_ENTRY
}

TEST(Backend, ChecksSayWhatWasNeededWhereAndWhatToDo) {
    const int found = -3;
    const std::string text = refusal([&] { LC_CHECK(found > 0, "a positive size is needed; found " << found); });
    EXPECT_NE(text.find("found -3"), std::string::npos) << text;
    EXPECT_NE(text.find("need found > 0"), std::string::npos) << text;
    EXPECT_NE(text.find("test_backend.cpp:"), std::string::npos) << text;
}

TEST(Backend, MemoryIsAlignedAndCopiesGoBothWays) {
    const Backend& b = cpu();
    lc::Buffer<float> x(b, 1000), y(b, 1000);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(x.data()) % 256, 0u);
    std::vector<float> host(1000), back(1000);
    std::iota(host.begin(), host.end(), 1.0f);
    const lc::Stream s = b.stream_create(), t = b.stream_create();
    b.copy(x.data(), host.data(), x.bytes(), lc::Copy::to_device, s);
    b.wait(t, s);
    b.copy(y.data(), x.data(), x.bytes(), lc::Copy::on_device, t);
    b.copy(back.data(), y.data(), y.bytes(), lc::Copy::to_host, t);
    b.sync(t);
    EXPECT_EQ(host, back);
    b.zero(y.data(), y.bytes(), t);
    b.copy(back.data(), y.data(), y.bytes(), lc::Copy::to_host, t);
    b.sync(t);
    EXPECT_EQ(back, std::vector<float>(1000));
    b.stream_destroy(s);
    b.stream_destroy(t);
}

TEST(Backend, BuffersMoveAndEmptyOnesAreFine) {
    lc::Buffer<int32_t> a(cpu(), 0), b(cpu(), 7);
    int32_t* const p = b.data();
    a = std::move(b);
    EXPECT_EQ(a.data(), p);
    EXPECT_EQ(a.size(), 7);
    EXPECT_NE(refusal([] { lc::Buffer<float> c(cpu(), -1); }).find("-1 elements"), std::string::npos);
    EXPECT_THROW(lc::Buffer<float>(cpu(), int64_t(1) << 58), lc::DeviceError);
}

TEST(Backend, TheCpuIsAlwaysThere) {
    const auto list = lc::devices();
    ASSERT_FALSE(list.empty());
    EXPECT_EQ(list[0].name, "cpu");
    EXPECT_TRUE(list[0].usable);
    EXPECT_FALSE(list[0].description.empty());
    std::string why;
    EXPECT_EQ(lc::choose_backend("cpu", &why).name, "cpu");
    EXPECT_NE(why.find("cpu"), std::string::npos) << why;
    EXPECT_EQ(why.find('\n'), std::string::npos);
    lc::choose_backend("auto", &why);
    EXPECT_FALSE(why.empty());
}

TEST(Backend, UnknownDevicesAreRefused) {
    for (const char* bad :
         {"gpu", "CPU", "", "cuda:", "cuda:-1", "cuda:1024", "cuda:01", "cuda:99999999999999999999", "sim", "cpu "}) {
        EXPECT_NE(refusal([&] { lc::choose_backend(bad); }).find("auto"), std::string::npos) << bad;
    }
    EXPECT_NE(refusal([] { lc::choose_backend("cuda:1000"); }), "nothing was thrown");
    EXPECT_EQ(lc::find_backend("no such thing"), nullptr);
}

TEST(Backend, DeviceNamesPrintBackAsTheyWereRead) {
    for (const char* name : {"auto", "cpu", "cuda", "cuda:0", "cuda:17", "cuda:1023"}) {
        EXPECT_EQ(lc::to_string(lc::parse_device(name)), name);
    }
}

TEST(Gemm, EnginesHaveNames) {
    EXPECT_EQ(lc::gemm_engine("own"), lc::GemmEngine::own);
    EXPECT_EQ(lc::gemm_engine("openblas"), lc::GemmEngine::openblas);
    EXPECT_EQ(lc::gemm_engine("cublas"), lc::GemmEngine::cublas);
    EXPECT_EQ(lc::gemm_engine("cutlass"), lc::GemmEngine::cutlass);
    const std::string text = refusal([] { lc::gemm_engine("mkl"); });
    EXPECT_NE(text.find("mkl"), std::string::npos) << text;
    EXPECT_NE(text.find("openblas"), std::string::npos) << text;
}

TEST(Gemm, AnEngineOfAnotherBackendIsRefused) {
    float x[3] = {1, 2, 3};
    for (lc::GemmEngine e : {lc::GemmEngine::cublas, lc::GemmEngine::cutlass}) {
        const std::string text =
            refusal([&] { cpu().gemm(x, x + 1, x + 2, {.M = 1, .N = 1, .K = 1, .engine = e}, nullptr); });
        EXPECT_NE(text.find("cuda"), std::string::npos) << text;
    }
}

TEST(Gemm, OpenBlasAgreesWithOurs) {
    const int64_t n = 70;
    std::vector<float> a(n * n), b(n * n), ours(n * n), theirs(n * n);
    for (size_t i = 0; i < a.size(); ++i)
        a[i] = float(int(i * 7 % 11) - 5), b[i] = float(int(i * 5 % 13) - 6);  // exact sums
    cpu().gemm(ours.data(), a.data(), b.data(), {.M = n, .N = n, .K = n, .trans_b = true}, nullptr);
    cpu().gemm(theirs.data(), a.data(), b.data(),
               {.M = n, .N = n, .K = n, .trans_b = true, .engine = lc::GemmEngine::openblas}, nullptr);
    EXPECT_EQ(ours, theirs);
}

}  // namespace

// test_sim_streams.cpp -- streams, events, copies and device memory of the simulator.
#include <cmath>
#include <set>

#include "tests/sim_arrays.h"
#include "tests/sim_faults.h"

namespace {

using cusim::Engine;
using cusim::Kind;
using cusim::Order;
using namespace lc::sim;
using namespace sim_test;

// ---- streams, events, copies ----------------------------------------------------------------------------------------

TEST(Streams, WorkWaitsForTheHost) {
    Array<float> x(std::vector<float>(4, 1.0f));
    std::vector<float> h(4, 0.0f);
    probe_scale(x, 3.0f, 4, nullptr);
    cudaMemcpyAsync(h.data(), x, 16, cudaMemcpyDeviceToHost);
    EXPECT_TRUE(std::isnan(h[0])) << "not run yet: the destination holds 0xFF";
    cudaStreamSynchronize(nullptr);
    EXPECT_EQ(h[0], 3.0f);
}

TEST(Streams, OneStreamDoesNotRunAnother) {
    cudaStream_t a, b;
    cudaStreamCreateWithFlags(&a, cudaStreamNonBlocking);
    cudaStreamCreateWithFlags(&b, cudaStreamNonBlocking);
    Array<float> x(std::vector<float>(4, 1.0f)), y(std::vector<float>(4, 1.0f));
    std::vector<float> hx(4), hy(4);
    probe_scale(x, 2.0f, 4, a);
    cudaMemcpyAsync(hx.data(), x, 16, cudaMemcpyDeviceToHost, a);
    probe_scale(y, 3.0f, 4, b);
    cudaMemcpyAsync(hy.data(), y, 16, cudaMemcpyDeviceToHost, b);
    cudaStreamSynchronize(b);
    EXPECT_EQ(hy[0], 3.0f);
    EXPECT_TRUE(std::isnan(hx[0]));
    cudaStreamDestroy(a);  // runs what is left
    EXPECT_EQ(hx[0], 2.0f);
    cudaStreamDestroy(b);
}

TEST(Streams, EventsOrderAcrossStreams) {
    for (Order o : {Order::forward, Order::reverse, Order::random}) {
        cusim::set_order(o, 5);
        cudaStream_t s[3];
        for (auto& q : s) cudaStreamCreateWithFlags(&q, cudaStreamNonBlocking);
        Array<float> x(std::vector<float>(4, 1.0f));
        std::vector<float> h(4);
        for (int i = 0; i < 3; ++i) {  // s0, then s1, then s2, all on one buffer
            probe_scale(x, float(i + 2), 4, s[i]);
            if (i == 2) break;
            cudaEvent_t e;
            cudaEventCreateWithFlags(&e, cudaEventDisableTiming);
            cudaEventRecord(e, s[i]);
            cudaStreamWaitEvent(s[i + 1], e);
            cudaEventDestroy(e);
        }
        cudaMemcpyAsync(h.data(), x, 16, cudaMemcpyDeviceToHost, s[2]);
        cudaStreamSynchronize(s[2]);  // must pull in the others
        EXPECT_EQ(h[0], 24.0f);
        cudaDeviceSynchronize();
        for (auto& q : s) cudaStreamDestroy(q);
    }
    cusim::set_order(Order::forward);
    EXPECT_EQ(all_texts(cusim::take_findings()), "");
}

TEST(Streams, AnEventCountsWhatWasQueuedWhenItWasRecorded) {
    cudaStream_t a, b;
    cudaStreamCreateWithFlags(&a, cudaStreamNonBlocking);
    cudaStreamCreateWithFlags(&b, cudaStreamNonBlocking);
    Array<float> x(std::vector<float>(4, 1.0f)), y(std::vector<float>(4, 1.0f));
    std::vector<float> hx(4), hy(4);
    cudaEvent_t e, never;
    cudaEventCreateWithFlags(&e, cudaEventDisableTiming);
    cudaEventCreateWithFlags(&never, cudaEventDisableTiming);
    probe_scale(x, 2.0f, 4, a);
    cudaEventRecord(e, a);
    probe_scale(y, 5.0f, 4, a);  // after the event: b need not wait for it
    cudaStreamWaitEvent(b, e);
    cudaStreamWaitEvent(b, never);  // never recorded: holds nobody up
    cudaMemcpyAsync(hx.data(), x, 16, cudaMemcpyDeviceToHost, b);
    cudaStreamSynchronize(b);
    EXPECT_EQ(hx[0], 2.0f);
    cudaMemcpyAsync(hy.data(), y, 16, cudaMemcpyDeviceToHost, a);
    EXPECT_TRUE(std::isnan(hy[0]));
    cudaDeviceSynchronize();
    EXPECT_EQ(hy[0], 5.0f);
    cudaEventDestroy(e);
    cudaEventDestroy(never);
    cudaStreamDestroy(a);
    cudaStreamDestroy(b);
    EXPECT_EQ(all_texts(cusim::take_findings()), "");
}

TEST(Streams, AFaultDropsWhatIsQueuedAndTheNextLaunchIsHealthy) {
    Array<float> x(std::vector<float>(4, 1.0f));
    const std::vector<float> h(5, 2.0f);
    probe_scale(x, 2.0f, 4, nullptr);
    EXPECT_THROW(cudaMemcpyAsync(x, h.data(), 20, cudaMemcpyHostToDevice), cusim::Fault);
    EXPECT_EQ(x.host()[0], 2.0f) << "a refused copy leaves the queue as it was";
    const auto found = cusim::take_findings();
    ASSERT_EQ(found.size(), 1u);
    EXPECT_EQ(found[0].kind, Kind::out_of_bounds);
    EXPECT_NE(found[0].text.find("20 bytes"), std::string::npos) << found[0].text;
}

TEST(Streams, CopiesAndMemsetsMoveTheRightBytes) {
    Array<float> x(ramp(8)), y(8);
    cudaMemcpyAsync(y + 2, x + 1, 5 * sizeof(float), cudaMemcpyDeviceToDevice);
    cudaMemsetAsync(y + 3, 0, 4);
    const std::vector<float> h = y.host();
    EXPECT_TRUE(std::isnan(h[0]) && std::isnan(h[1]) && std::isnan(h[7]));
    EXPECT_EQ(h[2], 2.0f);
    EXPECT_EQ(h[3], 0.0f);
    EXPECT_EQ(h[6], 6.0f);
}

TEST(Streams, QueuedCopiesMayShareHostMemory) {
    Array<float> x(ramp(4)), y(4), z(std::vector<float>(4, 9.0f));
    std::vector<float> h(4);
    cudaMemcpyAsync(h.data(), x, 16, cudaMemcpyDeviceToHost);
    cudaMemcpyAsync(y, h.data(), 16, cudaMemcpyHostToDevice);  // what the copy before it brought
    cudaMemcpyAsync(h.data(), z, 16, cudaMemcpyDeviceToHost);
    cudaStreamSynchronize(nullptr);
    EXPECT_EQ(h[1], 9.0f);
    EXPECT_EQ(y.host(), ramp(4));
    EXPECT_EQ(all_texts(cusim::take_findings()), "");
}

TEST(Streams, TenThousandLaunchesInOneQueue) {
    Array<float> x(std::vector<float>(4, 1.0f));
    for (int i = 0; i < 10'000; ++i) probe_scale(x, i % 2 == 0 ? 2.0f : 0.5f, 4, nullptr);
    EXPECT_EQ(x.host()[3], 1.0f);
}

// ---- device memory --------------------------------------------------------------------------------------------------

TEST(DeviceMemory, IsUsedAgainAfterQuarantine) {
    std::set<void*> places;
    for (int i = 0; i < 60; ++i) {  // 240 MiB: several times what waits
        void* p = nullptr;
        ASSERT_EQ(cudaMalloc(&p, 4 << 20), cudaSuccess);
        places.insert(p);
        cudaFree(p);
    }
    EXPECT_GT(places.size(), 1u) << "freed memory must not be handed out at once";
    EXPECT_LT(places.size(), 50u) << "but used again in the end";
}

TEST(DeviceMemory, IsAlignedAndFullOfNaN) {
    for (size_t n : {1u, 3u, 64u, 1000u}) {
        Array<float> x(n);
        EXPECT_EQ(reinterpret_cast<uintptr_t>(static_cast<float*>(x)) % 256, 0u);
        for (float v : x.host()) EXPECT_TRUE(std::isnan(v));
    }
}

TEST(DeviceMemory, RunsOutWithAnErrorCode) {
    void* p = nullptr;
    EXPECT_EQ(cudaMalloc(&p, size_t(5) << 30), cudaErrorMemoryAllocation);
    EXPECT_STREQ(cudaGetErrorString(cudaErrorMemoryAllocation), "out of memory");
    size_t free = 0, total = 0;
    cudaMemGetInfo(&free, &total);
    EXPECT_EQ(total, size_t(4) << 30);
    EXPECT_LE(free, total);
}

TEST(DeviceMemory, BuffersHaveNames) {
    Array<float> x(4);
    cusim::name_buffer(x, "weights");
    const std::vector<float> h(9);
    EXPECT_THROW(cudaMemcpyAsync(x, h.data(), 36, cudaMemcpyHostToDevice), cusim::Fault);
    const auto found = cusim::take_findings();
    ASSERT_EQ(found.size(), 1u);
    EXPECT_NE(found[0].text.find("'weights'"), std::string::npos) << found[0].text;
}

}  // namespace

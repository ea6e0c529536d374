// sim_arrays.h -- what the tests of the simulator share: device arrays, and findings as text.
#pragma once
#include <gtest/gtest.h>
#include <numeric>
#include <string>
#include <vector>

#include "kernels/sim/control.h"
#include "kernels/sim/cuda_api.h"

namespace sim_test {

inline const char* text(cusim::Engine e) { return e == cusim::Engine::source ? "source" : "ptx"; }

inline void forget_findings() {
    cusim::take_findings();
    cusim::take_warnings();
}

inline std::string all_texts(const std::vector<cusim::Finding>& findings) {
    std::string s;
    for (const auto& f : findings) s += "  " + f.text + "\n";
    return s;
}

template <class T>
class Array {
  public:
    explicit Array(size_t n) : n_(n) { EXPECT_EQ(cudaMalloc(&p_, n * sizeof(T)), cudaSuccess); }
    explicit Array(const std::vector<T>& v) : Array(v.size()) {
        cudaMemcpyAsync(p_, v.data(), n_ * sizeof(T), cudaMemcpyHostToDevice);
        cudaStreamSynchronize(nullptr);
    }
    Array(const Array&) = delete;
    ~Array() { cudaFree(p_); }
    operator T*() const { return p_; }
    std::vector<T> host() const {
        std::vector<T> v(n_);
        cudaMemcpyAsync(v.data(), p_, n_ * sizeof(T), cudaMemcpyDeviceToHost);
        cudaStreamSynchronize(nullptr);
        return v;
    }

  private:
    size_t n_;
    T* p_ = nullptr;
};

inline std::vector<float> ramp(size_t n) {
    std::vector<float> v(n);
    std::iota(v.begin(), v.end(), 1.0f);
    return v;
}

}  // namespace sim_test

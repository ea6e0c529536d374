// sim_floats.h -- device memory for the length of a planted fault, written for both compilers.
#pragma once
#include <vector>

#include "kernels/launch.h"

namespace lc::LC_CUDA_NS {

constexpr int kBlock = 64;

// Floats(n) is memory that nobody has written, Floats(n, v) is full of v.
class Floats {
  public:
    explicit Floats(int n) : n_(n) { LC_CUDA_CHECK(cudaMalloc(&p_, size_t(n) * sizeof(float))); }
    Floats(int n, float value) : Floats(n) {
        const std::vector<float> host(size_t(n), value);
        LC_CUDA_CHECK(cudaMemcpyAsync(p_, host.data(), bytes(), cudaMemcpyHostToDevice, nullptr));
        LC_CUDA_CHECK(cudaStreamSynchronize(nullptr));
    }
    Floats(const Floats&) = delete;
    ~Floats() { (void)cudaFree(p_); }
    operator float*() const { return p_; }
    size_t bytes() const { return size_t(n_) * sizeof(float); }
    std::vector<float> host() const {
        std::vector<float> h(bytes() / sizeof(float));
        LC_CUDA_CHECK(cudaMemcpyAsync(h.data(), p_, bytes(), cudaMemcpyDeviceToHost, nullptr));
        LC_CUDA_CHECK(cudaStreamSynchronize(nullptr));
        return h;
    }

  private:
    int n_;
    float* p_ = nullptr;
};

inline bool all_equal(const std::vector<float>& v, float want) {
    for (float x : v) {
        if (!(x == want)) return false;
    }
    return true;
}
inline void sync() { LC_CUDA_CHECK(cudaStreamSynchronize(nullptr)); }

}  // namespace lc::LC_CUDA_NS

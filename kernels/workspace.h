// workspace.h -- scratch memory of a CPU op that is kept from call to call.
//
//     static thread_local Workspace workspace;
//     float* const memory = workspace.floats(n);        uninitialised, aligned to 64 bytes
//
// One block that serves all threads of a call; kept by the calling thread for its next calls, freed when it ends.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>

namespace lc::cpu {

class Workspace {
  public:
    float* floats(int64_t n) {
        if (n > size_) {
            data_.reset();
            size_ = 0;
            data_.reset(static_cast<float*>(::operator new(size_t(n) * sizeof(float), kAlignment)));
            size_ = n;
        }
        return data_.get();
    }

  private:
    static constexpr std::align_val_t kAlignment{64};
    struct Free {
        void operator()(float* p) const { ::operator delete(p, kAlignment); }
    };
    std::unique_ptr<float, Free> data_;
    int64_t size_ = 0;
};

}  // namespace lc::cpu

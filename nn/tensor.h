// tensor.h -- a shape and the memory of a backend that holds its elements, row-major float32.
//
//     Tensor x = Tensor::from(backend, {n, d}, values);      copied once, here
//     Tensor y(backend, {n, C});                             not initialised
//     std::vector<float> v = y.to_host();                    waits for the backend
//
// A tensor owns its memory and moves; it never copies behind your back (clone() says it).
#pragma once
#include <initializer_list>
#include <span>
#include <vector>

#include "kernels/backend.h"

namespace lc {

using Shape = std::vector<int64_t>;

inline int64_t count_of(const Shape& shape) {
    int64_t n = 1;
    for (int64_t s : shape) n *= s;
    return n;
}

class Tensor {
  public:
    Tensor() = default;
    Tensor(const Backend& b, Shape shape) : backend_(&b), shape_(std::move(shape)), buffer_(b, count_of(shape_)) {}

    static Tensor zeros(const Backend& b, Shape shape) {
        Tensor t(b, std::move(shape));
        b.zero(t.data(), t.buffer_.bytes(), nullptr);
        return t;
    }
    static Tensor from(const Backend& b, Shape shape, std::span<const float> values) {
        Tensor t(b, std::move(shape));
        t.assign(values);
        return t;
    }

    explicit operator bool() const { return backend_ != nullptr; }
    const Backend& backend() const { return *backend_; }
    const Shape& shape() const { return shape_; }
    int64_t size() const { return buffer_.size(); }
    int64_t rows() const { return shape_.at(0); }
    int64_t cols() const { return shape_.size() < 2 ? 1 : size() / std::max<int64_t>(1, rows()); }
    float* data() const { return buffer_.data(); }

    Tensor clone() const {
        Tensor t(*backend_, shape_);
        backend_->copy(t.data(), data(), buffer_.bytes(), Copy::on_device, nullptr);
        return t;
    }
    void assign(std::span<const float> values) {
        LC_CHECK(int64_t(values.size()) == size(), "a tensor of " << size() << " elements got " << values.size());
        backend_->copy(data(), values.data(), buffer_.bytes(), Copy::to_device, nullptr);
        backend_->sync(nullptr);
    }
    std::vector<float> to_host() const {
        std::vector<float> values(size_t(size()), 0.0f);
        backend_->copy(values.data(), data(), buffer_.bytes(), Copy::to_host, nullptr);
        backend_->sync(nullptr);
        return values;
    }

  private:
    const Backend* backend_ = nullptr;
    Shape shape_;
    Buffer<float> buffer_;
};

// Whole numbers (labels, row indices) in a backend's memory.
inline Buffer<int32_t> to_device(const Backend& b, std::span<const int32_t> values) {
    Buffer<int32_t> buffer(b, int64_t(values.size()));
    b.copy(buffer.data(), values.data(), buffer.bytes(), Copy::to_device, nullptr);
    b.sync(nullptr);
    return buffer;
}

}  // namespace lc

// backend.h -- the table through which everything above kernels/ computes: memory, copies, streams, one entry per op.
//
//     const Backend& b = choose_backend("auto");            "auto" | "cpu" | "cuda" | "cuda:1"
//     Buffer<float> x(b, N * C), y(b, N * C);
//     b.copy(x.data(), host, x.bytes(), Copy::to_device, nullptr);
//     b.softmax(y.data(), x.data(), N, C, nullptr);
//     b.sync(nullptr);
#pragma once
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/adam.h"
#include "kernels/affine.h"
#include "kernels/batchnorm.h"
#include "kernels/check.h"
#include "kernels/conv2d.h"
#include "kernels/cross_entropy.h"
#include "kernels/eltwise.h"
#include "kernels/gemm.h"
#include "kernels/js_ce_loss.h"
#include "kernels/knn.h"
#include "kernels/local_error.h"
#include "kernels/local_error_null.h"
#include "kernels/nw_bandwidth.h"
#include "kernels/nw_smooth.h"
#include "kernels/nw_smooth_bwd.h"
#include "kernels/op.h"
#include "kernels/pool.h"
#include "kernels/reduce.h"
#include "kernels/sgd.h"
#include "kernels/softmax.h"

namespace lc {

// The inventory.  A new op is a line here, its contract above, op.cpp, op.cu, and a case list in tests/ops/.
//
//        op                contract            what it computes
#define LC_ALL_OPS(X)                                                                         \
    X(add)               /* eltwise.h           x + y                                      */ \
    X(add_relu)          /* eltwise.h           max(x + y, 0)                              */ \
    X(scale)             /* eltwise.h           a x                                        */ \
    X(bias)              /* eltwise.h           x + b, b added to every row                */ \
    X(relu)              /* eltwise.h           max(x, 0)                                  */ \
    X(relu_bwd)          /* eltwise.h           dy where y > 0                             */ \
    X(softplus)          /* eltwise.h           ln(1 + exp(x))                             */ \
    X(softplus_bwd)      /* eltwise.h           dy (1 - exp(-y))                           */ \
    X(dropout)           /* eltwise.h           x / (1 - p) where kept, and its backward   */ \
    X(row_reduce)        /* reduce.h            sum, mean or max of each row               */ \
    X(col_reduce)        /* reduce.h            sum, mean or max of each column            */ \
    X(row_argmax)        /* reduce.h            place of the maximum of each row           */ \
    X(col_argmax)        /* reduce.h            place of the maximum of each column        */ \
    X(softmax)           /* softmax.h           exp(x - max) / sum                         */ \
    X(log_softmax)       /* softmax.h           x - max - ln sum                           */ \
    X(softmax_bwd)       /* softmax.h           y (dy - sum dy y)                          */ \
    X(log_softmax_bwd)   /* softmax.h           dy - exp(y) sum dy                         */ \
    X(cross_entropy)     /* cross_entropy.h     -ln softmax of the label, and its gradient */ \
    X(gemm)              /* gemm.h              alpha op(A) op(B) + beta C, batched        */ \
    X(conv2d)            /* conv2d.h            images convolved with filters, bias, relu  */ \
    X(conv2d_prepare)    /* conv2d.h            filters as a backend wants them            */ \
    X(conv2d_bwd_data)   /* conv2d.h            its gradient for the images                */ \
    X(conv2d_bwd_filter) /* conv2d.h            its gradient for the filters               */ \
    X(batchnorm)         /* batchnorm.h         gamma (x - mean) / deviation + beta        */ \
    X(batchnorm_infer)   /* batchnorm.h         the same with running statistics           */ \
    X(batchnorm_bwd)     /* batchnorm.h         gradients of both                          */ \
    X(maxpool)           /* pool.h              maximum of a window, and its place         */ \
    X(maxpool_bwd)       /* pool.h              gradients go where the maxima were         */ \
    X(avgpool)           /* pool.h              mean of an image, per channel              */ \
    X(avgpool_bwd)       /* pool.h              its gradient                               */ \
    X(affine)            /* affine.h            a + w x + b by columns                     */ \
    X(affine_bwd)        /* affine.h            sums of dy x and dy along columns          */ \
    X(standardise)       /* affine.h            (x - mean) inverse                         */ \
    X(col_moment2)       /* affine.h            mean of (x - mean)^2 of each column        */ \
    X(gather_rows)       /* affine.h            rows of a table by index                   */ \
    X(adam)              /* adam.h              one step of the optimiser                  */ \
    X(sgd)               /* sgd.h               one step with momentum and weight decay    */ \
    X(nw_smooth)         /* nw_smooth.h         class probabilities of the neighbourhood   */ \
    X(nw_smooth_bwd)     /* nw_smooth_bwd.h     its gradients                              */ \
    X(nw_bandwidth)      /* nw_bandwidth.h      its leave-one-out loss for many bandwidths */ \
    X(js_ce_loss)        /* js_ce_loss.h        distance of p and theta, -ln theta, grads  */ \
    X(knn)               /* knn.h               distances of the k nearest neighbours      */ \
    X(local_error)       /* local_error.h       mean of p - y around each row, per class   */ \
    X(local_error_null)  /* local_error_null.h  the same for labels drawn at random        */

enum class Copy { to_device, to_host, on_device };

// An op of a table.  Calling one that the backend lacks says so instead of jumping to address zero.
template <class Fn>
struct Entry;
template <class... Args>
struct Entry<void(Args...)> {
    const char* op;
    void (*fn)(Args...) = nullptr;
    const char* backend = "?";
    void operator()(Args... args) const {
        LC_CHECK(fn != nullptr, "backend '" << backend << "' has no op '" << op << "'; run it with --device cpu");
        fn(args...);
    }
};

struct Backend {
    std::string name;  // "cpu", "cuda:0", in tests "sim"

    // Memory of the backend, aligned to 256 bytes; alloc(0) gives a pointer that may be released.  A failed allocation
    // throws and names the size.
    void* (*alloc)(size_t bytes);
    void (*release)(void* p);

    // Copies and ops run in the order of their stream, and the host may touch neither side of a copy before sync().
    void (*copy)(void* dst, const void* src, size_t bytes, Copy kind, Stream s);
    void (*zero)(void* dst, size_t bytes, Stream s);
    Stream (*stream_create)();
    void (*stream_destroy)(Stream s);
    void (*sync)(Stream s);                      // the host waits until the stream is empty
    void (*wait)(Stream waiter, Stream before);  // later work on `waiter` runs after everything now on `before`

#define LC_ENTRY(name) Entry<name##_fn> name{#name};
    LC_ALL_OPS(LC_ENTRY)
#undef LC_ENTRY
};

// ---- which backends exist -------------------------------------------------------------------------------------------

struct DeviceInfo {
    std::string name;         // what --device takes: "cpu", "cuda:0"
    std::string description;  // "AMD EPYC, 2 threads, AVX2", "NVIDIA A100 80 GB, sm_80"
    bool usable = true;
    std::string why_not = {};  // one sentence where usable is false
};
std::vector<DeviceInfo> devices();  // everything this binary could run on, usable or not; the CPU first

// The choice by itself, among any such list; a list with the CPU alone is that of a binary built without CUDA.
const DeviceInfo& pick_device(std::string_view device, const std::vector<DeviceInfo>& list, std::string* why = nullptr);

// Picks by name, and says in one line (`why`) what was taken and why.  "auto" takes the first usable GPU, else the CPU;
// a device asked for by name that cannot be had is refused.
const Backend& choose_backend(std::string_view device, std::string* why = nullptr);

// One backend by its bare name ("cpu", "cuda", "sim"), or nullptr where this binary does not hold it.
const Backend* find_backend(std::string_view name);

// ---- memory that gives itself back ----------------------------------------------------------------------------------

template <class T>
class Buffer {
  public:
    Buffer() = default;
    Buffer(const Backend& b, int64_t count) : backend_(&b), count_(count) {
        LC_CHECK(count >= 0 && uint64_t(count) <= SIZE_MAX / 2 / sizeof(T),
                 "a buffer cannot hold " << count << " elements");
        data_ = static_cast<T*>(b.alloc(bytes()));
    }
    Buffer(Buffer&& o) noexcept { swap(o); }
    Buffer& operator=(Buffer&& o) noexcept {
        swap(o);
        return *this;
    }
    ~Buffer() {
        if (backend_) backend_->release(data_);
    }
    T* data() const { return data_; }
    int64_t size() const { return count_; }
    size_t bytes() const { return size_t(count_) * sizeof(T); }

  private:
    void swap(Buffer& o) noexcept {
        std::swap(backend_, o.backend_);
        std::swap(data_, o.data_);
        std::swap(count_, o.count_);
    }
    const Backend* backend_ = nullptr;
    T* data_ = nullptr;
    int64_t count_ = 0;
};

}  // namespace lc

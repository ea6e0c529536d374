// ptx_support.h -- what tests/test_ptx.cpp stands on: values of every type, device buffers, comparison.
#pragma once
#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include "kernels/launch.h"

namespace ptx_test {

using b16 = uint16_t;
using u16 = uint16_t;
using s16 = int16_t;
using b32 = uint32_t;
using u32 = uint32_t;
using s32 = int32_t;
using b64 = uint64_t;
using u64 = uint64_t;
using s64 = int64_t;
using f32 = float;
using f64 = double;

using Bytes = std::vector<uint8_t>;

// ---- values ---------------------------------------------------------------------------------------------------------

template <class T>
std::vector<T> edges() {
    using L = std::numeric_limits<T>;
    std::vector<T> v;
    if constexpr (std::is_floating_point_v<T>) {
        v = {0,
             1,
             0.5,
             1.5,
             2.5,
             3,
             T(1) / 3,
             T(0.49999997),
             7,
             100.25,
             65504,
             65519,
             65520,
             T(1e-5),
             T(1e-7),
             T(126.5),
             L::denorm_min(),
             L::min(),
             L::min() - L::denorm_min(),
             L::max(),
             L::infinity(),
             L::quiet_NaN(),
             1 + L::epsilon(),
             1 - L::epsilon() / 2,
             T(8388608.5),
             T(16777217),
             T(2147483647),
             T(2147483648),
             T(1e10),
             2049,  // halfway between two half-precision numbers, as 2051
             2051,
             T(4294967295),
             T(4294967296),
             T(9223372036854775807),
             T(18446744073709551615u)};
        for (size_t i = 0, n = v.size(); i < n; ++i) v.push_back(-v[i]);
    } else {
        v = {0,
             1,
             2,
             3,
             5,
             7,
             8,
             15,
             16,
             31,
             32,
             33,
             63,
             64,
             100,
             127,
             T(128),
             T(255),
             T(256),
             T(0x8000),
             T(0xffff),
             T(0x3210),
             T(0x7654),
             T(0xfedc),
             T(0xba98),
             L::max(),
             T(L::max() - 1),
             L::min(),
             T(L::min() + 1),
             T(L::max() / 2),
             T(-1),
             T(-2),
             T(-31),
             T(-32),
             T(0x12345678),
             T(0xff00ff00),
             T(0x123456789abcdef0)};
    }
    return v;
}

// Bytes of n values for operand number `place`: the first two run through all pairs of edges, then come random bits.
template <class T>
Bytes values(size_t n, int place, std::mt19937_64& random) {
    static const std::vector<T> e = edges<T>();
    Bytes bytes(n * sizeof(T));
    for (size_t i = 0; i < n; ++i) {
        T v = e[place == 0 ? i % e.size() : place == 1 ? i / e.size() % e.size() : random() % e.size()];
        if (i >= e.size() * e.size() && random() % 2 == 0) {
            const uint64_t word = random();
            std::memcpy(&v, &word, sizeof(T));
        }
        std::memcpy(&bytes[i * sizeof(T)], &v, sizeof(T));
    }
    return bytes;
}

// What a test needs to know about a type while it runs.  One generic test for all rows compiles in seconds, one template
// instance per row in minutes.
struct TypeInfo {
    size_t bytes;
    bool is_float;
    Bytes (*values)(size_t n, int place, std::mt19937_64& random);
    std::string (*show)(const void* v);
};
template <class T>
std::string show(const void* p) {
    T v;
    std::memcpy(&v, p, sizeof(T));
    std::ostringstream s;
    s.precision(std::numeric_limits<T>::max_digits10);
    s << +v << " (0x" << std::hex;
    for (size_t i = sizeof(T); i-- > 0;)
        s << (static_cast<const uint8_t*>(p)[i] >> 4) << (static_cast<const uint8_t*>(p)[i] & 15);
    return s.str() + ")";
}
template <class T>
const TypeInfo* type_of() {
    static const TypeInfo info = {sizeof(T), std::is_floating_point_v<T>, &values<T>, &show<T>};
    return &info;
}

// ---- launches -------------------------------------------------------------------------------------------------------

// Buffers are used again: the simulator keeps freed memory apart for a while, and hundreds of tests would fill it.
class Device {
  public:
    explicit Device(const Bytes& host) : bytes_(host.size()) {
        std::vector<void*>& spare = spare_buffers()[bytes_];
        if (spare.empty()) {
            LC_CUDA_CHECK(cudaMalloc(&data_, bytes_));
        } else {
            data_ = spare.back();
            spare.pop_back();
        }
        LC_CUDA_CHECK(cudaMemcpyAsync(data_, host.data(), bytes_, cudaMemcpyHostToDevice));
        LC_CUDA_CHECK(cudaStreamSynchronize(nullptr));
    }
    template <class T>
    explicit Device(const std::vector<T>& host) : Device(to_bytes(host)) {}
    Device(const Device&) = delete;
    ~Device() { spare_buffers()[bytes_].push_back(data_); }

    template <class T = void>
    T* data() const {
        return static_cast<T*>(data_);
    }
    template <class T>
    std::vector<T> host() const {
        std::vector<T> v(bytes_ / sizeof(T));
        LC_CUDA_CHECK(cudaMemcpyAsync(v.data(), data_, bytes_, cudaMemcpyDeviceToHost));
        LC_CUDA_CHECK(cudaStreamSynchronize(nullptr));
        return v;
    }

  private:
    static std::map<size_t, std::vector<void*>>& spare_buffers() {
        static std::map<size_t, std::vector<void*>> buffers;
        return buffers;
    }
    template <class T>
    static Bytes to_bytes(const std::vector<T>& host) {
        Bytes b(host.size() * sizeof(T));
        std::memcpy(b.data(), host.data(), b.size());
        return b;
    }
    void* data_ = nullptr;
    size_t bytes_;
};

constexpr unsigned kBlock = 128;
inline dim3 grid_for(size_t n) { return dim3(unsigned((n + kBlock - 1) / kBlock)); }

// ---- comparison -----------------------------------------------------------------------------------------------------

template <class T>
T get(const void* p) {
    T v;
    std::memcpy(&v, p, sizeof(T));
    return v;
}

// Distance in units in the last place; all NaN are one.
template <class T>
double ulps_apart(T got, long double want) {
    if (std::isnan(got) || std::isnan(want)) return std::isnan(got) && std::isnan(want) ? 0 : INFINITY;
    if (std::isinf(got) || std::isinf(T(want))) return got == T(want) ? 0 : INFINITY;
    const T next = std::nextafter(std::fabs(T(want)), std::numeric_limits<T>::infinity());
    return double(std::fabs((long double)(got)-want) / ((long double)(next)-std::fabs(T(want))));
}
inline double ulps_apart(const TypeInfo& type, const void* got, long double want) {
    return type.bytes == 4 ? ulps_apart(get<float>(got), want) : ulps_apart(get<double>(got), want);
}
inline bool same(const TypeInfo& type, const void* a, const void* b) {
    if (std::memcmp(a, b, type.bytes) == 0) return true;
    if (!type.is_float) return false;
    const bool is_nan[] = {type.bytes == 4 ? std::isnan(get<float>(a)) : std::isnan(get<double>(a)),
                           type.bytes == 4 ? std::isnan(get<float>(b)) : std::isnan(get<double>(b))};
    return is_nan[0] && is_nan[1];
}

}  // namespace ptx_test

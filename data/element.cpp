// element.cpp -- one loop, instantiated for every type a file may hold and every type we want.
#include "data/element.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <type_traits>

namespace lc {

static_assert(std::endian::native == std::endian::little,
              "element.cpp takes the machine's own order for little endian");

namespace {

struct Half {  // IEEE 754 binary16
    uint16_t bits;
};
struct BFloat16 {  // the upper half of a float
    uint16_t bits;
};
struct Boolean {
    uint8_t byte;
};

float value(Half h) {
    const uint32_t sign = uint32_t(h.bits & 0x8000) << 16, exponent = h.bits >> 10 & 31, fraction = h.bits & 0x3ff;
    if (exponent == 0) return (sign ? -1.0f : 1.0f) * float(fraction) * 0x1p-24f;  // zero and subnormals: exact
    if (exponent == 31) return std::bit_cast<float>(sign | 0x7f800000 | fraction << 13);
    return std::bit_cast<float>(sign | (exponent + 112) << 23 | fraction << 13);  // 112 = 127 - 15, the two biases
}
float value(BFloat16 b) { return std::bit_cast<float>(uint32_t(b.bits) << 16); }
int value(Boolean b) { return b.byte != 0; }
template <class T>
T value(T x) {
    return x;
}

template <class From>
auto load(const std::byte* p, bool big_endian) {
    std::array<std::byte, sizeof(From)> raw;
    std::memcpy(raw.data(), p, sizeof(From));
    if (big_endian) std::reverse(raw.begin(), raw.end());
    return value(std::bit_cast<From>(raw));
}

template <class To, class From>
bool fits(From x) {
    if constexpr (std::is_same_v<To, int64_t>) {
        if constexpr (std::is_floating_point_v<From>) return x >= -0x1p63 && x < 0x1p63 && x == std::trunc(x);
        if constexpr (std::is_same_v<From, uint64_t>) return x <= uint64_t(INT64_MAX);
    }
    if constexpr (std::is_same_v<To, float> && std::is_same_v<From, double>) {
        constexpr double kOverflow = 0x1.ffffffp127;  // from here on rounding to nearest gives infinity
        return !(std::abs(x) >= kOverflow) || std::isinf(x);
    }
    return true;
}

template <class From, class To>
int64_t convert_all(bool big_endian, const std::byte* from, int64_t stride, int64_t count, To* to) {
    if (std::is_same_v<From, To> && !big_endian && stride == int64_t(sizeof(To))) {
        if (count > 0) std::memcpy(to, from, size_t(count) * sizeof(To));
        return -1;
    }
    for (int64_t i = 0; i < count; ++i) {
        const auto x = load<From>(from + i * stride, big_endian);
        if (!fits<To>(x)) return i;
        to[i] = To(x);
    }
    return -1;
}

template <class To>
int64_t dispatch(Element type, bool big_endian, const std::byte* from, int64_t stride, int64_t count, To* to) {
    switch (type) {
        case Element::f16:
            return convert_all<Half>(big_endian, from, stride, count, to);
        case Element::bf16:
            return convert_all<BFloat16>(big_endian, from, stride, count, to);
        case Element::f32:
            return convert_all<float>(big_endian, from, stride, count, to);
        case Element::f64:
            return convert_all<double>(big_endian, from, stride, count, to);
        case Element::i8:
            return convert_all<int8_t>(big_endian, from, stride, count, to);
        case Element::i16:
            return convert_all<int16_t>(big_endian, from, stride, count, to);
        case Element::i32:
            return convert_all<int32_t>(big_endian, from, stride, count, to);
        case Element::i64:
            return convert_all<int64_t>(big_endian, from, stride, count, to);
        case Element::u8:
            return convert_all<uint8_t>(big_endian, from, stride, count, to);
        case Element::u16:
            return convert_all<uint16_t>(big_endian, from, stride, count, to);
        case Element::u32:
            return convert_all<uint32_t>(big_endian, from, stride, count, to);
        case Element::u64:
            return convert_all<uint64_t>(big_endian, from, stride, count, to);
        case Element::boolean:
            return convert_all<Boolean>(big_endian, from, stride, count, to);
    }
    return 0;
}

}  // namespace

int size_of(Element type) {
    switch (type) {
        case Element::i8:
        case Element::u8:
        case Element::boolean:
            return 1;
        case Element::f16:
        case Element::bf16:
        case Element::i16:
        case Element::u16:
            return 2;
        case Element::f32:
        case Element::i32:
        case Element::u32:
            return 4;
        case Element::f64:
        case Element::i64:
        case Element::u64:
            return 8;
    }
    return 0;
}

const char* name_of(Element type) {
    static const char* const kNames[] = {"float16", "bfloat16", "float32", "float64", "int8",   "int16", "int32",
                                         "int64",   "uint8",    "uint16",  "uint32",  "uint64", "bool"};
    return kNames[int(type)];
}

int64_t convert(Element type, bool big_endian, const std::byte* from, int64_t stride, int64_t count, float* to) {
    return dispatch(type, big_endian, from, stride, count, to);
}
int64_t convert(Element type, bool big_endian, const std::byte* from, int64_t stride, int64_t count, double* to) {
    return dispatch(type, big_endian, from, stride, count, to);
}
int64_t convert(Element type, bool big_endian, const std::byte* from, int64_t stride, int64_t count, int64_t* to) {
    return dispatch(type, big_endian, from, stride, count, to);
}

int64_t count_of(const int64_t* sizes, size_t rank) {
    int64_t product = 1;
    bool empty = false;
    for (size_t i = 0; i < rank; ++i) {
        empty |= sizes[i] == 0;
        if (__builtin_mul_overflow(product, sizes[i] == 0 ? 1 : sizes[i], &product)) return -1;
    }
    return empty ? 0 : product;
}

}  // namespace lc

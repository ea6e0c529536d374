// element.h -- the number types that array files hold, and their conversion to the three the program computes with.
//
//     float          rounded to nearest where the file is more precise; a finite number beyond its range does not fit
//     double         holds all of them (64-bit integers are rounded to nearest)
//     int64_t        whole numbers within its range; nothing else fits
// NaN and infinities are carried over to float and double; to refuse them is the business of who knows their meaning.
#pragma once
#include <cstddef>
#include <cstdint>

namespace lc {

enum class Element { f16, bf16, f32, f64, i8, i16, i32, i64, u8, u16, u32, u64, boolean };

int size_of(Element type);          // bytes
const char* name_of(Element type);  // "float32"

// to[i] = the element at from + i*stride (in bytes), for i < count.  Returns the first i whose value does not fit, and
// stops there; -1 where all fit.  `from` need not be aligned.
int64_t convert(Element type, bool big_endian, const std::byte* from, int64_t stride, int64_t count, float* to);
int64_t convert(Element type, bool big_endian, const std::byte* from, int64_t stride, int64_t count, double* to);
int64_t convert(Element type, bool big_endian, const std::byte* from, int64_t stride, int64_t count, int64_t* to);

// The product of the sizes; -1 where it (or the product of those that are not 0) is beyond int64_t.
int64_t count_of(const int64_t* sizes, size_t rank);

}  // namespace lc

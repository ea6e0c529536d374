// row_cache.h -- rows of numbers that take long to compute, kept on disk: computed once, read in any order ever after.
//
//     RowCacheWriter out("trunk-3f2a.npy", 27500, {4, 4, 1024}, CacheType::f16);
//     for (int64_t i = out.rows_done(); i < 27500; i += 128) out.append(...);        goes on where the last run was killed
//     out.commit();
//     RowCache in("trunk-3f2a.npy");
//     in.read(batch, {17, 4, 20031});                                                mapped; converted as it is read
//
// The file is an ordinary .npy (n, ...) of float16 or float32, so NumPy opens it too.  While it grows it is PATH.partial, and as
// long as it is: whole rows in it are finished ones.  Only one program at a time may write it.  Its name is the caller's way to
// say what it was made of: put a hash of everything that decides the numbers into it, and a stale cache is never found.
//
// float16 keeps 11 bits, an error of 0.05 %, in half the space.  A number beyond its range (65504) is refused, and so is NaN.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "data/npy.h"

namespace lc {

enum class CacheType { f16, f32 };

class RowCacheWriter {
  public:
    RowCacheWriter(const std::string& path, int64_t n, const std::vector<int64_t>& row_shape, CacheType type);
    ~RowCacheWriter();
    RowCacheWriter(const RowCacheWriter&) = delete;
    RowCacheWriter& operator=(const RowCacheWriter&) = delete;

    int64_t rows_done() const { return rows_done_; }
    void append(const float* rows, int64_t count);
    void commit();  // all n rows must be there

  private:
    std::string path_, partial_;
    int64_t n_, row_size_, rows_done_ = 0;  // row_size in numbers
    CacheType type_;
    int descriptor_ = -1;
};

class RowCache {
  public:
    explicit RowCache(const std::string& path);
    int64_t size() const { return array_.shape.at(0); }
    std::vector<int64_t> row_shape() const { return {array_.shape.begin() + 1, array_.shape.end()}; }
    void read(float* out, std::span<const int64_t> rows) const;  // out (rows, ...)

  private:
    NpyArray array_;
    int64_t row_size_ = 1;
};

uint16_t to_half(float x);  // IEEE 754 binary16, to nearest, ties to even; beyond its range: infinity

}  // namespace lc

// row_cache.cpp -- see row_cache.h.
#include "data/row_cache.h"

#include <bit>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <fcntl.h>
#include <limits>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

#include "data/element.h"
#include "kernels/check.h"

namespace lc {

uint16_t to_half(float x) {
    const uint32_t bits = std::bit_cast<uint32_t>(x), sign = bits >> 16 & 0x8000, magnitude = bits & 0x7fffffff;
    if (magnitude > 0x7f800000) return uint16_t(sign | 0x7e00);   // NaN
    if (magnitude >= 0x477ff000) return uint16_t(sign | 0x7c00);  // 65520 and more round to infinity
    if (magnitude < 0x38800000) {                                 // subnormal: the sum drops the bits that do not fit
        const float shifted = std::bit_cast<float>(magnitude) + 0.5f;  // 0.5 has steps of 2^-24, as the result
        return uint16_t(sign | (std::bit_cast<uint32_t>(shifted) - 0x3f000000));
    }
    const uint32_t to_even = magnitude >> 13 & 1;
    return uint16_t(sign | ((magnitude - 0x38000000 + 0xfff + to_even) >> 13));
}

namespace {

constexpr int64_t kFewRows = 16;  // not worth waking threads for

int64_t size_of(CacheType type) { return type == CacheType::f16 ? 2 : 4; }

[[noreturn]] void fail(const std::string& path, const char* doing) {
    throw std::runtime_error(path + ": " + doing + " failed: " + std::strerror(errno));
}

void write_all(int descriptor, const std::string& path, const void* bytes, size_t count) {
    const char* p = static_cast<const char*>(bytes);
    while (count > 0) {
        const ssize_t done = ::write(descriptor, p, count);
        if (done < 0 && errno == EINTR) continue;
        if (done <= 0) fail(path, "writing");
        p += done;
        count -= size_t(done);
    }
}

bool begins_with(int descriptor, const std::string& header) {
    std::string found(header.size(), '\0');
    return ::pread(descriptor, found.data(), found.size(), 0) == ssize_t(header.size()) && found == header;
}

}  // namespace

// ---- writing --------------------------------------------------------------------------------------------------------

RowCacheWriter::RowCacheWriter(const std::string& path, int64_t n, const std::vector<int64_t>& row_shape,
                               CacheType type)
    : path_(path), partial_(path + ".partial"), n_(n), row_size_(1), type_(type) {
    std::vector<int64_t> shape = {n};
    for (const int64_t s : row_shape) shape.push_back(s), row_size_ *= s;
    LC_CHECK(n >= 0 && row_size_ >= 1, "row cache: n >= 0 rows of 1 number or more; found " << shape_text(shape));
    descriptor_ = ::open(partial_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (descriptor_ < 0) {
        refuse(path, std::string("expected a place to write to, found: ") + std::strerror(errno) +
                         "; check that the folder exists and is yours");
    }
    if (::flock(descriptor_, LOCK_EX | LOCK_NB) != 0) {
        ::close(std::exchange(descriptor_, -1));
        refuse(partial_, "another program is writing it; wait for that one, or stop it");
    }
    const std::string header = npy_header(type == CacheType::f16 ? "<f2" : "<f4", shape);
    struct stat info = {};
    if (::fstat(descriptor_, &info) != 0) fail(partial_, "looking at its size");
    const int64_t row_bytes = row_size_ * size_of(type), body = int64_t(info.st_size) - int64_t(header.size());
    if (body >= 0 && begins_with(descriptor_, header)) rows_done_ = std::min(n, body / row_bytes);
    if (::ftruncate(descriptor_, rows_done_ == 0 ? 0 : off_t(int64_t(header.size()) + rows_done_ * row_bytes)) != 0) {
        fail(partial_, "cutting off an unfinished row");
    }
    ::lseek(descriptor_, 0, SEEK_END);
    if (rows_done_ == 0) write_all(descriptor_, partial_, header.data(), header.size());
}

RowCacheWriter::~RowCacheWriter() {
    if (descriptor_ >= 0) ::close(descriptor_);  // what is there stays: the next run goes on behind it
}

void RowCacheWriter::append(const float* rows, int64_t count) {
    LC_CHECK(rows_done_ + count <= n_, "row cache: " << n_ << " rows were announced, this is one too many");
    const int64_t numbers = count * row_size_;
    const double most = type_ == CacheType::f16 ? 65519.0 : double(std::numeric_limits<float>::max());
    for (int64_t i = 0; i < numbers; ++i) {
        if (std::abs(double(rows[i])) <= most) continue;
        refuse(path_, "row " + std::to_string(rows_done_ + i / row_size_) + " holds " + std::to_string(rows[i]) +
                          (std::isfinite(rows[i]) ? ", which float16 cannot; keep the cache in float32"
                                                  : "; the network or its input is broken"));
    }
    if (type_ == CacheType::f32) {
        write_all(descriptor_, partial_, rows, size_t(numbers) * sizeof(float));
    } else {
        std::vector<uint16_t> half(static_cast<size_t>(numbers));
#pragma omp parallel for schedule(static)
        for (int64_t i = 0; i < numbers; ++i) half[size_t(i)] = to_half(rows[i]);
        write_all(descriptor_, partial_, half.data(), half.size() * sizeof(uint16_t));
    }
    rows_done_ += count;
}

void RowCacheWriter::commit() {
    LC_CHECK(rows_done_ == n_, "row cache: expected " << n_ << " rows, found " << rows_done_);
    if (::fsync(descriptor_) != 0) fail(partial_, "flushing to disk");
    if (::rename(partial_.c_str(), path_.c_str()) != 0) fail(partial_, "renaming the finished file");
    ::close(std::exchange(descriptor_, -1));
}

// ---- reading --------------------------------------------------------------------------------------------------------

RowCache::RowCache(const std::string& path) : array_(read_npy(path)) {
    const bool plain = array_.kind == 'f' && (array_.itemsize == 2 || array_.itemsize == 4) && !array_.big_endian &&
                       !array_.fortran_order && !array_.shape.empty();
    if (!plain) refuse(path, "expected rows of float16 or float32, found " + array_.dtype() + "; remove the file");
    for (const int64_t s : row_shape()) row_size_ *= s;
}

void RowCache::read(float* out, std::span<const int64_t> rows) const {
    for (const int64_t r : rows) {
        LC_CHECK(r >= 0 && r < size(), array_.source << ": rows are 0 to " << size() - 1 << "; found " << r);
    }
    const Element type = array_.itemsize == 2 ? Element::f16 : Element::f32;
    const int64_t bytes = row_size_ * array_.itemsize, n = int64_t(rows.size());
#pragma omp parallel for schedule(static) if (n > kFewRows)
    for (int64_t i = 0; i < n; ++i) {
        convert(type, false, array_.bytes.data() + rows[size_t(i)] * bytes, array_.itemsize, row_size_,
                out + i * row_size_);
    }
}

}  // namespace lc

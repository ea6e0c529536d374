// hash.h -- one number that differs when the data differ: so that nothing kept on disk is ever used for other data.
//
//     Hash h;
//     h.add(labels).add(logits);
//     std::string name = h.text();                  16 hexadecimal digits
//
// FNV-1a (http://www.isthe.com/chongo/tech/comp/fnv), 64 bits: against accidents, not against an enemy.
#pragma once
#include <cstdint>
#include <cstdio>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

namespace lc {

class Hash {
  public:
    template <class Number>
    Hash& add(const std::vector<Number>& values) {
        static_assert(std::is_arithmetic_v<Number>);
        const int64_t count = int64_t(values.size());  // so that (a)(b c) and (a b)(c) differ
        add_bytes(std::as_bytes(std::span(&count, 1)));
        return add_bytes(std::as_bytes(std::span(values)));
    }
    Hash& add_bytes(std::span<const std::byte> bytes) {
        for (const std::byte b : bytes) value_ = (value_ ^ uint64_t(b)) * 0x100000001b3u;
        return *this;
    }
    std::string text() const {
        char digits[17];
        std::snprintf(digits, sizeof digits, "%016llx", static_cast<unsigned long long>(value_));
        return digits;
    }

  private:
    uint64_t value_ = 0xcbf29ce484222325u;
};

}  // namespace lc

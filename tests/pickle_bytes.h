// pickle_bytes.h -- pickles and files of PyTorch's older format, put together from their opcodes.
#pragma once
#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

#include "tests/file_bytes.h"

namespace lc::pickled {

inline std::string text(const std::string& s) { return "X" + little<uint32_t>(uint32_t(s.size())) + s; }
inline std::string number(int64_t n) { return "\x8a\x08" + little(n); }
inline std::string global(const std::string& module, const std::string& name) {
    return "c" + module + "\n" + name + "\n";
}
inline std::string tuple(const std::vector<int64_t>& numbers) {
    std::string out = "(";
    for (const int64_t n : numbers) out += number(n);
    return out + "t";
}
inline std::string dict(const std::vector<std::pair<std::string, std::string>>& items) {
    std::string out = "}(";
    for (const auto& [key, value] : items) out += text(key) + value;
    return out + "u";
}
inline std::string program(const std::string& opcodes) { return "\x80\x02" + opcodes + "."; }

inline std::string storage(const std::string& key, int64_t count, const std::string& type = "FloatStorage") {
    return "(" + text("storage") + global("torch", type) + text(key) + text("cpu") + number(count) + "tQ";
}
inline std::string tensor(const std::string& storage, int64_t offset, const std::vector<int64_t>& sizes,
                          const std::vector<int64_t>& strides, const std::string& more = "") {
    return global("torch._utils", "_rebuild_tensor_v2") + "(" + storage + number(offset) + tuple(sizes) +
           tuple(strides) + "\x89" + global("collections", "OrderedDict") + ")R" + more + "tR";
}

inline const std::string kMagic = program(std::string("\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19", 12));
inline std::string legacy(const std::string& object, const std::vector<std::string>& keys, const std::string& data) {
    std::string list = "](";
    for (const std::string& key : keys) list += text(key);
    return kMagic + program(number(1001)) + program(dict({{"little_endian", "\x88"}})) + program(object) +
           program(list + "e") + data;
}

}  // namespace lc::pickled

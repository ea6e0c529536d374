// json_format.h -- the JSON of weight files, which anybody may have written: parsed within limits, and asked for what may
// not be there.
//
//     constexpr JsonFormat kFormat{".safetensors", 3, 100'000'000};
//     const json header = kFormat.parse(text, path);
//     const std::vector<int64_t> shape = kFormat.sizes(header, "shape", path);
//
// Hostile  text longer than `most_bytes`, nested deeper than `most_levels`, an object that has a name twice (of which JSON
//          would take the last in silence), a member that is missing or of another type: refused with one sentence.
#pragma once
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace lc {

struct JsonFormat {
    using json = nlohmann::json;
    const char* name;  // ".safetensors": what a damaged file is perhaps not
    int most_levels;
    size_t most_bytes;

    [[noreturn]] void damaged(const std::string& source, const std::string& expected_and_found) const;

    json parse(std::string_view text, const std::string& source) const;  // an object

    // Members of an object; one that is missing or of another type is refused.
    const json& array(const json& object, const char* key, const std::string& source) const;
    const std::string& text(const json& object, const char* key, const std::string& source) const;
    std::vector<int64_t> sizes(const json& object, const char* key, const std::string& source) const;
};

}  // namespace lc

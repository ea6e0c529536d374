// json_format.cpp -- see json_format.h.
#include "data/json_format.h"

#include <nlohmann/json.hpp>
#include <set>

#include "data/file.h"

namespace lc {

namespace {

using nlohmann::json;

// Watches the parser for depth and for names that repeat.  A pass of its own, because the parser that calls back while it
// builds values takes time quadratic in the number of tensors.
class Watch : public nlohmann::json_sax<json> {
  public:
    Watch(const JsonFormat& format, const std::string& source) : format_(format), source_(source) {}

    bool start_object(size_t) override { return open(); }
    bool start_array(size_t) override { return open(); }
    bool end_object() override { return close(); }
    bool end_array() override { return close(); }
    bool key(std::string& name) override {
        if (!names_.back().insert(name).second) format_.damaged(source_, "every name once, found '" + name + "' twice");
        return true;
    }
    bool parse_error(size_t, const std::string&, const json::exception&) override { return false; }
    bool null() override { return true; }
    bool boolean(bool) override { return true; }
    bool number_integer(int64_t) override { return true; }
    bool number_unsigned(uint64_t) override { return true; }
    bool number_float(double, const std::string&) override { return true; }
    bool string(std::string&) override { return true; }
    bool binary(json::binary_t&) override { return true; }

  private:
    bool open() {
        if (names_.size() == size_t(format_.most_levels)) {
            format_.damaged(source_, "JSON of at most " + std::to_string(format_.most_levels) + " levels, found more");
        }
        names_.emplace_back();
        return true;
    }
    bool close() {
        names_.pop_back();
        return true;
    }

    const JsonFormat& format_;
    const std::string& source_;
    std::vector<std::set<std::string>> names_;  // of each object or array that is open
};

const json& member(const JsonFormat& format, const json& object, const char* key, json::value_t type,
                   const std::string& source) {
    const auto found = object.is_object() ? object.find(key) : object.end();
    if (found == object.end() || found->type() != type)
        format.damaged(source, std::string("a proper '") + key + "', found none");
    return *found;
}

}  // namespace

void JsonFormat::damaged(const std::string& source, const std::string& expected_and_found) const {
    refuse(source, "expected " + expected_and_found + "; the file is damaged or no " + name + ": copy it again");
}

json JsonFormat::parse(std::string_view text, const std::string& source) const {
    if (text.size() > most_bytes) {
        damaged(source, "JSON of at most " + std::to_string(most_bytes / 1'000'000) + " MB, found " +
                            std::to_string(text.size()) + " bytes");
    }
    Watch watch(*this, source);
    try {
        if (json::sax_parse(text, &watch)) {
            json value = json::parse(text);
            if (value.is_object()) return value;
        }
    } catch (const json::exception&) {  // its texts name its own insides
    }
    damaged(source, "a JSON object, found something else");
}

const json& JsonFormat::array(const json& object, const char* key, const std::string& source) const {
    return member(*this, object, key, json::value_t::array, source);
}

const std::string& JsonFormat::text(const json& object, const char* key, const std::string& source) const {
    return member(*this, object, key, json::value_t::string, source).get_ref<const std::string&>();
}

std::vector<int64_t> JsonFormat::sizes(const json& object, const char* key, const std::string& source) const {
    std::vector<int64_t> result;
    for (const json& value : array(object, key, source)) {
        if (!value.is_number_unsigned() || value.get<uint64_t>() > uint64_t(INT64_MAX)) {
            damaged(source,
                    std::string("whole numbers below 2^63 in '") + key + "', found " + value.dump().substr(0, 40));
        }
        result.push_back(value.get<int64_t>());
    }
    return result;
}

}  // namespace lc

// device_name.h -- the names that --device takes.
//
//     auto | cpu | cuda | cuda:I        I a decimal index from 0 to 1023, without leading zeros
//
//     parse_device("cuda:1")            {cuda, 1}; to_string() gives the same text back
//
// Only the grammar is here: whether the device exists is for choose_backend (backend.h) to find out.
#pragma once
#include <string>
#include <string_view>

#include "kernels/check.h"

namespace lc {

struct DeviceName {
    enum class Kind { automatic, cpu, cuda };
    Kind kind = Kind::automatic;
    int index = -1;  // I of cuda:I, -1 where none was named
};

inline std::string to_string(DeviceName d) {
    if (d.kind == DeviceName::Kind::automatic) return "auto";
    if (d.kind == DeviceName::Kind::cpu) return "cpu";
    return d.index < 0 ? "cuda" : "cuda:" + std::to_string(d.index);
}

inline DeviceName parse_device(std::string_view text) {
    constexpr std::string_view kCuda = "cuda:";
    constexpr int kMaxIndex = 1023;
    if (text == "auto") return {DeviceName::Kind::automatic};
    if (text == "cpu") return {DeviceName::Kind::cpu};
    if (text == "cuda") return {DeviceName::Kind::cuda};

    if (text.substr(0, kCuda.size()) == kCuda) {
        const std::string_view digits = text.substr(kCuda.size());
        int index = 0;
        bool good = !digits.empty() && (digits == "0" || digits[0] != '0');
        for (size_t i = 0; good && i < digits.size(); ++i) {
            good = digits[i] >= '0' && digits[i] <= '9';
            index = index * 10 + (digits[i] - '0');
            good = good && index <= kMaxIndex;  // also stops a long row of digits before it overflows
        }
        if (good) return {DeviceName::Kind::cuda, index};
    }
    throw Error("--device takes auto, cpu, cuda or cuda:I with I from 0 to " + std::to_string(kMaxIndex) + "; found '" +
                std::string(text) + "'");
}

}  // namespace lc

// check.h -- one macro that refuses: it throws with what was needed, where, and what to do about it.
//
//     LC_CHECK(h > 0, "bandwidth is a positive length; found " << h)
//
// lc::Error means "the caller asked for something impossible" (bad shape, bad file, missing engine): programs print its
// text and exit with 2.  Anything else that escapes (std::bad_alloc, a CUDA runtime failure) is exit code 1.
#pragma once
#include <sstream>
#include <stdexcept>
#include <string>

namespace lc {

struct Error : std::invalid_argument {
    using std::invalid_argument::invalid_argument;
};
struct DeviceError : std::runtime_error {  // the machine failed, not the input
    using std::runtime_error::runtime_error;
};

}  // namespace lc

#define LC_STRINGIFY_(x) #x
#define LC_STRINGIFY(x)  LC_STRINGIFY_(x)
#define LC_HERE          __FILE__ ":" LC_STRINGIFY(__LINE__)

// The advice is a stream expression, so that the value that was found can stand in the sentence.
#define LC_CHECK(condition, advice)                                              \
    do {                                                                         \
        if (!(condition)) {                                                      \
            std::ostringstream lc_message_;                                      \
            lc_message_ << advice << " [need " #condition " at " LC_HERE << "]"; \
            throw ::lc::Error(lc_message_.str());                                \
        }                                                                        \
    } while (0)

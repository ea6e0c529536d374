// config.cpp -- how launches run: set by functions, with starting values from the environment.
#include <cstdlib>
#include <stdexcept>
#include <string_view>

#include "kernels/sim/block.h"

namespace cusim {

#if defined(__x86_64__)
extern const bool have_fma = __builtin_cpu_supports("fma");  // intrinsics.h
#else
extern const bool have_fma = false;
#endif

namespace {

Order order_from_environment() {
    const char* text = std::getenv("CUSIM_ORDER");
    if (text == nullptr) return Order::forward;
    for (Order o : {Order::forward, Order::reverse, Order::random}) {
        if (std::string_view(text) == name_of(o)) return o;
    }
    throw std::invalid_argument(std::string("CUSIM_ORDER is forward, reverse or random; found '") + text + "'");
}

Engine engine_from_environment() {
    const char* text = std::getenv("CUSIM_ENGINE");
    if (text == nullptr || std::string_view(text) == "source") return Engine::source;
    if (std::string_view(text) == "ptx") return Engine::ptx;
    throw std::invalid_argument(std::string("CUSIM_ENGINE is source or ptx; found '") + text + "'");
}

long number_from_environment(const char* name, long otherwise) {
    const char* text = std::getenv(name);
    if (text == nullptr) return otherwise;
    char* end = nullptr;
    const long value = std::strtol(text, &end, 10);
    if (end == text || *end != 0 || value < 0) {
        throw std::invalid_argument(std::string(name) + " is a whole number from 0 up; found '" + text + "'");
    }
    return value;
}

}  // namespace

Config& config() {
    static Config c{order_from_environment(), uint64_t(number_from_environment("CUSIM_SEED", 1)),
                    engine_from_environment(), int(number_from_environment("CUSIM_PROFILE", 0)),
                    std::getenv("CUSIM_PROFILE") != nullptr};
    return c;
}

void set_order(Order order, uint64_t seed) {
    config().order = order;
    config().seed = seed;
}
void set_engine(Engine e) { config().engine = e; }
Engine engine() { return config().engine; }
void set_profile(int blocks) { config().profile_blocks = blocks; }

const char* name_of(Order order) {
    switch (order) {
        case Order::forward:
            return "forward";
        case Order::reverse:
            return "reverse";
        case Order::random:
            return "random";
    }
    return "?";
}

uint64_t next_random(uint64_t& state) {
    uint64_t z = (state += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

}  // namespace cusim

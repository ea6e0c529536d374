// harness.h -- one case list per op (tests/ops/*.cpp) drives every run of that op: values on all engines, thread
// counts, thread orders, refusals of bad arguments, the oracle's gradients, and the benchmark.
//
//     CASES(scale) {
//         for (int64_t n : kLengths)
//             add_case({.op = "scale", .name = std::to_string(n),
//                       .make = [=](Random& r) { return Operands{out("y", n), in("x", r.normal(n))}; },
//                       .run = [=](const lc::Backend& b, const Device& d) { b.scale(d[0], d[1], 3.0f, n, d.stream); },
//                       .reference = reference([=](auto& v) { oracle::scale(v[0], v[1], 3.0f); })});
//     }
//
// What a run proves: the op's error against the double oracle is at most k times the error of the same loops in float32
// (so the tolerance is measured, not guessed); NaN and infinity fall exactly where the oracle has them; nothing
// outside the outputs was written; inputs are unchanged; every thread count and thread order gives the same bits; the
// simulator has no finding.
#pragma once
#include <cstdint>
#include <functional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "kernels/backend.h"

namespace test {

// ---- inputs ---------------------------------------------------------------------------------------------------------

// Random values, all of them exact in float32.  The same seed gives the same case on every engine.
class Random {
  public:
    explicit Random(uint64_t seed) : bits_(seed) {}
    std::vector<double> normal(int64_t n, double mean = 0, double deviation = 1);
    std::vector<double> uniform(int64_t n, double low, double high);
    std::vector<double> integers(int64_t n, int64_t low, int64_t high);  // inclusive
    std::vector<double> fill(int64_t n, const std::string& kind);        // one of kValueSets, or "special"
    std::vector<double> simplex(int64_t N, int64_t C);  // rows of probabilities, zeros and one-hot rows among them

  private:
    std::mt19937_64 bits_;
};

// The inputs that break kernels, by name; "special" adds NaN, infinities, -0, denormals and the largest numbers.
inline const std::vector<std::string> kValueSets = {"normal", "ties", "zeros", "one_hot", "huge", "shifted", "near"};

// Lengths around every tile and vector width in use: 0, 1, tile - 1, tile, tile + 1, primes, long.
inline const std::vector<int64_t> kLengths = {0,  1,  3,   4,   5,   7,   8,   15,  16,   17,   31,
                                              32, 33, 127, 128, 129, 255, 256, 257, 1021, 1024, 4099};

// ---- one case -------------------------------------------------------------------------------------------------------

enum class Role { in, out, in_out };  // out: the op must write all of it
enum class Type { f32, i32 };
struct Operand {
    std::string name;
    Role role;
    Type type = Type::f32;
    std::vector<double> v;  // exact in its type
};
using Operands = std::vector<Operand>;
inline Operand in(std::string name, std::vector<double> v) {
    return {std::move(name), Role::in, Type::f32, std::move(v)};
}
inline Operand in_ints(std::string name, std::vector<double> v) {
    return {std::move(name), Role::in, Type::i32, std::move(v)};
}
inline Operand in_out(std::string name, std::vector<double> v) {
    return {std::move(name), Role::in_out, Type::f32, std::move(v)};
}
inline Operand out(std::string name, int64_t n, Type t = Type::f32) {
    return {std::move(name), Role::out, t, std::vector<double>(size_t(n))};
}

struct Device {  // the operands in the backend's memory
    std::vector<void*> pointers;
    lc::Stream stream = nullptr;
    float* operator[](size_t i) const { return static_cast<float*>(pointers[i]); }
    int32_t* ints(size_t i) const { return static_cast<int32_t*>(pointers[i]); }
};

template <class T>
using Values = std::vector<std::vector<T>>;
struct Reference {
    std::function<void(Values<double>&)> judge{};     // decides
    std::function<void(Values<float>&)> yardstick{};  // the same loops in float32: how much error is natural
};
template <class Loops>
Reference reference(Loops loops) {
    return {[=](Values<double>& v) { loops(v); }, [=](Values<float>& v) { loops(v); }};
}

enum class Compare {
    measured,  // max error <= k * max error of the float32 loops + 2 roundings of the largest value
    relative,  // the same for each element relative to itself: small values must be right too
    exact,     // bit for bit what the float32 loops give (NaN payloads aside)
};

struct Case {
    std::string op, name;
    std::function<Operands(Random&)> make{};
    std::function<void(const lc::Backend&, const Device&)> run{};
    Reference reference{};
    Compare compare = Compare::measured;
    double k = 4;
    int64_t offset = 0;       // floats by which every pointer is shifted off its alignment
    double flops = 0;         // arithmetic of one run: decides which engines take the case, and the benchmark's GFLOP/s
    double bytes = 0;         // compulsory traffic, for the benchmark's GB/s
    bool bench = false;       // also timed by `make bench`
    bool bench_only = false;  // too large for tests
};
void add_case(Case c);

// ---- refusals and gradients -----------------------------------------------------------------------------------------

// A call with bad arguments: every engine must throw lc::Error whose text contains `says`.
struct Refusal {
    std::string op, name, says;
    std::function<void(const lc::Backend&)> call;
};
void add_refusal(Refusal r);

// The oracle's backward against central differences of the oracle's forward, in double.
struct Gradient {
    std::string op, name;
    std::vector<double> x, dy;
    std::function<std::vector<double>(const std::vector<double>& x)> forward;
    std::function<std::vector<double>(const std::vector<double>& x, const std::vector<double>& dy)> backward;
};
void add_gradient(Gradient g);

struct CaseLists {
    std::vector<Case> cases;
    std::vector<Refusal> refusals;
    std::vector<Gradient> gradients;
};
CaseLists& case_lists();

#define CASES(op)                                                               \
    static void list_##op();                                                    \
    static const bool listed_##op = (list_##op(), true);                        \
    static_assert(sizeof(listed_##op) == 1, "registers its cases at start-up"); \
    static void list_##op()

// ---- engines --------------------------------------------------------------------------------------------------------

struct Variant {  // a way of running that must not change a single bit
    std::string name;
    std::function<void()> enter;
};
struct Engine {
    std::string name;  // cpu, cpu_SSE4, cpu_EMU128, cuda, sim, ptx
    const lc::Backend* backend;
    std::vector<Variant> variants;
    double max_flops;                                    // larger cases are left to faster engines
    bool guards_memory;                                  // the engine sees accesses outside a buffer by itself
    std::function<std::vector<std::string>()> findings;  // what the engine's own checks have to say since the last call
    std::function<void(const void*, const std::string&)> name_buffer{};  // so that findings call operands by name
};
const std::vector<Engine>& engines();
std::vector<Engine> sim_engines() __attribute__((weak));  // linked only where the simulator is

uint64_t seed();  // environment variable LC_SEED, else 1

// One case on one engine, every variant.  Empty when all is well, else the whole story for a reader.
std::string run_case(const Case& c, const Engine& e);

// Empty when got agrees with want; the worst element otherwise.  `naive` is the float32 yardstick.
std::string compare(const Case& c, const Operand& o, const std::vector<double>& got, const std::vector<double>& want,
                    const std::vector<double>& naive);

}  // namespace test

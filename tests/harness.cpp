// harness.cpp -- runs one case on one engine: see harness.h.
#include "tests/harness.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <sstream>

// clang's OpenMP keeps some memory of its threads until the end.
extern "C" const char* __lsan_default_suppressions() { return "leak:libomp.so"; }

namespace test {

uint64_t seed() {
    static const char* const s = std::getenv("LC_SEED");
    return s != nullptr ? std::strtoull(s, nullptr, 10) : 1;
}

CaseLists& case_lists() {
    static CaseLists lists;
    return lists;
}
void add_case(Case c) { case_lists().cases.push_back(std::move(c)); }
void add_refusal(Refusal r) { case_lists().refusals.push_back(std::move(r)); }
void add_gradient(Gradient g) { case_lists().gradients.push_back(std::move(g)); }

// ---- random inputs --------------------------------------------------------------------------------------------------

static double as_float(double x) { return double(float(x)); }

std::vector<double> Random::normal(int64_t n, double mean, double deviation) {
    std::normal_distribution<double> d(mean, deviation);
    std::vector<double> v(static_cast<size_t>(n));
    for (double& x : v) x = as_float(d(bits_));
    return v;
}

std::vector<double> Random::uniform(int64_t n, double low, double high) {
    std::uniform_real_distribution<double> d(low, high);
    std::vector<double> v(static_cast<size_t>(n));
    for (double& x : v) x = as_float(d(bits_));
    return v;
}

std::vector<double> Random::integers(int64_t n, int64_t low, int64_t high) {
    std::uniform_int_distribution<int64_t> d(low, high);
    std::vector<double> v(static_cast<size_t>(n));
    for (double& x : v) x = double(d(bits_));
    return v;
}

std::vector<double> Random::fill(int64_t n, const std::string& kind) {
    if (kind == "normal") return normal(n);
    if (kind == "ties") return integers(n, -2, 2);
    if (kind == "zeros") return std::vector<double>(static_cast<size_t>(n));
    if (kind == "huge") return uniform(n, -1e4, 1e4);
    if (kind == "shifted") return normal(n, 1e3);
    if (kind == "near") return normal(n, 1, 1e-6);
    std::vector<double> v = normal(n);
    if (kind == "one_hot") {
        for (double& x : v) x = x > 1.2 ? 1.0 : 0.0;
        return v;
    }
    LC_CHECK(kind == "special", "no value set is called '" << kind << "'");
    constexpr double kInf = std::numeric_limits<double>::infinity();
    const double odd[] = {NAN, kInf, -kInf, -0.0, 1e-42, -1e-40, 3.4e38, -3.4e38, 0.0};
    for (double& x : v) {
        if (bits_() % 4 == 0) x = as_float(odd[bits_() % 9]);
    }
    return v;
}

std::vector<double> Random::simplex(int64_t N, int64_t C) {
    std::vector<double> p(static_cast<size_t>(N * C));
    for (int64_t r = 0; r < N; ++r) {
        std::vector<double> row = uniform(C, 0.01, 1);
        if (r % 3 == 1) std::fill(row.begin(), row.end(), 0.0), row[bits_() % uint64_t(C)] = 1;  // one-hot
        if (r % 3 == 2 && C > 1) row[bits_() % uint64_t(C)] = 0;
        double sum = 0;
        for (double x : row) sum += x;
        for (int64_t c = 0; c < C; ++c)
            p[size_t(r * C + c)] = sum > 0 ? as_float(row[size_t(c)] / sum) : as_float(1.0 / double(C));
    }
    return p;
}

// ---- comparing ------------------------------------------------------------------------------------------------------

// NaN and infinity by bits, so that no compiler flag and no comparison with NaN can hide them.
static bool is_nan(float x) {
    uint32_t u;
    std::memcpy(&u, &x, 4);
    return (u & 0x7fffffffu) > 0x7f800000u;
}
static bool is_inf(float x) {
    uint32_t u;
    std::memcpy(&u, &x, 4);
    return (u & 0x7fffffffu) == 0x7f800000u;
}
static bool same_bits(float a, float b) { return std::memcmp(&a, &b, 4) == 0 || (is_nan(a) && is_nan(b)); }

static std::string mismatch(const Operand& o, size_t i, double got, double want, const std::string& why) {
    std::ostringstream s;
    s.precision(9);
    s << "  output " << o.name << ", worst index " << i << " of " << o.v.size() << ": got " << got << ", want " << want
      << "\n  " << why << "\n";
    return s.str();
}

// The error that counts: absolute, or relative to the wanted value.
static double error_of(double got, double want, bool relative) {
    const double e = std::fabs(got - want);
    return relative ? e / std::max(std::fabs(want), double(std::numeric_limits<float>::min())) : e;
}

std::string compare(const Case& c, const Operand& o, const std::vector<double>& got, const std::vector<double>& want,
                    const std::vector<double>& naive) {
    const bool relative = c.compare == Compare::relative;
    double naive_error = 0, largest = 0, worst = -1;
    size_t worst_at = 0;
    for (size_t i = 0; i < got.size(); ++i) {
        const float g = float(got[i]), w = float(want[i]), n = float(naive[i]);
        if (o.type == Type::i32 || c.compare == Compare::exact) {
            if (o.type == Type::i32 ? got[i] == want[i] : same_bits(g, n)) continue;
            return mismatch(o, i, got[i], o.type == Type::i32 ? want[i] : naive[i], "must be equal bit for bit");
        }
        if (is_nan(g) != is_nan(w) || is_inf(g) != is_inf(w) || (is_inf(g) && (g > 0) != (w > 0))) {
            return mismatch(o, i, got[i], want[i], "NaN or infinity in the wrong place");
        }
        if (is_nan(w) || is_inf(w)) continue;
        if (!is_nan(n) && !is_inf(n)) naive_error = std::max(naive_error, error_of(naive[i], want[i], relative));
        largest = std::max(largest, std::fabs(want[i]));
        const double e = error_of(got[i], want[i], relative);
        if (e > worst) worst = e, worst_at = i;
    }
    const double rounding = std::ldexp(1.0, -23) * (relative ? 1.0 : largest);
    const double tolerance = c.k * naive_error + rounding;
    if (worst <= tolerance) return "";
    std::ostringstream why;
    why << (relative ? "relative " : "") << "error " << worst << " > " << tolerance << " = " << c.k << " x "
        << naive_error << " (error of the float32 loops) + " << rounding;
    return mismatch(o, worst_at, got[worst_at], want[worst_at], why.str());
}

// ---- running --------------------------------------------------------------------------------------------------------

namespace {

constexpr uint32_t kSentinel = 0xffc0dea5u;  // a NaN: an op that reads it shows it
constexpr size_t kGuard = 64;                // sentinels on either side of a buffer

uint32_t word_of(double v, Type t) {
    uint32_t u;
    if (t == Type::i32) {
        const int32_t i = int32_t(v);
        std::memcpy(&u, &i, 4);
    } else {
        const float f = float(v);
        std::memcpy(&u, &f, 4);
    }
    return u;
}
double value_of(uint32_t u, Type t) {
    if (t == Type::i32) {
        int32_t i;
        std::memcpy(&i, &u, 4);
        return i;
    }
    float f;
    std::memcpy(&f, &u, 4);
    return f;
}

// One operand in backend memory: [guard | offset | values | guard].  An engine that watches memory by itself gets no
// guards, so that it sees the first access outside, and pure outputs stay uninitialised there.
class Placed {
  public:
    Placed(const Engine& e, const Operand& o, int64_t offset)
        : engine_(e),
          operand_(o),
          front_((e.guards_memory ? 0 : kGuard) + size_t(offset)),
          words_(front_ + o.v.size() + (e.guards_memory ? 0 : kGuard), kSentinel),
          buffer_(*e.backend, int64_t(words_.size())) {
        if (o.role != Role::out) {
            for (size_t i = 0; i < o.v.size(); ++i) words_[front_ + i] = word_of(o.v[i], o.type);
        }
        if (e.name_buffer) e.name_buffer(buffer_.data(), o.name);
        if (o.role != Role::out || !e.guards_memory) {
            e.backend->copy(buffer_.data(), words_.data(), buffer_.bytes(), lc::Copy::to_device, nullptr);
        }
    }
    void* pointer() const { return buffer_.data() + front_; }
    void start_download() {
        got_.resize(words_.size());
        if (operand_.role == Role::out && engine_.guards_memory) {  // the part before an offset was never written
            engine_.backend->copy(got_.data() + front_, pointer(), operand_.v.size() * 4, lc::Copy::to_host, nullptr);
        } else {
            engine_.backend->copy(got_.data(), buffer_.data(), buffer_.bytes(), lc::Copy::to_host, nullptr);
        }
    }
    std::vector<uint32_t> result() const {
        return {got_.begin() + int64_t(front_), got_.begin() + int64_t(front_ + operand_.v.size())};
    }
    std::string damage() const {  // what was written that should not have been
        for (size_t i = 0; i < words_.size(); ++i) {
            const bool inside = i >= front_ && i < front_ + operand_.v.size();
            if (inside ? operand_.role != Role::in : engine_.guards_memory) continue;
            if (got_[i] == words_[i]) continue;
            std::ostringstream s;
            s << "  " << operand_.name << (inside ? " is an input and was changed at index " : " was overrun at index ")
              << int64_t(i) - int64_t(front_) << " (size " << operand_.v.size() << ")\n";
            return s.str();
        }
        return "";
    }

  private:
    const Engine& engine_;
    const Operand& operand_;
    size_t front_;
    std::vector<uint32_t> words_, got_;
    lc::Buffer<uint32_t> buffer_;
};

template <class T>
std::vector<std::vector<double>> expected(const Operands& ops, const std::function<void(Values<T>&)>& loops) {
    Values<T> v;
    for (const Operand& o : ops) v.emplace_back(o.v.begin(), o.v.end());
    loops(v);
    std::vector<std::vector<double>> r;
    for (const auto& x : v) r.emplace_back(x.begin(), x.end());
    return r;
}

std::string headline(const Case& c, const Engine& e, const std::string& variant) {
    std::ostringstream s;
    s << "op " << c.op << ", engine " << e.name << (variant.empty() ? "" : " (" + variant + ")") << ", case " << c.name
      << ", seed " << seed() << "\n";
    return s.str();
}

std::string repeat_line(const Case& c, const Engine& e) {
    return "  repeat: make test T='" + c.op + "." + c.name + "@" + e.name + "' SEED=" + std::to_string(seed()) + "\n";
}

}  // namespace

std::string run_case(const Case& c, const Engine& e) {
    Random random(seed());
    const Operands ops = c.make(random);
    const auto want = expected(ops, c.reference.judge);
    const auto naive = expected(ops, c.reference.yardstick);
    std::vector<std::vector<uint32_t>> first;  // bits of the first variant
    for (const Variant& variant : e.variants) {
        variant.enter();
        std::vector<Placed> placed;
        placed.reserve(ops.size());
        Device device;
        for (const Operand& o : ops) {
            placed.emplace_back(e, o, c.offset);
            device.pointers.push_back(placed.back().pointer());
        }
        std::string story;
        std::vector<std::vector<uint32_t>> bits;
        try {
            c.run(*e.backend, device);
            for (Placed& p : placed) p.start_download();
            e.backend->sync(nullptr);
            for (size_t i = 0; i < ops.size(); ++i) {
                story += placed[i].damage();
                bits.push_back(placed[i].result());
                if (ops[i].role == Role::in) continue;
                std::vector<double> got;
                for (uint32_t u : bits[i]) got.push_back(value_of(u, ops[i].type));
                story += compare(c, ops[i], got, want[i], naive[i]);
                if (!first.empty() && bits[i] != first[i])
                    story += "  " + ops[i].name + " differs in bits from " + e.variants[0].name + "\n";
            }
        } catch (const std::exception& x) {
            story += std::string("  threw: ") + x.what() + "\n";
        }
        for (const std::string& f : e.findings()) story += "  " + f + "\n";
        if (!story.empty()) return headline(c, e, variant.name) + story + repeat_line(c, e);
        if (first.empty()) first = bits;
    }
    return "";
}

}  // namespace test

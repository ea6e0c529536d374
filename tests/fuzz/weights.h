// weights.h -- what every reader of weights owes: tensors as long as shape and dtype say, each name once, all readable.
#pragma once
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <set>

#include "data/weights.h"
#include "kernels/check.h"

namespace lc {

inline void demand(bool condition, const char* what) {
    if (condition) return;
    std::fprintf(stderr, "fuzz: %s\n", what);
    std::abort();
}

inline void read_or_refuse(const std::function<void()>& read) {
    try {
        read();
    } catch (const Error& e) {
        demand(std::string(e.what()).starts_with("fuzz"), "a refusal does not name the file");
    }
}

inline void read_values(const Weights& w, size_t file_size) {
    std::set<std::string> names;
    double sum = 0;
    for (const SafeTensor& t : w.tensors) {
        demand(names.insert(t.name).second && w.find(t.name) == &t, "two tensors have one name");
        demand(t.count() >= 0 && t.bytes.size() <= file_size + (1 << 20), "a tensor is larger than the file");
        const std::vector<double> values = t.to_doubles();
        demand(values.size() == size_t(t.count()) && t.bytes.size() % std::max<size_t>(1, values.size()) == 0,
               "data are not as long as shape and dtype say");
        for (const double v : values) sum += v;
        for (const std::byte b : t.bytes) sum += double(b);  // AddressSanitizer watches
    }
    demand(sum != 12345.678, "this is here so that the sums are computed");
}

}  // namespace lc

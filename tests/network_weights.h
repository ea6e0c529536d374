// network_weights.h -- weights for tests that nobody has to store: a hash of each tensor's name and of the place in it.
#pragma once
#include <cmath>
#include <deque>
#include <string>

#include "data/weights.h"
#include "nn/resnet.h"

namespace test {

// The numbers of tests/golden/resnet.py: in [-0.5, 0.5), exact in float32.
inline std::vector<float> hashed(int64_t n, uint32_t salt) {
    std::vector<float> v(static_cast<size_t>(n));
    for (int64_t i = 0; i < n; ++i) {
        uint32_t x = uint32_t(i) * 2654435761u + salt;
        x = (x ^ x >> 16) * 0x85ebca6bu;
        x = (x ^ x >> 13) * 0xc2b2ae35u;
        x ^= x >> 16;
        v[size_t(i)] = float(x >> 8) * 0x1p-24f - 0.5f;
    }
    return v;
}

inline uint32_t salt_of(const std::string& name) {
    uint32_t h = 2166136261u;
    for (const char c : name) h = (h ^ uint8_t(c)) * 16777619u;
    return h;
}

inline bool ends_with(const std::string& text, const std::string& ending) {
    return text.size() >= ending.size() && text.compare(text.size() - ending.size(), ending.size(), ending) == 0;
}

// A file's worth of tensors in memory.
class MadeWeights {
  public:
    void add(const std::string& name, const lc::Shape& shape, std::vector<float> values) {
        values_.push_back(std::move(values));
        weights.tensors.push_back({name, "F32", shape, std::as_bytes(std::span(values_.back())), "made: " + name});
    }
    lc::Weights weights{.path = "made", .format = "safetensors", .metadata = {}, .tensors = {}, .keeps_alive = nullptr};

  private:
    std::deque<std::vector<float>> values_;  // which never moves what it holds
};

// Every tensor of the network in PyTorch's layout, filled as tests/golden/resnet.py fills them.
inline void fill(MadeWeights& out, const lc::ResNet& net) {
    const std::string last_bn = net.plan().bottleneck ? ".bn3.weight" : ".bn2.weight";
    for (const lc::Parameters* all : {&net.parameters(), &net.statistics()}) {
        for (const auto& [name, v] : *all) {
            lc::Shape s = v->value.shape();
            std::vector<float> h = hashed(v->value.size(), salt_of(name));
            if (s.size() == 4) {
                s = {s[3], s[2], s[0], s[1]};
                const float scale = float(std::sqrt(24.0 / double(s[1] * s[2] * s[3])));
                for (float& x : h) x = float(double(x) * double(scale));
            } else if (ends_with(name, "running_var")) {
                for (float& x : h) x += 1.0f;
            } else if (s.size() == 1 && ends_with(name, "weight")) {
                const bool last = name.rfind("layer", 0) == 0 && ends_with(name, last_bn);
                for (float& x : h) x = x * 0.5f + (last ? 0.25f : 1.0f);
            } else if (s.size() == 2) {
                for (float& x : h) x *= 0.25f;
            }
            out.add(name, s, std::move(h));
        }
    }
}

}  // namespace test

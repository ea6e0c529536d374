// resnet_weights.cpp -- see resnet_weights.h.
#include "nn/resnet_weights.h"

#include <cmath>
#include <set>

#include "data/npy.h"

namespace lc {
namespace {

struct HostTensor {
    Shape shape;
    std::vector<float> values;
};
using State = std::map<std::string, HostTensor>;  // torchvision's names, our layouts

// out (b, a) = in (a, b)
std::vector<float> transposed(const std::vector<float>& in, int64_t a) {
    const int64_t b = a == 0 ? 0 : int64_t(in.size()) / a;
    std::vector<float> out(in.size());
    for (int64_t i = 0; i < a; ++i) {
        for (int64_t j = 0; j < b; ++j) out[size_t(j * a + i)] = in[size_t(i * b + j)];
    }
    return out;
}

// (K, C, R, S) <-> (R, S, C, K): first and last index change places as blocks, the channels stay in the middle.
HostTensor from_torch(const Shape& s, const std::vector<float>& v) {
    if (s.size() != 4) return {s, v};
    const int64_t K = s[0], C = s[1], P = s[2] * s[3];
    std::vector<float> out(v.size());
    for (int64_t k = 0; k < K; ++k) {
        for (int64_t c = 0; c < C; ++c) {
            for (int64_t p = 0; p < P; ++p) out[size_t((p * C + c) * K + k)] = v[size_t((k * C + c) * P + p)];
        }
    }
    return {{s[2], s[3], C, K}, std::move(out)};
}

HostTensor to_torch(const Shape& s, const std::vector<float>& v) {
    if (s.size() != 4) return {s, v};
    const int64_t P = s[0] * s[1], C = s[2], K = s[3];
    std::vector<float> out(v.size());
    for (int64_t k = 0; k < K; ++k) {
        for (int64_t c = 0; c < C; ++c) {
            for (int64_t p = 0; p < P; ++p) out[size_t((k * C + c) * P + p)] = v[size_t((p * C + c) * K + k)];
        }
    }
    return {{K, C, s[0], s[1]}, std::move(out)};
}

// ---- PyTorch's files ------------------------------------------------------------------------------------------------

bool ends_with(const std::string& text, const std::string& ending) {
    return text.size() >= ending.size() && text.compare(text.size() - ending.size(), ending.size(), ending) == 0;
}

std::string torchvision_name(std::string name) {
    if (name.rfind("linear.", 0) == 0) name = "fc." + name.substr(7);
    if (const size_t at = name.find(".shortcut."); at != std::string::npos) name.replace(at, 10, ".downsample.");
    return name;
}

State torch_state(const Weights& file) {
    State state;
    for (const SafeTensor& t : file.tensors) {
        if (ends_with(t.name, "num_batches_tracked")) continue;
        state[torchvision_name(t.name)] = from_torch(t.shape, t.to_floats());
    }
    return state;
}

// ---- Keras' -----------------------------------------------------------------------------------------------------------

bool is_keras(const Weights& file) { return file.find("bn_conv1/gamma") != nullptr; }

// "res4c_branch2b" -> "layer3.2.", 2; branch1 is the projection of a block.  Empty where it is none of these names.
std::string keras_block(const std::string& layer, std::string* unit) {
    int stage = 0, used = 0;
    char block = 0, branch[3] = {};
    const size_t from = layer.rfind("res", 0) == 0 ? 3 : layer.rfind("bn", 0) == 0 ? 2 : layer.size();
    if (std::sscanf(layer.c_str() + from, "%1d%c_branch%2[0-9a-c]%n", &stage, &block, branch, &used) != 3 ||
        from + size_t(used) != layer.size() || stage < 2 || stage > 5 || block < 'a' || block > 'z') {
        return "";
    }
    const std::string b = branch;
    *unit = b == "1" ? "projection" : b.size() == 2 && b[0] == '2' ? std::string(1, char('1' + b[1] - 'a')) : "";
    return unit->empty() ? "" : "layer" + std::to_string(stage - 1) + "." + std::to_string(block - 'a') + ".";
}

// torchvision's names of a layer of convolution and of the batch normalisation behind it.
struct UnitNames {
    std::string conv, bn;
};
UnitNames unit_names(const std::string& layer) {
    if (layer == "conv1" || layer == "bn_conv1") return {"conv1", "bn1"};
    std::string unit;
    const std::string block = keras_block(layer, &unit);
    if (block.empty()) return {};
    if (unit == "projection") return {block + "downsample.0", block + "downsample.1"};
    return {block + "conv" + unit, block + "bn" + unit};
}

State keras_state(const Weights& file) {
    static const std::map<std::string, std::string> bn_names = {
        {"gamma", "weight"}, {"beta", "bias"}, {"moving_mean", "running_mean"}, {"moving_variance", "running_var"}};
    State state;
    std::map<std::string, std::vector<float>> conv_bias;  // by the name of the running mean that takes it
    for (const SafeTensor& t : file.tensors) {
        const size_t slash = t.name.find('/');
        const std::string layer = t.name.substr(0, slash),
                          what = slash == std::string::npos ? "" : t.name.substr(slash + 1);
        const UnitNames unit = unit_names(layer);
        const bool is_bn = layer.rfind("bn", 0) == 0;
        if (layer.rfind("fc", 0) == 0 && what == "kernel" && t.shape.size() == 2) {
            state["fc.weight"] = {{t.shape[1], t.shape[0]}, transposed(t.to_floats(), t.shape[0])};
        } else if (layer.rfind("fc", 0) == 0 && what == "bias") {
            state["fc.bias"] = {t.shape, t.to_floats()};
        } else if (!unit.conv.empty() && !is_bn && what == "kernel") {
            state[unit.conv + ".weight"] = {t.shape, t.to_floats()};
        } else if (!unit.conv.empty() && !is_bn && what == "bias") {
            conv_bias[unit.bn + ".running_mean"] = t.to_floats();
        } else if (!unit.bn.empty() && is_bn && bn_names.contains(what)) {
            state[unit.bn + "." + bn_names.at(what)] = {t.shape, t.to_floats()};
        } else {
            state[t.name] = {t.shape, {}};  // will be listed as unknown
        }
    }
    for (const auto& [name, bias] : conv_bias) {
        std::vector<float>& mean = state[name].values;
        if (mean.size() != bias.size()) refuse(file.path, "the bias in front of " + name + " has another length");
        for (size_t k = 0; k < bias.size(); ++k) mean[k] -= bias[k];
    }
    return state;
}

State state_of(const Weights& file) { return is_keras(file) ? keras_state(file) : torch_state(file); }

// ---- into the network -----------------------------------------------------------------------------------------------

struct Complaints {
    std::vector<std::string> missing, unknown, misshapen;
    bool any() const { return !missing.empty() || !unknown.empty() || !misshapen.empty(); }
};

std::string listed(const char* title, const std::vector<std::string>& names) {
    constexpr size_t kMost = 12;
    if (names.empty()) return "";
    std::string text = "; " + std::to_string(names.size()) + " " + title + ":";
    for (size_t i = 0; i < std::min(kMost, names.size()); ++i) text += (i ? ", " : " ") + names[i];
    return text + (names.size() > kMost ? ", ..." : "");
}

bool is_head(const std::string& name) { return name.rfind("fc.", 0) == 0; }

Complaints compare(const Parameters& wanted, const State& state, const LoadOptions& o) {
    Complaints c;
    std::set<std::string> known;
    for (const auto& [name, v] : wanted) {
        known.insert(name);
        const auto found = state.find(name);
        if (is_head(name) && !o.head) continue;
        if (found == state.end()) {
            c.missing.push_back(name);
        } else if (found->second.shape != v->value.shape()) {
            c.misshapen.push_back(name + " is " + shape_text(found->second.shape) + ", not " +
                                  shape_text(v->value.shape()));
        }
    }
    for (const auto& [name, tensor] : state) {
        if (!known.contains(name) && !(is_head(name) && !o.head)) c.unknown.push_back(name);
    }
    return c;
}

}  // namespace

void load_weights(ResNet& net, const Weights& file, const LoadOptions& o) {
    Parameters wanted = net.parameters();
    wanted.insert(wanted.end(), net.statistics().begin(), net.statistics().end());
    const State state = state_of(file);
    if (const Complaints c = compare(wanted, state, o); c.any()) {
        refuse(file.path, "expected the weights of " + net.plan().name + " with " + std::to_string(net.plan().classes) +
                              " classes, found those of another network" + listed("missing", c.missing) +
                              listed("unknown", c.unknown) +
                              listed("of another shape (filters as R, S, C, K)", c.misshapen));
    }
    for (const auto& [name, v] : wanted) {
        if (is_head(name) && !o.head) continue;
        const std::vector<float>& values = state.at(name).values;
        for (const float x : values) {
            if (!std::isfinite(x))
                refuse(file.path, "expected finite weights, found " + std::to_string(x) + " in " + name);
        }
        v->value.assign(values);
    }
    if (const auto eps = file.metadata.find("bn_eps"); eps != file.metadata.end()) {
        char* end = nullptr;
        const float value = std::strtof(eps->second.c_str(), &end);
        if (*end != '\0' || !(value > 0 && value < 1)) {
            refuse(file.path, "expected one small bn_eps for all batch normalisations, found '" + eps->second + "'");
        }
        net.set_bn_eps(value);
    }
}

void store_weights(SafetensorsWriter& out, const ResNet& net) {
    for (const Parameters* all : {&net.parameters(), &net.statistics()}) {
        for (const auto& [name, v] : *all) {
            const HostTensor t = to_torch(v->value.shape(), v->value.to_host());
            out.add(name, t.shape, t.values.data());
        }
    }
    out.metadata["network"] = net.plan().name;
    out.set("bn_eps", double(net.plan().bn_eps));
}

int64_t classes_in(const Weights& file) {
    for (const char* name : {"fc.bias", "linear.bias", "fc1000/bias"}) {
        if (const SafeTensor* t = file.find(name)) return t->count();
    }
    return 0;
}

}  // namespace lc

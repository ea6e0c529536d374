// resnet_plan.cpp -- see resnet_plan.h.
#include "nn/resnet_plan.h"

#include "kernels/check.h"

namespace lc {
namespace {

struct Row {
    const char* name;
    bool bottleneck, cifar;
    std::vector<int64_t> blocks;
};

const std::vector<Row>& table() {
    static const std::vector<Row> rows = {
        {"resnet18", false, false, {2, 2, 2, 2}},  {"resnet34", false, false, {3, 4, 6, 3}},
        {"resnet50", true, false, {3, 4, 6, 3}},   {"resnet101", true, false, {3, 4, 23, 3}},
        {"resnet152", true, false, {3, 8, 36, 3}}, {"resnet20", false, true, {3, 3, 3}},
        {"resnet32", false, true, {5, 5, 5}},      {"resnet44", false, true, {7, 7, 7}},
        {"resnet56", false, true, {9, 9, 9}},      {"resnet110", false, true, {18, 18, 18}},
    };
    return rows;
}

[[noreturn]] void refuse_name(const std::string& name) {
    std::string known;
    for (const Row& r : table()) known += std::string(known.empty() ? "" : ", ") + r.name;
    throw Error(
        "there is no network '" + name + "'; choose one of " + known +
        ", with :he or :v1.5 behind a bottleneck network (50 and more of the first five), :a or :b behind the others");
}

}  // namespace

ResNetPlan resnet_plan(const std::string& name, int64_t classes) {
    LC_CHECK(classes >= 1, "a network has one class at least; found " << classes);
    const size_t colon = name.find(':');
    const std::string base = name.substr(0, colon), variant = colon == std::string::npos ? "" : name.substr(colon + 1);
    for (const Row& r : table()) {
        if (base != r.name) continue;
        const bool known = colon == std::string::npos || (r.bottleneck && (variant == "he" || variant == "v1.5")) ||
                           (r.cifar && (variant == "a" || variant == "b"));
        if (!known) refuse_name(name);
        ResNetPlan plan = {
            .name = base,
            .blocks = r.blocks,
            .widths = r.cifar ? std::vector<int64_t>{16, 32, 64} : std::vector<int64_t>{64, 128, 256, 512},
            .bottleneck = r.bottleneck,
            .imagenet_stem = !r.cifar,
            .stride_first = variant == "he",
            .padded_shortcut = variant == "a",
            .classes = classes};
        if (variant == "he" || variant == "a") plan.name = name;
        return plan;
    }
    refuse_name(name);
}

}  // namespace lc

// normalise.cpp -- see normalise.h.
#include "data/normalise.h"

#include "kernels/check.h"

namespace lc {
namespace {

const std::array<Normalisation, 5>& all() {
    static const std::array<Normalisation, 5> table = {{
        {.name = "unit"},
        {.name = "imagenet", .mean = {0.485f, 0.456f, 0.406f}, .deviation = {0.229f, 0.224f, 0.225f}},
        {.name = "caffe", .divisor = 1, .mean = {103.939f, 116.779f, 123.68f}, .bgr = true},
        {.name = "cifar10", .mean = {0.485f, 0.456f, 0.406f}, .deviation = {0.229f, 0.224f, 0.225f}},
        {.name = "cifar100", .mean = {0.5070f, 0.4865f, 0.4409f}, .deviation = {0.2673f, 0.2564f, 0.2761f}},
    }};
    return table;
}

}  // namespace

Normalisation named_normalisation(const std::string& name) {
    std::string names;
    for (const Normalisation& n : all()) {
        if (n.name == name) return n;
        names += (names.empty() ? "" : ", ") + n.name;
    }
    throw Error("normalisation: expected one of " + names + ", found '" + name + "'");
}

Normaliser::Normaliser(const Normalisation& n) {
    for (size_t c = 0; c < 3; ++c) {
        const size_t place = n.bgr ? 2 - c : c;
        LC_CHECK(n.divisor > 0 && n.deviation[place] > 0, "normalisation: divisor and deviations are positive; found "
                                                              << n.divisor << " and " << n.deviation[place]);
        place_[c] = int(place);
        for (size_t x = 0; x < 256; ++x) {
            table_[c][x] = (float(x) / n.divisor - n.mean[place]) / n.deviation[place];
        }
    }
}

void Normaliser::operator()(float* out, std::span<const uint8_t> rgb) const {
    const int r = place_[0], b = place_[2];  // green stays in the middle
    for (size_t i = 0; i + 3 <= rgb.size(); i += 3) {
        out[i + size_t(r)] = table_[0][rgb[i]];
        out[i + 1] = table_[1][rgb[i + 1]];
        out[i + size_t(b)] = table_[2][rgb[i + 2]];
    }
}

}  // namespace lc

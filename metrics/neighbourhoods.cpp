// neighbourhoods.cpp -- see neighbourhoods.h.
#include "metrics/neighbourhoods.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace lc {
namespace {

struct Ranked {
    double z;
    int64_t k;  // i C + c
};

class Rows {  // the features on the host, for the few distances that are wanted one by one
  public:
    explicit Rows(const Tensor& z, double gamma) : d_(z.cols()), z_(z.to_host()), h_(-0.5 / (gamma * gamma)) {}
    double weight(int64_t i, int64_t j) const {
        double square = 0;
        for (int64_t k = 0; k < d_; ++k) {
            const double x = double(z_[size_t(i * d_ + k)]) - double(z_[size_t(j * d_ + k)]);
            square += x * x;
        }
        return std::exp(h_ * square);
    }

  private:
    int64_t d_;
    std::vector<float> z_;
    double h_;
};

std::vector<Neighbour> heaviest(const Rows& rows, const Predictions& s, const LocalErrors& e, int64_t i, int64_t c,
                                int64_t members) {
    std::vector<Neighbour> all;
    for (int64_t j = 0; j < s.n; ++j) {
        if (e.bin[size_t(j * s.C + c)] != e.bin[size_t(i * s.C + c)]) continue;
        if (j == i && !e.options.include_self) continue;
        all.push_back({j, rows.weight(i, j), s.p[size_t(j * s.C + c)], s.labels[size_t(j)]});
    }
    const auto count = std::min<int64_t>(members, int64_t(all.size()));
    std::partial_sort(all.begin(), all.begin() + count, all.end(), [](const Neighbour& a, const Neighbour& b) {
        return a.weight != b.weight ? a.weight > b.weight : a.row < b.row;
    });
    all.resize(size_t(count));
    return all;
}

}  // namespace

std::vector<Neighbourhood> worst_neighbourhoods(const Tensor& z, const Predictions& s, const LocalErrors& e,
                                                const ExplainOptions& o, const Progress& progress) {
    const std::vector<float> p(s.p.begin(), s.p.end());
    std::vector<float> variance(p.size());
    for (size_t k = 0; k < p.size(); ++k) variance[k] = float(s.p[k] * (1 - s.p[k]));
    const bool self = e.options.include_self;
    const LocalMeans mean_p = local_means(z, p, e.bin, {e.options.gamma}, self, progress);
    // Squared weights are the weights of a bandwidth smaller by sqrt 2.
    const LocalMeans mean_v = local_means(z, variance, e.bin, {e.options.gamma / std::numbers::sqrt2}, self, progress);

    std::vector<Ranked> ranked;
    for (int64_t k = 0; k < s.n * s.C; ++k) {
        const double n_eff = double(e.n_eff[size_t(k)]);
        if (!e.kept(k) || n_eff < o.least_n_eff) continue;
        const double deviation = std::sqrt(double(mean_v.mean[size_t(k)]) / n_eff + 1 / (n_eff * n_eff));
        ranked.push_back({double(e.error[size_t(k)]) / deviation, k});
    }
    std::sort(ranked.begin(), ranked.end(), [](const Ranked& a, const Ranked& b) {
        return std::abs(a.z) != std::abs(b.z) ? std::abs(a.z) > std::abs(b.z) : a.k < b.k;
    });

    const Rows rows(z, e.options.gamma);
    std::vector<Neighbourhood> worst;
    for (const Ranked& r : ranked) {
        if (int64_t(worst.size()) == o.top) break;
        const int64_t i = r.k / s.C;
        const int32_t c = int32_t(r.k % s.C);
        const bool seen = std::any_of(worst.begin(), worst.end(),
                                      [&](const Neighbourhood& w) { return w.c == c && rows.weight(w.row, i) > 0.5; });
        if (seen) continue;
        const double mean = double(mean_p.mean[size_t(r.k)]), error = double(e.error[size_t(r.k)]);
        worst.push_back({i, c, e.bin[size_t(r.k)], mean, std::clamp(mean - error, 0.0, 1.0), error,
                         double(e.n_eff[size_t(r.k)]), r.z, heaviest(rows, s, e, i, c, o.members)});
    }
    return worst;
}

}  // namespace lc

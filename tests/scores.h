// scores.h -- accuracy, log-loss and binned calibration errors as plain loops, for tests of what calibrators achieve.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

namespace test {

struct Scores {
    double acc = 0, nll = 0, ece = 0,
           ece_top = 0;  // ece: the mean over classes; 15 bins, left-closed, the last one closed
};

// |mean of what is expected - mean of what happened| over 15 equal bins of p, weighted by their share.
inline double binned_error(const std::vector<double>& p, const std::vector<double>& y) {
    constexpr int kBins = 15;
    double sum_p[kBins] = {}, sum_y[kBins] = {};
    for (size_t i = 0; i < p.size(); ++i) {
        int bin = 0;
        while (bin + 1 < kBins && p[i] >= double(bin + 1) / kBins) ++bin;
        sum_p[bin] += p[i];
        sum_y[bin] += y[i];
    }
    double error = 0;
    for (int b = 0; b < kBins; ++b) error += std::abs(sum_p[b] - sum_y[b]) / double(p.size());
    return error;
}

inline Scores scores(const std::vector<float>& probs, const std::vector<float>& log_probs, const int32_t* labels,
                     int64_t n, int64_t C) {
    Scores s;
    std::vector<double> p(static_cast<size_t>(n)), y(static_cast<size_t>(n));
    for (int64_t c = 0; c < C; ++c) {
        for (int64_t i = 0; i < n; ++i) p[size_t(i)] = double(probs[size_t(i * C + c)]), y[size_t(i)] = labels[i] == c;
        s.ece += binned_error(p, y) / double(C);
    }
    for (int64_t i = 0; i < n; ++i) {
        const float* row = probs.data() + i * C;
        const int64_t top = std::max_element(row, row + C) - row;
        p[size_t(i)] = double(row[top]), y[size_t(i)] = labels[i] == top;
        s.acc += y[size_t(i)] / double(n);
        s.nll -= double(log_probs[size_t(i * C + labels[i])]) / double(n);
    }
    s.ece_top = binned_error(p, y);
    return s;
}

}  // namespace test

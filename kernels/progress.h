// progress.h -- how long work tells its caller how far it is.
//
//     void fit(..., const Progress& progress);
//     if (progress) progress(double(epoch) / epochs, "epoch 7, loss 0.31");
//
// Work made of several steps hands each its part of the whole:
//
//     read(..., part_of(progress, 0.0, 0.2));
//     walk(..., part_of(progress, 0.2, 1.0));
//
// An empty Progress means that nobody listens.  Work calls it from one thread at a time, with a fraction that starts at
// 0 and ends at 1, as often as it likes: whoever listens decides how often to draw (experiments/progress.h).
#pragma once
#include <functional>
#include <string_view>

namespace lc {

using Progress = std::function<void(double fraction, std::string_view note)>;

inline Progress part_of(const Progress& whole, double begin, double end) {
    if (!whole) return {};
    return [=](double fraction, std::string_view note) { whole(begin + (end - begin) * fraction, note); };
}

}  // namespace lc

// net_on_device.h -- what net_calibrator.cpp (predict) and net_fit.cpp (fit) share: rows and models in a backend's memory.
#pragma once
#include "calib/net_calibrator.h"

namespace lc {

struct NetCalibrator::OnDevice {
    const Backend* backend = nullptr;
    std::unique_ptr<PcaTransform> reduce;
    std::unique_ptr<LocalNet> net;
    References references;  // KC and KO
};

// Copies rows to the backend and reduces their features.
inline NetData to_net_data(const Backend& b, const PcaTransform& reduce, int64_t k, const Samples& s) {
    const auto tensor = [&](const float* x, int64_t columns) {
        return constant(Tensor::from(b, {s.n, columns}, {x, size_t(s.n * columns)}));
    };
    NetData rows = {tensor(s.features, s.d), constant(Tensor(b, {s.n, k})), tensor(s.logits, s.C), {}, {}};
    reduce(rows.z->value.data(), rows.phi->value.data(), s.n);
    if (s.labels != nullptr) {
        rows.labels.assign(s.labels, s.labels + s.n);
        rows.device_labels = to_device(b, rows.labels);
    }
    return rows;
}

}  // namespace lc

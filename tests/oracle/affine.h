// Oracle of affine.h: the formulas as loops.  T = double is the judge, T = float the yardstick for rounding error.
// w, b, dw, db have one entry, or one per column.
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

namespace oracle {

using std::size_t;

template <class T>
void affine(std::vector<T>& out, const std::vector<T>& a, const std::vector<T>& x, const std::vector<T>& w,
            const std::vector<T>& b) {  // a is empty where it is not given
    for (size_t i = 0; i < out.size(); ++i) {
        const T y = w[i % w.size()] * x[i] + b[i % b.size()];
        out[i] = a.empty() ? y : a[i] + y;
    }
}

template <class T>
void affine_bwd(std::vector<T>& dw, std::vector<T>& db, const std::vector<T>& dy, const std::vector<T>& x) {
    for (T& v : dw) v = 0;
    for (T& v : db) v = 0;
    for (size_t i = 0; i < x.size(); ++i) {
        dw[i % dw.size()] += dy[i] * x[i];
        db[i % db.size()] += dy[i];
    }
}

template <class T>
void standardise(std::vector<T>& out, const std::vector<T>& x, const std::vector<T>& mean,
                 const std::vector<T>& inverse) {
    for (size_t i = 0; i < out.size(); ++i) out[i] = (x[i] - mean[i % mean.size()]) * inverse[i % mean.size()];
}

template <class T>
void col_moment2(std::vector<T>& out, const std::vector<T>& x, const std::vector<T>& mean) {
    const size_t C = out.size();
    for (T& v : out) v = 0;
    for (size_t i = 0; i < x.size(); ++i) out[i % C] += (x[i] - mean[i % C]) * (x[i] - mean[i % C]);
    for (T& v : out) v /= T(x.size() / C);
}

template <class T>
void gather_rows(std::vector<T>& out, const std::vector<T>& x, const std::vector<T>& index, size_t C) {
    for (size_t i = 0; i < out.size(); ++i) out[i] = x[size_t(index[i / C]) * C + i % C];
}

}  // namespace oracle

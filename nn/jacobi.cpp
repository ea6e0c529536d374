// jacobi.cpp -- jacobi_eigen of pca.h: the eigenvalues of a small symmetric matrix.
//
// A rotation in the plane of two coordinates makes one off-diagonal element 0.  Sweeps over all pairs let the others
// shrink quadratically once they are small; a matrix that is nearly diagonal takes two or three.  Slower than what
// LAPACK does, by a factor that does not matter at 2k by 2k, and accurate to the last digits.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "nn/pca.h"

namespace lc {

namespace {

struct Rotation {
    double c, s;
};

// The rotation that annihilates a_pq, by its smaller angle.
Rotation annihilate(double app, double aqq, double apq) {
    const double theta = (aqq - app) / (2 * apq);
    const double t = (theta >= 0 ? 1 : -1) / (std::fabs(theta) + std::hypot(theta, 1.0));
    const double c = 1 / std::hypot(t, 1.0);
    return {c, t * c};
}

// Rows p and q of a matrix become c p - s q and s p + c q.
void rotate_rows(double* p, double* q, int64_t n, Rotation r) {
    for (int64_t i = 0; i < n; ++i) {
        const double x = p[i], y = q[i];
        p[i] = r.c * x - r.s * y;
        q[i] = r.s * x + r.c * y;
    }
}

void rotate_columns(double* a, int64_t n, int64_t p, int64_t q, Rotation r) {
    for (int64_t i = 0; i < n; ++i) {
        const double x = a[i * n + p], y = a[i * n + q];
        a[i * n + p] = r.c * x - r.s * y;
        a[i * n + q] = r.s * x + r.c * y;
    }
}

}  // namespace

void jacobi_eigen(std::vector<double>& values, std::vector<double>& vectors, std::vector<double> a, int64_t n) {
    LC_CHECK(n >= 1 && int64_t(a.size()) == n * n,
             "jacobi_eigen: a is (n, n); found " << a.size() << " elements, n = " << n);
    std::vector<double> v(size_t(n * n), 0.0);
    for (int64_t i = 0; i < n; ++i) v[size_t(i * n + i)] = 1;
    const double norm = std::sqrt(std::inner_product(a.begin(), a.end(), a.begin(), 0.0));
    LC_CHECK(std::isfinite(norm), "jacobi_eigen: the matrix holds a number that is not finite");
    constexpr int kMostSweeps = 60;  // ten are many
    for (int sweep = 0; sweep < kMostSweeps; ++sweep) {
        bool moved = false;
        for (int64_t p = 0; p < n; ++p) {
            for (int64_t q = p + 1; q < n; ++q) {
                const double apq = a[size_t(p * n + q)];
                if (std::fabs(apq) <= 1e-16 * norm) continue;
                const Rotation r = annihilate(a[size_t(p * n + p)], a[size_t(q * n + q)], apq);
                rotate_rows(&a[size_t(p * n)], &a[size_t(q * n)], n, r);
                rotate_columns(a.data(), n, p, q, r);
                rotate_rows(&v[size_t(p * n)], &v[size_t(q * n)], n, r);
                moved = true;
            }
        }
        if (!moved) break;
    }
    std::vector<int64_t> order(static_cast<size_t>(n));
    std::iota(order.begin(), order.end(), int64_t(0));
    std::stable_sort(order.begin(), order.end(),
                     [&](int64_t i, int64_t j) { return a[size_t(i * n + i)] > a[size_t(j * n + j)]; });
    values.clear();
    vectors.clear();
    for (int64_t i : order) {
        values.push_back(a[size_t(i * n + i)]);
        vectors.insert(vectors.end(), v.begin() + i * n, v.begin() + (i + 1) * n);
    }
}

}  // namespace lc

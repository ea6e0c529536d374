// pca.h -- standardise, then project on the directions of largest variance.
//
//     Pca pca = fit_pca(backend, x, n, d, 50);            x (n, d) in the backend's memory
//     PcaTransform reduce(backend, pca);
//     reduce(z, x, n);                                    z (n, k):  z = ((x - mean) * inverse) components^T
//
// mean and deviation are the column's own over the n rows (population deviation, a constant column stays 0); no whitening.
// k is cut to min(n, d).  Component signs are fixed: the loading of largest magnitude is positive.  Directions beyond the
// rank of the data have variance 0 and are still orthonormal.
//
// How      subspace iteration on 2k vectors.  The covariance (d, d) is formed in chunks of rows where n >= d; where n < d
//          the two factors of the data are applied in turn.  Each round multiplies by a Chebyshev polynomial of the
//          covariance that is small on the variances that are not wanted, makes the vectors orthonormal (Cholesky of
//          their Gram matrix, repeated) and turns them to eigenvectors of their own small covariance (Jacobi rotations),
//          until the residuals are small against the gap behind the k-th variance, or nothing moves any more.
//          Everything that grows with n or d is an op of the backend; matrices of 2k by 2k are worked on in double on
//          the host, which is meant for k up to a few hundred.
// Promises explained variance right to 1e-5 of the total against LAPACK, the subspace to 1e-4 where there is an eigengap.
//          The same seed and backend give the same bits.
// Needs    n >= 2, d >= 1, k >= 1; a value that is not finite is refused, its column named.
#pragma once
#include <cstdint>
#include <vector>

#include "kernels/backend.h"
#include "kernels/progress.h"

namespace lc {

struct Pca {
    int64_t d = 0, k = 0;
    std::vector<float> mean, inverse;  // (d) each
    std::vector<float> components;     // (k, d), orthonormal rows
    std::vector<double> variance;      // (k), largest first: of the standardised features, divisor n
    double total_variance = 0;         // of all d standardised features: the number of columns that are not constant
};

Pca fit_pca(const Backend& b, const float* x, int64_t n, int64_t d, int64_t k, uint64_t seed = 0,
            const Progress& progress = {});

class PcaTransform {
  public:
    PcaTransform(const Backend& b, const Pca& pca);
    void operator()(float* z, const float* x, int64_t n,
                    Stream s = nullptr) const;  // in chunks of rows: little scratch memory

  private:
    const Backend* b_;
    int64_t d_, k_;
    Buffer<float> mean_, inverse_, components_;
};

// Eigenvalues, largest first, and eigenvectors (rows of `vectors`) of a symmetric matrix (n, n), by cyclic Jacobi rotations.
void jacobi_eigen(std::vector<double>& values, std::vector<double>& vectors, std::vector<double> a, int64_t n);

}  // namespace lc

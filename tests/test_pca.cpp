// nn/pca.h on the CPU backend against LAPACK in double: every component where the variances differ, the explained variance
// always.
#include <algorithm>
#include <cmath>
#include <gtest/gtest.h>
#include <omp.h>
#include <random>

#include "nn/pca.h"
#include "tests/long.h"

extern "C" void dsyevd_(const char* jobz, const char* uplo, const int* n, double* a, const int* lda, double* w,
                        double* work, const int* lwork, int* iwork, const int* liwork, int* info);

extern "C" void openblas_set_num_threads(int n);

namespace lc {
namespace {

const Backend& cpu() { return *find_backend("cpu"); }

struct Eigen {
    std::vector<double> values, vectors;  // (n) largest first, (n, n) rows
};

Eigen lapack_eigen(std::vector<double> a, int n) {
    Eigen e;
    std::vector<double> w(static_cast<size_t>(n));
    const int lwork = 1 + 6 * n + 2 * n * n, liwork = 3 + 5 * n;
    std::vector<double> work(static_cast<size_t>(lwork));
    std::vector<int> iwork(static_cast<size_t>(liwork));
    int info = -1;
    openblas_set_num_threads(1);  // its threads wait by spinning, beside ours
    dsyevd_("V", "U", &n, a.data(), &n, w.data(), work.data(), &lwork, iwork.data(), &liwork, &info);
    EXPECT_EQ(info, 0);
    for (int i = n - 1; i >= 0; --i) {  // LAPACK gives the smallest first, vectors as columns of a column-major matrix
        e.values.push_back(w[size_t(i)]);
        e.vectors.insert(e.vectors.end(), a.begin() + i * n, a.begin() + (i + 1) * n);
    }
    return e;
}

struct Reference {
    Eigen e;  // of the covariance of the standardised features
    double total = 0;
};

// Mean, deviation and covariance in double.  With n < d the eigenvectors come from the (n, n) Gram matrix.
Reference reference_pca(const std::vector<float>& x, int64_t n, int64_t d) {
    std::vector<double> z(x.begin(), x.end());
    Reference ref;
    for (int64_t c = 0; c < d; ++c) {
        double mean = 0, square = 0;
        for (int64_t r = 0; r < n; ++r) mean += z[size_t(r * d + c)] / double(n);
        for (int64_t r = 0; r < n; ++r) square += std::pow(z[size_t(r * d + c)] - mean, 2) / double(n);
        bool constant = true;
        for (int64_t r = 0; r < n; ++r) constant = constant && x[size_t(r * d + c)] == x[size_t(c)];
        for (int64_t r = 0; r < n; ++r) {
            double& v = z[size_t(r * d + c)];
            v = constant ? 0 : (v - mean) / std::sqrt(square);
        }
        ref.total += constant ? 0 : 1;
    }
    const bool wide = n < d;
    const int64_t m = wide ? n : d;
    std::vector<double> s(size_t(m * m), 0.0);
    for (int64_t i = 0; i < m; ++i) {
        for (int64_t j = 0; j <= i; ++j) {
            double sum = 0;
            for (int64_t k = 0; k < (wide ? d : n); ++k) {
                sum += wide ? z[size_t(i * d + k)] * z[size_t(j * d + k)] : z[size_t(k * d + i)] * z[size_t(k * d + j)];
            }
            s[size_t(i * m + j)] = s[size_t(j * m + i)] = sum / double(n);
        }
    }
    ref.e = lapack_eigen(s, int(m));
    if (!wide) return ref;
    std::vector<double> vectors(size_t(m * d), 0.0);
    for (int64_t i = 0; i < m; ++i) {
        const double scale = 1 / std::sqrt(std::max(ref.e.values[size_t(i)], 1e-30) * double(n));
        for (int64_t r = 0; r < n; ++r) {
            const double weight = scale * ref.e.vectors[size_t(i * m + r)];
            for (int64_t c = 0; c < d; ++c) vectors[size_t(i * d + c)] += weight * z[size_t(r * d + c)];
        }
    }
    ref.e.vectors = vectors;
    return ref;
}

// The sine of the largest angle between the span of the first k components and that of the reference.
double subspace_sine(const Pca& pca, const Eigen& e, int64_t k) {
    std::vector<double> outside(size_t(k * k), 0.0);  // Gram matrix of what is left of the components beside the span
    std::vector<double> rest(pca.components.begin(), pca.components.begin() + k * pca.d);
    for (int64_t i = 0; i < k; ++i) {
        double* v = rest.data() + i * pca.d;
        for (int64_t j = 0; j < k; ++j) {
            const double* u = e.vectors.data() + j * pca.d;
            double dot = 0;
            for (int64_t c = 0; c < pca.d; ++c) dot += u[c] * double(pca.components[size_t(i * pca.d + c)]);
            for (int64_t c = 0; c < pca.d; ++c) v[c] -= dot * u[c];
        }
    }
    for (int64_t i = 0; i < k; ++i) {
        for (int64_t j = 0; j < k; ++j) {
            for (int64_t c = 0; c < pca.d; ++c) {
                outside[size_t(i * k + j)] += rest[size_t(i * pca.d + c)] * rest[size_t(j * pca.d + c)];
            }
        }
    }
    std::vector<double> values, vectors;
    jacobi_eigen(values, vectors, outside, k);
    return std::sqrt(std::max(0.0, values[0]));
}

void expect_orthonormal(const Pca& pca) {
    ASSERT_EQ(int64_t(pca.components.size()), pca.k * pca.d);
    for (int64_t i = 0; i < pca.k; ++i) {
        for (int64_t j = 0; j <= i; ++j) {
            double dot = 0;
            for (int64_t c = 0; c < pca.d; ++c) {
                dot += double(pca.components[size_t(i * pca.d + c)]) * double(pca.components[size_t(j * pca.d + c)]);
            }
            ASSERT_NEAR(dot, i == j ? 1 : 0, 2e-5) << "components " << i << " and " << j;
        }
        const float* v = pca.components.data() + i * pca.d;
        const float most =
            *std::max_element(v, v + pca.d, [](float a, float b) { return std::fabs(a) < std::fabs(b); });
        EXPECT_GT(most, 0) << "sign of component " << i;
    }
}

// Variances one by one, their sum, and the span of the first j components wherever the j-th gap is 5 % of the variance.
Pca expect_agrees(const std::vector<float>& x, int64_t n, int64_t d, int64_t k) {
    const Pca pca = fit_pca(cpu(), x.data(), n, d, k);
    const Reference ref = reference_pca(x, n, d);
    EXPECT_EQ(pca.k, std::min({k, n, d}));
    EXPECT_EQ(pca.total_variance, ref.total);
    expect_orthonormal(pca);
    double explained = 0, wanted = 0;
    int gaps = 0;
    for (int64_t j = 0; j < pca.k; ++j) {
        const double value = ref.e.values[size_t(j)];
        explained += pca.variance[size_t(j)], wanted += std::max(0.0, value);
        EXPECT_NEAR(explained, wanted, 1e-5 * std::max(1.0, ref.total)) << "of the first " << j + 1;
        const double next = j + 1 < int64_t(ref.e.values.size()) ? ref.e.values[size_t(j + 1)] : 0;
        if (value > 1e-3 && value - next > 0.05 * value && j + 1 < pca.d && (j < 3 || j + 1 == pca.k || j % 16 == 0)) {
            EXPECT_LE(subspace_sine(pca, ref.e, j + 1), 1e-4) << "span of the first " << j + 1;
            ++gaps;
        }
    }
    EXPECT_TRUE(gaps > 0 || ref.total < 2) << "no gap: choose other data";
    return pca;
}

// Latent factors with the given scales, mixed into d features, and noise.
std::vector<float> factors(int64_t n, int64_t d, const std::vector<double>& scales, double noise, uint64_t seed) {
    std::mt19937_64 bits(seed);
    std::normal_distribution<double> normal;
    std::vector<double> mix(scales.size() * size_t(d));
    for (double& v : mix) v = normal(bits);
    std::vector<float> x;
    for (int64_t r = 0; r < n; ++r) {
        std::vector<double> row(static_cast<size_t>(d));
        for (size_t f = 0; f < scales.size(); ++f) {
            const double h = scales[f] * normal(bits);
            for (size_t c = 0; c < size_t(d); ++c) row[c] += h * mix[f * size_t(d) + c];
        }
        for (double v : row) x.push_back(float(v + noise * normal(bits)));
    }
    return x;
}

std::vector<double> decaying(int count, double power) {
    std::vector<double> s;
    for (int i = 1; i <= count; ++i) s.push_back(std::pow(double(i), -power));
    return s;
}

TEST(Pca, AgreesWithLapack) { expect_agrees(factors(400, 30, decaying(6, 1), 0.3, 1), 400, 30, 8); }

TEST(Pca, FewerRowsThanColumns) { expect_agrees(factors(20, 70, decaying(5, 1), 0.3, 2), 20, 70, 6); }

TEST(Pca, MoreComponentsThanRank) {
    const Pca pca = expect_agrees(factors(100, 12, decaying(3, 1), 0, 3), 100, 12, 7);
    for (int64_t i = 3; i < 7; ++i) EXPECT_NEAR(pca.variance[size_t(i)], 0, 1e-5);
}

TEST(Pca, AllComponents) {
    expect_agrees(factors(300, 24, decaying(6, 1), 0.3, 4), 300, 24, 24);
    expect_agrees(factors(9, 30, decaying(6, 1), 0.3, 5), 9, 30, 99);
}

TEST(Pca, TwoRows) { expect_agrees(factors(2, 5, decaying(2, 1), 0.3, 6), 2, 5, 2); }

TEST(Pca, ConstantColumnsStayOut) {
    const int64_t n = 200, d = 10;
    std::vector<float> x = factors(n, d, decaying(4, 1), 0.2, 7);
    for (int64_t r = 0; r < n; ++r) x[size_t(r * d + 3)] = 0.1f, x[size_t(r * d + 9)] = 12345.678f;
    const Pca pca = expect_agrees(x, n, d, d);
    EXPECT_EQ(pca.total_variance, 8);
    EXPECT_EQ(pca.inverse[3], 0);
    EXPECT_EQ(pca.inverse[9], 0);
}

TEST(Pca, NothingVaries) {
    const Pca pca = fit_pca(cpu(), std::vector<float>(60, 2.5f).data(), 10, 6, 3);
    EXPECT_EQ(pca.total_variance, 0);
    expect_orthonormal(pca);
    EXPECT_EQ(pca.variance, std::vector<double>(3, 0.0));
}

// Two blocks of four equal features each, and noise: the spectrum has pairs of equal variances.
TEST(Pca, RepeatedVariances) {
    const int64_t n = 512, d = 16;
    std::vector<float> x(size_t(n * d));
    for (int64_t r = 0; r < n; ++r) {
        for (int64_t c = 0; c < d; ++c) x[size_t(r * d + c)] = (r >> (c / 4)) & 1 ? 1.0f : -1.0f;
    }
    const Pca pca = fit_pca(cpu(), x.data(), n, d, 6);  // four variances of 4, the rest 0
    expect_orthonormal(pca);
    for (int64_t i = 0; i < 6; ++i) EXPECT_NEAR(pca.variance[size_t(i)], i < 4 ? 4 : 0, 1e-5);
    EXPECT_LE(subspace_sine(pca, reference_pca(x, n, d).e, 4), 1e-4);
}

TEST(Pca, ShiftedByAThousand) {
    std::vector<float> x = factors(600, 40, decaying(6, 1), 0.3, 8);
    for (float& v : x) v += 1000;
    expect_agrees(x, 600, 40, 8);
}

TEST(Pca, FlatSpectrum) {  // pure noise has no gap: the variance must be right all the same
    const int64_t n = 900, d = 300, k = 20;
    const std::vector<float> x = factors(n, d, {}, 1, 9);
    const Pca pca = fit_pca(cpu(), x.data(), n, d, k);
    const Reference ref = reference_pca(x, n, d);
    expect_orthonormal(pca);
    double explained = 0, wanted = 0;
    for (size_t i = 0; i < size_t(k); ++i) explained += pca.variance[i], wanted += ref.e.values[i];
    EXPECT_NEAR(explained, wanted, 1e-5 * ref.total);
}

TEST(Pca, SteepThenFlat) {  // one direction holds nearly all, the rest is noise
    const int64_t n = 700, d = 200, k = 10;
    const std::vector<float> x = factors(n, d, {30}, 1, 10);
    const Pca pca = fit_pca(cpu(), x.data(), n, d, k);
    const Reference ref = reference_pca(x, n, d);
    expect_orthonormal(pca);
    double explained = 0, wanted = 0;
    for (size_t i = 0; i < size_t(k); ++i) explained += pca.variance[i], wanted += ref.e.values[i];
    EXPECT_NEAR(explained, wanted, 1e-5 * ref.total);
    EXPECT_LE(subspace_sine(pca, ref.e, 1), 1e-4);
}

TEST(Pca, TwoThousandFeatures) {
    LC_LONG_TEST();
    expect_agrees(factors(500, 2048, decaying(60, 0.7), 0.5, 11), 500, 2048, 50);
}

TEST(Pca, TransformProjectsNewData) {
    const int64_t n = 300, d = 20, k = 5, m = 5000;  // more rows than one chunk
    const std::vector<float> x = factors(n, d, decaying(5, 1), 0.3, 12), fresh = factors(m, d, decaying(5, 1), 0.3, 13);
    const Pca pca = fit_pca(cpu(), x.data(), n, d, k);
    const PcaTransform reduce(cpu(), pca);
    std::vector<float> z(size_t(m * k));
    reduce(z.data(), fresh.data(), m);
    for (int64_t r = 0; r < m; ++r) {
        for (int64_t i = 0; i < k; ++i) {
            double want = 0;
            for (size_t c = 0; c < size_t(d); ++c) {
                want += (double(fresh[size_t(r * d) + c]) - double(pca.mean[c])) * double(pca.inverse[c]) *
                        double(pca.components[size_t(i * d) + c]);
            }
            ASSERT_NEAR(z[size_t(r * k + i)], want, 1e-4);
        }
    }
    reduce(z.data(), fresh.data(), 0);
}

TEST(Pca, SameBitsForAnyNumberOfThreads) {
    const std::vector<float> x = factors(3000, 200, decaying(30, 0.6), 0.4, 14);
    const int before = omp_get_max_threads();
    std::vector<Pca> found;
    for (int threads : {1, 2}) {
        omp_set_num_threads(threads);
        found.push_back(fit_pca(cpu(), x.data(), 3000, 200, 20));
    }
    omp_set_num_threads(before);
    EXPECT_EQ(found[0].components, found[1].components);
    EXPECT_EQ(found[0].variance, found[1].variance);
    EXPECT_EQ(found[0].inverse, found[1].inverse);
}

TEST(Pca, SaysHowFarItIs) {
    std::vector<double> fractions;
    const std::vector<float> x = factors(100, 10, decaying(3, 1), 0.3, 15);
    fit_pca(cpu(), x.data(), 100, 10, 2, 0, [&](double f, std::string_view) { fractions.push_back(f); });
    EXPECT_TRUE(std::is_sorted(fractions.begin(), fractions.end()));
    EXPECT_EQ(fractions.front(), 0);
    EXPECT_EQ(fractions.back(), 1);
}

std::string refusal(const std::function<void()>& call) {
    try {
        call();
    } catch (const Error& e) {
        return e.what();
    }
    return "nothing was refused";
}

TEST(Pca, Refusals) {
    std::vector<float> x = factors(10, 6, decaying(3, 1), 0.3, 16);
    const auto fit = [&](int64_t n, int64_t d, int64_t k) {
        return refusal([&] { fit_pca(cpu(), x.data(), n, d, k); });
    };
    EXPECT_NE(fit(1, 6, 2).find("n = 1"), std::string::npos);
    EXPECT_NE(fit(10, 0, 2).find("d = 0"), std::string::npos);
    EXPECT_NE(fit(10, 6, 0).find("k = 0"), std::string::npos);
    for (float bad : {NAN, INFINITY, -INFINITY}) {
        x[4 * 6 + 3] = bad;
        EXPECT_NE(fit(10, 6, 2).find("column 3"), std::string::npos) << fit(10, 6, 2);
    }
}

TEST(Jacobi, AgreesWithLapack) {
    std::mt19937_64 bits(17);
    std::normal_distribution<double> normal;
    for (int n : {1, 2, 3, 10, 60}) {
        std::vector<double> a(size_t(n * n)), values, vectors;
        for (int i = 0; i < n; ++i) {
            for (int j = 0; j <= i; ++j) a[size_t(i * n + j)] = a[size_t(j * n + i)] = normal(bits);
        }
        jacobi_eigen(values, vectors, a, n);
        const Eigen want = lapack_eigen(a, n);
        for (int i = 0; i < n; ++i) {
            EXPECT_NEAR(values[size_t(i)], want.values[size_t(i)], 1e-12 * n);
            for (int r = 0; r < n; ++r) {  // a v = value v
                double av = 0;
                for (int c = 0; c < n; ++c) av += a[size_t(r * n + c)] * vectors[size_t(i * n + c)];
                EXPECT_NEAR(av, values[size_t(i)] * vectors[size_t(i * n + r)], 1e-12 * n);
            }
        }
    }
}

}  // namespace
}  // namespace lc

// pca.cpp -- principal components by subspace iteration (pca.h).
#include "nn/pca.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/random.h"

namespace lc {

namespace {

constexpr int64_t kChunk = 4096;  // rows that are standardised at a time

// ---- between host and backend ---------------------------------------------------------------------------------------

template <class T>
Buffer<float> upload(const Backend& b, const std::vector<T>& v) {
    const std::vector<float> host(v.begin(), v.end());
    Buffer<float> buffer(b, int64_t(v.size()));
    b.copy(buffer.data(), host.data(), buffer.bytes(), Copy::to_device, nullptr);
    b.sync(nullptr);
    return buffer;
}

std::vector<float> download(const Backend& b, const float* p, int64_t n) {
    std::vector<float> host(static_cast<size_t>(n));
    b.copy(host.data(), p, size_t(n) * sizeof(float), Copy::to_host, nullptr);
    b.sync(nullptr);
    return host;
}

std::vector<double> download_square(const Backend& b, const Buffer<float>& m) {
    const std::vector<float> host = download(b, m.data(), m.size());
    return {host.begin(), host.end()};
}

// ---- standardising --------------------------------------------------------------------------------------------------

// A column is constant where nothing differs from its first element: exact, whatever the rounding of its mean.
void fit_columns(Pca& pca, const Backend& b, const float* x, int64_t n) {
    const int64_t d = pca.d;
    Buffer<float> mean(b, d), moment(b, d), spread(b, d);
    b.col_reduce(mean.data(), x, n, d, Reduction::mean, nullptr);
    b.col_moment2(moment.data(), x, mean.data(), n, d, nullptr);
    b.col_moment2(spread.data(), x, x, n, d, nullptr);  // about the first row
    pca.mean = download(b, mean.data(), d);
    pca.inverse.assign(size_t(d), 0.0f);
    const std::vector<float> variance = download(b, moment.data(), d), varies = download(b, spread.data(), d);
    for (size_t c = 0; c < size_t(d); ++c) {
        LC_CHECK(std::isfinite(pca.mean[c]) && std::isfinite(variance[c]),
                 "pca: column " << c << " (counted from 0) holds a value that is not finite, or its squares overflow; "
                                << "clean or rescale the features");
        if (varies[c] == 0 || variance[c] == 0) continue;
        pca.inverse[c] = float(1 / std::sqrt(double(variance[c])));
        pca.total_variance += 1;
    }
}

// ---- the covariance of the standardised features, as something to multiply with --------------------------------------

class Covariance {
  public:
    Covariance(const Backend& b, const Pca& pca, const float* x, int64_t n) : b_(b), n_(n), d_(pca.d) {
        const Buffer<float> mean = upload(b, pca.mean), inverse = upload(b, pca.inverse);
        if (n < d_) {
            z_ = Buffer<float>(b, n * d_);
            b.standardise(z_.data(), x, mean.data(), inverse.data(), n, d_, nullptr);
            b.sync(nullptr);
            return;
        }
        square_ = Buffer<float>(b, d_ * d_);
        const Buffer<float> rows(b, std::min(n, kChunk) * d_);
        for (int64_t r = 0; r < n; r += kChunk) {
            const int64_t m = std::min(kChunk, n - r);
            b.standardise(rows.data(), x + r * d_, mean.data(), inverse.data(), m, d_, nullptr);
            b.gemm(square_.data(), rows.data(), rows.data(),
                   {.M = d_, .N = d_, .K = m, .trans_a = true, .alpha = 1 / float(n), .beta = r == 0 ? 0.0f : 1.0f},
                   nullptr);
        }
        b.sync(nullptr);
    }

    // out = alpha v S + beta out                                                  out, v (p, d)
    void multiply(float* out, const float* v, int64_t p, float alpha, float beta) const {
        if (n_ >= d_) {
            b_.gemm(out, v, square_.data(), {.M = p, .N = d_, .K = d_, .alpha = alpha, .beta = beta}, nullptr);
            return;
        }
        if (half_.size() < p * n_) half_ = Buffer<float>(b_, p * n_);
        b_.gemm(half_.data(), v, z_.data(), {.M = p, .N = n_, .K = d_, .trans_b = true, .alpha = alpha / float(n_)},
                nullptr);
        b_.gemm(out, half_.data(), z_.data(), {.M = p, .N = d_, .K = n_, .beta = beta}, nullptr);
    }

  private:
    const Backend& b_;
    int64_t n_, d_;
    Buffer<float> square_;        // (d, d), where n >= d
    Buffer<float> z_;             // (n, d), else
    mutable Buffer<float> half_;  // (p, n), v z^T
};

// ---- a block of vectors ---------------------------------------------------------------------------------------------

// Rows of L^-1 diag(scale), where L L^T = g + shift I: what makes the rows of a block orthonormal, up to the shift.
std::vector<double> whitening(std::vector<double> g, const std::vector<double>& scale, int64_t p, double shift) {
    std::vector<double> w(size_t(p * p), 0.0);
    const auto at = [p](std::vector<double>& m, int64_t i, int64_t j) -> double& { return m[size_t(i * p + j)]; };
    for (int64_t j = 0; j < p; ++j) {  // Cholesky, L in the lower half of g
        for (int64_t i = j; i < p; ++i) {
            double sum = at(g, i, j) + (i == j ? shift : 0);
            for (int64_t k = 0; k < j; ++k) sum -= at(g, i, k) * at(g, j, k);
            at(g, i, j) = i == j ? std::sqrt(std::max(sum, shift)) : sum / at(g, j, j);
        }
    }
    for (int64_t i = 0; i < p; ++i) {  // forward substitution, row by row
        at(w, i, i) = 1;
        for (int64_t k = 0; k < i; ++k) {
            for (int64_t j = 0; j <= k; ++j) at(w, i, j) -= at(g, i, k) * at(w, k, j);
        }
        for (int64_t j = 0; j <= i; ++j) at(w, i, j) /= at(g, i, i);
    }
    for (int64_t i = 0; i < p; ++i) {
        for (int64_t j = 0; j <= i; ++j) at(w, i, j) *= scale[size_t(j)];
    }
    return w;
}

class Block {
  public:
    Block(const Backend& b, int64_t p, int64_t d, uint64_t seed)
        : b_(b), p_(p), d_(d), seed_(seed), q_(b, p * d), y_(b, p * d), next_(b, p * d), small_(b, p * p) {
        for (int64_t i = 0; i < p; ++i) draw(i);
        std::swap(q_, y_);
        orthonormalise();
    }

    // One round: filter, orthonormalise, and turn to the eigenvectors of the block's own covariance.
    void improve(const Covariance& s) {
        filter(s);
        orthonormalise();
        s.multiply(y_.data(), q_.data(), p_, 1, 0);
        rayleigh_ritz();
    }

    const std::vector<double>& values() const { return values_; }  // (p), largest first
    const float* vectors() const { return q_.data(); }             // (p, d)

    // |v S - value v| of the first k vectors.  Call after improve(), once.
    std::vector<double> residuals(int64_t k) {
        std::vector<double> minus(size_t(p_ * p_), 0.0), norms;
        for (int64_t i = 0; i < p_; ++i) minus[size_t(i * p_ + i)] = -values_[size_t(i)];
        combine(y_, minus, q_, 1);  // y is not needed any more
        const std::vector<double> gram = gram_of(y_, y_);
        for (int64_t i = 0; i < k; ++i) norms.push_back(std::sqrt(gram[size_t(i * p_ + i)]));
        return norms;
    }

  private:
    void draw(int64_t row) {  // fresh random numbers in a row of q
        const std::vector<float> v = random_normal({seed_, drawn_++}, d_, 0, 1 / std::sqrt(double(d_)));
        b_.copy(q_.data() + row * d_, v.data(), v.size() * sizeof(float), Copy::to_device, nullptr);
        b_.sync(nullptr);
    }

    std::vector<double> gram_of(const Buffer<float>& u, const Buffer<float>& v) {  // u v^T
        b_.gemm(small_.data(), u.data(), v.data(), {.M = p_, .N = p_, .K = d_, .trans_b = true}, nullptr);
        return download_square(b_, small_);
    }

    // out = w in + beta out                                                       w (p, p)
    void combine(Buffer<float>& out, const std::vector<double>& w, const Buffer<float>& in, float beta) {
        small_ = upload(b_, w);
        b_.gemm(out.data(), small_.data(), in.data(), {.M = p_, .N = d_, .K = p_, .beta = beta}, nullptr);
    }

    // y = q T(S), T a Chebyshev polynomial on [0, smallest value of the block]: at most 1 there, and growing as fast as a
    // polynomial can above.  Its degree is bounded by what float32 can carry from the largest value; 1 is plain power
    // iteration.
    void filter(const Covariance& s) {
        constexpr double kMostGrowth = 1e5;
        constexpr int kMostDegree = 12;
        const double low = values_.empty() ? 0 : values_.back(), centre = low / 2;
        int degree = 1;
        if (!values_.empty() && low > 1e-6 * values_[0]) {
            const double x = (values_[0] - centre) / centre;
            degree = std::clamp(int(std::acosh(kMostGrowth) / std::acosh(std::max(x, 1.0 + 1e-9))), 1, kMostDegree);
        }
        if (degree == 1) return s.multiply(y_.data(), q_.data(), p_, 1, 0);
        const float a = float(1 / centre);
        s.multiply(y_.data(), q_.data(), p_, a, 0);  // T1 = q (S - c) / c, then T(j+1) = 2 Tj (S - c) / c - T(j-1)
        add_scaled(y_, q_, -1);
        for (int j = 1; j < degree; ++j) {
            s.multiply(q_.data(), y_.data(), p_, 2 * a, -1);
            add_scaled(q_, y_, -2);
            std::swap(q_, y_);
        }
    }

    void add_scaled(const Buffer<float>& out, const Buffer<float>& x, float a) {  // out += a x
        const Buffer<float> ab = upload(b_, std::vector<float>{a, 0});
        b_.affine(out.data(), out.data(), x.data(), ab.data(), ab.data() + 1, p_, d_, {.one = true}, nullptr);
        b_.sync(nullptr);
    }

    // q = an orthonormal basis of the rows of y.  Each pass multiplies by the inverse Cholesky factor of the Gram matrix of
    // the rows, scaled to length 1.  In float32 that matrix may be singular: a shift keeps the factor real, one pass then
    // mends only what is above it, and the next one the rest.  What is left of a row that the others span is noise: it is
    // drawn anew.
    void orthonormalise() {
        constexpr double kShift = 1e-5;
        for (int pass = 0; pass < 20; ++pass) {
            std::vector<double> g = gram_of(y_, y_), scale(static_cast<size_t>(p_));
            double worst = 0;
            bool redrawn = false;
            for (int64_t i = 0; i < p_; ++i) {
                const double square = g[size_t(i * p_ + i)];
                worst = std::max(worst, std::fabs(square - 1));
                if (!(square > (pass == 0 ? 1e-30 : kShift))) {
                    draw(i);
                    b_.copy(y_.data() + i * d_, q_.data() + i * d_, size_t(d_) * sizeof(float), Copy::on_device,
                            nullptr);
                    redrawn = true;
                    continue;
                }
                scale[size_t(i)] = 1 / std::sqrt(square);
            }
            if (redrawn) continue;
            for (int64_t i = 0; i < p_; ++i) {
                for (int64_t j = 0; j < p_; ++j) {
                    if (i != j) worst = std::max(worst, std::fabs(g[size_t(i * p_ + j)]));
                    g[size_t(i * p_ + j)] *= scale[size_t(i)] * scale[size_t(j)];
                }
            }
            if (worst < 3e-6) return std::swap(q_, y_);
            combine(next_, whitening(std::move(g), scale, p_, worst < 1e-2 ? 0 : kShift), y_, 0);
            std::swap(next_, y_);
        }
        LC_CHECK(false, "pca: " << p_ << " directions cannot be made orthonormal; are the features all alike?");
    }

    // q and y = q S, turned by the eigenvectors of q S q^T.
    void rayleigh_ritz() {
        std::vector<double> h = gram_of(q_, y_), turn;
        for (int64_t i = 0; i < p_; ++i) {
            for (int64_t j = 0; j < i; ++j) {
                const double mean = (h[size_t(i * p_ + j)] + h[size_t(j * p_ + i)]) / 2;
                h[size_t(i * p_ + j)] = h[size_t(j * p_ + i)] = mean;
            }
        }
        jacobi_eigen(values_, turn, std::move(h), p_);
        combine(next_, turn, q_, 0);
        std::swap(next_, q_);
        combine(next_, turn, y_, 0);
        std::swap(next_, y_);
    }

    const Backend& b_;
    int64_t p_, d_;
    uint64_t seed_, drawn_ = 0;
    Buffer<float> q_, y_, next_;  // (p, d): the vectors, their products with S, and room for what comes next
    Buffer<float> small_;         // (p, p)
    std::vector<double> values_;  // (p)
};

// A component's residual over its distance from the first variance that is left out bounds its angle to the right span.
// The rounds end where that is small enough, or where the residuals are down at rounding level and do not improve.
class Convergence {
  public:
    bool reached(const std::vector<double>& values, const std::vector<double>& residuals) {
        const double beyond = values[residuals.size()];
        double angle = 0, residual = 0, norm = 0;
        for (size_t i = 0; i < residuals.size(); ++i) {
            angle += std::pow(residuals[i] / (values[i] - beyond), 2);
            residual += residuals[i] * residuals[i];
            norm += values[i] * values[i];
        }
        const bool improves = residual < 0.5 * before_;
        before_ = residual;
        return angle <= 2e-5 * 2e-5 || (residual <= 2e-6 * 2e-6 * norm && !improves);
    }

  private:
    double before_ = std::numeric_limits<double>::infinity();
};

void fix_sign(float* v, int64_t d) {
    int64_t most = 0;
    for (int64_t c = 1; c < d; ++c) {
        if (std::fabs(v[c]) > std::fabs(v[most])) most = c;
    }
    const float sign = v[most] < 0 ? -1.0f : 1.0f;
    for (int64_t c = 0; c < d; ++c) v[c] *= sign;
}

}  // namespace

Pca fit_pca(const Backend& b, const float* x, int64_t n, int64_t d, int64_t k, uint64_t seed,
            const Progress& progress) {
    LC_CHECK(n >= 2, "pca: needs two rows or more to see a variance; found n = " << n);
    LC_CHECK(d >= 1 && k >= 1, "pca: needs a feature and a component at least; found d = " << d << ", k = " << k);
    Pca pca;
    pca.d = d;
    pca.k = std::min({k, n, d});
    if (progress) progress(0, "pca: mean and deviation");
    fit_columns(pca, b, x, n);
    if (progress) progress(0.1, "pca: covariance");
    const Covariance s(b, pca, x, n);
    const int64_t p = std::min(d, pca.k + std::max<int64_t>(pca.k, 16));
    Block block(b, p, d, seed);

    constexpr int kMostRounds = 100;
    Convergence convergence;
    for (int round = 0; round < kMostRounds; ++round) {
        block.improve(s);
        if (progress) progress(0.4 + 0.6 * round / kMostRounds, "pca: round " + std::to_string(round + 1));
        if (p == d || convergence.reached(block.values(), block.residuals(pca.k))) break;
    }
    pca.components = download(b, block.vectors(), pca.k * d);
    for (int64_t i = 0; i < pca.k; ++i) {
        fix_sign(pca.components.data() + i * d, d);
        pca.variance.push_back(std::max(0.0, block.values()[size_t(i)]));
    }
    if (progress) progress(1, "pca");
    return pca;
}

PcaTransform::PcaTransform(const Backend& b, const Pca& pca)
    : b_(&b),
      d_(pca.d),
      k_(pca.k),
      mean_(upload(b, pca.mean)),
      inverse_(upload(b, pca.inverse)),
      components_(upload(b, pca.components)) {}

void PcaTransform::operator()(float* z, const float* x, int64_t n, Stream s) const {
    const Buffer<float> rows(*b_, std::min(n, kChunk) * d_);
    for (int64_t r = 0; r < n; r += kChunk) {
        const int64_t m = std::min(kChunk, n - r);
        b_->standardise(rows.data(), x + r * d_, mean_.data(), inverse_.data(), m, d_, s);
        b_->gemm(z + r * k_, rows.data(), components_.data(), {.M = m, .N = k_, .K = d_, .trans_b = true}, s);
    }
    b_->sync(s);  // the scratch memory is given back
}

}  // namespace lc

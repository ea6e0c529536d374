// Solvers on functions whose minimum is known: round, stretched, curved, flat and without end.
#include <cmath>
#include <gtest/gtest.h>

#include "calib/solvers.h"
#include "kernels/multiply_double.h"
#include "kernels/random.h"

namespace {

using lc::Curve;
using lc::Ended;
using lc::Solved;
using Vector = std::vector<double>;
using Point = std::span<const double>;

// ---- one variable ---------------------------------------------------------------------------------------------------

TEST(Solvers, one_variable_finds_the_minimum_from_both_sides) {
    const auto f = [](double x) { return Curve{std::exp(x) - 2 * x, std::exp(x) - 2, std::exp(x)}; };
    for (double start : {-9.0, 0.0, 9.0}) {
        const lc::Solved1d s = lc::minimise_1d(f, -10, 10, start);
        EXPECT_NEAR(s.x, std::log(2.0), 1e-15);
        EXPECT_EQ(s.ended, Ended::converged);
        EXPECT_LT(s.iterations, 30);
    }
}

TEST(Solvers, one_variable_survives_where_newton_alone_would_leave) {
    // sqrt(1 + x^2): Newton's steps diverge from every |x| > 1.
    const auto f = [](double x) {
        const double r = std::sqrt(1 + x * x);
        return Curve{r, x / r, 1 / (r * r * r)};
    };
    EXPECT_NEAR(lc::minimise_1d(f, -50, 100, 7).x, 0, 1e-12);
}

TEST(Solvers, one_variable_says_that_it_is_at_a_bound) {
    const auto falls = [](double x) { return Curve{std::exp(-x), -std::exp(-x), std::exp(-x)}; };
    const auto rises = [](double x) { return Curve{x, 1, 0}; };
    EXPECT_EQ(lc::minimise_1d(falls, -5, 5, 0).ended, Ended::at_bound);
    EXPECT_NEAR(lc::minimise_1d(falls, -5, 5, 0).x, 5, 1e-3);
    EXPECT_EQ(lc::minimise_1d(rises, -5, 5, 0).ended, Ended::at_bound);
    EXPECT_EQ(lc::minimise_1d([](double) { return Curve{1, 0, 0}; }, -5, 5, 2).ended, Ended::converged);
}

// ---- functions of many variables ------------------------------------------------------------------------------------

// sum_i 10^(6 i / (p - 1)) (x_i - i)^2 / 2, turned so that no axis is special: condition 10^6
struct Stretched {
    static constexpr size_t p = 12;
    static double scale(size_t i) { return std::pow(10.0, 6.0 * double(i) / (p - 1)); }
    static Vector turned(Point x) {  // a reflection: its own inverse
        double sum = 0;
        for (double v : x) sum += v;
        Vector r(x.begin(), x.end());
        for (double& v : r) v -= 2 * sum / p;
        return r;
    }
    static double first(Point x, std::span<double> gradient) {
        Vector r = turned(x);
        double value = 0;
        for (size_t i = 0; i < p; ++i) {
            r[i] -= double(i);
            value += scale(i) * r[i] * r[i] / 2;
            r[i] *= scale(i);
        }
        r = turned(r);
        std::copy(r.begin(), r.end(), gradient.begin());
        return value;
    }
    static double second(Point x, double* gradient, double* hessian) {
        Vector g(p);
        const double value = first(x, g);
        if (gradient == nullptr) return value;
        std::copy(g.begin(), g.end(), gradient);
        for (size_t k = 0; k < p; ++k) {  // column k: turn, scale, turn
            Vector e(p, 0.0);
            e[k] = 1;
            e = turned(e);
            for (size_t i = 0; i < p; ++i) e[i] *= scale(i);
            e = turned(e);
            for (size_t i = 0; i < p; ++i) hessian[i * p + k] = e[i];
        }
        return value;
    }
    static void expect_minimum(const Vector& x, double close) {
        const Vector r = turned(x);
        for (size_t i = 0; i < p; ++i) EXPECT_NEAR(r[i], double(i), close) << i;
    }
};

double rosenbrock(Point x, std::span<double> g) {
    const double a = 1 - x[0], b = x[1] - x[0] * x[0];
    g[0] = -2 * a - 400 * x[0] * b;
    g[1] = 200 * b;
    return a * a + 100 * b * b;
}

// ln(1 + e^-m x) over margins m > 0: falls for ever.
struct Separable {
    static double first(Point x, std::span<double> g) {
        double value = 0;
        g[0] = 0;
        for (double m : {0.5, 1.0, 3.0}) {
            value += std::log1p(std::exp(-m * x[0]));
            g[0] -= m / (1 + std::exp(m * x[0]));
        }
        return value;
    }
    static double second(Point x, double* gradient, double* hessian) {
        Vector g(1);
        const double value = first(x, g);
        if (gradient == nullptr) return value;
        gradient[0] = g[0];
        hessian[0] = 0;
        for (double m : {0.5, 1.0, 3.0}) {
            const double e = std::exp(m * x[0]);
            hessian[0] += m * m * e / ((1 + e) * (1 + e));
        }
        return value;
    }
};

TEST(Solvers, newton_needs_one_step_for_a_quadratic) {
    Vector x(Stretched::p, 3.0);
    const Solved s = lc::minimise_newton(Stretched::second, x);
    EXPECT_EQ(s.ended, Ended::converged);
    EXPECT_LE(s.iterations, 4);
    Stretched::expect_minimum(x, 1e-9);
}

TEST(Solvers, newton_takes_a_direction_that_changes_nothing) {
    // (x + y - 1)^2: singular
    const auto f = [](Point x, double* g, double* h) {
        const double r = x[0] + x[1] - 1;
        if (g) g[0] = g[1] = 2 * r;
        if (h) h[0] = h[1] = h[2] = h[3] = 2;
        return r * r;
    };
    Vector x = {5, -2};
    EXPECT_EQ(lc::minimise_newton(f, x).ended, Ended::converged);
    EXPECT_NEAR(x[0] + x[1], 1, 1e-8);
    EXPECT_NEAR(x[0] - x[1], 7, 1e-3) << "only rounding, over a shift of 1e-12, moves along it";
}

TEST(Solvers, newton_halves_steps_that_go_too_far) {
    // ln cosh x: a full step from 2 ends at -11, the next one never comes back
    const auto f = [](Point x, double* g, double* h) {
        if (g) g[0] = std::tanh(x[0]);
        if (h) h[0] = 1 / (std::cosh(x[0]) * std::cosh(x[0]));
        return std::log(std::cosh(x[0]));
    };
    Vector x = {2};
    EXPECT_EQ(lc::minimise_newton(f, x).ended, Ended::converged);
    EXPECT_NEAR(x[0], 0, 1e-7);
}

TEST(Solvers, lbfgs_takes_stretched_and_curved_functions) {
    Vector x(Stretched::p, 3.0);
    // Rounding in positions near 11, times curvatures up to 1e6, keeps the gradient above some 1e-9.
    Solved s = lc::minimise_lbfgs(Stretched::first, x, {.gradient = 1e-7, .change = 0});
    EXPECT_EQ(s.ended, Ended::converged) << s.text();
    EXPECT_LT(s.iterations, 160);
    Stretched::expect_minimum(x, 1e-6);

    x = {-1.2, 1};
    s = lc::minimise_lbfgs(rosenbrock, x);
    EXPECT_EQ(s.ended, Ended::converged);
    EXPECT_LT(s.iterations, 60);
    EXPECT_NEAR(x[0], 1, 1e-7);
    EXPECT_NEAR(x[1], 1, 1e-7);
}

TEST(Solvers, lbfgs_with_the_diagonal_does_not_see_badly_scaled_axes) {
    Vector curvature, x(40, 1.0);
    for (int i = 0; i < 40; ++i) curvature.push_back(std::pow(10.0, i % 6 - 4));
    const auto f = [&](Point at, std::span<double> g) {
        double value = 0;
        for (size_t i = 0; i < at.size(); ++i) {
            g[i] = curvature[i] * at[i];
            value += g[i] * at[i] / 2;
        }
        return value;
    };
    const Solved s = lc::minimise_lbfgs(f, x, {.precondition = lc::by_diagonal(curvature)});
    EXPECT_EQ(s.ended, Ended::converged);
    EXPECT_LE(s.iterations, 2);
}

TEST(Solvers, separable_data_end_near_zero_and_do_not_hang) {
    Vector x = {0};
    Solved s = lc::minimise_newton(Separable::second, x);
    EXPECT_LT(s.value, 1e-12);
    EXPECT_TRUE(std::isfinite(x[0]));
    x = {0};
    s = lc::minimise_lbfgs(Separable::first, x);
    EXPECT_LT(s.value, 1e-7);
    EXPECT_TRUE(std::isfinite(x[0]));
}

TEST(Solvers, out_of_iterations_and_stalled_are_said) {
    Vector x = {-1.2, 1};
    Solved s = lc::minimise_lbfgs(rosenbrock, x, {.iterations = 3});
    EXPECT_EQ(s.ended, Ended::out_of_iterations);
    EXPECT_EQ(s.text(), "out of iterations after 3 iterations");
    // A gradient that points the wrong way: no step can gain.
    const auto lying = [](Point at, std::span<double> g) { return g[0] = -1, at[0]; };
    x = {0};
    EXPECT_EQ(lc::minimise_lbfgs(lying, x).ended, Ended::stalled);
    EXPECT_EQ(x[0], 0);
}

TEST(Solvers, a_value_that_is_not_finite_shortens_the_step) {
    // x - ln x: not defined left of 0, where growing steps from 30 soon are
    const auto f = [](Point x, std::span<double> g) {
        g[0] = 1 - 1 / x[0];
        return x[0] - std::log(x[0]);
    };
    Vector x = {30};
    EXPECT_EQ(lc::minimise_lbfgs(f, x).ended, Ended::converged);
    EXPECT_NEAR(x[0], 1, 1e-7);
}

// ---- as torch does --------------------------------------------------------------------------------------------------

// Computed by tests/golden/torch_lbfgs.py.
TEST(Solvers, fixed_steps_end_where_those_of_torch_do) {
    Vector x = {-1.2, 1};
    Solved s = lc::torch_lbfgs(rosenbrock, x, {.iterations = 100, .rate = 1e-2});
    EXPECT_EQ(s.ended, Ended::out_of_iterations);
    EXPECT_NEAR(x[0], -1.1245844712236652, 1e-9);
    EXPECT_NEAR(x[1], 1.1066529009067507, 1e-9);
    x = {3, -4};
    const auto bowl = [](Point at, std::span<double> g) {
        g[0] = 2 * at[0], g[1] = 20 * at[1];
        return at[0] * at[0] + 10 * at[1] * at[1];
    };
    s = lc::torch_lbfgs(bowl, x, {.iterations = 2000, .rate = 0.5});
    EXPECT_EQ(s.ended, Ended::converged);
    EXPECT_EQ(s.iterations, 25);
    EXPECT_NEAR(x[0], 1.4155035051167309e-05, 1e-12);
    EXPECT_NEAR(x[1], 3.8925919708497054e-06, 1e-12);
}

// ---- what they are made of ------------------------------------------------------------------------------------------

TEST(Solvers, cholesky_solves_and_refuses) {
    Vector a = {4, 0, 0, 2, 5, 0, -2, 1, 6}, b = {1, 2, 3};  // lower triangle
    const Vector full = {4, 2, -2, 2, 5, 1, -2, 1, 6};
    ASSERT_TRUE(lc::cholesky(a, 3));
    Vector x = b;
    lc::cholesky_solve(a, 3, x);
    for (size_t i = 0; i < 3; ++i) EXPECT_NEAR(lc::dot({&full[i * 3], 3}, x), b[i], 1e-14);
    Vector singular = {1, 0, 1, 1}, negative = {-1};
    EXPECT_FALSE(lc::cholesky(singular, 2));
    EXPECT_FALSE(lc::cholesky(negative, 1));
}

TEST(Solvers, products_in_double_are_right_for_every_shape) {
    for (int64_t R : {1, 3, 4, 9}) {
        for (int64_t N : {8, 24, 32, 56}) {
            for (int64_t K : {0, 1, 7}) {
                const std::vector<float> a = lc::random_normal({1, 1}, R * K + 1),
                                         b = lc::random_normal({1, 2}, K * N + 1);
                const Vector a2(a.begin(), a.end()), b2(b.begin(), b.end());
                Vector plain(size_t(R * N), 2.0), turned(size_t(R * N), 2.0);
                lc::cpu::multiply_double(plain.data(), N, {a2.data(), K, 1}, b2.data(), N, R, N, K);
                lc::cpu::multiply_double(turned.data(), N, {a2.data(), 1, R}, b2.data(), N, R, N, K, true);
                for (int64_t r = 0; r < R; ++r) {
                    for (int64_t j = 0; j < N; ++j) {
                        double want = 0, want_turned = 2;
                        for (int64_t k = 0; k < K; ++k) {
                            want += a2[size_t(r * K + k)] * b2[size_t(k * N + j)];
                            want_turned += a2[size_t(k * R + r)] * b2[size_t(k * N + j)];
                        }
                        ASSERT_NEAR(plain[size_t(r * N + j)], want, 1e-13);
                        ASSERT_NEAR(turned[size_t(r * N + j)], want_turned, 1e-13);
                    }
                }
            }
        }
    }
}

}  // namespace

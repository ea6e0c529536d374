// solvers.h -- the minimum of a smooth function, in double.
//
//   minimise_1d       one variable in a bracket: Newton's steps, bisection where they leave the bracket  newton_1d.cpp
//   minimise_newton   some hundred variables, convex: Newton with Cholesky, damping and step halving     newton.cpp
//   minimise_lbfgs    many variables: limited memory, line search by the strong Wolfe conditions         lbfgs.cpp
//   torch_lbfgs       the same directions with fixed steps, as torch.optim.LBFGS takes them: where it
//                     stops decides the published numbers                                                torch_lbfgs.cpp
//
// Every one says how it ended; none of them throws for a function that has no minimum, because separable data are
// such a function and quite usual.  A value that is not finite counts as too large: the step is made shorter.
#pragma once
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

namespace lc {

enum class Ended { converged, at_bound, out_of_iterations, stalled };
std::string to_text(Ended e);  // "converged", "at a bound", "out of iterations", "stalled"

struct Solved {
    double value = 0;  // of the function, at the end
    int iterations = 0;
    Ended ended = Ended::converged;

    std::string text() const;  // "converged after 9 iterations"
};

// ---- one variable ---------------------------------------------------------------------------------------------------

struct Curve {  // a function of one variable at a point
    double value = 0, slope = 0, curvature = 0;
};
struct Solved1d : Solved {
    double x = 0;
    Curve at;  // x
};
// For a function that falls and then rises between low and high.  at_bound: it only falls, or only rises.
Solved1d minimise_1d(const std::function<Curve(double)>& f, double low, double high, double start);

// ---- some variables -------------------------------------------------------------------------------------------------

// Returns the value at x (p); fills gradient (p) and the lower triangle of hessian (p, p), row-major, where they are
// not null: both or none.
using SecondOrder = std::function<double(std::span<const double> x, double* gradient, double* hessian)>;
struct NewtonOptions {
    int iterations = 100;
    double tolerance = 1e-14;  // of half the squared Newton decrement, which is what is left to gain
};
Solved minimise_newton(const SecondOrder& f, std::span<double> x, const NewtonOptions& o = {});

// a (p, p), lower triangle -> its Cholesky factor, in place; false where a is not positive definite.
bool cholesky(std::span<double> a, int64_t p);
void cholesky_solve(std::span<const double> factor, int64_t p, std::span<double> b);  // b -> a^-1 b

// ---- many variables -------------------------------------------------------------------------------------------------

// Returns the value at x (p) and fills gradient (p).
using FirstOrder = std::function<double(std::span<const double> x, std::span<double> gradient)>;
// b -> M^-1 b, M being an estimate of the Hessian that is cheap to solve with: the better it is, the fewer the steps.
using Precondition = std::function<void(std::span<double> b)>;
Precondition by_diagonal(std::vector<double> diagonal);  // of the Hessian; what is below 1e-9 of the largest is raised

struct LbfgsOptions {
    int iterations = 1000;
    int history = 20;                // 10 take ten times as many steps where curvatures span six decades
    double gradient = 1e-9;          // converged where no component of the gradient is larger,
    double change = 1e-13;           // or where three steps in a row gained less than this share of the value
    Precondition precondition = {};  // none: a multiple of the identity
};
Solved minimise_lbfgs(const FirstOrder& f, std::span<double> x, const LbfgsOptions& o = {});

struct TorchLbfgsOptions {
    int iterations = 2000;
    int history = 100;
    double rate = 1e-3;  // every step, the first one also times min(1, 1 / |g|_1)
    double gradient = 1e-7, change = 1e-9;
};
Solved torch_lbfgs(const FirstOrder& f, std::span<double> x, const TorchLbfgsOptions& o = {});

// ---- what both kinds of L-BFGS share --------------------------------------------------------------------------------

// Steps s and changes of the gradient y, the newest last: direction() multiplies by their inverse Hessian.
class LbfgsMemory {
  public:
    LbfgsMemory(int history, Precondition precondition = {})
        : history_(history), precondition_(std::move(precondition)) {}
    void push(std::vector<double> s, std::vector<double> y, double sy);  // sy = s y > 0
    void clear() { pairs_.clear(); }
    bool empty() const { return pairs_.empty(); }
    std::vector<double> direction(std::span<const double> gradient) const;  // -H^-1 gradient

  private:
    struct Pair {
        std::vector<double> s, y;
        double rho;  // 1 / (s y)
    };
    int history_;
    Precondition precondition_;
    std::vector<Pair> pairs_;
    double scale_ = 1;  // of the first estimate: (s y) / (y M^-1 y)
};

double dot(std::span<const double> a, std::span<const double> b);
double largest(std::span<const double> a);  // max |a_i|; NaN where there is one

}  // namespace lc

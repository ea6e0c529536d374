#!/usr/bin/env python3
"""Where torch.optim.LBFGS without a line search ends, in float64: the numbers of tests/test_solvers.cpp.  Needs PyTorch.

    python3 tests/golden/torch_lbfgs.py
"""
import torch


def minimise(function, start, rate, iterations):
    x = torch.tensor(start, dtype=torch.float64, requires_grad=True)
    solver = torch.optim.LBFGS([x], lr=rate, max_iter=iterations, max_eval=10 * iterations, history_size=100,
                               tolerance_grad=1e-7, tolerance_change=1e-9)

    def closure():
        solver.zero_grad()
        value = function(x)
        value.backward()
        return value

    solver.step(closure)
    return [float(v).__repr__() for v in x.detach()], solver.state[x]["n_iter"]


print("rosenbrock", minimise(lambda x: (1 - x[0]) ** 2 + 100 * (x[1] - x[0] ** 2) ** 2, [-1.2, 1.0], 1e-2, 100))
print("bowl", minimise(lambda x: x[0] ** 2 + 10 * x[1] ** 2, [3.0, -4.0], 0.5, 2000))

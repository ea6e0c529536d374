#!/usr/bin/env python3
"""Writes tests/golden/network_ops.h: what PyTorch makes of small inputs.  usage: tests/golden/network_ops.py

Inputs are multiples of 1/8, exact in float32, so that C++ and Python read the same numbers; PyTorch computes in float64.
It keeps images as (N, C, H, W); here they are written channels last, (N, H, W, C).
"""
import pathlib

import numpy as np
import torch
import torch.nn.functional as F

rng = np.random.default_rng(7)
out = []


def eighths(*shape, low=-16, high=16):
    return torch.from_numpy(rng.integers(low, high + 1, shape) / 8.0)


def write(name, value):
    """Images are turned round, everything else is written as it is."""
    if value.dim() == 4:
        value = value.permute(0, 2, 3, 1)
    numbers = ", ".join(repr(float(v)) for v in value.detach().reshape(-1).tolist())
    out.append(f"const std::vector<double> {name} = {{{numbers}}};\n")


def leaf(t):
    return t.clone().requires_grad_(True)


def batchnorm():
    out.append("\n// Batch normalisation of (4, 2, 3) pixels of 5 channels, eps 1e-3, momentum 0.25.\n")
    x, dy = leaf(eighths(4, 5, 2, 3)), eighths(4, 5, 2, 3)
    gamma, beta = leaf(eighths(5)), leaf(eighths(5))
    mean, var = eighths(5), eighths(5, low=4)
    for name, v in {"X": x, "Dy": dy, "Gamma": gamma, "Beta": beta, "Mean": mean, "Var": var}.items():
        write("kNorm" + name, v)
    for kind, training in {"Batch": True, "Frozen": False}.items():
        running_mean, running_var = mean.clone(), var.clone()
        y = F.batch_norm(x, running_mean, running_var, gamma, beta, training=training, momentum=0.25, eps=1e-3)
        dx, dgamma, dbeta = torch.autograd.grad(y, (x, gamma, beta), dy)
        for name, v in {"Y": y, "Dx": dx, "Dgamma": dgamma, "Dbeta": dbeta}.items():
            write("k" + kind + name, v)
        if training:
            write("kBatchRunningMean", running_mean)
            write("kBatchRunningVar", running_var)


def pools():
    out.append("\n// Pooling of (2, 5, 6) pixels of 3 channels with many ties, all below 0; maximum: 3 x 3, stride 2, padding 1.\n")
    x = leaf(eighths(2, 3, 5, 6, low=-4, high=-1))
    y, place = F.max_pool2d(x, 3, stride=2, padding=1, return_indices=True)
    dy = eighths(*y.shape)
    write("kPoolX", x)
    write("kMaxY", y)
    write("kMaxAt", place)  # h W + w of the input
    write("kMaxDy", dy)
    write("kMaxDx", torch.autograd.grad(y, x, dy)[0])
    y = F.adaptive_avg_pool2d(x, 1)
    dy = eighths(*y.shape)
    write("kAvgY", y)
    write("kAvgDy", dy)
    write("kAvgDx", torch.autograd.grad(y, x, dy)[0])


def add_relu():
    out.append("\n// relu(x + y) and the gradient of both.\n")
    x, y, dy = leaf(eighths(17)), leaf(eighths(17)), eighths(17)
    z = F.relu(x + y)
    dx, dx2 = torch.autograd.grad(z, (x, y), dy)
    assert torch.equal(dx, dx2)
    for name, v in {"X": x, "Y": y, "Out": z, "Dy": dy, "Dx": dx}.items():
        write("kAddRelu" + name, v)


def optimisers():
    out.append("\n// Three steps: the parameters and three gradients, then the parameters after every step.\n")
    start, grads = eighths(9), [eighths(9) for _ in range(3)]
    write("kStart", start)
    write("kGrads", torch.stack(grads))
    kinds = {
        "Sgd": lambda p: torch.optim.SGD(p, lr=0.125, momentum=0.75, weight_decay=0.0625),
        "SgdPlain": lambda p: torch.optim.SGD(p, lr=0.125),
        "Adam": lambda p: torch.optim.Adam(p, lr=0.125, betas=(0.75, 0.875), eps=2.0**-20, weight_decay=0.0625),
    }
    for name, make in kinds.items():
        x, steps = leaf(start), []
        optimiser = make([x])
        for g in grads:
            x.grad = g.clone()
            optimiser.step()
            steps.append(x.detach().clone())
        write(f"k{name}Steps", torch.stack(steps))


def main():
    for part in (batchnorm, pools, add_relu, optimisers):
        part()
    head = "// network_ops.h -- made by tests/golden/network_ops.py with PyTorch " + torch.__version__.split("+")[0] + ".\n"
    head += "#pragma once\n#include <vector>\n\nnamespace golden {\n"
    pathlib.Path(__file__).with_suffix(".h").write_text(head + "".join(out) + "\n}  // namespace golden\n")


if __name__ == "__main__":
    main()

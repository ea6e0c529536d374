#!/usr/bin/env python3
"""Residual networks by PyTorch, in double: tests/golden/resnet.h.

usage: tests/golden/resnet.py > tests/golden/resnet.h            (needs torch; made with 2.13)

Weights and images are no random numbers but a hash of their place, which tests/test_resnet.cpp computes too, so no weights
are stored.  Of each network: logits by running statistics; then a step of training (batch statistics): the loss, and for
every stage the sums of g h and g^2 over the gradients g of its parameters, h being another hash; then one step of Adam with a
large eps, and the sum of (x' - x) h over the parameters of each stage.
"""
import numpy as np
import torch
from torch import nn

CLASSES, BATCH = 7, 4


def hashed(n, salt):
    """Numbers in [-0.5, 0.5), exact in float32."""
    x = (np.arange(n, dtype=np.uint64) * 2654435761 + salt) & 0xFFFFFFFF
    for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35)):
        x ^= x >> np.uint64(shift)
        x = (x * factor) & 0xFFFFFFFF
    x ^= x >> np.uint64(16)
    return (x >> np.uint64(8)).astype(np.float64) * 2.0**-24 - 0.5


def salt_of(name):
    h = 2166136261
    for c in name.encode():
        h = ((h ^ c) * 16777619) & 0xFFFFFFFF
    return h


class Block(nn.Module):
    def __init__(self, cin, width, stride, bottleneck, stride_first, padded):
        super().__init__()
        self.out = width * 4 if bottleneck else width
        if bottleneck:
            shapes = [(cin, width, 1, stride if stride_first else 1), (width, width, 3, 1 if stride_first else stride),
                      (width, self.out, 1, 1)]
        else:
            shapes = [(cin, width, 3, stride), (width, width, 3, 1)]
        self.n = len(shapes)
        for i, (c, k, size, s) in enumerate(shapes, 1):
            setattr(self, f"conv{i}", nn.Conv2d(c, k, size, s, size // 2, bias=False))
            setattr(self, f"bn{i}", nn.BatchNorm2d(k))
        self.padded = padded and (stride != 1 or cin != self.out)
        self.extra = self.out - cin
        self.stride = stride
        if (stride != 1 or cin != self.out) and not padded:
            self.downsample = nn.Sequential(nn.Conv2d(cin, self.out, 1, stride, bias=False), nn.BatchNorm2d(self.out))
        else:
            self.downsample = None

    def forward(self, x):
        y = x
        for i in range(1, self.n + 1):
            y = getattr(self, f"bn{i}")(getattr(self, f"conv{i}")(y))
            if i < self.n:
                y = torch.relu(y)
        if self.downsample is not None:
            x = self.downsample(x)
        elif self.padded:
            x = nn.functional.pad(x[:, :, ::self.stride, ::self.stride], (0, 0, 0, 0, self.extra // 2, self.extra // 2))
        return torch.relu(y + x)


class ResNet(nn.Module):
    def __init__(self, blocks, cifar, bottleneck=False, stride_first=False, padded=False):
        super().__init__()
        widths = [16, 32, 64] if cifar else [64, 128, 256, 512]
        self.cifar, self.stages = cifar, len(blocks)
        self.conv1 = nn.Conv2d(3, widths[0], 3 if cifar else 7, 1 if cifar else 2, 1 if cifar else 3, bias=False)
        self.bn1 = nn.BatchNorm2d(widths[0])
        cin = widths[0]
        for s, (n, w) in enumerate(zip(blocks, widths), 1):
            layer = []
            for i in range(n):
                layer.append(Block(cin, w, 2 if s > 1 and i == 0 else 1, bottleneck, stride_first, padded))
                cin = layer[-1].out
            setattr(self, f"layer{s}", nn.Sequential(*layer))
        self.fc = nn.Linear(cin, CLASSES)

    def forward(self, x):
        x = torch.relu(self.bn1(self.conv1(x)))
        if not self.cifar:
            x = nn.functional.max_pool2d(x, 3, 2, 1)
        for s in range(1, self.stages + 1):
            x = getattr(self, f"layer{s}")(x)
        return self.fc(x.mean((2, 3)))


def fill(net):
    """Filters keep the variance; the last gamma of a block is small, so that a deep network does not grow."""
    for name, v in net.state_dict().items():
        if name.endswith("num_batches_tracked"):
            continue
        h = hashed(v.numel(), salt_of(name))
        if v.dim() == 4:
            scale = np.float32(np.sqrt(24.0 / (v.shape[1] * v.shape[2] * v.shape[3])))
            h = h * float(scale)
        elif name.endswith("running_var"):
            h = h + 1.0
        elif name.endswith("weight") and v.dim() == 1:
            h = h * 0.5 + (0.25 if is_last_of_block(net, name) else 1.0)
        elif v.dim() == 2:
            h = h * 0.25
        v.copy_(torch.from_numpy(h.astype(np.float32).astype(np.float64)).reshape(v.shape))


def is_last_of_block(net, name):
    parts = name.split(".")
    return parts[0].startswith("layer") and parts[2] == f"bn{getattr(net, parts[0])[0].n}"


def stage_of(net, name):
    if name.startswith("layer"):
        return int(name[5])
    return net.stages + 1 if name.startswith("fc") else 0


def golden(name, net, size):
    net = net.double()
    with torch.no_grad():
        fill(net)
    x = torch.from_numpy(hashed(BATCH * 3 * size * size, salt_of("images")) * 4).reshape(BATCH, 3, size, size)
    y = torch.arange(BATCH) % CLASSES
    net.eval()
    logits = net(x).detach().numpy().ravel()
    net.train()
    adam = torch.optim.Adam(net.parameters(), lr=1e-2, eps=1e-3)
    before = {n: p.detach().clone() for n, p in net.named_parameters()}
    loss = nn.functional.cross_entropy(net(x), y)
    loss.backward()
    adam.step()
    dots, squares, moves = ([0.0] * (net.stages + 2) for _ in range(3))
    for n, p in net.named_parameters():
        h = torch.from_numpy(hashed(p.numel(), salt_of("h" + n))).reshape(p.shape)
        s = stage_of(net, n)
        dots[s] += (p.grad * h).sum().item()
        squares[s] += (p.grad**2).sum().item()
        moves[s] += ((p.detach() - before[n]) * h).sum().item()
    text = lambda v: "{" + ", ".join(f"{float(a):.9g}" for a in v) + "}"
    print(f'    {{"{name}", {size}, {loss.item():.12g},\n     {text(logits)},\n     {text(dots)},\n     {text(squares)},\n     {text(moves)}}},')


def main():
    print("// Residual networks by PyTorch (tests/golden/resnet.py); generated, do not edit.")
    print("#pragma once\n#include <vector>\n\nnamespace golden {\n")
    print("struct ResNetNumbers {\n    const char* name;\n    int size;  // of the images\n    double loss;\n"
          "    std::vector<double> logits, gradient_dots, gradient_squares, moves;\n};\n")
    print("// clang-format off\nconst std::vector<ResNetNumbers> kResNets = {")
    big = dict(cifar=False, bottleneck=True)
    nets = [("resnet18", ResNet([2, 2, 2, 2], False), 64), ("resnet34", ResNet([3, 4, 6, 3], False), 64),
            ("resnet50", ResNet([3, 4, 6, 3], **big), 64),
            ("resnet50:he", ResNet([3, 4, 6, 3], stride_first=True, **big), 64),
            ("resnet101", ResNet([3, 4, 23, 3], **big), 64), ("resnet152", ResNet([3, 8, 36, 3], **big), 64)]
    nets += [(f"resnet{6 * n + 2}", ResNet([n, n, n], True), 16) for n in (3, 5, 7, 9, 18)]
    nets += [("resnet20:a", ResNet([3, 3, 3], True, padded=True), 16)]
    for name, net, size in nets:
        golden(name, net, size)
    print("};\n// clang-format on\n\n}  // namespace golden")


if __name__ == "__main__":
    main()

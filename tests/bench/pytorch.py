#!/usr/bin/env python3
"""LoCal and PyTorch side by side on this machine's CPU: one epoch of LoCal Net, and the kernel estimate.

usage: python3 tests/bench/pytorch.py [--bench FOLDER] [--quick]    needs PyTorch (pip install torch==2.13.0) and `make bench` built before

    epoch   n = 10,000, d = 2048, H = 64, k = 50, C = 10, batch 1024, Adam: in PyTorch with all differences of a batch as one
            (B, B, k) array, as code that follows the formula does, and with distances by a matrix product
    theta   n = 20,000, d = 50, C = 10, leave one out, in blocks of 2,000 queries by a matrix product

The programs take turns, each keeps its best time; the ratios are PyTorch's time over ours.
"""
import argparse
import json
import pathlib
import subprocess
import sys
import time

try:
    import torch
except ImportError:
    sys.exit("pytorch.py: PyTorch is not installed; `pip install torch==2.13.0` brings the build these numbers were made with")

N, D, H, K, C, BATCH, GAMMA = 10_000, 2048, 64, 50, 10, 1024, 10.0


class LocalNet(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.hidden = torch.nn.Linear(D, H)
        self.to_z = torch.nn.Linear(H, K)
        self.to_g = torch.nn.Linear(H, C)
        self.w = torch.nn.Parameter(torch.ones(2))
        self.b = torch.nn.Parameter(0.01 * torch.randn(2))
        for layer in (self.hidden, self.to_z, self.to_g):
            torch.nn.init.normal_(layer.weight, 0, 0.01)

    def forward(self, phi, z, g):
        h = torch.nn.functional.dropout(torch.relu(self.hidden(phi)), 0.3, self.training)
        return (self.to_z(h) + self.w[0] * z + self.b[0], self.to_g(h) + self.w[1] * g + self.b[1])


def squares_by_broadcast(z):
    return (z[:, None, :] - z[None, :, :]).pow(2).sum(-1)


def squares_by_product(z):
    norm = z.pow(2).sum(1)
    return (norm[:, None] + norm[None, :] - 2 * z @ z.T).clamp_min(0)


def loss_of(z, g, labels, squares):
    score = -squares(z) / (2 * GAMMA ** 2)
    score = score.masked_fill(torch.eye(len(z), dtype=torch.bool), float("-inf"))
    theta = torch.softmax(score, 1) @ torch.nn.functional.one_hot(labels, C).float()
    p = torch.softmax(g, 1)
    m = (p + theta) / 2
    js = 0.5 * (torch.xlogy(p, p / m) + torch.xlogy(theta, theta / m)).sum(1)
    ce = -torch.log(theta.gather(1, labels[:, None]).clamp_min(1e-8))
    return torch.sqrt(js + 1e-12).mean() + ce.mean()


def epoch_seconds(data, squares):
    phi, z, g, labels = data
    net = LocalNet()
    adam = torch.optim.Adam(net.parameters(), 1e-3)
    order = torch.randperm(N)
    start = time.perf_counter()
    for begin in range(0, N, BATCH):
        rows = order[begin:begin + BATCH]
        out_z, out_g = net(phi[rows], z[rows], g[rows])
        adam.zero_grad()
        loss_of(out_z, out_g, labels[rows], squares).backward()
        adam.step()
    return time.perf_counter() - start


def theta_seconds(n=20_000, block=2_000):
    z, labels = torch.randn(n, K), torch.randint(0, C, (n,))
    one_hot = torch.nn.functional.one_hot(labels, C).float()
    norm = z.pow(2).sum(1)
    start = time.perf_counter()
    for begin in range(0, n, block):
        q = z[begin:begin + block]
        score = -(norm[begin:begin + block, None] + norm[None, :] - 2 * q @ z.T).clamp_min(0) / (2 * GAMMA ** 2)
        score[torch.arange(len(q)), torch.arange(begin, begin + len(q))] = float("-inf")
        torch.softmax(score, 1) @ one_hot
    return time.perf_counter() - start


def ours(folder):
    done = subprocess.run([folder / "local_net", "--json"], capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"pytorch.py: {folder / 'local_net'} failed; build it with `make bench`\n{done.stderr}")
    return json.loads(done.stdout)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    root = pathlib.Path(__file__).resolve().parents[2]
    found = [p for p in (root / "build/release/cuda/bench", root / "build/release/cpu/bench") if (p / "local_net").exists()]
    parser.add_argument("--bench", type=pathlib.Path, default=found[0] if found else None, help="folder of the benchmark programs")
    parser.add_argument("--quick", action="store_true", help="one turn")
    args = parser.parse_args()
    if args.bench is None:
        sys.exit("pytorch.py: the benchmark programs are not built; run `make bench` first")
    torch.manual_seed(0)
    data = (torch.randn(N, D), torch.randn(N, K), torch.randn(N, C), torch.randint(0, C, (N,)))
    best = {}

    def turn(name, seconds):
        best[name] = min(best.get(name, 1e30), seconds)

    for _ in range(1 if args.quick else 3):
        own = ours(args.bench)
        turn("epoch", own["epoch_seconds"])
        turn("theta", own["theta_seconds"])
        turn("epoch, products", epoch_seconds(data, squares_by_product))
        turn("epoch, broadcast", epoch_seconds(data, squares_by_broadcast))
        turn("theta, blocks", theta_seconds())
    print(f"PyTorch {torch.__version__}, {torch.get_num_threads()} threads")
    print(f"{'':34}{'PyTorch s':>12}{'LoCal s':>12}{'ratio':>9}")
    for label, peer, own in (("LN epoch, (B, B, k) broadcast", "epoch, broadcast", "epoch"),
                             ("LN epoch, distances by products", "epoch, products", "epoch"),
                             ("theta, n = 20,000, in blocks", "theta, blocks", "theta")):
        print(f"{label:34}{best[peer]:12.3f}{best[own]:12.3f}{best[peer] / best[own]:8.1f}x")


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""LoCal and PyTorch side by side on this machine's CPU: one epoch of LoCal Net, the kernel estimate, the local calibration error.

usage: python3 tests/bench/pytorch.py [--bench FOLDER] [--quick] [--full]    needs PyTorch (pip install torch==2.13.0) and `make bench` built before

    epoch   n = 10,000, d = 2048, H = 64, k = 50, C = 10, batch 1024, Adam: in PyTorch with all differences of a batch as one
            (B, B, k) array, as code that follows the formula does, and with distances by a matrix product
    theta   n = 20,000, d = 50, C = 10, leave one out, in blocks of 2,000 queries by a matrix product
    LCE     n = 10,000, d = 50, C = 10 and 100, gamma = 10, bins of more than 20 rows: in PyTorch class by class and bin by bin, as
            code that follows the formula does, and with one (n, n) matrix of weights for all classes.  Bin by bin, a hundred
            classes take minutes: every tenth is timed and the time multiplied by ten, unless --full is given.  All see the same
            numbers: outputs of real classifiers from the folder LOCALCAL_DATA names, else made up as in local_error.cpp beside.
            The results have to agree to 5e-6.

The programs take turns, each keeps its best time; the ratios are PyTorch's time over ours.
"""
import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

try:
    import numpy
    import torch
except ImportError:
    sys.exit("pytorch.py: PyTorch or NumPy is not installed; `pip install torch==2.13.0 numpy` brings the build these numbers were made with")

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


class Rows:
    """What is scored: reduced features z (n, 50), logits (n, classes), labels (n)."""

    def __init__(self, classes):
        folder, name = os.environ.get("LOCALCAL_DATA"), {10: "cifar10_resnet20", 100: "cifar100_resnet56"}[classes]
        if folder:
            self.source = name
            arrays = numpy.load(pathlib.Path(folder) / f"dumps/{name}_test.npz")
            self.logits, self.labels = torch.from_numpy(arrays["logits"]).float(), torch.from_numpy(arrays["labels"]).long()
            x = torch.from_numpy(arrays["features"]).double()
            x = (x - x.mean(0)) / x.std(0, unbiased=False)
            self.z = (x @ torch.linalg.eigh(x.T @ x)[1][:, -K:]).float()
        else:
            self.source = "made up"
            self.labels = torch.randint(0, classes, (N,))
            self.logits = 2.5 * torch.randn(N, classes) + 8.5 * torch.nn.functional.one_hot(self.labels, classes)
            self.z = torch.randn(N, K) + 0.5 * torch.randn(classes, K)[self.labels]
        p = torch.softmax(self.logits.double(), 1)
        edges = torch.arange(16, dtype=torch.double) / 15
        self.bins = (torch.bucketize(p, edges, right=True) - 1).clamp_max(14)  # (n, classes): left-closed, the last one closed
        self.residual = p.float() - torch.nn.functional.one_hot(self.labels, classes)

    def save(self, path):
        numpy.savez(path, features=self.z.numpy(), logits=self.logits.numpy(), labels=self.labels.numpy())


def weights_of(z):
    return torch.exp(-torch.cdist(z, z).pow(2) / (2 * GAMMA ** 2))


def lce_by_formula(rows, c):
    errors = [torch.zeros(0)]
    for b in range(15):
        of_bin = (rows.bins[:, c] == b).nonzero()[:, 0]
        if len(of_bin) > 20:
            w = weights_of(rows.z[of_bin])
            errors.append((w @ rows.residual[of_bin, c] / w.sum(1)).abs())
    errors = torch.cat(errors)
    return float(errors.mean()) if len(errors) else 0.0


def lce_by_one_matrix(w, rows, c):
    in_bin = torch.nn.functional.one_hot(rows.bins[:, c], 15).float()  # (n, 15)
    kept = (in_bin.sum(0) > 20)[rows.bins[:, c]]
    sums = w @ torch.cat([in_bin * rows.residual[:, c:c + 1], in_bin], 1)  # (n, 30): of residuals, of weights
    own = rows.bins[:, c:c + 1]
    errors = (sums.gather(1, own) / sums.gather(1, own + 15)).abs()[:, 0][kept]
    return float(errors.mean()) if len(errors) else 0.0


def timed(run):
    start = time.perf_counter()
    result = run()
    return time.perf_counter() - start, result


def compare_lce(folder, classes, full):
    rows = Rows(classes)
    some = range(0, classes, 1 if full or classes <= 10 else 10)
    with tempfile.TemporaryDirectory() as scratch:
        data = pathlib.Path(scratch) / "rows.npz"
        rows.save(data)
        own = [ours(folder / "local_error", "--data", data, "--gamma", str(GAMMA)) for _ in range(2)]
        formula_time, formula = timed(lambda: [lce_by_formula(rows, c) for c in some])

        def one_matrix():
            w = weights_of(rows.z)
            return [lce_by_one_matrix(w, rows, c) for c in range(classes)]
        matrix_time, matrix = timed(one_matrix)
        own.append(ours(folder / "local_error", "--data", data, "--gamma", str(GAMMA)))
    seconds = min(o["seconds"] for o in own)
    by_class = own[0]["lce_by_class"]

    def line(label, peer_seconds, values, of):
        peer, mine = sum(values) / len(of), sum(by_class[c] for c in of) / len(of)
        print(f"{label:40}{peer_seconds:12.3f}{seconds:12.3f}{peer_seconds / seconds:8.1f}x   LCE {peer:.7f} and {mine:.7f}")
        if not abs(peer - mine) <= 5e-6:
            sys.exit(f"pytorch.py: {label}: the two LCE have to agree to 5e-6")
    note = "" if len(some) == classes else f" ({len(some)} x {classes // len(some)})"
    line(f"LCE, C = {classes}, by the formula{note}", formula_time * classes / len(some), formula, some)
    line(f"LCE, C = {classes}, one (n, n) matrix", matrix_time, matrix, range(classes))
    return f"C = {classes}: {rows.source}, {float((rows.bins > 0).sum()) / len(rows.z):.2f} entries of a row outside the lowest bin"


def ours(program, *options):
    done = subprocess.run([program, "--json", *options], capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"pytorch.py: {program} failed; build it with `make bench`\n{done.stderr}")
    return json.loads(done.stdout)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    root = pathlib.Path(__file__).resolve().parents[2]
    found = [p for p in (root / "build/release/cuda/bench", root / "build/release/cpu/bench") if (p / "local_net").exists()]
    parser.add_argument("--bench", type=pathlib.Path, default=found[0] if found else None, help="folder of the benchmark programs")
    parser.add_argument("--quick", action="store_true", help="one turn")
    parser.add_argument("--full", action="store_true", help="LCE by the formula for all of a hundred classes (minutes)")
    args = parser.parse_args()
    if args.bench is None:
        sys.exit("pytorch.py: the benchmark programs are not built; run `make bench` first")
    torch.manual_seed(0)
    data = (torch.randn(N, D), torch.randn(N, K), torch.randn(N, C), torch.randint(0, C, (N,)))
    best = {}

    def turn(name, seconds):
        best[name] = min(best.get(name, 1e30), seconds)

    for _ in range(1 if args.quick else 3):
        own = ours(args.bench / "local_net")
        turn("epoch", own["epoch_seconds"])
        turn("theta", own["theta_seconds"])
        turn("epoch, products", epoch_seconds(data, squares_by_product))
        turn("epoch, broadcast", epoch_seconds(data, squares_by_broadcast))
        turn("theta, blocks", theta_seconds())
    print(f"PyTorch {torch.__version__}, {torch.get_num_threads()} threads")
    print(f"{'':40}{'PyTorch s':>12}{'LoCal s':>12}{'ratio':>9}")
    for label, peer, own in (("LN epoch, (B, B, k) broadcast", "epoch, broadcast", "epoch"),
                             ("LN epoch, distances by products", "epoch, products", "epoch"),
                             ("theta, n = 20,000, in blocks", "theta, blocks", "theta")):
        print(f"{label:40}{best[peer]:12.3f}{best[own]:12.3f}{best[peer] / best[own]:8.1f}x")
    for note in [compare_lce(args.bench, classes, args.full) for classes in (10, 100)]:
        print(note)


if __name__ == "__main__":
    main()

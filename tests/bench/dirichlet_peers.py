#!/usr/bin/env python3
"""Dirichlet calibration with its search for lambda: localcal against the same search by SciPy's L-BFGS on NumPy.

    python3 tests/bench/dirichlet_peers.py [--data FILE.npz --rows 0:5000] [--localcal build/bin/localcal] [--lambdas 7] [--folds 5]

Without --data: 5,000 made-up rows of 100 classes.  Both fit 5 folds along lambda = mu = 10^2 .. 10^-4, each fit starting where
the last one ended; localcal goes on to stronger penalties where 10^2 wins, then fits all rows with the best.  --lambdas and
--folds let the peer do a part of it, which is counted as such.  --ftol is when the peer stops: by default where localcal's
search does, at a gain of 1e-6 of the value (SciPy's own default, 2.2e-9, takes longer).  Needs NumPy and SciPy.
"""
import argparse
import json
import pathlib
import subprocess
import tempfile
import time

import numpy as np
from scipy.optimize import minimize

TINY = np.finfo(np.float32).tiny


def made_up(n, C):
    r = np.random.default_rng(1)
    g = r.normal(size=(n, C))
    y = r.integers(0, C, size=n)
    g[np.arange(n), np.where(r.random(n) < 0.8, y, r.integers(0, C, size=n))] += 8
    return g.astype(np.float32), y


class Loss:
    def __init__(self, x, y, lam):
        self.x, self.y, self.C, self.lam, self.calls = x, y, x.shape[1] - 1, lam, 0
        self.weight = np.full((self.C, self.C + 1), lam / (self.C * (self.C - 1)))
        np.fill_diagonal(self.weight, 0)
        self.weight[:, -1] = lam / self.C

    def __call__(self, theta):
        self.calls += 1
        t = theta.reshape(self.C, self.C + 1)
        l = self.x @ t.T
        l -= l.max(axis=1, keepdims=True)
        p = np.exp(l)
        s = p.sum(axis=1, keepdims=True)
        rows = np.arange(len(self.y))
        value = float((np.log(s[:, 0]) - l[rows, self.y]).mean())
        p /= s
        p[rows, self.y] -= 1
        gradient = p.T @ self.x / len(self.y) + 2 * self.weight * t
        return value + float((self.weight * t * t).sum()), gradient.ravel()


def peer(x, y, lambdas, folds, ftol):
    """Mean held-out log-loss per lambda over the first `folds` of five, and how often the loss was evaluated."""
    C, scores, calls = x.shape[1] - 1, np.zeros(len(lambdas)), 0
    for fold in range(folds):
        held = np.arange(len(y)) % 5 == fold
        theta = np.eye(C, C + 1).ravel()
        for k, lam in enumerate(lambdas):
            loss = Loss(x[~held], y[~held], lam)
            theta = minimize(loss, theta, jac=True, method="L-BFGS-B", options={"maxiter": 3000, "maxfun": 10000, "ftol": ftol}).x
            scores[k] += Loss(x[held], y[held], 0)(theta)[0] / folds
            calls += loss.calls
            print(f"  peer: fold {fold}, lambda {lam:g}, {loss.calls} evaluations", flush=True)
    return scores, calls


def main():
    a = argparse.ArgumentParser()
    a.add_argument("--data")
    a.add_argument("--rows", default="0:5000")
    a.add_argument("--localcal", default="build/bin/localcal")
    a.add_argument("--lambdas", type=int, default=7)
    a.add_argument("--folds", type=int, default=5, help="how many of the five folds the peer fits")
    a.add_argument("--ftol", type=float, default=1e-6)
    o = a.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        if not o.data:
            g, y = made_up(5000, 100)
            o.data = str(pathlib.Path(folder) / "rows.npz")
            np.savez(o.data, logits=g, labels=y)
        command = [o.localcal, "fit", "--method", "dc", "--data", o.data, "--rows", o.rows, "--json", "--quiet", "-o", f"{folder}/m"]
        ours = json.loads(subprocess.run(command, check=True, text=True, capture_output=True).stdout)
        arrays = np.load(o.data)
    begin, end = map(int, o.rows.split(":"))
    y = (arrays["labels"] if "labels" in arrays else arrays["ground_truth"])[begin:end].astype(int).ravel()
    if "logits" in arrays:
        g = arrays["logits"][begin:end].astype(float)
        z = g - g.max(axis=1, keepdims=True)
        z -= np.log(np.exp(z).sum(axis=1, keepdims=True))
    else:
        z = np.log(np.maximum((arrays["probs"] if "probs" in arrays else arrays["predictions"])[begin:end].astype(float), TINY))
    x = np.hstack([np.maximum(z, np.log(TINY)), np.ones((len(y), 1))])
    order = np.lexsort((*z.T[::-1], y))
    print(f"localcal: {ours['seconds']:.1f} s, lambda {ours['lambda']:g}, objective {ours['objective']:.6f}\n  curve {ours['curve']}", flush=True)
    lambdas = 10.0 ** np.arange(2, -5, -1)[: o.lambdas]
    started = time.time()
    scores, calls = peer(x[order], y[order], lambdas, o.folds, o.ftol)
    seconds = time.time() - started
    fits = len(lambdas) * o.folds
    print(f"SciPy: {seconds:.1f} s for {fits} of 35 fits, {calls} evaluations: {seconds / fits:.2f} s a fit")
    ours_fits = 5 * len(ours["curve"].split(",")) + 1
    print(f"localcal: {ours['seconds']:.1f} s for {ours_fits} fits: {ours['seconds'] / ours_fits:.2f} s a fit, {seconds / fits * ours_fits / ours['seconds']:.0f} times faster")
    print("  curve " + ", ".join(f"{l:g}: {s:.6g}" for l, s in zip(lambdas, scores)))


if __name__ == "__main__":
    main()

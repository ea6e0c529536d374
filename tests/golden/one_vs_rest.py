#!/usr/bin/env python3
"""Writes tests/golden/one_vs_rest.h: what scikit-learn makes of small inputs.  usage: tests/golden/one_vs_rest.py

Probabilities are multiples of 1/32, so that there are ties, zeros and ones, and so that C++ and Python read the same
numbers.  Rows are normalised as sklearn.calibration does.
"""
import pathlib

import numpy as np
import sklearn
from sklearn.isotonic import IsotonicRegression
from sklearn.linear_model import LogisticRegression

C, PARTS = 3, 32


def rows(rng, n):
    p = rng.dirichlet([0.7] * C, n)
    counts = np.array([rng.multinomial(PARTS, row) for row in p])
    labels = np.array([rng.choice(C, p=row) for row in 0.6 * p + 0.4 / C])
    return counts, labels


def isotonic(cal, y, test):
    return IsotonicRegression(out_of_bounds="clip").fit(cal, y).predict(test)


def log_odds(p):
    p = np.clip(p, 1e-12, 1 - 1e-12)
    return np.log(p) - np.log1p(-p)


def logistic(x, target, at, C):
    """Targets between 0 and 1 are a row of either kind, weighted."""
    model = LogisticRegression(C=C, solver="newton-cholesky", tol=1e-12, max_iter=1000)
    both = np.concatenate([x, x]), np.repeat([1, 0], len(x)), np.concatenate([target, 1 - target])
    return model.fit(both[0], both[1], sample_weight=both[2]).predict_proba(at)[:, 1]


def platt_targets(y):
    yes, no = y.sum(), (1 - y).sum()
    return np.where(y == 1, (yes + 1) / (yes + 2), 1 / (no + 2))


def one_vs_rest(f, cal, labels, test):
    q = np.stack([f(cal, (labels == c).astype(float), test, c) for c in range(C)], axis=1)
    total = q.sum(axis=1, keepdims=True)
    return np.where(total == 0, 1 / C, q / np.where(total == 0, 1, total))


METHODS = {
    "Ir": lambda cal, y, test, c: isotonic(cal[:, c], y, test[:, c]),
    "Ps": lambda cal, y, test, c: logistic(log_odds(cal[:, [c]]), platt_targets(y), log_odds(test[:, [c]]), np.inf),
    "PsPlain": lambda cal, y, test, c: logistic(log_odds(cal[:, [c]]), y, log_odds(test[:, [c]]), np.inf),
    "PsAuthors": lambda cal, y, test, c: logistic(cal, y, test, 1.0),
}


def array(name, kind, values):
    return f"const std::vector<{kind}> {name} = {{{', '.join(str(v) for v in np.ravel(values).tolist())}}};\n"


def main():
    rng = np.random.default_rng(6)
    cal, labels = rows(rng, 80)
    test, _ = rows(rng, 20)
    out = "// one_vs_rest.h -- made by tests/golden/one_vs_rest.py with scikit-learn " + sklearn.__version__ + ".\n"
    out += "#pragma once\n#include <cstdint>\n#include <vector>\n\nnamespace golden {\n\n"
    out += "// Probabilities in 32nds.\n" + array("kCal", "double", cal) + array("kLabels", "int32_t", labels)
    out += array("kTest", "double", test) + "\n// Calibrated rows of kTest.\n"
    for name, f in METHODS.items():
        out += array("k" + name, "double", one_vs_rest(f, cal / PARTS, labels, test / PARTS))
    # Scores down to 1e-9 in float32: those closer than 1e-6 are one point.
    x = (10 ** rng.uniform(-9, 0, 60)).astype(np.float32)
    y = (rng.uniform(size=60) < 0.2 + 0.6 * x).astype(np.float32)
    at = (10 ** rng.uniform(-9, 0, 25)).astype(np.float32)
    out += "\n// Isotonic regression of float32 scores.\n" + array("kFloatX", "double", x) + array("kFloatY", "double", y)
    out += array("kFloatAt", "double", at) + array("kFloatMap", "double", isotonic(x, y, at))
    out += "\n}  // namespace golden\n"
    pathlib.Path(__file__).with_suffix(".h").write_text(out)


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""A classifier that is right on the whole and wrong in places: validation.npz and test.npz, made up.

usage: python3 docs/example.py [FOLDER]        needs nothing but Python; the numbers in the documents are made with it

A row has 4 normal features and one of 3 classes.  Class 0 is likelier where the first feature is positive, and less likely where it
is negative.  The model knows all of this except the first feature, so it says the mean of both cases: among all the rows to
which it gives 70 % to a class, 70 % are of that class, but around a row they are fewer or more, depending on where it is.
"""
import math
import pathlib
import random
import struct
import sys
import zipfile

ROWS, FEATURES, CLASSES = 4000, 4, 3
STEP = 1.5  # what the sign of the first feature adds to the logit of class 0


def posterior(x, step):
    e = [math.exp(1.5 * x[1] + step), math.exp(1.5 * x[2]), math.exp(1.5 * x[3])]
    return [v / sum(e) for v in e]


def make_rows(seed):
    r = random.Random(seed)
    features, logits, labels = [], [], []
    for _ in range(ROWS):
        x = [r.gauss(0, 1) for _ in range(FEATURES)]
        labels += r.choices(range(CLASSES), posterior(x, STEP if x[0] > 0 else -STEP))
        features += x
        logits += [math.log((a + b) / 2) for a, b in zip(posterior(x, STEP), posterior(x, -STEP))]
    return features, logits, labels


def npy(kind, code, shape, values):
    header = f"{{'descr': '{kind}', 'fortran_order': False, 'shape': {shape}, }}"
    header += " " * (63 - (10 + len(header)) % 64) + "\n"  # the data begin at a multiple of 64
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode() + struct.pack(f"<{len(values)}{code}", *values)


def main():
    folder = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ".")
    for name, seed in (("validation", 1), ("test", 4)):
        features, logits, labels = make_rows(seed)
        with zipfile.ZipFile(folder / f"{name}.npz", "w") as z:
            z.writestr("features.npy", npy("<f4", "f", (ROWS, FEATURES), features))
            z.writestr("logits.npy", npy("<f4", "f", (ROWS, CLASSES), logits))
            z.writestr("labels.npy", npy("<i8", "q", (ROWS,), labels))
        print(f"{name}.npz: {ROWS} rows, {FEATURES} features, {CLASSES} classes")


if __name__ == "__main__":
    main()

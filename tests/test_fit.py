"""localcal fit and apply as a user meets them: files in, files out, interruptions, and what is refused.

    LOCALCAL=path/to/localcal python3 tests/test_fit.py        default: build/bin/localcal
"""
import ast
import json
import math
import os
import pathlib
import random
import signal
import struct
import subprocess
import sys
import tempfile
import time
import unittest
import zipfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests/fuzz"))
import seeds  # writes .npy, .npz and .safetensors with the standard library alone

LOCALCAL = os.environ.get("LOCALCAL", str(ROOT / "build/bin/localcal"))
QUICK = ["--epochs", "4", "--batch", "64", "--fit-gamma", "1.5"]


def clouds(n, seed):
    """Three clouds in four dimensions: features, logits and labels as lists of rows."""
    r = random.Random(seed)
    labels = [i % 3 for i in range(n)]
    features = [[r.gauss(3.0 if c == y else 0.0, 1) for c in range(4)] for y in labels]
    logits = [[r.gauss(2.0 if c == y else 0.0, 1) for c in range(3)] for y in labels]
    return features, logits, labels


def floats(rows):
    flat = [x for row in rows for x in row]
    return seeds.npy("<f4", (len(rows), len(rows[0])), struct.pack(f"<{len(flat)}f", *flat))


def whole(values):
    return seeds.npy("<i8", (len(values),), struct.pack(f"<{len(values)}q", *values))


def read_npz(path):
    """Name -> (shape, flat values) of an .npz that localcal wrote."""
    arrays = {}
    with zipfile.ZipFile(path) as z:
        assert z.testzip() is None
        for name in z.namelist():
            raw = z.read(name)
            end = 10 + struct.unpack("<H", raw[8:10])[0]
            header = ast.literal_eval(raw[10:end].decode())
            code = {"<f4": "f", "<i8": "q", "|u1": "B"}[header["descr"]]
            arrays[name.removesuffix(".npy")] = (header["shape"], struct.unpack(f"<{(len(raw) - end) // struct.calcsize(code)}{code}", raw[end:]))
    return arrays


class FitTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def path(self, name):
        return str(self.folder / name)

    def data(self, name="cal.npz", n=150, seed=1, change=lambda f, g, y: None, **other):
        f, g, y = clouds(n, seed)
        change(f, g, y)
        arrays = {"features": floats(f), "logits": floats(g), "labels": whole(y)}
        arrays.update(other)
        (self.folder / name).write_bytes(seeds.npz(zipfile.ZIP_STORED, arrays))
        return self.path(name)

    def run_localcal(self, *args, **options):
        return subprocess.run([LOCALCAL, *args], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120, **options)

    def good(self, *args):
        p = self.run_localcal(*args)
        self.assertEqual(p.returncode, 0, (args, p.stderr))
        return p.stdout

    def refused(self, *args):
        before = set(os.listdir(self.folder))
        p = self.run_localcal(*args)
        self.assertEqual((p.returncode, p.stdout), (2, ""), (args, p.stderr))
        self.assertRegex(p.stderr, r"\Alocalcal: [^\n]+\n\Z", args)
        self.assertEqual(set(os.listdir(self.folder)), before, "nothing half-written stays behind")
        return p.stderr


class Fit(FitTest):
    def test_fit_and_apply(self):
        cal, test = self.data(), self.data("test.npz", n=40, seed=2)
        for method in ("ln:paper", "kc:paper", "ko:paper", "ln:authors"):
            text = self.good("fit", "--method", method, "--data", cal, "-o", self.path("m"), *QUICK)
            self.assertIn(method, text.splitlines()[0])
            self.good("apply", self.path("m"), "--data", test, "-o", self.path("out.npz"))
            arrays = read_npz(self.path("out.npz"))
            shape, p = arrays["probs"]
            self.assertEqual((shape, arrays["features"][0]), ((40, 3), (40, 4)))
            for i in range(40):
                self.assertAlmostEqual(sum(p[3 * i:3 * i + 3]), 1, places=5)
            right = sum(max(range(3), key=lambda c: p[3 * i + c]) == i % 3 for i in range(40))
            self.assertGreater(right, 30, method)

    def test_methods_without_features(self):
        cal, test = self.data(), self.data("test.npz", n=40, seed=2)
        _, g, y = clouds(150, 1)
        (self.folder / "g.npy").write_bytes(floats(g))
        (self.folder / "y.npy").write_bytes(whole(y))
        for method in ("nc", "ts", "ts:authors", "vs", "ms", "dc", "dc:authors", "dirichlet"):
            self.good("fit", "--method", method, "--logits", self.path("g.npy"), "--labels", self.path("y.npy"), "-o", self.path("m"))
            self.good("apply", self.path("m"), "--data", test, "-o", self.path("out.npz"))
            arrays = read_npz(self.path("out.npz"))
            self.assertEqual(list(arrays), ["probs"])
            shape, p = arrays["probs"]
            self.assertEqual(shape, (40, 3))
            for i in range(40):
                self.assertAlmostEqual(sum(p[3 * i:3 * i + 3]), 1, places=5)
        j = json.loads(self.good("fit", "--method", "temp-scaling", "--data", cal, "-o", self.path("m"), "--json"))
        self.assertEqual(j["method"], "ts")
        self.assertGreater(j["temperature"], 0)
        self.assertIn("converged", j["ended"])
        j = json.loads(self.good("fit", "--method", "dc", "--data", cal, "-o", self.path("m"), "--json", "--grid", "square", "--folds", "3"))
        self.assertGreaterEqual(j["curve"].count(","), 48)
        self.assertEqual(j["options"]["folds"], "3")
        self.assertIn("expected a method", self.refused("fit", "--method", "xx", "--data", cal, "-o", self.path("n")))
        self.assertIn("of ts", self.refused("fit", "--method", "ts", "--folds", "3", "--data", cal, "-o", self.path("n")))

    def test_apply_needs_no_labels_and_takes_separate_files(self):
        f, g, _ = clouds(30, 2)
        for name, rows in (("f.npy", f), ("g.npy", g)):
            (self.folder / name).write_bytes(floats(rows))
        self.good("fit", "--method", "ln:paper", "--data", self.data(), "-o", self.path("m"), *QUICK)
        self.good("apply", self.path("m"), "--features", self.path("f.npy"), "--logits", self.path("g.npy"), "-o", self.path("o.npz"))
        both = read_npz(self.path("o.npz"))
        self.good("apply", self.path("m"), "--features", self.path("f.npy"), "--logits", self.path("g.npy"), "--rows", "29:30",
                  "-o", self.path("o.npz"))
        one = read_npz(self.path("o.npz"))
        self.assertEqual(one["probs"][0], (1, 3))
        for a, b in zip(one["probs"][1], both["probs"][1][-3:]):
            self.assertAlmostEqual(a, b, places=5)

    def test_the_same_seed_gives_the_same_file_for_any_number_of_threads(self):
        cal = self.data()
        models = []
        for seed, threads in (("1", "1"), ("1", "2"), ("2", "2")):
            self.good("fit", "--method", "ln:paper", "--data", cal, "-o", self.path("m"), *QUICK, "--seed", seed, "--threads", threads)
            models.append((self.folder / "m").read_bytes())
        self.assertEqual(models[0], models[1])
        self.assertNotEqual(models[1], models[2])

    def test_json(self):
        out = self.good("fit", "--method", "ln", "--preset", "paper", "--data", self.data(), "-o", self.path("m"), "--json", *QUICK)
        j = json.loads(out)
        self.assertEqual((j["schema"], j["method"], j["n"], j["classes"]), ("localcal.fit/1", "ln:paper", 150, 3))
        self.assertEqual((j["gamma"], j["epochs"], j["ended"]), (1.5, 4, "all epochs done"))
        self.assertTrue(math.isfinite(j["objective"]))
        self.assertEqual((j["options"]["js"], j["options"]["hidden"]), ("categorical", "64"))
        applied = json.loads(self.good("apply", self.path("m"), "--data", self.path("cal.npz"), "-o", self.path("o.npz"), "--json"))
        self.assertEqual((applied["schema"], applied["n"]), ("localcal.apply/1", 150))

    def test_auto(self):
        p = self.run_localcal("fit", "--method", "ln", "--data", self.data(n=300), "-o", self.path("m"), "--json", "--epochs", "8")
        self.assertEqual(p.returncode, 0, p.stderr)
        j = json.loads(p.stdout)
        self.assertEqual(j["method"], "ln:auto")
        self.assertGreater(j["temperature"], 0)
        self.assertIn("temperature scaling", j["verdict"])
        self.assertIn("note: ", p.stderr)

    def test_choices_from_a_configuration_file(self):
        (self.folder / "c.toml").write_text('hidden = 8\nstop = "nll"\n')
        out = self.good("fit", "--method", "kc:paper", "--config", self.path("c.toml"), "--data", self.data(), "-o", self.path("m"),
                        "--json", *QUICK)
        self.assertEqual([json.loads(out)["options"][k] for k in ("hidden", "stop")], ["8", "nll"])

    def test_probabilities_serve_as_logits(self):
        f, g, y = clouds(150, 1)
        softmax = [[math.exp(x) / sum(map(math.exp, row)) for x in row] for row in g]
        arrays = {"features": floats(f), "probs": floats(softmax), "labels": whole(y)}
        (self.folder / "p.npz").write_bytes(seeds.npz(zipfile.ZIP_DEFLATED, arrays))
        self.good("fit", "--method", "ln:paper", "--data", self.path("p.npz"), "-o", self.path("m"), *QUICK)


class Interrupted(FitTest):
    def test_a_killed_fit_goes_on_bit_for_bit(self):
        cal = self.data(n=600)
        fit = ["fit", "--method", "ln:paper", "--data", cal, "--epochs", "300", "--batch", "64", "--fit-gamma", "1.5"]
        self.good(*fit, "-o", self.path("whole"))
        checkpoint = self.folder / "state"
        process = subprocess.Popen([LOCALCAL, *fit, "-o", self.path("resumed"), "--checkpoint", str(checkpoint)],
                                   env=dict(os.environ, LC_CHECKPOINT_SECONDS="0"), stdout=subprocess.DEVNULL)
        deadline = time.monotonic() + 60
        while not checkpoint.exists() and process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.01)
        process.send_signal(signal.SIGKILL)
        process.wait()
        self.assertTrue(checkpoint.exists(), "a checkpoint was written before the end")
        self.assertFalse((self.folder / "resumed").exists())
        self.good(*fit, "-o", self.path("resumed"), "--checkpoint", str(checkpoint))
        self.assertEqual((self.folder / "whole").read_bytes(), (self.folder / "resumed").read_bytes())
        self.assertFalse(checkpoint.exists(), "a finished fit cleans up")


class Refusals(FitTest):
    def fit(self, data, *more):
        return self.refused("fit", "--method", "ln:paper", "--data", data, "-o", self.path("m"), *QUICK, *more)

    def test_bad_rows(self):
        def nan(f, g, y):
            f[7][2] = float("nan")

        def label(f, g, y):
            y[5] = 3

        def one_class(f, g, y):
            y[:] = [1] * len(y)
        self.assertRegex(self.fit(self.data(change=nan)), "features.*row 7, column 2")
        self.assertRegex(self.fit(self.data(change=label)), r"label.*3.*row 5|row 5.*label.*3|row 5.*found 3")
        self.assertIn("class", self.fit(self.data(change=one_class)))
        self.assertIn("1", self.fit(self.data(), "--rows", "0:1"))
        self.assertIn("rows", self.fit(self.data(labels=whole([0, 1, 2]))))
        self.assertIn("two classes", self.fit(self.data(logits=floats([[0.5]] * 150))))
        self.assertIn("features", self.fit(self.without("features")))
        self.assertIn("labels", self.fit(self.without("labels")))

    def without(self, name):
        f, g, y = clouds(150, 1)
        arrays = {"features": floats(f), "logits": floats(g), "labels": whole(y)}
        del arrays[name]
        (self.folder / "less.npz").write_bytes(seeds.npz(zipfile.ZIP_STORED, arrays))
        return self.path("less.npz")

    def test_truncated_input(self):
        data = pathlib.Path(self.data())
        (self.folder / "cut.npz").write_bytes(data.read_bytes()[:-100])
        self.fit(self.path("cut.npz"))

    def test_bad_options(self):
        cal = self.data()
        for words, says in ((["--method", "lm"], "'lm'"), (["--method", "ln:best"], "'best'"),
                            (["--method", "ln:paper", "--preset", "auto"], "drop one"),
                            (["--method", "ln", "--js", "round"], "categorical, classwise"),
                            (["--method", "ln", "--hidden", "-3"], "--hidden"),
                            (["--method", "ln", "--stop", "fixed"], "--preset")):
            self.assertIn(says, self.refused("fit", *words, "--data", cal, "-o", self.path("m")))

    def test_an_output_that_cannot_be_written_is_refused_before_the_work(self):
        self.assertIn("/no/such/folder", self.refused("fit", "--method", "ln:paper", "--data", self.data(), "-o", "/no/such/folder/m"))

    def test_models_that_do_not_fit(self):
        cal = self.data()
        self.good("fit", "--method", "kc:paper", "--data", cal, "-o", self.path("m"), *QUICK)
        narrow = self.data("narrow.npz", features=floats([[0.5, 1.0]] * 150))
        self.assertIn("fitted on 4 features, found 2", self.refused("apply", self.path("m"), "--data", narrow, "-o", self.path("o")))
        whole_file = (self.folder / "m").read_bytes()
        (self.folder / "cut").write_bytes(whole_file[:-4])
        self.refused("apply", self.path("cut"), "--data", cal, "-o", self.path("o"))
        newer = whole_file.replace(b"localcal.calibrator/1", b"localcal.calibrator/9")
        (self.folder / "newer").write_bytes(newer)
        self.assertIn("localcal.calibrator/9", self.refused("apply", self.path("newer"), "--data", cal, "-o", self.path("o")))
        self.assertIn("schema", self.refused("apply", self.foreign(), "--data", cal, "-o", self.path("o")))

    def foreign(self):
        (self.folder / "foreign").write_bytes(seeds.safetensors({"w": ("F32", [1], struct.pack("<f", 1))}))
        return self.path("foreign")


if __name__ == "__main__":
    unittest.main()

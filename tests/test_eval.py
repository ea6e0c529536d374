"""localcal eval, sweep and explain as a user meets them: tables, JSON, files, and what is refused.

    LOCALCAL=path/to/localcal python3 tests/test_eval.py        default: build/bin/localcal
"""
import json
import math
import pathlib
import random
import struct
import sys
import unittest
import zipfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import test_fit
from test_fit import floats, seeds, whole

QUICK = ["--bootstrap", "20", "--null", "10"]


def softmax(row):
    top = max(row)
    e = [math.exp(x - top) for x in row]
    return [x / sum(e) for x in e]


def lce(features, probs, labels, gamma, min_bin=0, self_too=True):
    """The definition, in pure Python: mean over classes and kept rows of |mean of p - y around the row|."""
    n, C, total = len(probs), len(probs[0]), 0.0
    for c in range(C):
        bins = [min(14, next(b for b in range(14, -1, -1) if p[c] >= b / 15)) for p in probs]
        errors = []
        for i in range(n):
            if bins.count(bins[i]) <= min_bin:
                continue
            near = [j for j in range(n) if bins[j] == bins[i] and (self_too or j != i)]
            w = [math.exp(-math.dist(features[i], features[j]) ** 2 / (2 * gamma * gamma)) for j in near]
            if sum(w) < 1e-6:
                continue
            errors.append(abs(sum(a * (probs[j][c] - (labels[j] == c)) for a, j in zip(w, near))) / sum(w))
        total += sum(errors) / len(errors) / C if errors else 0
    return total


class EvalTest(test_fit.FitTest):
    def json(self, *args):
        return json.loads(self.good(*args, "--json"))


class Eval(EvalTest):
    def test_the_local_error_is_its_definition(self):
        data = self.data(n=120)
        f, g, y = test_fit.clouds(120, 1)
        p = [softmax(row) for row in g]
        for modes, min_bin, self_too in (("paper", 0, True), ("authors", 20, True), ("corrected", 20, False)):
            j = self.json("eval", "--data", data, "--gamma", "1.5", "--modes", modes, "--bootstrap", "0", "--null", "0")
            self.assertAlmostEqual(j["metrics"]["lce"]["value"], lce(f, p, y, 1.5, min_bin, self_too), places=5, msg=modes)
            self.assertEqual(j["options"]["modes"]["lce"], modes)
        self.assertAlmostEqual(j["metrics"]["nll"]["value"], -sum(math.log(p[i][y[i]]) for i in range(120)) / 120, places=5)

    def test_json_has_every_metric_with_its_noise_and_every_choice(self):
        j = self.json("eval", "--data", self.data(n=200), *QUICK)
        self.assertEqual((j["schema"], j["n"], j["classes"], j["method"], j["device"]), ("localcal.eval/1", 200, 3, "nc", "cpu"))
        for name in ("acc", "nll", "brier", "ece", "mce", "ece_top", "mce_top", "ecce", "ecce_r", "ecce_mad", "piece", "lce", "mlce"):
            m = j["metrics"][name]
            self.assertTrue(math.isfinite(m["value"]) and m["low"] <= m["high"], name)
        for name in ("ece", "ece_top", "lce", "mlce"):
            self.assertEqual({"null", "excess", "z", "p"} - set(j["metrics"][name]), set(), name)
        self.assertGreaterEqual(j["metrics"]["n_eff"]["median"], 1)
        self.assertLessEqual(j["metrics"]["local_calibration"]["median"], j["metrics"]["local_calibration"]["epsilon"])
        self.assertEqual(set(j["options"]["modes"]), {"lce", "mlce", "ecce", "nll", "self"})
        self.assertEqual(j, self.json("eval", "--data", self.path("cal.npz"), *QUICK, "--threads", "1"))

    def test_the_table_says_what_it_is_about(self):
        text = self.good("eval", "--data", self.data(n=200), *QUICK, "--bounds")
        for expected in ("200 rows, 3 classes", "4 features as they are", "gamma", "lce=authors", "by chance", "theorem 3, tight", "plug-in"):
            self.assertIn(expected, text)
        self.assertNotIn("nan", text.lower())

    def test_files_of_every_row(self):
        out = self.path("results/here")
        self.good("eval", "--data", self.data(n=100), *QUICK, "--out", out, "--min-bin", "0")
        with zipfile.ZipFile(out + "/per_sample.npz") as z:
            names = {name.removesuffix(".npy") for name in z.namelist()}
        self.assertEqual({"probs", "labels", "local_error", "n_eff", "bin", "theta", "theta_l1"} - names, set())
        written = json.loads(pathlib.Path(out + "/metrics.json").read_text())
        self.assertEqual(written["schema"], "localcal.eval/1")

    def test_a_model_is_scored_in_its_own_space_and_in_the_common_one(self):
        cal, model = self.data(), self.path("m.safetensors")
        self.good("fit", "--method", "ln:paper", *test_fit.QUICK, "--data", cal, "-o", model)
        j = self.json("eval", "--data", cal, "--model", model, "--gamma", "1.5", *QUICK)
        self.assertEqual(j["method"], "ln:paper")
        self.assertIn("PCA of the model", j["options"]["space"])
        self.assertIn("lce_own", j["metrics"])
        for space, there, missing in (("own", "lce_own", "lce"), ("common", "lce", "lce_own")):
            metrics = self.json("eval", "--data", cal, "--model", model, "--gamma", "1.5", "--space", space, *QUICK)["metrics"]
            self.assertTrue(there in metrics and missing not in metrics, space)
        self.assertEqual(metrics["lce"]["value"], j["metrics"]["lce"]["value"])

    def test_probabilities_alone_will_do(self):
        f, g, y = test_fit.clouds(90, 2)
        p = [softmax(row) for row in g]
        p[0] = [0.0, 0.0, 1.0]
        y[0] = 0
        arrays = {"predictions": floats(p), "ground_truth": whole(y)}
        pathlib.Path(self.path("p.npz")).write_bytes(seeds.npz(zipfile.ZIP_STORED, arrays))
        j = self.json("eval", "--data", self.path("p.npz"), "--modes", "corrected", "--bootstrap", "0", "--null", "0")
        self.assertIn("ln p serves", j["options"]["space"])
        self.assertEqual(j["metrics"]["nll"]["impossible"], 1)
        self.assertGreater(j["metrics"]["nll"]["floor"], 0)

    def test_constant_predictions_have_numbers_and_no_nan(self):
        f, _, y = test_fit.clouds(60, 3)
        (self.folder / "c.npz").write_bytes(
            seeds.npz(zipfile.ZIP_STORED, {"features": floats(f), "logits": floats([[0.0, 1.0, 2.0]] * 60), "labels": whole(y)}))
        text = self.good("eval", "--data", self.path("c.npz"), *QUICK)
        self.assertNotIn("nan", text.lower())

    def test_refusals(self):
        data = self.data()
        for args, says in (
            (["--gamma", "0"], "--gamma"), (["--gamma", "wide"], "--gamma"), (["--modes", "mine"], "one of authors, paper, corrected"),
            (["--lce", "max"], "--lce"), (["--bins", "0"], "--bins"), (["--null", "-1"], "--null"), (["--weights", "no.npy"], "no.npy"),
            (["--space", "outer"], "--space"), (["--pca", "0"], "--pca"), (["--model", data], "safetensors"),
        ):
            self.assertIn(says, self.refused("eval", "--data", data, *args))
        bad = self.data("bad.npz", change=lambda f, g, y: f[3].__setitem__(1, float("nan")))
        self.assertIn("row 3", self.refused("eval", "--data", bad))
        self.assertIn("label", self.refused("eval", "--data", self.data("far.npz", change=lambda f, g, y: y.__setitem__(5, 9))))
        f, g, y = test_fit.clouds(20, 1)
        arrays = {"features": floats(f), "probs": floats([[0.5, 0.1, 0.1]] * 20), "labels": whole(y)}
        pathlib.Path(self.path("sum.npz")).write_bytes(seeds.npz(zipfile.ZIP_STORED, arrays))
        self.assertIn("sum to 1", self.refused("eval", "--data", self.path("sum.npz")))
        weights = self.path("w.npy")
        pathlib.Path(weights).write_bytes(seeds.npy("<f8", (2,), struct.pack("<2d", 0.5, 0.5)))
        self.assertIn("weights", self.refused("eval", "--data", data, "--weights", weights))

    def test_weights(self):
        data, weights = self.data(n=120), self.path("w.npy")
        pathlib.Path(weights).write_bytes(seeds.npy("<f8", (3,), struct.pack("<3d", 1, 0, 0)))
        quick = ["--gamma", "1.5", "--bootstrap", "0", "--null", "0"]
        values = {w: self.json("eval", "--data", data, "--weights", w, *quick)["metrics"]["lce"]["value"] for w in ("uniform", "prior", weights)}
        self.assertAlmostEqual(values["uniform"], values["prior"], places=12)  # the clouds are equally large
        self.assertNotAlmostEqual(values["uniform"], values[weights], places=4)


class Sweep(EvalTest):
    def test_lines_are_single_evaluations(self):
        data = self.data(n=150)
        lines = self.json("sweep", "--data", data, "--gammas", "5,0.5,1.5")["sweep"]
        self.assertEqual([line["gamma"] for line in lines], [0.5, 1.5, 5])
        for line in lines:
            j = self.json("eval", "--data", data, "--gamma", str(line["gamma"]), "--bootstrap", "0", "--null", "0")
            self.assertAlmostEqual(line["lce"], j["metrics"]["lce"]["value"], places=6)
            self.assertAlmostEqual(line["mlce"], j["metrics"]["mlce"]["value"], places=5)
        self.assertIn("median n_eff", self.good("sweep", "--data", data, "--gammas", "1,2"))

    def test_refusals(self):
        data = self.data()
        for gammas in ("0", "1,-2", "a", "", ",".join(["1"] * 65)):
            self.refused("sweep", "--data", data, "--gammas", gammas)
        self.assertIn("--gammas", self.refused("sweep", "--data", data))


class Explain(EvalTest):
    def planted(self):
        """p = 0.7 everywhere, and true but in one far cloud, where the class never happens."""
        r = random.Random(5)
        f, y = [], []
        for i in range(400):
            far = i % 8 == 0
            f.append([r.gauss(8.0 if far else 0.0, 1) for _ in range(3)])
            y.append(0 if far else int(r.random() < 0.7))
        arrays = {"features": floats(f), "probs": floats([[0.3, 0.7]] * 400), "labels": whole(y)}
        (self.folder / "planted.npz").write_bytes(seeds.npz(zipfile.ZIP_STORED, arrays))
        return self.path("planted.npz")

    def test_finds_what_was_planted(self):
        j = self.json("explain", "--data", self.planted(), "--gamma", "1.5", "--top", "3", "--members", "4")
        worst = j["neighbourhoods"][0]
        self.assertEqual(worst["row"] % 8, 0)
        self.assertGreater(abs(worst["z"]), 4)
        self.assertEqual(len(worst["members"]), 4)
        self.assertAlmostEqual(worst["mean_p"] - worst["frequency"], worst["error"], places=5)
        text = self.good("explain", "--data", self.planted(), "--gamma", "1.5", "--top", "2")
        self.assertIn("model says", text)
        self.assertIn("take a larger --gamma", self.good("explain", "--data", self.planted(), "--gamma", "0.001"))

    def test_refusals(self):
        for args in (["--top", "0"], ["--members", "-1"], ["--least-n-eff", "0"]):
            self.refused("explain", "--data", self.data(), *args)


if __name__ == "__main__":
    unittest.main()

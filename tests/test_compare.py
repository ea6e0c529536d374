"""localcal compare as a user meets it: the table, JSON, the folder it resumes from, and what is refused.

    LOCALCAL=path/to/localcal python3 tests/test_compare.py        default: build/bin/localcal
"""
import json
import math
import os
import pathlib
import re
import sys
import unittest
import zipfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import test_fit
from test_fit import floats, seeds, whole

PLAIN = "nc,ts,vs,ps,ir,hb,beta"


class CompareTest(test_fit.FitTest):
    def setUp(self):
        super().setUp()
        self.cal, self.test = self.data(n=200), self.data("test.npz", n=300, seed=2)

    def compare(self, *args):
        return self.good("compare", "--cal", self.cal, "--test", self.test, *args)

    def json(self, *args):
        return json.loads(self.compare(*args, "--json"))


class Compare(CompareTest):
    def test_numbers_are_those_of_fit_and_eval(self):
        j = self.json("--methods", "nc,ts,ln:paper", "--gamma", "1.5")
        self.assertEqual((j["schema"], j["n"], j["classes"], j["cal"]["n"]), ("localcal.compare/1", 300, 3, 200))
        self.assertEqual(list(j["methods"]), ["nc", "ts", "ln:paper"])
        for method, row in j["methods"].items():
            self.good("fit", "--method", method, "--data", self.cal, "-o", self.path("m"))
            e = json.loads(self.good("eval", "--data", self.test, "--model", self.path("m"), "--gamma", "1.5", "--bootstrap", "0", "--null", "0", "--json"))
            for name in ("acc", "nll", "brier", "ece", "ece_top", "ecce", "piece", "lce_own"):
                self.assertEqual(name in e["metrics"], name in row["metrics"], (method, name))
                if name in row["metrics"] and not (name == "piece" and method == "ln:paper"):  # eval takes the model's space for it
                    self.assertEqual(row["metrics"][name]["value"], e["metrics"][name]["value"], (method, name))
            if method != "ln:paper":
                self.assertEqual(row["metrics"]["lce"]["value"], e["metrics"]["lce"]["value"])
            self.assertGreaterEqual(row["seconds"], 0)
        self.assertEqual(j["methods"]["ts"]["flips"], 0)
        self.assertTrue(j["methods"]["ts"]["keeps_order"] and not j["methods"]["ln:paper"]["keeps_order"])
        self.assertGreater(j["methods"]["ts"]["fit"]["temperature"], 0)

    def test_flips_are_counted(self):
        self.good("fit", "--method", "vs", "--data", self.cal, "-o", self.path("m"))
        j = json.loads(self.good("apply", self.path("m"), "--data", self.test, "-o", self.path("out.npz"), "--json"))
        self.assertEqual(self.json("--methods", "nc,vs")["methods"]["vs"]["flips"], j["flips"])
        self.assertGreater(j["flips"], 0)

    def test_the_table_marks_the_best_of_every_column(self):
        text = self.compare("--methods", PLAIN)
        lines = text.splitlines()
        at = next(k for k, line in enumerate(lines) if line.startswith("method "))
        titles = lines[at].split()
        rows = [line.split() for line in lines[at + 1:at + 8]]
        self.assertEqual([r[0] for r in rows], PLAIN.split(","))
        for name in ("acc", "nll", "brier", "ece", "ece_top", "ecce", "lce", "mlce"):
            cells = [r[titles.index(name)] for r in rows]
            best = (max if name == "acc" else min)(float(c.rstrip("*")) for c in cells)
            self.assertEqual({float(c[:-1]) for c in cells if c.endswith("*")}, {best}, name)
        self.assertNotIn("lce_own", titles, "nobody has a space of its own here")
        self.assertNotIn("nan", text.lower())
        self.assertLessEqual(max(map(len, lines)), 130)
        for expected in ("The classifier (nc) is right on", "lowest log-loss", "Locally", "By construction ts keeps every answer"):
            self.assertIn(expected, re.sub(r"\s+", " ", text))

    def test_all_methods_by_default(self):
        self.assertEqual(list(self.json()["methods"]),
                         "nc ts vs ms dc ps ir hb beta kc:auto ko:auto ln:auto".split())
        f, g, y = test_fit.clouds(200, 1)
        (self.folder / "plain.npz").write_bytes(seeds.npz(zipfile.ZIP_STORED, {"logits": floats(g), "labels": whole(y)}))
        plain = self.path("plain.npz")
        j = json.loads(self.good("compare", "--cal", plain + ":0:100", "--test", plain + ":100:200", "--json"))
        self.assertEqual(list(j["methods"]), "nc ts vs ms dc ps ir hb beta".split())
        self.assertEqual((j["cal"]["n"], j["n"]), (100, 100))
        for row in j["methods"].values():
            for name, m in row["metrics"].items():
                self.assertTrue(math.isfinite(m["value"]), name)

    def test_a_folder_keeps_the_models_and_a_rerun_takes_them_up(self):
        out = self.path("results")
        first = self.json("--methods", "nc,ts,ln:paper", "--out", out)
        self.assertEqual(sorted(os.listdir(out)), ["compare.json", "ln-paper.safetensors", "nc.safetensors", "ts.safetensors"])
        self.assertEqual(json.loads((self.folder / "results/compare.json").read_text()), first)
        self.good("apply", out + "/ln-paper.safetensors", "--data", self.test, "-o", self.path("out.npz"))
        written = {name: os.stat(f"{out}/{name}").st_mtime_ns for name in os.listdir(out) if name.endswith("safetensors")}
        again = self.json("--methods", "nc,ts,ln:paper,vs", "--out", out)
        for name, time in written.items():
            self.assertEqual(os.stat(f"{out}/{name}").st_mtime_ns, time, name)
        for method, row in first["methods"].items():
            self.assertEqual(again["methods"][method]["metrics"], row["metrics"])
        self.assertIn("(kept)", self.compare("--methods", "nc,ts", "--out", out))
        self.cal = self.data("other.npz", n=200, seed=7)  # other rows, other models
        self.json("--methods", "ts", "--out", out)
        self.assertNotEqual(os.stat(out + "/ts.safetensors").st_mtime_ns, written["ts.safetensors"])

    def test_a_method_that_cannot_be_fitted_is_a_row_without_numbers(self):
        self.cal += ":0:4"  # too few for five folds
        j = self.json("--methods", "nc,dc")
        self.assertIn("5 folds", j["methods"]["dc"]["refused"])
        self.assertIn("dc has no result", self.compare("--methods", "nc,dc"))
        self.assertIn("5 folds", self.refused("compare", "--cal", self.cal, "--test", self.test, "--methods", "dc", "--gamma", "1"))

    def test_what_is_refused(self):
        for args, says in ((("--methods", "nc,best"), "best"), (("--methods", "ts,temperature"), "twice"),
                           (("--out", self.cal), "folder"), (("--gamma", "-1"), "length")):
            self.assertIn(says, self.refused("compare", "--cal", self.cal, "--test", self.test, *args))
        self.assertIn("rows", self.refused("compare", "--cal", self.cal + ":0:9999", "--test", self.test))
        self.assertIn("nowhere", self.refused("compare", "--cal", self.path("nowhere.npz"), "--test", self.test))
        other = self.data("wide.npz", change=lambda f, g, y: [row.append(0.0) for row in g])
        self.assertIn("one network", self.refused("compare", "--cal", self.cal, "--test", other))


if __name__ == "__main__":
    unittest.main()

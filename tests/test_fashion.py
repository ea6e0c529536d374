"""build/bin/fashion as a user meets it: images in, arrays for localcal out, interruptions, and what is refused.

    FASHION=path/to/fashion python3 tests/test_fashion.py        default: build/bin/fashion

Most tests make their own images: ten patterns under noise, 8 by 8 pixels.
"""
import gzip
import json
import os
import pathlib
import random
import signal
import subprocess
import sys
import tempfile
import time
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests"))
from test_fit import read_npz, seeds

FASHION = os.environ.get("FASHION", str(ROOT / "build/bin/fashion"))
REAL = pathlib.Path("/usr/share/datasets/fashion-mnist")


def pictures(n, seed, side=8):
    """IDX files of n images and their labels."""
    r = random.Random(seed)
    patterns = [[random.Random(1000 * c + i).choice((40, 200)) for i in range(side * side)] for c in range(10)]
    labels = [r.randrange(10) for _ in range(n)]
    pixels = [min(255, max(0, int(p + r.gauss(0, 120)))) for y in labels for p in patterns[y]]
    return seeds.idx((n, side, side), bytes(pixels)), seeds.idx((n,), bytes(labels))


class FashionTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.images = self.folder / "images"
        self.images.mkdir()
        for name, n, seed in (("train", 1000, 1), ("t10k", 200, 2)):
            images, labels = pictures(n, seed)
            self.put(f"{name}-images-idx3-ubyte", images)
            self.put(f"{name}-labels-idx1-ubyte", labels)

    def put(self, name, content):
        (self.images / (name + ".gz")).write_bytes(gzip.compress(content, 1))

    def path(self, name):
        return str(self.folder / name)

    def run_fashion(self, *args, **options):
        return subprocess.run([FASHION, *args], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120, **options)

    def good(self, out, *args):
        p = self.run_fashion("--images", str(self.images), "--out", self.path(out), *args)
        self.assertEqual(p.returncode, 0, (args, p.stderr))
        return p

    def refused(self, *args):
        p = self.run_fashion(*args)
        self.assertEqual((p.returncode, p.stdout), (2, ""), (args, p.stderr))
        self.assertRegex(p.stderr, r"\Afashion: [^\n]+\n\Z", args)
        return p.stderr

    def contents(self, out):
        return {p.name: p.read_bytes() for p in (self.folder / out).iterdir()}


class Trains(FashionTest):
    def test_the_parts_and_their_arrays(self):
        j = json.loads(self.good("o", "--epochs", "12", "--json").stdout)
        self.assertEqual((j["schema"], j["epochs"], j["trained"]), ("localcal.fashion/1", 12, True))
        self.assertEqual([p["n"] for p in j["parts"].values()], [450, 100, 200, 450])
        self.assertEqual(set(self.contents("o")), {"cal.npz", "test.npz", "classifier.safetensors"})
        for name, n in (("cal", 200), ("test", 450)):
            a = read_npz(self.path(f"o/{name}.npz"))
            self.assertEqual({k: v[0] for k, v in a.items()}, {"features": (n, 64), "logits": (n, 10), "labels": (n,)})
            logits, labels = a["logits"][1], a["labels"][1]
            right = sum(max(range(10), key=lambda c: logits[10 * i + c]) == labels[i] for i in range(n)) / n
            part = j["parts"]["calibration" if name == "cal" else "test"]
            self.assertAlmostEqual(right, part["accuracy"], places=9)
            self.assertGreater(right, 0.5)
            self.assertGreaterEqual(min(a["features"][1]), 0, "after a ReLU")
        self.assertGreater(j["parts"]["train"]["accuracy"], j["parts"]["test"]["accuracy"])

    def test_calibration_rows_are_the_official_test_set_in_its_order(self):
        self.good("o", "--epochs", "1")
        labels = pictures(200, 2)[1][8:]
        self.assertEqual(read_npz(self.path("o/cal.npz"))["labels"][1], tuple(labels))

    def test_progress_and_report(self):
        p = self.good("o", "--epochs", "3")
        self.assertEqual([line.split("   ")[0] for line in p.stderr.splitlines()[1:]], [f"epoch  {e} of 3" for e in (1, 2, 3)])
        self.assertRegex(p.stdout, r"\Apart +rows +right +sure +log-loss\ntrain +450 ")
        self.assertEqual(self.good("q", "--epochs", "1", "--quiet").stderr, "")

    def test_nothing_to_do_the_second_time(self):
        first = json.loads(self.good("o", "--epochs", "2", "--json").stdout)
        before = self.contents("o")
        p = self.good("o", "--epochs", "2")
        self.assertEqual((len(p.stdout.splitlines()), p.stderr), (1, ""))
        self.assertIn("nothing to do", p.stdout)
        self.assertEqual(json.loads(self.good("o", "--epochs", "2", "--json").stdout), dict(first, trained=False))
        (self.folder / "o/cal.npz").unlink()
        self.assertEqual(self.good("o", "--epochs", "2").stderr, "", "a lost file is made again without training")
        self.assertEqual(self.contents("o"), before)
        self.assertIn("epoch", self.good("o", "--epochs", "3").stderr, "other options")
        self.assertNotEqual(self.contents("o")["cal.npz"], before["cal.npz"])

    def test_the_same_seed_gives_the_same_files_for_any_number_of_threads(self):
        for out, seed, threads in (("a", "1", "1"), ("b", "1", "2"), ("c", "2", "2")):
            self.good(out, "--epochs", "2", "--seed", seed, "--threads", threads)
        self.assertEqual(self.contents("a"), self.contents("b"))
        self.assertNotEqual(self.contents("b"), self.contents("c"))

    def test_limit(self):
        j = json.loads(self.good("o", "--epochs", "1", "--limit", "120", "--json").stdout)
        self.assertEqual([p["n"] for p in j["parts"].values()], [120, 100, 120, 120])

    def test_files_that_are_not_packed(self):
        for p in self.images.iterdir():
            (self.images / p.stem).write_bytes(gzip.decompress(p.read_bytes()))
            p.unlink()
        self.good("o", "--epochs", "1")

    def test_a_killed_run_goes_on_bit_for_bit(self):
        options = ["--epochs", "60"]
        self.good("whole", *options)
        process = subprocess.Popen([FASHION, "--images", str(self.images), "--out", self.path("resumed"), *options, "--quiet"],
                                   stdout=subprocess.DEVNULL)
        checkpoint = self.folder / "resumed/training.checkpoint"
        deadline = time.monotonic() + 60
        while not checkpoint.exists() and process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.01)
        process.send_signal(signal.SIGKILL)
        process.wait()
        self.assertTrue(checkpoint.exists(), "a checkpoint was written before the end")
        p = self.good("resumed", *options)
        self.assertNotIn("epoch  1 of", p.stderr)
        for p in (self.folder / "resumed").glob("*.partial"):  # what the kill left behind
            p.unlink()
        self.assertEqual(self.contents("resumed"), self.contents("whole"))


class Refuses(FashionTest):
    def try_images(self):
        return self.refused("--images", str(self.images), "--out", self.path("o"))

    def test_no_folder_and_no_file(self):
        text = self.refused("--images", self.path("nowhere"), "--out", self.path("o"))
        self.assertIn("dataset-fashion-mnist", text)
        (self.images / "t10k-labels-idx1-ubyte.gz").unlink()
        self.assertIn("t10k-labels-idx1-ubyte", self.try_images())
        self.assertFalse((self.folder / "o").exists())

    def test_a_file_cut_short(self):
        whole = (self.images / "train-images-idx3-ubyte.gz").read_bytes()
        for length in (0, 10, len(whole) // 2, len(whole) - 1):
            (self.images / "train-images-idx3-ubyte.gz").write_bytes(whole[:length])
            self.try_images()

    def test_files_that_do_not_belong_together(self):
        self.put("train-labels-idx1-ubyte", pictures(999, 1)[1])
        self.assertIn("999", self.try_images())
        self.put("train-labels-idx1-ubyte", seeds.idx((1000,), bytes([10] * 1000)))
        self.assertIn("found 10", self.try_images())
        self.put("train-labels-idx1-ubyte", pictures(1000, 1)[1])
        self.put("t10k-images-idx3-ubyte", pictures(200, 2, side=9)[0])
        self.assertIn("81", self.try_images())
        self.put("t10k-images-idx3-ubyte", pictures(200, 2)[1])
        self.assertIn("expected images", self.try_images())

    def test_options(self):
        images = ["--images", str(self.images)]
        self.assertIn("--out", self.refused(*images))
        for option in (["--epochs", "0"], ["--epochs", "x"], ["--limit", "3"], ["--epoch", "3"], ["--device", "tpu"]):
            self.refused(*images, "--out", self.path("o"), *option)
        (self.folder / "file").write_text("")
        self.assertIn("folder", self.refused(*images, "--out", self.path("file")))
        (self.folder / "o").mkdir()
        (self.folder / "o/classifier.safetensors").write_text("something else")
        self.refused(*images, "--out", self.path("o"))

    def test_help_teaches(self):
        p = self.run_fashion("--help")
        self.assertEqual(p.returncode, 0)
        for word in ("--out", "--images", "--epochs", "--limit", "--seed", "--threads", "$ fashion --out", "cal.npz"):
            self.assertIn(word, p.stdout)


@unittest.skipUnless(REAL.is_dir(), f"needs {REAL}: install the Debian package dataset-fashion-mnist")
class Real(FashionTest):
    def test_a_quick_try_on_the_real_images(self):
        p = self.run_fashion("--out", self.path("o"), "--limit", "3000", "--epochs", "4", "--json")
        self.assertEqual(p.returncode, 0, p.stderr)
        parts = json.loads(p.stdout)["parts"]
        self.assertEqual([q["n"] for q in parts.values()], [3000] * 4)
        self.assertGreater(parts["test"]["accuracy"], 0.75)
        self.assertGreater(parts["calibration"]["accuracy"], 0.75)


if __name__ == "__main__":
    unittest.main()

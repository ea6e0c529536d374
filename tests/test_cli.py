"""The command line as a user meets it: what localcal prints, where, and with which exit code; and the two scripts of
third_party/ on machines that lack this or that (commands that answer from a temporary PATH).

    LOCALCAL=path/to/localcal python3 tests/test_cli.py        default: build/bin/localcal
"""
import json
import os
import pathlib
import resource
import shutil
import signal
import stat
import struct
import subprocess
import sys
import tempfile
import unittest
import zipfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests/fuzz"))
import seeds  # writes every format with the standard library alone
LOCALCAL = os.environ.get("LOCALCAL", str(ROOT / "build/bin/localcal"))


def localcal(*args):
    return subprocess.run([LOCALCAL, *args], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)


class CliTest(unittest.TestCase):
    def good(self, *args):
        """Runs, demands success and an empty standard error, returns what was printed."""
        p = localcal(*args)
        self.assertEqual((p.returncode, p.stderr), (0, ""), args)
        return p.stdout

    def refused(self, *args):
        """Runs, demands exit code 2, nothing on standard output and one line on standard error; returns the line."""
        p = localcal(*args)
        self.assertEqual((p.returncode, p.stdout), (2, ""), (args, p.stderr))
        self.assertRegex(p.stderr, r"\Alocalcal: [^\n]+\n\Z", args)
        return p.stderr

    def config(self, text):
        f = tempfile.NamedTemporaryFile("w", suffix=".toml", delete=False)
        self.addCleanup(os.unlink, f.name)
        with f:
            f.write(text)
        return f.name


class Program(CliTest):
    def test_version(self):
        self.assertEqual(self.good("--version"), "localcal 0.1.0\n")

    def test_help_lists_the_commands_that_exist_and_no_others(self):
        text = self.good("--help")
        self.assertEqual(text, self.good("-h"))
        commands = [line.split()[0] for line in text.split("Commands:\n")[1].split("\n\n")[0].splitlines()]
        self.assertEqual(commands, ["fit", "apply", "eval", "compare", "sweep", "explain", "inspect", "devices"])
        for command in commands:
            self.assertIn("Example:", self.good(command, "--help"))

    def test_no_command(self):
        self.assertIn("expected a command (fit, apply, ", self.refused())

    def test_a_mistyped_command_gets_a_suggestion(self):
        for typed in ("device", "devcies", "evices", "devices2"):
            self.assertIn("did you mean 'devices'?", self.refused(typed))
        self.assertIn("did you mean '--version'?", self.refused("--versoin"))

    def test_an_unknown_command_gets_no_suggestion(self):
        message = self.refused("transmogrify")
        self.assertIn("'transmogrify'", message)
        self.assertNotIn("did you mean", message)
        self.assertIn("localcal --help", message)

    def test_options_before_the_command(self):
        self.assertIn("options come after it", self.refused("--json", "devices"))

    def test_text_from_outside_cannot_drive_the_terminal(self):
        message = self.refused("one\ntwo\x1b[2J")
        self.assertIn("one?two?[2J", message)


class OptionsEverywhere(CliTest):
    def test_help_names_them_all(self):
        text = self.good("devices", "--help")
        for option in ("--seed", "--threads", "--device", "--json", "--quiet", "--config", "--help"):
            self.assertIn(option, text)
        self.assertLess(max(map(len, text.splitlines())), 100, "help must fit an ordinary terminal")

    def test_a_mistyped_option_gets_a_suggestion(self):
        self.assertIn("did you mean '--json'?", self.refused("devices", "--jsno"))
        self.assertIn("did you mean '--threads'?", self.refused("devices", "--thread=3"))
        self.assertIn("see 'localcal devices --help'", self.refused("devices", "--zzzzzzzz"))

    def test_arguments_that_do_not_belong(self):
        for extra in (["x"], ["-x"], ["--", "x"], ["devices"], ["++"]):
            self.assertIn("expected", self.refused("devices", *extra))

    def test_threads(self):
        for bad in ("0", "-1", "1025", "1.5", "two", "", "99999999999999999999", "1 ", "0x2"):
            message = self.refused("devices", "--threads", bad)
            self.assertIn("--threads takes a whole number from 1 to 1024", message)
            self.assertIn(f"found '{bad}'", message)
        for good in ("1", "1024"):
            self.good("devices", "--threads", good)

    def test_threads_reach_openmp(self):
        descriptions = [json.loads(self.good("devices", "--json", "--threads", n))["devices"][0]["description"]
                        for n in ("1", "3")]
        self.assertNotEqual(*descriptions, "the CPU's description names its threads")

    def test_seed(self):
        self.good("devices", "--seed", "18446744073709551615")
        self.assertIn("--seed takes", self.refused("devices", "--seed", "18446744073709551616"))

    def test_values_missing_or_given_twice(self):
        self.assertIn("expected a value after --threads, found nothing", self.refused("devices", "--threads"))
        self.assertIn("expected --threads once, found it 2 times",
                      self.refused("devices", "--threads", "1", "--threads", "2"))
        self.assertIn("expected true or false for --json, found 'maybe'", self.refused("devices", "--json=maybe"))


class Config(CliTest):
    def test_sets_options(self):
        path = self.config('# a comment\njson = true\nthreads = 2  # and another\ndevice = "cpu"\n\n')
        self.assertEqual(json.loads(self.good("devices", "--config", path)),
                         json.loads(self.good("devices", "--json", "--threads", "2")))

    def test_the_command_line_wins(self):
        path = self.config("threads = 0\n")  # would be refused
        self.good("devices", "--config", path, "--threads", "1")

    def test_unknown_key(self):
        message = self.refused("devices", "--config", self.config("thred = 2\n"))
        self.assertIn("found 'thred'; did you mean 'threads'?", message)
        for text in ("config = x\n", "help = true\n", "x.threads = 2\n", "[devices]\nthreads = 2\n", "a\n", "gamma=3\n"):
            self.assertIn("expected", self.refused("devices", "--config", self.config(text)))

    def test_bad_values(self):
        self.assertIn("found '0'", self.refused("devices", "--config", self.config("threads = 0\n")))
        for text in ("threads = 1\nthreads = 2\n", "threads = 1\njson = true\nthreads = 1\n"):
            self.assertIn("once", self.refused("devices", "--config", self.config(text)))

    def test_file_that_cannot_be_read(self):
        for path in ("/no/such/file.toml", "/"):
            self.assertIn(f"expected a readable file after --config, found '{path}'",
                          self.refused("devices", "--config", path))


class Devices(CliTest):
    def listed(self):
        return json.loads(self.good("devices", "--json"))

    def test_json(self):
        result = self.listed()
        self.assertEqual(list(result), ["schema", "program", "devices", "auto"])
        self.assertEqual(result["schema"], "localcal.devices/1")
        self.assertEqual(result["program"], "localcal 0.1.0")
        names = [d["name"] for d in result["devices"]]
        self.assertEqual(names[0], "cpu")
        self.assertNotIn("sim", names)
        self.assertIn(result["auto"], [d["name"] for d in result["devices"] if d["usable"]])
        for d in result["devices"]:
            self.assertEqual(list(d), ["name", "description", "usable", "why_not"])
            self.assertNotEqual(d["description"], "")
            self.assertEqual(d["usable"], d["why_not"] is None)

    def test_table(self):
        result, text = self.listed(), self.good("devices")
        table, why = text.rstrip("\n").split("\n\n")
        header, *rows = table.splitlines()
        self.assertEqual(header.split(), ["device", "auto", "description", "usable"])
        self.assertEqual(len(rows), len(result["devices"]))
        for row, d in zip(rows, result["devices"]):
            self.assertTrue(row.startswith(d["name"] + " "))
            self.assertEqual(row[header.index("auto")] == "*", d["name"] == result["auto"])
            self.assertTrue(row[header.index("description"):].startswith(d["description"]))
            self.assertTrue(row[header.index("usable"):].startswith("yes" if d["usable"] else "no: "))
        self.assertTrue(why.startswith(f"device {result['auto']} ("), why)
        self.assertIn("auto takes", why)

    def test_quiet_leaves_the_table_alone(self):
        self.assertEqual(self.good("devices", "--quiet"), self.good("devices").split("\n\n")[0] + "\n")

    def test_a_device_by_name(self):
        self.assertIn("as asked", self.good("devices", "--device", "cpu"))
        for bad in ("tpu", "sim", "CPU", "cuda:", "cuda:01", "cuda:1024", "cuda:-1", "cuda:x", "cpu:0", " cpu", "gpu"):
            message = self.refused("devices", "--device", bad)
            self.assertIn("--device takes auto, cpu, cuda or cuda:I", message)
            self.assertIn(f"found '{bad}'; this binary has cpu", message)

    def test_cuda_without_a_gpu(self):
        if any(d["name"].startswith("cuda") and d["usable"] for d in self.listed()["devices"]):
            self.skipTest("there is a GPU here")
        for name in ("cuda", "cuda:0", "cuda:7"):
            message = self.refused("devices", "--device", name)
            self.assertTrue(message.startswith(f"localcal: --device {name}: "))
            self.assertRegex(message, "built without CUDA: install the CUDA Toolkit|the CUDA runtime answers: .")
            self.assertIn("--device cpu", message)

    def test_cuda_that_does_not_exist(self):
        if not any(d["name"].startswith("cuda") and d["usable"] for d in self.listed()["devices"]):
            self.skipTest("no GPU here")
        self.assertIn("there is no such device", self.refused("devices", "--device", "cuda:1023"))
        self.assertIn("device cuda:0 (", self.good("devices", "--device", "cuda"))


class Inspect(CliTest):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def file(self, name, data):
        path = self.folder / name
        path.write_bytes(data)
        return str(path)

    def npy(self):
        data = struct.pack(">6d", 1, 2.5, float("nan"), -4, float("inf"), 6)
        return self.file("a.npy", seeds.npy(">f8", (2, 3), data, fortran=True))

    def npz(self, method=zipfile.ZIP_DEFLATED):
        return self.file("b.npz", seeds.npz(method, {
            "labels": seeds.npy("<i8", (2,), struct.pack("<2q", -3, 7)), "none": seeds.npy("<f4", (0, 4), b""),
            "names": seeds.npy("<U2", (2,), "a b ".encode("utf-32-le"))}))

    def safetensors(self):
        return self.file("c.safetensors", seeds.safetensors(
            {"w": ("F32", [2, 1], struct.pack("<2f", 0.5, -2)), "n": ("I64", [], struct.pack("<q", 7))},
            {"schema": "localcal.calibrator/1", "note": "two\nlines \x1b[2J"}))

    def test_weights(self):
        (self.folder / "tfjs").mkdir()
        files = [self.file("d.pth", seeds.torch_zip(seeds.torch_pickle(), seeds.STORAGES)),
                 self.file("e.pth", seeds.torch_legacy(seeds.torch_pickle(), seeds.STORAGES)), str(self.folder / "tfjs")]
        self.file("tfjs/model.json", seeds.tfjs_model(["w.bin"]))
        self.file("tfjs/w.bin", seeds.TFJS_DATA)
        result = json.loads(self.good("inspect", "--json", "--stats", *files))["files"]
        self.assertEqual([f["format"] for f in result], ["torch zip", "torch legacy", "tfjs"])
        self.assertEqual([f["metadata"] for f in result], [{"epoch": "7"}, {"epoch": "7"}, {"format": "layers-model"}])
        for torch in result[:2]:
            self.assertEqual([tuple(a.values()) for a in torch["arrays"]], [
                ("w", [3, 2], "F32", {"min": 0, "max": 5, "nan": 0, "inf": 0}),
                ("n", [], "I64", {"min": 9, "max": 9, "nan": 0, "inf": 0})])
        self.assertEqual([tuple(a.values())[:3] for a in result[2]["arrays"]], [("a/kernel", [2, 2], "F32"), ("n", [], "I32")])
        self.assertIn("  epoch: 7\nname  shape   type\nw     (3, 2)  F32\n", self.good("inspect", files[0]))

    def test_json(self):
        paths = [self.npy(), self.npz(), self.safetensors()]
        result = json.loads(self.good("inspect", *paths, "--json"))
        self.assertEqual(list(result), ["schema", "program", "files"])
        self.assertEqual((result["schema"], result["program"]), ("localcal.inspect/1", "localcal 0.1.0"))
        self.assertEqual([f["file"] for f in result["files"]], paths)
        self.assertEqual([f["format"] for f in result["files"]], ["npy", "npz", "safetensors"])
        self.assertEqual([f["metadata"] for f in result["files"]],
                         [{}, {}, {"note": "two\nlines \x1b[2J", "schema": "localcal.calibrator/1"}])
        self.assertEqual([[tuple(a.values()) for a in f["arrays"]] for f in result["files"]], [
            [(None, [2, 3], "float64")],
            [("labels", [2], "int64"), ("names", [2], "<U2"), ("none", [0, 4], "float32")],
            [("w", [2, 1], "F32"), ("n", [], "I64")]])

    def test_stats(self):
        paths = [self.npy(), self.npz(), self.safetensors()]
        arrays = [a for f in json.loads(self.good("inspect", "--stats", "--json", *paths))["files"] for a in f["arrays"]]
        self.assertEqual({a["name"]: tuple(a["stats"].values()) for a in arrays if "stats" in a}, {
            None: (-4, 6, 1, 1), "labels": (-3, 7, 0, 0), "none": (None, None, 0, 0), "w": (-2, 0.5, 0, 0),
            "n": (7, 7, 0, 0)})
        self.assertNotIn("stats", [a for a in arrays if a["name"] == "names"][0])

    def test_text(self):
        path = self.npz(zipfile.ZIP_STORED)
        self.assertEqual(self.good("inspect", path), f"{path} (npz)\n"
                                                     "name    shape   type\n"
                                                     "labels  (2,)    int64\n"
                                                     "names   (2,)    <U2\n"
                                                     "none    (0, 4)  float32\n")
        text = self.good("inspect", self.npy(), self.safetensors(), "--stats")
        first, second = text.split("\n\n")
        self.assertEqual(first.splitlines()[-1].split(), ["-", "(2,", "3)", "float64", "-4", "6", "1", "1"])
        self.assertIn("  note: two?lines ?[2J\n  schema: localcal.calibrator/1\nname", second)

    def test_the_name_does_not_matter(self):
        os.rename(self.npz(), self.folder / "x.safetensors")
        self.assertIn("(npz)", self.good("inspect", str(self.folder / "x.safetensors")))

    def test_refusals(self):
        self.assertIn("expected FILE after 'localcal inspect', found none", self.refused("inspect"))
        self.assertIn("expected a readable file, found: No such file", self.refused("inspect", "/no/such/file.npy"))
        self.assertIn("expected a file, found a folder", self.refused("inspect", str(self.folder)))
        self.assertIn("found an empty file", self.refused("inspect", self.file("e.npy", b"")))
        self.assertIn("expected arrays (.npy, .npz) or weights (.safetensors, PyTorch's .pth, TensorFlow.js' model.json), found other bytes",
                      self.refused("inspect", self.file("e.csv", b"1,2,3\n4,5,6\n")))
        self.assertIn("found 'os.system', which is not run", self.refused("inspect", self.file(
            "e.pth", seeds.torch_zip(b"\x80\2cos\nsystem\nX\4\0\0\0true\x85R.", {}))))
        packed = seeds.torch_zip(seeds.torch_pickle(), seeds.STORAGES, zipfile.ZIP_DEFLATED)
        self.assertIn("uncompressed, as torch.save writes it", self.refused("inspect", self.file("e.pth", packed)))
        wrong = seeds.torch_zip(seeds.torch_pickle(), seeds.STORAGES).replace(struct.pack("<2f", 4, 5), struct.pack("<2f", 4, 6))
        self.assertIn("checksum does not match", self.refused("inspect", self.file("e.pth", wrong)))
        for make in (self.npy, self.npz, self.safetensors):
            whole = pathlib.Path(make()).read_bytes()
            self.refused("inspect", make(), self.file("cut", whole[:-1]))  # nothing of the good one is printed either

    def zip_of(self, name):
        path = self.folder / "zip"
        with zipfile.ZipFile(path, "w") as z:
            z.writestr(name, "x")
        return path.read_bytes()

    def test_a_bomb_is_refused(self):
        small = self.file("small.npz", seeds.npz(zipfile.ZIP_DEFLATED, {"a": seeds.npy("|u1", (10**6,), bytes(10**6))}))
        data = pathlib.Path(small).read_bytes().replace(struct.pack("<I", 10**6 + 128), struct.pack("<I", 2**32 - 2))
        self.assertIn("more than deflate can pack", self.refused("inspect", self.file("bomb.npz", data)))

    def test_what_numpy_writes(self):
        try:
            import numpy
        except ImportError:
            self.skipTest("no NumPy here")
        random = numpy.random.default_rng(1)
        arrays = {}
        for kind in ("f2", "f4", "f8", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "b1"):
            for order in ("<C", ">C", "<F", ">F"):
                for shape in ((), (5,), (3, 4), (2, 3, 4)):
                    a = numpy.asarray(random.integers(0, 2 if kind == "b1" else 100, shape))
                    arrays[f"{kind}{order}{len(shape)}"] = numpy.asarray(a.astype(order[0] + kind), order=order[1])
        for save in (numpy.savez, numpy.savez_compressed):
            save(self.folder / "n.npz", **arrays)
            got = json.loads(self.good("inspect", "--stats", "--json", str(self.folder / "n.npz")))["files"][0]["arrays"]
            self.assertEqual({a["name"]: (tuple(a["shape"]), a["dtype"], a["stats"]["min"], a["stats"]["max"]) for a in got},
                             {k: (a.shape, a.dtype.newbyteorder("=").name, float(a.min()), float(a.max()))
                              for k, a in arrays.items()})


class StandardOutput(CliTest):
    def test_broken_pipe_is_silent(self):
        for restore in (True, False):  # False: the signal arrives ignored, as Python and some shells leave it
            read_end, write_end = os.pipe()
            os.close(read_end)
            p = subprocess.run([LOCALCAL, "devices"], stdout=write_end, stderr=subprocess.PIPE, restore_signals=restore)
            os.close(write_end)
            self.assertEqual(p.stderr, b"")
            self.assertEqual(p.returncode, -signal.SIGPIPE)

    def test_full_disk_is_a_failure(self):
        with open("/dev/full", "w") as full:
            p = subprocess.run([LOCALCAL, "devices"], stdout=full, stderr=subprocess.PIPE, text=True)
        self.assertEqual(p.returncode, 1)
        self.assertIn("standard output cannot be written", p.stderr)


class ScriptTest(unittest.TestCase):
    """Runs a script of third_party/ with a PATH that holds chosen real programs and chosen pretenders."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.bin = pathlib.Path(folder.name)
        self.log = self.bin / "log"
        self.real("bash", "env", "sed", "tr", "cat", "head", "uname", "nproc", "dirname")

    def real(self, *names):
        for name in names:
            (self.bin / name).symlink_to(shutil.which(name))

    def fake(self, name, body):
        path = self.bin / name
        path.write_text(f'#!/bin/bash\n{body}\n')
        path.chmod(path.stat().st_mode | stat.S_IXUSR)

    def script(self, name, *args, **environment):
        return subprocess.run([str(ROOT / "third_party" / name), *args], stdin=subprocess.DEVNULL, capture_output=True,
                              text=True, timeout=60, env={"PATH": str(self.bin), **environment})


class Install(ScriptTest):
    def debian(self, *missing, uid=1000, sudo=None):
        """A Debian where all packages but `missing` are installed; what apt-get is asked for goes to self.log."""
        self.fake("dpkg-query", 'shift 3; for p; do case " %s " in *" $p "*) ;; *) printf "installed:%%s " "$p";; esac; '
                                'done; exit %d' % (" ".join(missing), 1 if missing else 0))
        self.fake("apt-cache", "exit 0")
        self.fake("apt-get", 'echo "$@" >> %s; [ "$2" != install ] || %s' % (self.log, self.bin / "dpkg-heal"))
        self.fake("dpkg-heal", 'sed -i "s/%s//" %s; sed -i "s/exit 1/exit 0/" %s' %
                  (" ".join(missing), self.bin / "dpkg-query", self.bin / "dpkg-query"))
        self.fake("id", f"echo {uid}")
        if sudo:
            self.fake("sudo", sudo)

    def test_nothing_to_do_is_one_line_and_fast(self):
        self.debian()
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        p = self.script("install")
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        self.assertEqual((p.returncode, p.stderr), (0, ""))
        self.assertEqual(p.stdout, "install: every package of 'core' is there\n")
        seconds = after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime  # of the processor: others may be busy
        self.assertLess(seconds, 0.2)
        self.assertFalse(self.log.exists())

    def test_root_installs_only_what_is_missing(self):
        self.debian("libhwy-dev", uid=0)
        p = self.script("install", "core")
        self.assertEqual(p.returncode, 0, p.stderr)
        self.assertIn("will install: libhwy-dev\n", p.stdout)
        self.assertEqual(self.log.read_text(), "-q install -y --no-install-recommends libhwy-dev\n")

    def test_lists_are_updated_where_a_package_is_unknown(self):
        self.debian("libhwy-dev", uid=0)
        self.fake("apt-cache", "exit 100")
        self.assertEqual(self.script("install").returncode, 0)
        self.assertEqual([line.split()[1] for line in self.log.read_text().splitlines()], ["update", "install"])

    def test_sudo(self):
        self.debian("libopencv-dev", sudo='[ "$1" != -n ] || exit 0; exec "$@"')
        p = self.script("install", "full")
        self.assertEqual(p.returncode, 0, p.stderr)
        self.assertIn("libopencv-dev", self.log.read_text())

    def test_neither_root_nor_sudo_says_the_command(self):
        for sudo in (None, "exit 1"):  # none, or one that wants a password
            self.debian("libhwy-dev", "zlib1g-dev", sudo=sudo)
            p = self.script("install")
            self.assertEqual((p.returncode, p.stdout), (2, ""))
            self.assertEqual(p.stderr.splitlines()[-1],
                             ("sudo " if sudo else "") + "apt-get install --no-install-recommends libhwy-dev zlib1g-dev")
            self.assertFalse(self.log.exists())

    def test_apt_failure_is_exit_1(self):
        self.debian("libhwy-dev", uid=0)
        self.fake("apt-get", "exit 100")
        self.assertEqual(self.script("install").returncode, 1)

    def test_apt_that_installs_nothing_is_noticed(self):
        self.debian("libhwy-dev", uid=0)
        self.fake("apt-get", "exit 0")
        p = self.script("install")
        self.assertEqual(p.returncode, 1)
        self.assertIn("not there: libhwy-dev", p.stderr)

    def test_check_asks_for_clangs_runtime_where_it_is_absent(self):
        self.debian(uid=0)
        self.fake("clang", 'echo "clang version 99.0.1"')
        p = self.script("install", "check")
        self.assertIn("will install: libclang-rt-dev\n", p.stdout)

    def test_check_asks_for_clangs_runtime_where_there_is_no_clang_yet(self):
        self.debian("clang", uid=0)
        p = self.script("install", "check")
        self.assertIn("will install: clang libclang-rt-dev\n", p.stdout)

    def test_other_systems(self):
        p = self.script("install")
        self.assertEqual((p.returncode, p.stdout), (2, ""))
        self.assertIn("Google Highway", p.stderr)
        self.assertRegex(p.stderr.splitlines()[-1], "missing here: g[+][+] make ld python3 pkg-config")

        self.real("g++", "make", "ld", "python3", "pkg-config", "as")
        p = self.script("install")
        self.assertEqual((p.returncode, p.stderr), (0, ""))

    def test_bad_argument(self):
        p = self.script("install", "everything")
        self.assertEqual((p.returncode, p.stdout), (2, ""))
        self.assertIn("expected core, full or check, found 'everything'", p.stderr)


class Doctor(ScriptTest):
    def healthy(self):
        self.real("g++", "make", "ld", "as", "python3", "pkg-config")

    def smi(self, name="NVIDIA A100", capability="8.0", cuda="13.0"):
        self.fake("nvidia-smi", f'[ -n "$1" ] && echo "{name}, {capability}" || echo "| CUDA Version: {cuda} |"')

    def engines(self, text):
        rows = text.split("engines ")[1].split("\n\n")[0].splitlines()[1:]
        return {r.split()[0]: tuple(r.split()[1:3]) for r in rows}

    def test_cpu_only(self):
        self.healthy()
        p = self.script("doctor", NVCC="")
        self.assertEqual((p.returncode, p.stderr), (0, ""))
        yes, no = ("yes", "yes"), ("no", "no")
        self.assertEqual(self.engines(p.stdout), {"cpu": yes, "cuda": no, "sim": yes, "ptx": no})
        self.assertRegex(p.stdout, r"\nnext: make test .*\n\Z")

    def test_gpu_and_toolkit(self):
        self.healthy()
        self.fake("nvcc", 'echo "Cuda compilation tools, release 13.0, V13.0.88"')
        self.smi()
        p = self.script("doctor", CUDA="/nowhere")
        self.assertEqual((p.returncode, p.stderr), (0, ""))
        self.assertEqual(set(self.engines(p.stdout).values()), {("yes", "yes")})
        self.assertIn("sm_80", p.stdout)

    def test_driver_older_than_the_toolkit(self):
        self.healthy()
        self.fake("nvcc", 'echo "Cuda compilation tools, release 13.0, V13.0.88"')
        self.smi(name="Tesla T4", capability="7.5", cuda="12.2")
        p = self.script("doctor", CUDA="/nowhere")
        self.assertEqual(self.engines(p.stdout)["cuda"], ("yes", "no"))
        self.assertIn("update the driver", p.stdout)
        self.assertIn("ARCHS=75", p.stdout)

    def test_nvcc_that_is_none(self):
        self.healthy()
        self.fake("impostor", "echo hello")
        for nvcc, says in (("/no/such/nvcc", "is no program"), (str(self.bin / "impostor"), "looks like nvcc")):
            p = self.script("doctor", NVCC=nvcc)
            self.assertEqual(self.engines(p.stdout)["cuda"], ("no", "no"))
            self.assertIn(says, p.stdout)

    def test_bare_machine(self):
        p = self.script("doctor", NVCC="")
        self.assertEqual((p.returncode, p.stderr), (1, ""))
        self.assertEqual(set(self.engines(p.stdout).values()), {("no", "no")})
        self.assertTrue(p.stdout.endswith("\nnext: third_party/install core\n"))


if __name__ == "__main__":
    if not os.access(LOCALCAL, os.X_OK):
        raise SystemExit(f"{LOCALCAL} is not there; run `make build` first, or set LOCALCAL")
    unittest.main()

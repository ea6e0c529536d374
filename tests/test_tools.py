#!/usr/bin/env python3
"""Tests of the tools that run tests (tests/run), read nvcc's output (kernels/sim) and fetch NVIDIA's libraries
(third_party/cuda-libs.py).

    python3 tests/test_tools.py -v

No network and no GPU.  nvcc is needed by one class only, which skips without it; elsewhere a script plays its part.
"""
import os
import pathlib
import shutil
import stat
import struct
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "kernels" / "sim"))
sys.dont_write_bytecode = True
import resources  # noqa: E402
import sass       # noqa: E402


def executable(path, text):
    path.write_text(text)
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


class Scratch(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)


# ---- tests/run -------------------------------------------------------------------------------------------------------

class Runner(Scratch):
    BRIEF = """x.cpp:2: Failure
[  FAILED  ] A.a (0 ms)
[  FAILED  ] A.b (0 ms)
x.cpp:4: Skipped
needs a moon
[==========] 7 tests from 2 test suites ran. (0 ms total)
[  PASSED  ] 4 tests.
[  SKIPPED ] 1 test.
"""

    def run_on(self, *programs):
        """The exit code and the lines of `tests/run` on programs given as (name, output, exit code)."""
        paths = [executable(self.folder / name, f"#!/bin/sh\ncat << 'END'\n{text}END\nexit {code}\n") for name, text, code in programs]
        done = subprocess.run([sys.executable, ROOT / "tests/run", *paths], text=True, capture_output=True)
        return done.returncode, done.stdout.splitlines()

    def test_adds_up(self):
        good = "[==========] 2 tests from 1 test suite ran. (1 ms total)\n[  PASSED  ] 2 tests.\n"
        code, lines = self.run_on(("a", self.BRIEF, 1), ("b", good, 0))
        self.assertEqual((code, lines[-1]), (1, "6 passed, 2 failed, 1 skipped"))
        self.assertIn("  skipped: needs a moon", lines)
        self.assertIn("[  FAILED  ] A.b (0 ms)", lines)  # what failed is shown

    def test_all_good(self):
        self.assertEqual(self.run_on(("a", "[==========] 1 test from 1 test suite ran. (0 ms total)\n[  PASSED  ] 1 test.\n", 0))[0], 0)

    def test_a_crash_is_a_failure(self):
        code, lines = self.run_on(("a", "[ RUN ] A.a\n", 139))
        self.assertEqual((code, lines[-1]), (1, "0 passed, 1 failed, 0 skipped"))

    def test_no_test_is_a_failure(self):
        code, lines = self.run_on(("a", "[==========] 0 tests from 0 test suites ran. (0 ms total)\n[  PASSED  ] 0 tests.\n", 0))
        self.assertEqual((code, lines[-2:]), (1, ["0 passed, 0 failed, 0 skipped", "no test ran: is the filter right?"]))

    def test_unittest(self):
        test = self.folder / "test_x.py"
        test.write_text("import unittest\nclass A(unittest.TestCase):\n"
                        "    def test_a(self): self.fail()\n    def test_b(self): 1 / 0\n    def test_c(self): pass\n"
                        "    def test_d(self): self.skipTest('needs a moon')\nunittest.main()\n")
        done = subprocess.run([sys.executable, ROOT / "tests/run", test], text=True, capture_output=True)
        self.assertEqual((done.returncode, done.stdout.splitlines()[-1]), (1, "1 passed, 2 failed, 1 skipped"))


# ---- sass.py ---------------------------------------------------------------------------------------------------------

def word(operation, width=4):
    """An instruction of nothing but the fields that the decoder looks at; register form, no predicate."""
    return operation | 0x200 | 0x7 << 12, width << 9


def branch(index, target, arch):
    distance = (target - index - 1) * sass.SIZE // 4
    lo, hi = word(0x147, 0)
    if arch >= 90:
        lo |= (distance & 0xff) << 16
        distance >>= 8
    distance &= (1 << 48) - 1
    return lo | (distance << 34) & (1 << 64) - 1, hi | distance >> 30


def assemble(words):
    return b"".join(struct.pack("<QQ", lo, hi) for lo, hi in words)


FFMA, FADD, LDS, STS, NOP, EXIT = (word(o) for o in (0x023, 0x021, 0x184, 0x188, 0x118, 0x14d))


class Decoder(unittest.TestCase):
    # Words that nvcc emitted, with what nvdisasm makes of them.
    REAL = [
        (80, 0x00000b9000000947, 0x000fea0003800000, 0x08, "BRA", 0, 0xc2),     # @P0 BRA, forwards
        (80, 0xfffffb5000001947, 0x000fea000383ffff, 0x6c, "BRA", 0, 0x22),     # @P1 BRA, backwards: a loop
        (90, 0x0000000800ec0947, 0x000fea0003800000, 0x0a, "BRA", 0, 0xc6),
        (90, 0xfffffff800d41947, 0x000fec000383ffff, 0x6f, "BRA", 0, 0x25),
        (80, 0x0000000010907fae, 0x0003e20009121954, 0xbe, "LDGSTS", 32, None),
    ]

    def test_real_words(self):
        for arch, lo, hi, index, *expected in self.REAL:
            with self.subTest(arch=arch, lo=hex(lo)):
                self.assertEqual(list(sass.decode_one(lo, hi, index, arch)), expected)

    def test_operand_form_and_predicate_do_not_change_the_operation(self):
        for extra in (0x000, 0x200, 0x800, 0xc00, 0x8000):
            self.assertEqual(sass.decode_one(0x023 | extra, 0, 0, 80).name, "FFMA")

    def test_widths(self):
        for field, bits in ((0, 8), (1, 8), (2, 16), (3, 16), (4, 32), (5, 64), (6, 128)):
            self.assertEqual(sass.decode_one(*word(0x184, field), 0, 80).bits, bits)
        self.assertEqual(sass.decode_one(*word(0x023, 6), 0, 80).bits, 0, "FFMA has no width, whatever these bits say")

    def test_unknown_operation_is_shown_by_its_number(self):
        self.assertEqual(sass.decode_one(*word(0x1ff), 0, 80).name, "0x1ff")

    def test_branches_of_both_encodings(self):
        for arch in (75, 80, 86, 89, 90):
            for index, target in ((0, 1), (5, 0), (5, 5), (0, 5000), (5000, 3)):
                lo, hi = branch(index, target, arch)
                self.assertEqual(sass.decode_one(lo, hi, index, arch).target, target, (arch, index, target))

    def test_padding_is_not_part_of_the_kernel(self):
        program = sass.decode(assemble([FFMA, EXIT, branch(2, 2, 80), NOP, NOP]), 80)
        self.assertEqual([i.name for i in program], ["FFMA", "EXIT"])

    def test_empty_kernel(self):
        self.assertEqual(sass.decode(b"", 80), [])
        self.assertIsNone(sass.hottest_loop([]))


class Loops(unittest.TestCase):
    def nested(self, arch):
        """0 FADD | 1 FADD, 2..4 inner loop of 2 FFMA, 5 LDS.128, 6 branch to 1 | 7 STS.64, 8 branch to 7 | 9 EXIT"""
        lds128, sts64 = word(0x184, 6), word(0x188, 5)
        return sass.decode(assemble([FADD, FADD, FFMA, FFMA, branch(4, 2, arch), lds128, branch(6, 1, arch), sts64,
                                     branch(8, 7, arch), EXIT]), arch)

    def test_loops_and_what_is_their_own(self):
        for arch in (80, 90):
            loops = sass.find_loops(self.nested(arch))
            self.assertEqual([(l.first, l.last) for l in loops], [(1, 6), (2, 4), (7, 8)])
            self.assertEqual([[i.name for i in l.own] for l in loops],
                             [["FADD", "LDS", "BRA"], ["FFMA", "FFMA", "BRA"], ["STS", "BRA"]])

    def test_hottest_has_most_float32(self):
        self.assertEqual(sass.hottest_loop(self.nested(80))[:2], (2, 4))

    def test_two_branches_to_one_target_are_one_loop(self):
        program = sass.decode(assemble([FADD, branch(1, 0, 80), FFMA, branch(3, 0, 80), EXIT]), 80)
        self.assertEqual([(l.first, l.last) for l in sass.find_loops(program)], [(0, 3)])

    def test_forward_branches_make_no_loop(self):
        self.assertEqual(sass.find_loops(sass.decode(assemble([branch(0, 2, 80), FFMA, EXIT]), 80)), [])

    def test_wavefronts(self):
        words = [word(0x184, 6), word(0x184, 5), LDS, STS, word(0x184, 0), word(0x1ae, 6), word(0x181, 6), FFMA]
        self.assertEqual(sass.shared_wavefronts(sass.decode(assemble(words), 80)), 4 + 2 + 1 + 1 + 1 + 4)


def cubin(sections, flags=0x6005004, abi=8):
    """An ELF file with these sections and nothing else."""
    sections = {"": b"", **sections, ".shstrtab": b""}
    names, starts = b"", {}
    for name in sections:
        starts[name] = len(names)
        names += name.encode() + b"\0"
    sections[".shstrtab"] = names
    body, headers = b"", b""
    for name, data in sections.items():
        headers += struct.pack("<IIQQQQIIQQ", starts[name], 1, 0, 0, 64 + len(body), len(data), 0, 0, 0, 0)
        body += data
    ident = b"\x7fELF\x02\x01\x01\x41" + bytes([abi]) + bytes(7)
    return struct.pack("<16sHHIQQQIHHHHHH", ident, 2, 190, 1, 0, 0, 64 + len(body), flags, 64, 0, 0, 64, len(sections),
                       len(sections) - 1) + body + headers


# A two-byte attribute, one with a size, then the number of threads that __launch_bounds__(16 * 8) leaves.
INFO = (struct.pack("<BBH", 0x03, 0x1b, 0xff) + struct.pack("<BBHI", 0x04, 0x17, 4, 5) +
        struct.pack("<BBHIII", 0x04, 0x05, 12, 16, 8, 1))
KERNEL = "_ZN2lc4cuda3fooILi4EEEvPf"


class Cubin(Scratch):
    def read(self, data):
        path = self.folder / "x.cubin"
        path.write_bytes(data)
        return sass.read_cubin(path)

    def test_code_and_threads(self):
        code = assemble([FFMA, EXIT])
        arch, kernels = self.read(cubin({".text." + KERNEL: code, ".nv.info." + KERNEL: INFO}))
        self.assertEqual((arch, kernels), (80, {KERNEL: sass.Kernel(code, 128)}))

    def test_kernel_without_launch_bounds(self):
        _, kernels = self.read(cubin({".text." + KERNEL: b"", ".nv.info." + KERNEL: INFO[:12]}))
        self.assertIsNone(kernels[KERNEL].max_threads)

    def test_architecture_of_both_abis(self):
        self.assertEqual(self.read(cubin({}, flags=0x6005a04, abi=8))[0], 90)
        self.assertEqual(self.read(cubin({}, flags=0x560556, abi=7))[0], 86)

    def test_other_files_are_refused(self):
        for data in (b"", b"text", b"\x7fELF\x02" + bytes(60)):
            with self.assertRaisesRegex(ValueError, "not a cubin"):
                self.read(data)


# ---- resources.py ----------------------------------------------------------------------------------------------------

PTXAS = """\
ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function '_ZN2lc4cuda3fooILi4EEEvPf' for 'sm_80'
ptxas info    : Function properties for _ZN2lc4cuda3fooILi4EEEvPf
    {stack} bytes stack frame, {stores} bytes spill stores, {loads} bytes spill loads
ptxas info    : Used 114 registers, used 1 barriers, 16896 bytes smem, 408 bytes cmem[0]
ptxas info    : Compile time = 104.787 ms
"""
SECOND = """\
ptxas info    : Compiling entry function '_Z3barv' for 'sm_80'
ptxas info    : Function properties for _Z3barv
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 8 registers, used 0 barriers
"""


class Ptxas(unittest.TestCase):
    def test_two_kernels(self):
        text = PTXAS.format(stack=24, stores=4, loads=8) + SECOND
        self.assertEqual(resources.parse_ptxas(text), {80: {KERNEL: resources.Usage(114, 12, 24, 16896),
                                                            "_Z3barv": resources.Usage(8, 0, 0, 0)}})

    def test_nothing(self):
        self.assertEqual(resources.parse_ptxas("ptxas info    : 0 bytes gmem\n"), {})


class Directives(unittest.TestCase):
    def test_read(self):
        source = ("LC_DYNAMIC_SMEM(float, s);\n// resources: foo dynamic_smem=29440\n"
                  "    // resources: bar dynamic_smem=8\n")
        self.assertEqual(resources.parse_directives(source, "x.cu"), {"foo": 29440, "bar": 8})
        self.assertEqual(resources.parse_directives("int x;", "x.cu"), {})

    def test_refused(self):
        for source in ("LC_DYNAMIC_SMEM(float, s);", "// resources: foo smem=1\n", "//resources: foo dynamic_smem=1k\n",
                       "// resources: a dynamic_smem=1\n// resources: a dynamic_smem=2\n"):
            with self.subTest(source), self.assertRaisesRegex(resources.Failure, "x.cu.*dynamic_smem=<bytes>"):
                resources.parse_directives(source, "x.cu")


def row(kernel="foo<4>", arch=80, registers=114, spill=0, file="x.cu"):
    return resources.Row(file, kernel, arch, resources.Usage(registers, spill, 0, 16896), 256, 0, ("584", "88", "136"))


def table(rows, version="13.0.88"):
    return resources.format_table(rows, [(2, 16, 25, "registers")] * len(rows), version)


class Table(unittest.TestCase):
    def test_a_row(self):
        text = table([row()])
        self.assertIn("\n\nx.cu\narch ", text)
        self.assertEqual(text.splitlines()[-1].split(),
                         "sm_80 114 0 0 16896 256 2 25% registers 584 88 136 foo<4>".split())
        self.assertEqual(resources.table_version(text), "13.0.88")
        self.assertNotRegex(text, r" \n|/", "neither trailing blanks nor paths")

    def test_architecture_without_a_gpu(self):
        text = resources.format_table([row(arch=120)], [None], "13.0.88")
        self.assertEqual(text.splitlines()[-1].split()[6:9], ["-", "-", "-"])

    def test_alignment_is_no_difference(self):
        text = table([row(), row("bar<int, float>")])
        self.assertEqual(resources.differences(text.replace("16896", "  16896"), text), [])

    def test_differences_are_readable(self):
        old, new = table([row(), row("bar")]), table([row(registers=120), row("bar")])
        self.assertEqual(resources.differences(old, new),
                         ["-x.cu  sm_80  114  0  0  16896  256  2  25%  registers  584  88  136  foo<4>",
                          "+x.cu  sm_80  120  0  0  16896  256  2  25%  registers  584  88  136  foo<4>"])

    def test_same_kernel_in_another_file_is_a_difference(self):
        self.assertEqual(len(resources.differences(table([row()]), table([row(file="y.cu")]))), 2)


class Check(Scratch):
    def check(self, rows, old_rows=None, version="13.0.88", old_version="13.0.88"):
        path = self.folder / "RESOURCES.txt"
        if old_rows is not None:
            path.write_text(table(old_rows, old_version))
        with open(os.devnull, "w") as null:
            sys.stdout, screen = null, sys.stdout
            try:
                return resources.check(path, table(rows, version), version, rows)
            finally:
                sys.stdout = screen

    def test_equal(self):
        self.assertEqual(self.check([row()], [row()]), [])

    def test_no_file(self):
        self.assertRegex(self.check([row()])[0], "does not exist; `make resources` writes it")

    def test_changed_added_removed(self):
        for new, old in (([row(registers=120)], [row()]), ([row(), row("bar")], [row()]),
                         ([row()], [row(), row("bar")])):
            wrong = self.check(new, old)
            self.assertIn("rows changed", wrong[0])
            self.assertIn("make resources", wrong[-1])

    def test_other_compiler_is_not_compared(self):
        self.assertEqual(self.check([row(registers=120)], [row()], version="13.1.20"), [])

    def test_spill_fails_always(self):
        spilling = [row(spill=8)]
        for arguments in ({"old_rows": spilling}, {"old_rows": spilling, "old_version": "12.9.1"}, {}):
            wrong = self.check(spilling, **arguments)
            self.assertRegex(wrong[0], r"x.cu: foo<4> spills 8 bytes on sm_80")


class ObjectRows(Scratch):
    """With a cubin made here and what ptxas would say."""

    def rows(self, info=INFO, source="", messages=PTXAS.format(stack=0, stores=0, loads=0)):
        words = [FFMA, word(0x184, 6), FFMA, branch(3, 0, 80), EXIT]
        (self.folder / "x.sm_80.cubin").write_bytes(cubin({".text." + KERNEL: assemble(words), ".nv.info." + KERNEL: info}))
        (self.folder / "ptxas.log").write_text(messages)
        path = self.folder / "x.cu"
        path.write_text(source)
        return resources.object_rows(path, self.folder)

    @unittest.skipUnless(shutil.which("c++filt"), "no c++filt here (package binutils)")
    def test_row(self):
        expected = resources.Row("x.cu", "foo<4>", 80, resources.Usage(114, 0, 0, 16896), 128, 64, ("4", "50", "4"))
        self.assertEqual(self.rows(source="// resources: foo dynamic_smem=64\n"), [expected])

    @unittest.skipUnless(shutil.which("c++filt"), "no c++filt here (package binutils)")
    def test_refused(self):
        for problem, arguments in (("needs __launch_bounds__", {"info": INFO[:12]}),
                                   ("no kernel of this file", {"source": "// resources: baz dynamic_smem=64\n"}),
                                   ("differ in", {"messages": SECOND}),
                                   ("differ in", {"messages": SECOND.replace("sm_80", "sm_90")})):
            with self.subTest(problem), self.assertRaisesRegex(resources.Failure, problem):
                self.rows(**arguments)

    def test_nothing_kept(self):
        with self.assertRaisesRegex(resources.Failure, "has no cubins; `make resources`"):
            resources.object_rows(self.folder / "x.cu", self.folder)


@unittest.skipUnless(shutil.which(os.environ.get("NVCC") or "nvcc"), "no nvcc here: cuda_occupancy.h comes with it")
class Occupancy(unittest.TestCase):
    """Against numbers that NVIDIA printed, for older GPUs with the same 64 Ki registers, handed out in units of
    256 per warp, and the same 64 warps per multiprocessor as sm_80."""

    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.program = resources.build_occupancy(os.environ.get("NVCC") or "nvcc", pathlib.Path(folder.name))

    def ask(self, *questions):
        return resources.occupancy(self.program, questions)

    def test_published_values(self):
        answers = self.ask((80, 37, 0, 0, 128), (80, 37, 0, 0, 320), (80, 64, 0, 0, 512), (80, 65, 0, 0, 512))
        # CUDA C++ Best Practices Guide, "Calculating Occupancy": 37 registers, 12 blocks of 128 threads fit, 75 %, but
        # only 4 of 320 threads, 63 %
        self.assertEqual([a[:3] for a in answers[:2]], [(12, 48, 75), (4, 40, 63)])
        # CUDA C++ Programming Guide, "Multiprocessor Level": 64 registers, 2 blocks of 512 threads fit; 65, only one
        self.assertEqual([a[0] for a in answers[2:]], [2, 1])

    def test_shared_memory_and_limits(self):
        # 164 KiB on sm_80 and 100 KiB on sm_86, and 1 KiB of each block is the driver's: 5 and 3 blocks of 31 KiB
        answers = self.ask((80, 32, 31 * 1024, 0, 128), (86, 32, 0, 31 * 1024, 128), (90, 255, 0, 0, 1024))
        self.assertEqual([(a[0], a[3]) for a in answers], [(5, "shared"), (3, "shared"), (0, "registers")])

    def test_unknown_gpu(self):
        with self.assertRaisesRegex(resources.Failure, "no GPU of sm_70"):
            self.ask((70, 32, 0, 0, 128))


# ---- cuda-libs.py ----------------------------------------------------------------------------------------------------

FAKE_PIP = """\
import os, pathlib, sys, zipfile
here = pathlib.Path(__file__).parent
if sys.argv[1] == "--version":
    sys.exit(0 if not (here / "broken").exists() else 1)
folder, requirement = sys.argv[-2:]
(here / "calls").open("a").write(requirement + "\\n")
if (here / "offline").exists():
    sys.exit("ERROR: Could not find a version that satisfies the requirement " + requirement)
name = requirement.split("==")[0]
with zipfile.ZipFile(os.path.join(folder, name + "-1-py3-none-any.whl"), "w") as wheel:
    for line in (here / name).read_text().splitlines():
        wheel.writestr(line, "content of " + line)
"""
CUBLAS_WHEEL = ["nvidia/cu13/include/cublas_v2.h", "nvidia/cu13/lib/libcublas.so.13",
                "nvidia/cu13/lib/libcublasLt.so.13", "nvidia/cu13/lib/libnvblas.so.13",
                "nvidia_cublas-1.dist-info/licenses/License.txt"]
CUBLAS12_WHEEL = ["nvidia/cublas/include/cublas_v2.h", "nvidia/cublas/lib/libcublas.so.12",
                  "nvidia/cublas/lib/libcublasLt.so.12", "nvidia/__init__.py"]
CUTLASS_WHEEL = ["cutlass_library/source/include/cutlass/cutlass.h", "cutlass_library/source/tools/x.h",
                 "pycute/layout.py"]


class CudaLibs(Scratch):
    def setUp(self):
        super().setUp()
        self.pip = self.folder / "python" / "pip"
        self.pip.mkdir(parents=True)
        (self.pip / "__init__.py").write_text("")
        (self.pip / "__main__.py").write_text(FAKE_PIP)
        for name, members in (("nvidia-cublas", CUBLAS_WHEEL), ("nvidia-cublas-cu12", CUBLAS12_WHEEL),
                              ("nvidia-cutlass", CUTLASS_WHEEL)):
            (self.pip / name).write_text("\n".join(members))
        (self.folder / "third_party").mkdir()
        shutil.copy(ROOT / "third_party" / "cuda-libs.py", self.folder / "third_party")
        self.libs = self.folder / "third_party" / "cuda-libs"

    def run_script(self, release="13.0", has_cublas=False, nvcc=None):
        probe = 0 if has_cublas else 1   # the exit code of `nvcc -E` on a file that includes cublas_v2.h
        nvcc = nvcc or executable(self.folder / "nvcc", '#!/bin/sh\ncase "$1" in\n'
                                  f'--version) echo "release {release}, V{release}.1" ;;\n*) exit {probe} ;;\nesac\n')
        environment = dict(os.environ, NVCC=str(nvcc), PYTHONPATH=str(self.pip.parent), PYTHONDONTWRITEBYTECODE="1")
        return subprocess.run([sys.executable, "third_party/cuda-libs.py"], cwd=self.folder, env=environment,
                              capture_output=True, text=True)

    def files(self):
        return sorted(str(p.relative_to(self.libs)) for p in self.libs.rglob("*") if not p.is_dir())

    def calls(self):
        log = self.pip / "calls"
        return log.read_text().splitlines() if log.exists() else []

    def test_unpacks_what_is_needed_then_nothing(self):
        first = self.run_script()
        self.assertEqual(first.returncode, 0, first.stderr)
        self.assertIn("downloading nvidia-cublas==13.0.*, 400 to 600 MB", first.stdout)
        self.assertIn("MB in third_party/cuda-libs/cublas", first.stdout)
        expected = ["cublas/LICENSE.txt", "cublas/RELEASE", "cublas/include/cublas_v2.h", "cublas/lib/libcublas.so",
                    "cublas/lib/libcublas.so.13", "cublas/lib/libcublasLt.so", "cublas/lib/libcublasLt.so.13",
                    "cutlass/RELEASE", "cutlass/include/cutlass/cutlass.h"]
        self.assertEqual(self.files(), expected)
        self.assertEqual(os.readlink(self.libs / "cublas/lib/libcublas.so"), "libcublas.so.13")
        self.assertEqual(self.calls(), ["nvidia-cublas==13.0.*", "nvidia-cutlass==4.2.*"])

        second = self.run_script()
        self.assertEqual((second.returncode, second.stdout.count("nothing to do")), (0, 2))
        self.assertEqual((self.files(), len(self.calls())), (expected, 2))

    def test_only_cutlass_where_the_toolkit_has_cublas(self):
        done = self.run_script(has_cublas=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("has its own", done.stdout)
        self.assertEqual(self.files(), ["cutlass/RELEASE", "cutlass/include/cutlass/cutlass.h"])

    def test_wheel_of_cuda_12_and_change_of_toolkit(self):
        self.assertEqual(self.run_script("12.9").returncode, 0)
        self.assertIn("cublas/lib/libcublas.so.12", self.files())
        self.assertEqual(self.run_script("13.0").returncode, 0)
        self.assertIn("cublas/lib/libcublas.so.13", self.files())
        self.assertNotIn("cublas/lib/libcublas.so.12", self.files())
        self.assertEqual(self.calls(),
                         ["nvidia-cublas-cu12==12.9.*", "nvidia-cutlass==4.2.*", "nvidia-cublas==13.0.*"])

    def test_no_network(self):
        (self.pip / "offline").touch()
        done = self.run_script()
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("cuda-libs: pip could not download nvidia-cublas==13.0.*: is the network there", done.stderr)
        self.assertEqual(list(self.libs.iterdir()), [], "nothing is left behind")

    def test_no_pip(self):
        (self.pip / "broken").touch()
        done = self.run_script()
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("install python3-pip", done.stderr)

    def test_no_nvcc(self):
        done = self.run_script(nvcc=self.folder / "absent")
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("no nvcc found", done.stderr)

    def test_wheel_with_another_layout_keeps_the_old_one(self):
        self.run_script("12.9")
        before = self.files()
        for members, message in (([CUBLAS_WHEEL[0], CUBLAS_WHEEL[1]], "has no libcublasLt.so.13"),
                                 (CUBLAS_WHEEL[1:3], "has no headers")):
            (self.pip / "nvidia-cublas").write_text("\n".join(members))
            done = self.run_script("13.0")
            self.assertNotEqual(done.returncode, 0)
            self.assertIn(message, done.stderr)
            self.assertEqual(self.files(), before)

    def test_wheel_cannot_write_elsewhere(self):
        (self.pip / "nvidia-cutlass").write_text("cutlass_library/source/include/../../../../evil.h")
        done = self.run_script(has_cublas=True)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("leads outside", done.stderr)
        self.assertEqual(list(self.folder.rglob("evil.h")), [])


if __name__ == "__main__":
    unittest.main()

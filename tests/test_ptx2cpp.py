#!/usr/bin/env python3
"""kernels/sim/ptx2cpp.py: grammar, source lines, refusals, and that nothing it can translate goes untested.

What the translated code computes is tested by tests/test_ptx.cpp.
"""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import types
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent
SIM = ROOT / "kernels" / "sim"
sys.path.insert(0, str(SIM))

from ptx import arithmetic, control, convert, memory, translate  # noqa: E402
from ptx.model import PtxError  # noqa: E402
from ptx.parser import parse, split_operands  # noqa: E402
from ptx.registry import EMITTERS  # noqa: E402

NVCC = shutil.which("nvcc") or shutil.which("/usr/local/cuda/bin/nvcc")
HEADER = ".version 9.0\n.target sm_80\n.address_size 64\n"
REGISTERS = ".reg .pred %p<5>; .reg .b16 %rs<5>; .reg .b32 %r<9>; .reg .b64 %rd<9>; .reg .f32 %f<9>; .reg .f64 %fd<9>;\n"


def kernel(body, params="", before=""):
    return f"{HEADER}{before}.visible .entry k({params})\n{{\n{REGISTERS}{body}\nret;\n}}\n"


def cpp(body, params="", before=""):
    """Translation of a kernel with this body."""
    return translate.translate(kernel(body, params, before), "k.ptx", "k.cpp")


def statement(text):
    """C++ of one instruction, without its comment."""
    line = next(l for l in cpp(text).split("\n") if l.endswith(f"// {text.rstrip(';')}"))
    return line.split("  //")[0].strip()


class Grammar(unittest.TestCase):
    def test_operands_split_outside_of_brackets(self):
        self.assertEqual(split_operands("{%f1, %f2}, [%rd1+4], (a, b)"), ["{%f1, %f2}", "[%rd1+4]", "(a, b)"])
        self.assertEqual(split_operands(""), [])

    def test_instruction_over_several_lines(self):
        module = parse(kernel("call.uni (r),\nfn,\n(\np0,\np1\n);"), "k.ptx")
        call = next(i for i in module.functions[0].body if getattr(i, "opcode", "") == "call")
        self.assertEqual((call.line, call.operands), (7, ["(r)", "fn", "( p0, p1 )"]))

    def test_comments_and_strings(self):
        module = parse('.file 1 "a//b.cu"\n' + kernel("/* add.s32\n */ mov.u32 %r1, 5; // mov.u32 %r2, 5;"), "k.ptx")
        self.assertEqual([i.opcode for i in module.functions[0].body if hasattr(i, "opcode")], ["mov", "ret"])

    def test_guards(self):
        self.assertEqual(statement("@!%p1 mov.u32 %r1, %r2;"), "if (!p1) { r1 = r2; }")

    def test_declarations(self):
        before = ".global .align 4 .b8 table[6] = {1, 2, -1, 0xff};\n.const .align 8 .f64 one = 0d3FF0000000000000;\n"
        text = cpp("mov.u64 %rd1, table; mov.u64 %rd2, one;", before=before)
        self.assertIn("alignas(4) static uint8_t var_table[6] = {1u, 2u, 255u, 255u};", text)
        self.assertIn("alignas(8) static const uint64_t var_one[1] = {4607182418800017408ull};", text)

    def test_parameters_lie_as_nvcc_lays_them(self):
        params = (".param .u8 a, .param .u64 .ptr .global .align 4 b, .param .align 4 .b8 c[6], .param .u16 d, "
                  ".param .align 16 .b8 e[16], .param .f32 f")
        text = cpp("ld.param.u16 %rs1, [d]; ld.param.f32 %f1, [f]; ld.param.v2.f32 {%f2, %f3}, [e+8];", params)
        self.assertIn("*(const uint16_t*)((uint64_t)(P + 22))", text)
        self.assertIn("*(const float*)((uint64_t)(P + 48))", text)
        self.assertIn("*(const uint64_t*)((uint64_t)(P + 32) + 8)", text)
        self.assertIn('px::register_kernel("k", {&entry_k, 52})', text)

    def test_inner_names_hide_outer_ones_and_labels_repeat(self):
        block = "{ .reg .u32 %r1; mov.u32 %r1, 5; AGAIN: @%p1 bra AGAIN; }\n"
        text = cpp("mov.u32 %r1, 7;\n" + block + block)
        self.assertIn("r1 = (uint32_t)7u;", text)
        self.assertIn("r1_2 = (uint32_t)5u;", text)
        self.assertIn("goto L_AGAIN_2;", text)
        self.assertIn("goto L_AGAIN_3;", text)

    def test_float_registers_of_newer_compilers(self):
        text = translate.translate(kernel("").replace(".reg .f32 %f<9>;", ".reg .b32 %f<9>;").replace(
            "\nret;", "\nadd.f32 %f1, %f2, 0f3F800000;\nret;"), "k.ptx", "k.cpp")
        self.assertIn("f1 = (f2 + px::bits<float>(UINT32_C(0x3F800000)));", text)

    def test_shared_arrays_keep_their_names(self):
        self.assertEqual(translate.short_name("_ZZN2lc3sim6kernelEPfE4tile"), "tile")
        self.assertEqual(translate.short_name("_ZZN2lc3sim6kernelEPfE4tile_0"), "tile")
        self.assertEqual(translate.short_name("plain"), "plain")
        text = cpp("ld.shared.f32 %f1, [_ZZ1kvE4tile+8];", before=".shared .align 16 .b8 _ZZ1kvE4tile[64];\n")
        self.assertIn('{"tile", 64, "", 0}', text)

    def test_a_file_without_kernels(self):
        self.assertNotIn("register_kernel", translate.translate(HEADER, "empty.ptx", "empty.cpp"))


class SourceLines(unittest.TestCase):
    """#line points at the kernel, and names the inlined line, too."""

    def lines(self, locs, files=""):
        root = os.getcwd()
        table = (f'.file 1 "{root}/kernels/a.cu"\n.file 2 "{root}/kernels/device.cuh"\n'
                 f'.file 3 "/usr/include/math.h"\n.file 4 "{root}/kernels/launch.h"\n')
        text = translate.translate(kernel(locs) + table, "k.ptx", "k.cpp")
        return [l for l in text.split("\n") if l.startswith("#line") and "k.cpp" not in l]

    def test_plain(self):
        self.assertEqual(self.lines(".loc 1 42 7\nmov.u32 %r1, 5;")[0], '#line 42 "kernels/a.cu"')

    def test_inlined_twice(self):
        locs = (".loc 1 42 7\n.loc 2 10 3, function_name $L__info_string0, inlined_at 1 42 7\n"
                ".loc 2 20 5, function_name $L__info_string1+4, inlined_at 2 10 3\nbar.sync 0;")
        self.assertEqual(self.lines(locs)[0], '#line 42 "kernels/device.cuh:20@a.cu"')

    def test_library_and_dialect_are_not_the_kernel(self):
        for file in (3, 4):
            locs = f".loc 1 42 7\n.loc {file} 9 3, function_name $L__info_string0, inlined_at 1 42 7\nmov.u32 %r1, 5;"
            self.assertEqual(self.lines(locs)[0], '#line 42 "kernels/a.cu"')

    def test_the_last_call_site_counts(self):
        locs = (".loc 2 10 3, function_name $L__info_string0, inlined_at 1 42 7\nmov.u32 %r1, 5;\n"
                ".loc 2 10 3, function_name $L__info_string0, inlined_at 1 50 7\n"
                ".loc 2 20 5, function_name $L__info_string1, inlined_at 2 10 3\nmov.u32 %r2, 5;")
        self.assertEqual(self.lines(locs)[1], '#line 50 "kernels/device.cuh:20@a.cu"')

    def test_line_zero_keeps_the_place_before(self):
        self.assertEqual(self.lines(".loc 1 42 7\nmov.u32 %r1, 5;\n.loc 1 0 7\nmov.u32 %r2, 5;")[1], '#line 42 "kernels/a.cu"')

    def test_generated_lines_name_themselves(self):
        text = translate.translate(kernel(".loc 1 42 7\nmov.u32 %r1, 5;") + '.file 1 "x.cu"\n', "k.ptx", "k.cpp").split("\n")
        for i, line in enumerate(text):
            match = re.match(r'#line (\d+) "k.cpp"', line)
            if match:
                self.assertEqual(int(match.group(1)), i + 2)


class Refusals(unittest.TestCase):
    """What is not known stops the translation, with the line, the text and what to do."""

    def refused(self, body, why, params="", before=""):
        with self.assertRaises(PtxError, msg=body) as caught:
            cpp(body, params, before)
        self.assertIn(why, caught.exception.why)
        self.assertTrue(caught.exception.advice)
        return caught.exception

    def test_opcodes_and_modifiers(self):
        for body, why in (
                ("vabsdiff4.u32.u32.u32 %r1, %r2, %r3, %r4;", "opcode 'vabsdiff4' is not supported"),
                ("add.foo.s32 %r1, %r2, %r3;", "modifier .foo is not supported"),
                ("add.f16x2 %r1, %r2, %r3;", "type"),
                ("add.s8 %rs1, %rs2, %rs3;", "type .s8"),
                ("add.s32 %r1, %r2;", "3 operands were expected, found 2"),
                ("add.ftz.f64 %fd1, %fd2, %fd3;", ".ftz is for .f32"),
                ("add.sat.u32 %r1, %r2, %r3;", ".sat is for .s32"),
                ("fma.rn.sat.f64 %fd1, %fd2, %fd3, %fd4;", ".sat is for .f32"),
                ("mul.s32 %r1, %r2, %r3;", "one of .lo .hi .wide was expected"),
                ("mul.wide.u64 %rd1, %rd2, %rd3;", ".wide"),
                ("mad.wide.cc.u32 %rd1, %r2, %r3, %rd4;", "carry"),
                ("rcp.approx.f64 %fd1, %fd2;", ".ftz"),
                ("rsqrt.rn.f32 %f1, %f2;", ".approx"),
                ("ex2.f32 %f1, %f2;", ".approx"),
                ("dp4a.u16.u16 %r1, %r2, %r3, %r4;", ".u32 and .s32"),
                ("set.lt.u64.f32 %rd1, %f1, %f2;", "the result is"),
                ("slct.u32.u32 %r1, %r2, %r3, %r4;", "the condition is"),
                ("setp.lt.b32 %p1, %r1, %r2;", "one of .eq .ne"),
                ("cvt.f32.f64 %f1, %fd1;", "rounding mode"),
                ("cvt.s32.f32 %r1, %f1;", ".rni"),
                ("cvt.rn.f16.f64 %rs1, %fd1;", "cvt.rn.f16.f32"),
                ("cvt.f32.s32 %f1, %r1;", "rounding mode"),
                ("cvt.ftz.s32.s64 %r1, %rd1;", ".ftz"),
                ("mov.b64 {%rs1, %rs2, %rs3}, %rd1;", "do not fill"),
                ("ld.global.v4.u64 {%rd1, %rd2, %rd3, %rd4}, [%rd5];", "32 bytes"),
                ("ld.global.v4.u32 {%r1, %r2}, [%rd5];", "4 destinations"),
                ("st.global.v2.u32 [%rd5], %r1;", "2 values"),
                ("atom.global.cas.b16 %rs1, [%rd1], 1, 2;", "atomic cas of .b16"),
                ("bar.sync 1;", "barrier 0"),
                ("bar.sync 0, 64;", "1 operands"),
                ("bar.red.popc.u32 %r1, 0, %p1;", ".sync"),
                ("bar.warp.arrive %r1;", "bar.warp.sync"),
                ("shfl.up.b32 %r1, %r2, 1, 0;", "shfl.sync"),
                ("vote.all.pred %p1, %p2;", "vote.sync"),
                ("vote.sync.all.b32 %r1, %p2, %r3;", "a predicate"),
                ("match.any.b32 %r1, %r2, -1;", "match.sync"),
                ("redux.add.u32 %r1, %r2, -1;", "redux.sync"),
                ("brx %r1, table;", "brx.idx"),
                ("trap.now;", "modifier .now")):
            with self.subTest(body):
                e = self.refused(body, why)
                self.assertEqual((e.line, e.text), (7, body.rstrip(";")))

    def test_names(self):
        self.refused("mov.u32 %r1, nowhere;", "'nowhere' is not declared")
        self.refused("mov.u32 %r99, 1;", "is not a register")
        self.refused("add.u32 %r1, %r99, 1;", "is not declared")
        self.refused("bra nowhere;", "label 'nowhere' is not declared")
        self.refused("brx.idx %r1, nowhere;", "branch targets 'nowhere' are not declared")
        self.refused("mov.u32 %r1, 5;\nmov.f64 %f1, %fd2;", "does not fit")
        self.refused("ld.global.u32 %r1, [%rd1*4];", "is not understood")

    def test_functions_outside_of_the_file(self):
        e = self.refused("call.uni (r), vprintf, (a);", "outside of this file",
                         before=".extern .func (.param .b32 r) vprintf (.param .b64 a, .param .b64 b);\n"
                         ).advice
        self.assertIn("printf", e)

    def test_leaving_the_thread_from_a_function(self):
        with self.assertRaises(PtxError) as caught:
            translate.translate(HEADER + ".func f()\n{\nexit;\n}\n", "k.ptx", "k.cpp")
        self.assertIn("exit ends the thread", caught.exception.why)

    def test_local_memory_has_a_limit(self):
        self.assertIn("global memory", self.refused(".local .align 4 .b8 a[20000]; mov.u32 %r1, 5;", "of local memory").advice)

    def test_directives(self):
        for text in (".tex .u32 t;\n", ".global .v4 .f32 a;\n", ".global .b32 a = {b};\n", ".entry 5();\n", ".global a;\n"):
            with self.subTest(text), self.assertRaises(PtxError):
                translate.translate(HEADER + text, "k.ptx", "k.cpp")
        with self.assertRaises(PtxError):
            translate.translate(HEADER.replace("64", "32"), "k.ptx", "k.cpp")
        with self.assertRaises(PtxError):
            translate.translate(HEADER + ".entry k()\n{\nret;\n", "k.ptx", "k.cpp")


class CommandLine(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def translate(self, text):
        source, output = (os.path.join(self.folder.name, n) for n in ("in.ptx", "out.cpp"))
        with open(source, "w") as f:
            f.write(text)
        return subprocess.run([sys.executable, str(SIM / "ptx2cpp.py"), source, output], text=True, capture_output=True)

    def files(self):
        return sorted(os.listdir(self.folder.name))

    def test_success(self):
        self.assertEqual(self.translate(kernel("mov.u32 %r1, 5;")).returncode, 0)
        self.assertEqual(self.files(), ["in.ptx", "out.cpp"])

    def test_refusal_leaves_nothing_behind(self):
        self.translate(kernel("mov.u32 %r1, 5;"))  # an older output, which must not survive
        done = self.translate(kernel("mov.u32 %r1, 5;\nvabsdiff4.u32.u32.u32 %r1, %r2, %r3, %r4;"))
        self.assertEqual(done.returncode, 2)
        first, text, advice = done.stderr.split("\n")[:3]
        self.assertTrue(first.endswith("in.ptx:8: opcode 'vabsdiff4' is not supported"), first)
        self.assertEqual(text.strip(), "vabsdiff4.u32.u32.u32 %r1, %r2, %r3, %r4")
        self.assertIn("add an emitter", advice)
        self.assertEqual(self.files(), ["in.ptx"])

    def test_wrong_use(self):
        script = [sys.executable, str(SIM / "ptx2cpp.py")]
        self.assertEqual(subprocess.run(script, capture_output=True).returncode, 2)
        done = subprocess.run(script + ["missing.ptx", os.path.join(self.folder.name, "o.cpp")], capture_output=True, text=True)
        self.assertEqual(done.returncode, 2)
        self.assertIn("missing.ptx", done.stderr)


def executed_lines(modules, action):
    """Lines of these modules that run while `action` does, as (file, line)."""
    files, seen = {m.__file__ for m in modules}, set()

    def trace(frame, event, _argument):
        if frame.f_code.co_filename not in files:
            return None
        if event == "line":
            seen.add((frame.f_code.co_filename, frame.f_lineno))
        return trace

    sys.settrace(trace)
    try:
        action()
    finally:
        sys.settrace(None)
    return seen


def code_lines(code):
    """Lines inside of functions that have instructions."""
    lines = set()
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            inner = {line for _, _, line in constant.co_lines() if line} if hasattr(constant, "co_lines") else \
                {line for _, line in __import__("dis").findlinestarts(constant)}
            lines |= (inner - {constant.co_firstlineno}) | code_lines(constant)
    return lines


@unittest.skipUnless(NVCC, "needs nvcc")
class Completeness(unittest.TestCase):
    """Everything that can be translated is executed by tests/test_ptx.cpp on the PTX of tests/ptx_opcodes.cu."""

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.ptx_path = os.path.join(cls.folder.name, "ptx_opcodes.ptx")
        subprocess.run([NVCC, "-std=c++20", "-O3", "-lineinfo", f"-I{ROOT}", "-ptx", "-arch=compute_80",
                        str(ROOT / "tests/ptx_opcodes.cu"), "-o", cls.ptx_path], check=True)
        with open(cls.ptx_path) as f:
            cls.ptx = f.read()
        cls.cpp = translate.translate(cls.ptx, "ptx_opcodes.ptx", "out.cpp")
        cls.test = (ROOT / "tests/test_ptx.cpp").read_text()

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def test_every_kernel_is_launched(self):
        entries = set(re.findall(r"\.entry (\w+)", self.ptx))
        tables = {e for e in entries if e.startswith(("op_", "math_"))}  # launched by their rows, all of them
        self.assertGreater(len(tables), 500)
        for name in sorted(entries - tables):
            self.assertRegex(self.test, rf"(?:\brun|LC_LAUNCH)\({name},", "no test launches this kernel")

    def test_every_opcode_is_executed(self):
        used = {i.opcode for f in parse(self.ptx, "").functions for i in f.body or [] if hasattr(i, "opcode")}
        self.assertEqual(set(EMITTERS) - used, set(), "opcodes that no kernel of tests/ptx_opcodes.cu executes")

    def test_every_line_of_every_emitter_is_executed(self):
        modules = (arithmetic, control, convert, memory)
        seen = executed_lines(modules, lambda: translate.translate(self.ptx, "ptx_opcodes.ptx", "out.cpp"))
        for module in modules:
            source = pathlib.Path(module.__file__).read_text()
            lines = source.split("\n")
            for line in sorted(code_lines(compile(source, module.__file__, "exec"))):
                refusal = re.match(r"\s*(raise\b|[\"'])", lines[line - 1]) or re.match(r"\s*raise\b", lines[line - 2])
                if not refusal and (module.__file__, line) not in seen:
                    self.fail(f"{module.__file__}:{line}: no test translates this: {lines[line - 1].strip()}")

    def test_every_helper_is_called(self):
        header = (SIM / "ptx.h").read_text()
        bodies = dict(helper_bodies(header))
        self.assertGreater(len(bodies), 70)
        reached, frontier = set(), set(re.findall(r"\w+", self.cpp + self.test)) & set(bodies)
        while frontier:
            reached |= frontier
            frontier = {n for name in frontier for n in re.findall(r"\w+", bodies[name]) if n in bodies} - reached
        self.assertEqual(set(bodies) - reached, set(), "helpers of ptx.h that no translated kernel reaches")

    def test_ptxas_takes_our_assembly(self):
        ptxas = shutil.which("ptxas") or os.path.join(os.path.dirname(os.path.realpath(NVCC)), "ptxas")
        if not os.path.exists(ptxas):
            self.skipTest("needs ptxas")
        done = subprocess.run([ptxas, "-arch=sm_80", self.ptx_path, "-o", os.devnull], text=True, capture_output=True)
        self.assertEqual(done.returncode, 0, done.stderr)


def helper_bodies(header):
    """(name, text up to the next one) of every function of ptx.h."""
    starts = [(m.start(), m.group(1)) for m in re.finditer(
        r"^(?:PTX_INLINE |\[\[noreturn\]\] )?(?:[a-z]\w*|T|To|C|Packed|Wide<T>) (\w+)\(", header, re.M)]
    for (start, name), (end, _) in zip(starts, starts[1:] + [(len(header), "")]):
        yield name, header[start:end]


if __name__ == "__main__":
    unittest.main()

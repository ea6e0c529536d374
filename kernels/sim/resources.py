#!/usr/bin/env python3
"""resources.py -- registers, spills, shared memory, occupancy and hottest loop of every kernel, without a GPU.

    python3 kernels/sim/resources.py --output kernels/RESOURCES.txt BUILD/kernels/*.cu.o        make resources
    python3 kernels/sim/resources.py --check kernels/RESOURCES.txt BUILD/kernels/*.cu.o         make resources-check

Run from the project's root, on the objects that are linked: the Makefile keeps the cubins and what ptxas said beside each
of them, in BUILD/kernels/NAME.cu.kept.  Nobody reviews machine code, but a table of it can be reviewed: a change that costs a
kernel its occupancy, or spills registers to memory, appears as a changed line.  Numbers come from ptxas (registers,
spills, memory), from the cubin (threads per block, loops: sass.py) and from NVIDIA's occupancy rules (occupancy.cpp).
A spill is always a failure.  Another version of nvcc allocates registers differently, so --check then compares no rows
and says so.

The dynamic shared memory of a kernel is chosen at launch; its .cu file says what is typical, in a line like
    // resources: nw_smooth_kernel dynamic_smem=29440
"""
import argparse
import difflib
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
from typing import NamedTuple

import sass

GPUS = {80: "A100", 86: "RTX 3090", 89: "RTX 4090", 90: "H100 SXM"}   # those of occupancy.cpp
OCCUPANCY_SOURCE = pathlib.Path(__file__).with_name("occupancy.cpp")


class Failure(Exception):
    """What is wrong with the sources or the machine, in a sentence for the user."""


class Usage(NamedTuple):
    registers: int
    spill: int     # bytes written plus bytes read again
    stack: int
    smem: int      # static


class Row(NamedTuple):
    file: str
    kernel: str
    arch: int
    usage: Usage
    threads: int
    dynamic_smem: int
    loop: tuple    # of its hottest loop: instructions, % FFMA, shared wavefronts, as text

    def order(self):
        return self.file, self.kernel, self.arch


# ---- what the tools say ----------------------------------------------------------------------------------------------

PTXAS_ENTRY = re.compile(r"Compiling entry function '(?P<name>\S+)' for 'sm_(?P<arch>\d+)'.*?(?P<stack>\d+) bytes stack frame, "
                         r"(?P<stores>\d+) bytes spill stores, (?P<loads>\d+) bytes spill loads.*?"
                         r"Used (?P<registers>\d+) registers(?P<rest>[^\n]*)", re.S)


def parse_ptxas(text):
    """{architecture: {mangled name: Usage}} from the messages of `ptxas -v`."""
    usage = {}
    for entry in PTXAS_ENTRY.finditer(text):
        smem = re.search(r"(\d+) bytes smem", entry["rest"])
        spill = int(entry["stores"]) + int(entry["loads"])
        usage.setdefault(int(entry["arch"]), {})[entry["name"]] = Usage(
            int(entry["registers"]), spill, int(entry["stack"]), int(smem[1]) if smem else 0)
    return usage


def parse_directives(source, name):
    """{kernel: bytes of dynamic shared memory} from the comments of a .cu file."""
    lines = re.findall(r"^\s*// resources: (\S+) dynamic_smem=(\d+)\s*$", source, re.M)
    found = {kernel: int(size) for kernel, size in lines}
    form = "`// resources: <kernel> dynamic_smem=<bytes>`"
    if len(found) != len(re.findall(r"//\s*resources:", source)):
        raise Failure(f"{name}: a `// resources:` line could not be read, or names a kernel again; expected {form}")
    if re.search(r"\bLC_DYNAMIC_SMEM\s*\(", source) and not found:
        raise Failure(f"{name} uses dynamic shared memory; say how much is typical by {form}")
    return found


def short_names(mangled):
    """{mangled: readable}, without parameters and without our namespaces."""
    done = subprocess.run(["c++filt", "-p"], input="\n".join(mangled), capture_output=True, text=True, check=True)
    return {m: re.sub(r"\blc::((cuda|sim)::)?", "", d) for m, d in zip(mangled, done.stdout.splitlines())}


def describe_loop(program):
    loop = sass.hottest_loop(program)
    if loop is None:
        return "-", "-", "-"
    n = len(loop.own)
    return str(n), str(round(100 * sass.count(loop.own, {"FFMA"}) / n)), str(sass.shared_wavefronts(loop.own))


def nvcc_version(nvcc):
    text = subprocess.run([nvcc, "--version"], capture_output=True, text=True).stdout
    match = re.search(r"\bV(\d+\.\d+\.\d+)", text)
    if not match:
        raise Failure(f"`{nvcc} --version` names no version; found {text.strip()[:200]!r}")
    return match[1]


# ---- measuring -------------------------------------------------------------------------------------------------------

def cubin_rows(source, cubin, messages):
    """The rows of one file for one architecture."""
    arch, kernels = sass.read_cubin(cubin)
    usage = messages.get(arch, {})
    missing = sorted(set(kernels) ^ set(usage))
    if missing:
        raise Failure(f"{source.name} for sm_{arch}: kernels named by ptxas and by the cubin differ in {missing}")
    names = short_names(sorted(usage))
    dynamic = parse_directives(source.read_text(), source.name)
    unknown = set(dynamic) - {n.split("<")[0] for n in names.values()}
    if unknown:
        raise Failure(f"{source.name}: `// resources:` names {sorted(unknown)}, which is no kernel of this file")
    rows = []
    for mangled, name in names.items():
        threads = kernels[mangled].max_threads
        if threads is None:
            raise Failure(f"{source.name}: {name} needs __launch_bounds__; without, its occupancy is unknown")
        loop = describe_loop(sass.decode(kernels[mangled].code, arch))
        rows.append(Row(source.name, name, arch, usage[mangled], threads, dynamic.get(name.split("<")[0], 0), loop))
    return rows


def object_rows(source, kept):
    """The rows of one file, from the folder of what was kept when its object was made."""
    cubins = sorted(kept.glob("*.cubin"))
    if not cubins:
        raise Failure(f"{kept} has no cubins; `make resources` builds the objects and keeps them")
    messages = parse_ptxas((kept / "ptxas.log").read_text())
    return [row for cubin in cubins for row in cubin_rows(source, cubin, messages)]


def measure(objects):
    rows = []
    for path in objects:   # BUILD/kernels/gemm.cu.o
        rows += object_rows(pathlib.Path(*path.parts[-2:]).with_suffix(""), path.with_suffix(".kept"))
    return sorted(rows, key=Row.order)


def build_occupancy(nvcc, folder):
    """Compiled by nvcc's host compiler, because nvcc knows where its cuda_occupancy.h is."""
    program = folder / "occupancy"
    command = [nvcc, "-std=c++20", str(OCCUPANCY_SOURCE), "-o", str(program)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise Failure(f"{OCCUPANCY_SOURCE.name} does not compile with {nvcc}:\n{done.stderr}")
    return program


def occupancy(program, questions):
    """[(blocks, warps, percent, limits)] for [(arch, registers, static smem, dynamic smem, threads)]."""
    text = "".join(" ".join(map(str, q)) + "\n" for q in questions)
    done = subprocess.run([str(program)], input=text, capture_output=True, text=True)
    answers = [line.split() for line in done.stdout.splitlines()]
    if done.returncode != 0 or len(answers) != len(questions):
        raise Failure(f"the occupancy of {questions} could not be computed: {done.stderr.strip()}")
    return [(int(blocks), int(warps), int(percent), limits) for blocks, warps, percent, limits in answers]


# ---- the table -------------------------------------------------------------------------------------------------------

COLUMNS = ("arch", "regs", "spill", "stack", "smem", "threads", "blocks", "occ", "limit", "loop", "ffma", "waves",
           "kernel")
WIDTHS = (5, 4, 5, 5, 6, 7, 6, 4, 15, 5, 4, 5, 0)
HEADER = """\
# What nvcc makes of every kernel.  Written by `make resources`, compared by `make resources-check`; not edited by hand.
# nvcc {version}
#
# regs     registers per thread                      spill  bytes of registers kept in memory instead; must be 0
# stack    bytes of local memory per thread          smem   bytes of shared memory per block, static and dynamic
# threads  per block, by __launch_bounds__           blocks that fit at once on one multiprocessor
# occ      % of the warps it could hold              limit  the resource that allows no further block
#          of {gpus}
# loop     instructions of the hottest loop, the one with most float32 arithmetic, without the loops inside it
# ffma     % of these that are FFMA                  waves  passes over the banks of shared memory by one warp in it,
#                                                           if no conflict adds and no common address saves any
"""


def format_line(cells):
    return "  ".join(c.ljust(w) if name in ("arch", "limit", "kernel") else c.rjust(w)
                     for name, c, w in zip(COLUMNS, cells, WIDTHS)).rstrip()


def format_table(rows, fits, version):
    """`fits` has an answer of occupancy() per row, or None for an architecture without a GPU in the table."""
    gpus = ", ".join(f"{name} (sm_{arch})" for arch, name in GPUS.items())
    lines = [HEADER.format(version=version, gpus=gpus)]
    file = None
    for row, fit in zip(rows, fits):
        if row.file != file:
            file = row.file
            lines += [f"\n{file}", format_line(COLUMNS)]
        blocks, percent, limits = (str(fit[0]), f"{fit[2]}%", fit[3]) if fit else ("-", "-", "-")
        u = row.usage
        memory = (str(u.registers), str(u.spill), str(u.stack), str(u.smem + row.dynamic_smem))
        lines.append(format_line((f"sm_{row.arch}", *memory, str(row.threads), blocks, percent, limits, *row.loop,
                                  row.kernel)))
    return "\n".join(lines).replace("\n\n\n", "\n\n") + "\n"


def table_version(text):
    match = re.search(r"^# nvcc (\S+)$", text, re.M)
    return match[1] if match else None


def table_rows(text):
    """Rows as comparable lines, file name in front: alignment and comments do not count."""
    rows, file = [], ""
    for line in text.splitlines():
        if line.endswith(".cu"):
            file = line
        elif line.startswith("sm_"):
            rows.append(f"{file}  " + "  ".join(re.split(r"\s{2,}", line)))
    return rows


def differences(old, new):
    """Readable lines: what a row was and what it is now."""
    diff = difflib.unified_diff(table_rows(old), table_rows(new), lineterm="", n=0)
    return [line for line in diff if not line.startswith(("---", "+++", "@@"))]


def spills(rows):
    return [f"{row.file}: {row.kernel} spills {row.usage.spill} bytes on sm_{row.arch}; give it fewer live values, or "
            "looser __launch_bounds__" for row in rows if row.usage.spill > 0]


def check(path, table, version, rows):
    """What is wrong, as lines to print; empty if nothing is."""
    wrong = spills(rows)
    if not path.exists():
        return wrong + [f"{path} does not exist; `make resources` writes it"]
    old = path.read_text()
    if table_version(old) != version:
        print(f"{path} was made by nvcc {table_version(old)}, this is nvcc {version}: rows not compared, spills are")
        return wrong
    changed = differences(old, table)
    if changed:
        wrong += [f"{path}: rows changed (- was, + is)", "  ".join((" file",) + COLUMNS), *changed]
        wrong += ["if the change is meant, run `make resources` and commit the file with it"]
    return wrong


def write(path, text):
    aside = path.with_name(path.name + ".new")
    aside.write_text(text)
    aside.replace(path)


def find_tools():
    nvcc = os.environ.get("NVCC") or "nvcc"
    for tool in (nvcc, "c++filt"):
        if not shutil.which(tool):
            raise Failure(f"{tool} was not found; needed are nvcc (or NVCC=/path/to/nvcc) and c++filt (binutils)")
    return nvcc


def collect(nvcc, objects):
    """Rows, and for each what fits on its GPU."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(scratch)
        rows = measure(objects)
        program = build_occupancy(nvcc, folder)
        known = [r for r in rows if r.arch in GPUS]
        answers = iter(occupancy(program, [(r.arch, r.usage.registers, r.usage.smem, r.dynamic_smem, r.threads)
                                           for r in known]))
    return rows, [next(answers) if r.arch in GPUS else None for r in rows]


def main():
    parser = argparse.ArgumentParser(description="Registers, spills, occupancy and hottest loop of every kernel.")
    parser.add_argument("objects", nargs="+", type=pathlib.Path, metavar="BUILD/kernels/file.cu.o")
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--output", type=pathlib.Path, metavar="FILE", help="write the table there, not to the screen")
    what.add_argument("--check", type=pathlib.Path, metavar="FILE", help="fail if the table there differs")
    options = parser.parse_args()

    nvcc = find_tools()
    version = nvcc_version(nvcc)
    rows, fits = collect(nvcc, options.objects)
    table = format_table(rows, fits, version)
    if options.check:
        wrong = check(options.check, table, version, rows)
    else:
        wrong = spills(rows)
        write(options.output, table) if options.output else print(table, end="")
    if wrong:
        print("\n".join(wrong), file=sys.stderr)
        return 1
    print(f"{len({(r.file, r.kernel) for r in rows})} kernels, nvcc {version}: no spills", file=sys.stderr)
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (Failure, ValueError, OSError) as failure:
        sys.exit(f"resources: {failure}")

#!/usr/bin/env python3
"""Breaks our kernels on purpose and demands that the tests notice.

For every .cu given, and the headers it includes that are its own (gemm_tile.cuh of gemm.cu), each of these changes inside device code is
one mutant:
    barrier   a __syncthreads() or __syncwarp() is deleted
    bound     < becomes <=, <= becomes <, > becomes >=, >= becomes >
    atomic    atomicAdd becomes a plain read, add, write
A mutant is compiled like the checked simulator, linked with everything else unchanged, and the cases of that file's ops run
on it.  It is killed when a test fails, the simulator reports, the program crashes or hangs, or it does not compile.  Survivors
must stand in tests/mutants.txt with a reason: they are equivalent, the changed program computes the same.  At least 95 % of the
mutants that are not equivalent must be killed.

usage: tests/mutants.py --compile 'g++ ...' --link 'g++ ... %s -o %p' --objects DIR [--sample N] [--seed S] [--list] FILE.cu ...
       (`make mutants` fills in the commands; %s stands for the kernels' objects, %p for the program)
"""
import argparse
import concurrent.futures
import os
import pathlib
import random
import re
import shlex
import subprocess
import sys
import tempfile
import time

EXPECTED = pathlib.Path(__file__).with_name("mutants.txt")
FLIP = {"<": "<=", "<=": "<", ">": ">=", ">=": ">"}
PLAIN_ADD = "template <class T, class U> T plain_add(T* p, U v) { T old = *p; *p = old + v; return old; }\n"


def blank_comments(text):
    """The text with comments and strings as spaces: same length, so positions stay true."""
    pattern = r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"'
    return re.sub(pattern, lambda m: re.sub(r"[^\n]", " ", m.group()), text, flags=re.S)


def device_ranges(code):
    """Start and end of the body of every __global__ or __device__ function."""
    ranges = []
    for m in re.finditer(r"__(?:global|device)__", code):
        opening = code.find("{", m.end())
        if opening < 0 or ";" in code[m.end():opening].split(")")[-1]:
            continue
        depth, i = 1, opening + 1
        while depth:
            depth += {"{": 1, "}": -1}.get(code[i], 0)
            i += 1
        ranges.append((opening, i))
    return ranges


class Mutant:
    def __init__(self, path, unit, text, start, end, kind, replacement):
        self.path, self.unit, self.kind = path, unit, kind  # the file that is changed, and the .cu that is compiled
        line_start = text.rfind("\n", 0, start) + 1
        self.line = text.count("\n", 0, start) + 1
        self.source = text[line_start:text.find("\n", start)].strip()
        self.occurrence = text[line_start:start].count(text[start:end])  # which of several on one line
        self.change = f"{text[start:end].strip()} -> {replacement.strip() or 'nothing'}"
        self.text = (PLAIN_ADD if kind == "atomic" else "") + f'#line 1 "{path}"\n' + text[:start] + replacement + text[end:]

    def key(self):
        """Stable against edits elsewhere: the file, the line's own text, the change."""
        code = re.sub(r"\s*//.*", "", self.source)
        return f"{os.path.basename(self.path)} | {code} | {self.change} #{self.occurrence}"


def mutants_of(unit):
    """Those of a .cu, and of the headers that are its own: kernels/gemm_tile.cuh is mutated as a part of gemm.cu."""
    stem = pathlib.Path(unit).stem
    own = re.findall(rf'#include "(kernels/{stem}_\w+\.cuh)"', pathlib.Path(unit).read_text())
    return [m for path in [unit] + own for m in mutants_in(path, unit)]


def mutants_in(path, unit):
    text = pathlib.Path(path).read_text()
    code = blank_comments(text)
    found = []
    for begin, end in device_ranges(code):
        for m in re.finditer(r"__sync(?:threads|warp)\(\)", code[begin:end]):
            found.append(Mutant(path, unit, text, begin + m.start(), begin + m.end(), "barrier", "((void)0)"))
        for m in re.finditer(r"(?<= )(?:<=|>=|<|>)(?= )", code[begin:end]):
            found.append(Mutant(path, unit, text, begin + m.start(), begin + m.end(), "bound", FLIP[m.group()]))
        for m in re.finditer(r"\batomicAdd\b", code[begin:end]):
            found.append(Mutant(path, unit, text, begin + m.start(), begin + m.end(), "atomic", "plain_add"))
    return list({m.text: m for m in found}.values())  # nested ranges (a lambda in a kernel) give the same mutant twice


def ops_of(path):
    """The ops of the contract: op.h beside op.cu, else the contract that its includes lead to (nw_smooth_bwd.cu)."""
    header = pathlib.Path(path).with_suffix(".h")
    if not header.exists():
        included = re.findall(r'#include "kernels/(\w+)\.cuh"', pathlib.Path(path).read_text())
        header = next(h for name in included if (h := header.with_name(name + ".h")).exists())
    return re.findall(r"^LC_OP\((\w+)", header.read_text(), re.M)


def verdict(mutant, options, folder):
    """How the mutant died, or None where it lives."""
    stem = os.path.join(folder, f"{os.path.basename(mutant.path)}.{abs(hash(mutant.text))}")
    changed, obj, program = os.path.join(stem, mutant.path), stem + ".o", stem + ".run"
    pathlib.Path(changed).parent.mkdir(parents=True, exist_ok=True)
    pathlib.Path(changed).write_text(mutant.text)
    source = changed if mutant.path == mutant.unit else mutant.unit
    try:
        # The folder of the mutant comes first, so that #include "kernels/..." finds a changed header.
        compiler, *flags = shlex.split(options.compile)
        if subprocess.run([compiler, "-I" + stem, *flags, "-w", "-c", source, "-o", obj], capture_output=True).returncode:
            return "does not compile"
        others = [f"{options.objects}/{f}.o" for f in options.files if f != mutant.unit]
        link = options.link.replace("%s", " ".join([obj] + others)).replace("%p", program)
        subprocess.run(shlex.split(link), check=True, capture_output=True)
        # The simulator's report (checked), then the value tests: one run shows both.
        names = ":".join(f"{op}.*@sim" for op in ops_of(mutant.unit))
        try:
            run = subprocess.run([program, "--gtest_brief=1", "--gtest_fail_fast", f"--gtest_filter={names}"],
                                 capture_output=True, text=True, errors="replace", timeout=options.seconds)
        except subprocess.TimeoutExpired:
            return "hangs"
        if run.returncode < 0:
            return f"signal {-run.returncode}"
        if run.returncode:
            m = re.search(r"^  \[?(race\w*|out_of_bounds|uninitialised|barrier_divergence|early_exit|misaligned|warp_mask)\b", run.stdout, re.M)
            return m.group(1) if m else "wrong result"
        return None
    finally:
        for f in (changed, obj, program):
            pathlib.Path(f).unlink(missing_ok=True)


def expected_survivors():
    reasons = {}
    for line in EXPECTED.read_text().splitlines() if EXPECTED.exists() else []:
        if line.strip() and not line.startswith("#"):
            key, _, reason = line.rpartition(" :: ")
            reasons[key.strip()] = reason.strip()
    return reasons


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+")
    parser.add_argument("--compile", required=True)
    parser.add_argument("--link", required=True)
    parser.add_argument("--objects", required=True, help="folder of the unchanged kernels' objects")
    parser.add_argument("--sample", type=int, default=0, help="only this many, chosen by --seed")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=120, help="a mutant that runs longer hangs")
    parser.add_argument("--list", action="store_true", help="print the mutants and stop")
    options = parser.parse_args()

    mutants = [m for f in options.files for m in mutants_of(f)]
    total = len(mutants)
    if options.sample and options.sample < total:
        mutants = random.Random(options.seed).sample(mutants, options.sample)
        print(f"{options.sample} of {total} mutants, seed {options.seed}", flush=True)
    if options.list:
        print("\n".join(m.key() for m in mutants))
        return 0

    reasons, survivors, deaths, start = expected_survivors(), [], {}, time.monotonic()
    with tempfile.TemporaryDirectory() as folder, concurrent.futures.ThreadPoolExecutor(2) as pool:
        jobs = {pool.submit(verdict, m, options, folder): m for m in mutants}
        for done, job in enumerate(concurrent.futures.as_completed(jobs), 1):
            mutant, death = jobs[job], job.result()
            if death is None:
                survivors.append(mutant)
                print(f"  survives {mutant.path}:{mutant.line}: {mutant.source}    [{mutant.change} #{mutant.occurrence}]", flush=True)
            else:
                deaths[death] = deaths.get(death, 0) + 1
            if sys.stderr.isatty():
                left = (time.monotonic() - start) / done * (len(mutants) - done)
                print(f"\r  {done}/{len(mutants)} mutants, about {left:.0f} s left ", end="", file=sys.stderr, flush=True)

    unexplained = [m for m in survivors if m.key() not in reasons]
    for m in survivors:
        if m.key() in reasons:
            print(f"  expected: {m.key()} :: {reasons[m.key()]}")
    for m in unexplained:
        print(f"  UNEXPLAINED survivor, line for {EXPECTED.name}:\n{m.key()} :: <reason>")
    killed = len(mutants) - len(survivors)
    print("killed by: " + ", ".join(f"{k} {n}" for k, n in sorted(deaths.items(), key=lambda x: -x[1])))
    equivalent = len(survivors) - len(unexplained)
    share = 100.0 * killed / max(1, len(mutants) - equivalent)
    print(f"{len(mutants)} mutants: {killed} killed, {equivalent} equivalent (tests/mutants.txt says why), {len(unexplained)} alive: "
          f"{share:.1f} % of those that could be killed, {time.monotonic() - start:.0f} s")
    return 1 if unexplained or share < 95 else 0


if __name__ == "__main__":
    sys.exit(main())

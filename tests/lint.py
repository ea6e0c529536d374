#!/usr/bin/env python3
"""What a reader would trip over and no compiler sees.  usage: tests/lint.py  (from the project's root; exit 1 on findings)

formatting (.clang-format, where clang-format 14 is found) · includes against the dependency arrows · ops without contract, CPU
file, CUDA file or case list · kernels without __launch_bounds__ · `make` targets and paths in documents and comments that do
not exist · machine paths · files over 800 lines
"""
import concurrent.futures
import os
import pathlib
import re
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
# Who may include whom: kernels/ knows nothing above it, nn and data do not know calib, and so on.
FORBIDDEN = {
    "kernels": ("nn", "data", "calib", "metrics", "experiments"),
    "nn": ("calib", "metrics", "experiments"),
    "data": ("calib", "metrics", "experiments"),
    "calib": ("experiments",),
    "metrics": ("calib", "experiments"),
}
findings = []


def say(path, line, what):
    findings.append(f"{path}:{line}: {what}" if line else f"{path}: {what}")


def tracked():
    listing = subprocess.run(["git", "ls-files", "--cached", "--others", "--exclude-standard"], cwd=ROOT, text=True,
                             capture_output=True, check=True).stdout
    return [p for p in listing.splitlines() if (ROOT / p).is_file()]


def lines_of(path):
    return enumerate((ROOT / path).read_text(errors="replace").splitlines(), 1)


def check_format(files):
    tool = shutil.which("clang-format-14") or shutil.which("clang-format")
    version = subprocess.run([tool, "--version"], text=True, capture_output=True).stdout if tool else ""
    if " 14." not in version:
        print("lint: formatting not checked: it needs clang-format 14 (third_party/install check)")
        return
    sources = [p for p in files if p.endswith((".h", ".cpp", ".cu", ".cuh"))]
    jobs = os.cpu_count() or 1

    def findings_in(some):
        return subprocess.run([tool, "--dry-run", *some], cwd=ROOT, text=True, capture_output=True, check=True).stderr

    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        text = "".join(pool.map(findings_in, [sources[k::jobs] for k in range(jobs)]))
    first = {}
    for m in re.finditer(r"^(\S+?):(\d+):\d+: warning:", text, re.M):
        first.setdefault(m.group(1), int(m.group(2)))
    for p, line in sorted(first.items()):
        say(p, line, "not formatted; run `make format`")


def check_arrows(files):
    for p in files:
        layer = p.split("/")[0]
        if layer not in FORBIDDEN or not p.endswith((".h", ".cpp", ".cu", ".cuh")):
            continue
        for n, line in lines_of(p):
            m = re.match(r'\s*#\s*include "(\w+)/', line)
            if m and m.group(1) in FORBIDDEN[layer]:
                say(p, n, f"{layer}/ must not know {m.group(1)}/")


def check_types(files):
    """A linker takes two types of one name for one, and silently uses the constructor of either for both."""
    first = {}
    for p in files:
        if not p.endswith((".h", ".cuh")) or p.startswith("tests/"):
            continue
        namespace = ""
        for n, line in lines_of(p):
            if m := re.match(r"namespace (\S+) \{", line):
                namespace = m.group(1)
            elif (m := re.match(r"(?:struct|class) (\w+)\b(?!;|::)", line)) and first.setdefault((namespace, m.group(1)), p) != p:
                say(p, n, f"{namespace}::{m.group(1)} is another type in {first[namespace, m.group(1)]}; rename one of them")


def check_ops(files):
    inventory = re.findall(r"^\s+X\((\w+)\)\s+/\*\s+(\S+)\.h", (ROOT / "kernels/backend.h").read_text(), re.M)
    cases = "".join((ROOT / p).read_text() for p in files if p.startswith("tests/ops/"))
    readme = (ROOT / "kernels/README.md").read_text()
    for op, stem in inventory:
        for suffix in (".h", ".cpp", ".cu"):
            if f"kernels/{stem}{suffix}" not in files:
                say("kernels/backend.h", 0, f"op {op}: kernels/{stem}{suffix} is missing")
        if f'"{op}"' not in cases:
            say("tests/ops", 0, f"op {op} has no case list")
        if f"`{op}`" not in readme:
            say("kernels/README.md", 0, f"op {op} is not in the map")
    for p in files:
        if p.endswith(".cu") and p.startswith("kernels/"):
            text = (ROOT / p).read_text()
            for m in re.finditer(r"__global__ void(?!\s+__launch_bounds__)", text):
                say(p, text.count("\n", 0, m.start()) + 1, "kernel without __launch_bounds__")


def check_documents(files):
    targets = set(re.findall(r"^([a-z-]+):.*##", (ROOT / "Makefile").read_text(), re.M))
    # Files that a document tells its reader to write.
    told = set(re.findall(r"^// file: (\S+)", "".join((ROOT / p).read_text() for p in files if p.endswith(".md")), re.M))
    for p in files:
        prose = p.endswith(".md")
        if not (prose or p.endswith((".h", ".cpp", ".cu", ".cuh", ".py", ".yml"))):
            continue
        for n, line in lines_of(p):
            for m in re.finditer(r"`make ([a-z][a-z-]*)", line):
                if m.group(1) not in targets:
                    say(p, n, f"there is no target `make {m.group(1)}`")
            for m in re.finditer(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", line) if prose else ():
                if "://" not in m.group(1) and not ((ROOT / p).parent / m.group(1)).exists():
                    say(p, n, f"link to {m.group(1)}, which does not exist")
            if re.match(r"tests/test_.*\.py", p):  # tests of tools make up paths
                continue
            for m in re.finditer(r"(?<![\w/.])((?:kernels|tests|experiments|third_party|docs|nn|data|calib|metrics)/[\w./-]*\w)", line):
                path = m.group(1)
                if re.search(r"\.(h|cpp|cu|cuh|py|md|txt)$", path) and not (ROOT / path).exists() and path not in told:
                    say(p, n, f"names {path}, which does not exist")


def check_words(files):
    for p in files:
        for n, line in lines_of(p):
            if re.search(r"/w[o]rk/|/h[o]me/|/r[o]ot/|/tmp/[a-z]", line):
                say(p, n, "a path of somebody's machine")
        length = sum(1 for _ in lines_of(p))
        if length > 800:
            say(p, 0, f"{length} lines: would two files read better?")


def main():
    files = tracked()
    check_format(files)
    check_arrows(files)
    check_types(files)
    check_ops(files)
    check_documents(files)
    check_words(files)
    print("\n".join(findings))
    print(f"lint: {len(files)} files, {len(findings)} findings")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())

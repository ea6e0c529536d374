#!/usr/bin/env python3
"""Does docs/adding-an-op.md tell the truth?  Writes its code blocks into a copy of the tree, builds, runs the new op.

usage: tests/try_doc.py  (from the project's root; where `make test` was run before, the copy starts from its objects)
"""
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
DOCUMENT = ROOT / "docs/adding-an-op.md"


def main():
    text = DOCUMENT.read_text()
    files = re.findall(r"```cpp\n// file: (\S+)\n(.*?)```", text, re.S)
    added = re.search(r"```diff\n\+(#include .*?)\n\+(    X\(.*?)\n```", text)
    op = re.search(r"X\((\w+)\)", added.group(2)).group(1)
    with tempfile.TemporaryDirectory() as folder:
        copy = pathlib.Path(folder)
        for name in ("Makefile", "kernels", "tests", "build/release"):
            source = ROOT / name
            if source.is_dir():
                shutil.copytree(source, copy / name, symlinks=True, ignore=shutil.ignore_patterns("cuda", "cpu", "*.ptx.*"))
            elif source.exists():
                shutil.copy2(source, copy / name)
        for path, code in files:
            (copy / path).write_text(code)
        header = copy / "kernels/backend.h"
        inventory = header.read_text()
        inventory = inventory.replace('#include "kernels/check.h"\n', f'#include "kernels/check.h"\n{added.group(1)}\n', 1)
        inventory = inventory.replace("    X(add) ", added.group(2) + "\n    X(add) ", 1)
        header.write_text(inventory)
        programs = [f"build/release/cpu/tests/{name}" for name in ("ops", "ops_sim", "ops_checked")]
        test = f"make --no-print-directory -j2 NVCC= {' '.join(programs)} && tests/run --filter '{op}.*' {' '.join(programs)}"
        done = subprocess.run(test, cwd=copy, text=True, shell=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        tail = done.stdout.splitlines()
        good = done.returncode == 0 and re.match(r"[1-9]\d* passed, 0 failed", tail[-1])
        print("\n".join(tail[-1:] if good else tail[-60:]))
        print(f"{DOCUMENT.relative_to(ROOT)}: the op '{op}' " + ("builds and passes" if good else "does NOT work as shown"))
        return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""Translates the PTX that nvcc emits for our kernels to C++ that runs on the simulator (kernels/sim/ptx.h).

usage: ptx2cpp.py in.ptx out.cpp

Each .entry becomes a C++ function, registered under its mangled name; findings of the simulator point at the lines of the
.cu file (nvcc -lineinfo).  An instruction that the translator does not know is an error, exit code 2, and no output file
is left behind.
"""
import os
import sys

from ptx.model import PtxError
from ptx.translate import translate


def main(arguments):
    if len(arguments) != 2:
        print(__doc__.strip(), file=sys.stderr)
        return 2
    source, output = arguments
    try:
        with open(source, encoding="utf-8") as f:
            text = f.read()
        cpp = translate(text, source, output)
        aside = f"{output}.{os.getpid()}.tmp"
        with open(aside, "w", encoding="utf-8") as f:
            f.write(cpp)
        os.replace(aside, output)
    except PtxError as e:
        print(e.describe(source), file=sys.stderr)
    except (OSError, UnicodeDecodeError) as e:
        print(f"{source}: {e}", file=sys.stderr)
    else:
        return 0
    if os.path.exists(output):
        os.remove(output)  # a translation of something older would be taken for this one's
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

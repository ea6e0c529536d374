"""What documents show is what the program prints.

    LOCALCAL=path/to/localcal python3 tests/test_docs.py        default: build/bin/localcal

In an indented block of a document, a line `$ command` is run, one after the other in one empty folder per document, and the lines
below it must be what it prints; a line `...` says that some are left out, and empty lines do not count.  Numbers of a command that names
model.safetensors are not compared: training rounds differently on another CPU.
"""
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent
LOCALCAL = os.environ.get("LOCALCAL", str(ROOT / "build/bin/localcal"))


def shown(document):
    """(command, lines) of every `$ command` in the document's indented blocks."""
    found, inside = [], False
    for line in (ROOT / document).read_text().splitlines():
        if line.startswith("    $ "):
            found.append((line[6:].split("  # ")[0].strip(), []))
            inside = True
        elif line.startswith("    ") and inside:
            found[-1][1].append(line.strip())
        elif line.strip():
            inside = False
    return found


def without_numbers(line):
    return re.sub(r" +", " ", re.sub(r"-?\d+(\.\d+)?", "#", line)).strip()


NUMBER = re.compile(r"-?\d+(?:\.(\d+))?")


def same(expected, printed):
    """Equal but for numbers with a point, whose last digit may be off by two: another CPU adds in another order."""
    if NUMBER.sub("#", expected).split() != NUMBER.sub("#", printed).split():
        return False
    for a, b in zip(NUMBER.finditer(expected), NUMBER.finditer(printed)):
        digits = len(a[1] or "")
        if (a[0] != b[0] and not digits) or abs(float(a[0]) - float(b[0])) > 2.1 * 10 ** -digits:
            return False
    return True


def missing(expected, printed):
    """The first expected line that does not come where it should, or None."""
    at, gap = 0, False
    for line in expected:
        if line == "...":
            gap = True
            continue
        place = next((k for k in range(at, len(printed)) if same(line, printed[k])), -1)
        if place < 0 or (place > at and not gap):
            return line
        at, gap = place + 1, False
    return None


class DocsTest(unittest.TestCase):
    def try_document(self, document, at_least):
        commands = shown(document)
        self.assertGreaterEqual(len(commands), at_least, f"{document} has lost its examples")
        with tempfile.TemporaryDirectory() as folder:
            for command, expected in commands:
                words = command.replace("build/bin/localcal", LOCALCAL).replace("docs/example.py", str(ROOT / "docs/example.py")).split()
                if words[0] == "python3":
                    words[0] = sys.executable
                else:
                    words += ["--device", "cpu"]  # a GPU would round differently, too
                done = subprocess.run(words, cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=300)
                self.assertEqual(done.returncode, 0, f"{document}: {command}\n{done.stderr}")
                printed = [line.strip() for line in done.stdout.splitlines() if line.strip()]
                if "model.safetensors" in command:
                    printed, expected = [without_numbers(x) for x in printed], [x if x == "..." else without_numbers(x) for x in expected]
                line = missing(expected, printed)
                self.assertIsNone(line, f"{document}: `{command}` does not print\n{line}\nwhere the document shows it, but\n{done.stdout}")

    def test_readme(self):
        self.try_document("README.md", 5)

    def test_metrics(self):
        self.try_document("docs/metrics.md", 5)

    def test_a_line_that_is_not_printed_is_found(self):
        self.assertIsNone(missing(["a", "...", "d"], ["a", "b", "c", "d"]))
        self.assertEqual(missing(["a", "d"], ["a", "b", "c", "d"]), "d")
        self.assertEqual(missing(["a", "...", "e"], ["a", "b", "c", "d"]), "e")
        self.assertEqual(missing(["b", "...", "a"], ["a", "b"]), "b")
        self.assertTrue(same("lce 0.0312  x", "lce 0.0313 x"))
        for other in ("lce 0.0315", "lse 0.0312", "lce 0.03"):
            self.assertFalse(same("lce 0.0312", other))
        self.assertFalse(same("120 rows", "121 rows"))


if __name__ == "__main__":
    unittest.main()

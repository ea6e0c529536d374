"""Text of a PTX file -> model.Module.

PTX is a list of statements that end with ';', blocks in braces, labels, and a few directives that end with their line.
The parser knows only this grammar; what an opcode means is the business of the emitters.
"""
import bisect
import os
import re

from .model import (TYPES, Close, Function, Instruction, Label, Location, Module, Open, PtxError, Targets, Variable)

_NAME = r"[A-Za-z_$%][\w$]*"
_COMMENT = re.compile(r'"[^"\n]*"|//[^\n]*|/\*.*?\*/', re.S)
_SPACE = re.compile(r"\s*")
_LOC = re.compile(r"\.loc\s+(\d+)\s+(\d+)\s+(\d+)"
                  r"(?:\s*,\s*function_name\s+[^,\n]+,\s*inlined_at\s+(\d+)\s+(\d+)\s+(\d+))?[^\n]*")
_FILE = re.compile(r'^\s*\.file\s+(\d+)\s+"([^"]*)"', re.M)
_WHOLE_LINE = re.compile(r"\.(?:version|target|file)\b[^\n]*")
_ADDRESS_SIZE = re.compile(r"\.address_size\s+(\d+)")
_SECTION = re.compile(r"\.section\s+\S+\s*\{[^}]*\}")
_LABEL = re.compile(rf"({_NAME})\s*:(?!:)")
_FUNCTION = re.compile(r"(?:\.(?:visible|weak|extern)\s+)*\.(entry|func)\b([^{;]*)([{;])")
_SIGNATURE = re.compile(rf"\s*(?:\(([^()]*)\))?\s*({_NAME})\s*(?:\(([^()]*)\))?\s*(.*)", re.S)
_STATEMENT = re.compile(r'(?:[^;{}"]|\{[^{}]*\}|"[^"]*")*;')
_INSTRUCTION = re.compile(rf"(?:@(!?\s*{_NAME})\s+)?([a-z]\w*)((?:\.[\w:]+)*)\s*(.*)", re.S)
_VARIABLE = re.compile(r"((?:\.(?:visible|weak|extern|common)\s+)*)\.(reg|param|shared|local|global|const)\b(.*)", re.S)
_ATTRIBUTE = re.compile(r"\s*\.(align\s+\d+|ptr|global|shared|const|local|[a-z]\d*\w*)")
_DECLARATOR = re.compile(rf"({_NAME})\s*(?:<\s*(\d+)\s*>)?\s*((?:\[\s*\d*\s*\]\s*)*)(?:=\s*(.*))?", re.S)
_TUNING = re.compile(r"(?:\.(?:maxntid|reqntid|minnctapersm|maxnctapersm|maxnreg)\s+[\d,\s]+|\.noreturn\s*)*$")

_REPORT = "this is PTX that the simulator's translator does not know: rewrite the kernel without it, or add it to kernels/sim/ptx"


def split_operands(text):
    """Splits at the commas that stand outside of brackets: "{%f1, %f2}, [%rd1+4]" has two operands."""
    if not any(c in text for c in "{[("):
        return [part.strip() for part in text.split(",")] if text.strip() else []
    parts, depth, start = [], 0, 0
    for i, c in enumerate(text):
        if c in "{[(":
            depth += 1
        elif c in "}])":
            depth -= 1
        elif c == "," and depth == 0:
            parts.append(text[start:i].strip())
            start = i + 1
    return parts + [text[start:].strip()]


def _without_comments(text):
    """Comments become spaces, line breaks stay: line numbers remain those of the file."""
    def blank(match):
        s = match.group()
        return s if s[0] == '"' else " " + "\n" * s.count("\n")
    return _COMMENT.sub(blank, text)


class _Locations:
    """Follows .loc: an inlined line names its call site, which an earlier .loc described in turn."""

    def __init__(self, text):
        here = os.getcwd() + os.sep
        self._files = {}
        for number, path in _FILE.findall(text):
            path = os.path.normpath(path)
            self._files[int(number)] = path[len(here):] if path.startswith(here) else path
        self._call_site = {}  # (file, line, column) -> the same of the caller, or None
        self._cache = {}
        self.current = None

    def enter_function(self):
        self._call_site.clear()
        self.current = None

    def step(self, match):
        numbers = [int(n) for n in match.groups() if n is not None]
        place = tuple(numbers[:3])
        caller = tuple(numbers[3:]) or None
        self._call_site[place] = caller
        chain = [place]
        while caller is not None and caller not in chain:
            chain.append(caller)
            caller = self._call_site.get(caller)
        frames = tuple((self._files.get(file, f"file {file}"), line) for file, line, _ in chain if line > 0)
        if frames:  # line 0 is the compiler's own code: it keeps the place of what stands before it
            self.current = self._cache.setdefault(frames, Location(frames))


class Parser:
    def __init__(self, text, path):
        self._text = _without_comments(text)
        self._line_starts = [0] + [m.end() for m in re.finditer("\n", self._text)]
        self._at = 0
        self._locations = _Locations(self._text)
        self._module = Module(path)

    # ---- the whole file -----------------------------------------------------------------------------------------------

    def parse(self):
        while not self._at_end():
            if self._take(_WHOLE_LINE) or self._take(_SECTION) or self._take(_LOC):
                continue
            size = self._take(_ADDRESS_SIZE)
            if size:
                if size.group(1) != "64":
                    self._fail(size.group(), "32-bit addresses", "compile with a 64-bit nvcc")
                continue
            function = self._take(_FUNCTION)
            if function:
                self._module.functions.append(self._function(function))
                continue
            line, statement = self._statement()
            self._module.variables += self._variables(line, statement)
        return self._module

    def _function(self, match):
        line = self._line_of(match.start())
        text = match.group().rstrip("{;").strip()
        signature = _SIGNATURE.fullmatch(match.group(2))
        if not signature or not _TUNING.match(signature.group(4)):
            self._fail(text, "a function header that is not understood", _REPORT, line)
        returns, name, params, _ = signature.groups()
        function = Function(name, match.group(1) == "entry", line, self._parameters(line, returns),
                            self._parameters(line, params))
        if match.group(3) == "{":
            function.body = self._body(line)
        return function

    def _parameters(self, line, text):
        return [v for part in split_operands(text or "") for v in self._variables(line, part)]

    # ---- inside a function --------------------------------------------------------------------------------------------

    def _body(self, line):
        self._locations.enter_function()
        body, depth = [], 1
        while depth > 0:
            if self._at_end():
                self._fail("", "the file ends inside a function", "was nvcc interrupted? delete the .ptx and build again", line)
            place = self._take(_LOC)
            if place:
                self._locations.step(place)
            elif self._text[self._at] in "{}":
                opens = self._text[self._at] == "{"
                depth += 1 if opens else -1
                self._at += 1
                body.append(Open() if opens else Close())
            else:
                body += self._body_statement()
        return body[:-1]  # without the Close of the function itself

    def _body_statement(self):
        label = self._take(_LABEL)
        if label:
            return self._after_label(label)
        line, text = self._statement()
        if text.startswith(".pragma"):
            return []  # advice to ptxas
        if text.startswith("."):
            return self._variables(line, text)
        match = _INSTRUCTION.fullmatch(text)
        if not match:
            self._fail(text, "a statement that is not understood", _REPORT, line)
        guard, opcode, modifiers, operands = match.groups()
        return [Instruction(line, text, self._locations.current, guard and guard.replace(" ", ""), opcode,
                            tuple(modifiers.split(".")[1:]), split_operands(operands))]

    def _after_label(self, match):
        line = self._line_of(match.start())
        self._skip_space()
        if self._text.startswith(".callprototype", self._at):
            self._statement()  # a call names its parameters itself
            return []
        if self._text.startswith(".branchtargets", self._at):
            _, text = self._statement()
            return [Targets(match.group(1), split_operands(text[len(".branchtargets"):]), line)]
        return [Label(match.group(1), line)]

    # ---- declarations -------------------------------------------------------------------------------------------------

    def _variables(self, line, text):
        match = _VARIABLE.fullmatch(text.strip())
        if not match:
            self._fail(text, "a directive that is not understood", _REPORT, line)
        linkage, space, rest = match.groups()
        align, type_, rest = self._attributes(line, text, rest)
        parts = [rest] if "=" in rest else split_operands(rest)
        return [self._declarator(line, text, space, type_, align, "extern" in linkage, part) for part in parts]

    def _attributes(self, line, text, rest):
        """(alignment, type, what follows): `.ptr .global .align 4` describes what a pointer points to, not the variable."""
        align, type_, pointer = 0, None, False
        match = _ATTRIBUTE.match(rest)
        while match:
            word = match.group(1)
            if word.startswith("align"):
                align = align if pointer else int(word.split()[1])
            elif word == "ptr":
                pointer = True
            elif word in TYPES:
                type_ = TYPES[word]
            elif not (pointer and word in ("global", "shared", "const", "local")):
                self._fail(text, f"a declaration with '.{word}'", _REPORT, line)
            rest = rest[match.end():]
            match = _ATTRIBUTE.match(rest)
        if type_ is None:
            self._fail(text, "a declaration without a type", _REPORT, line)
        return align, type_, rest.strip()

    def _declarator(self, line, text, space, type_, align, extern, part):
        match = _DECLARATOR.fullmatch(part.strip())
        if not match:
            self._fail(text, "a declaration that is not understood", _REPORT, line)
        name, family, dimensions, values = match.groups()
        count = None
        for n in re.findall(r"\[\s*(\d*)\s*\]", dimensions):
            count = (1 if count is None else count) * int(n or 0)
        if values is not None:
            values = split_operands(values.strip().strip("{}"))
        return Variable(space, type_, name, line, align, count, family and int(family), values, extern)

    # ---- the scanner --------------------------------------------------------------------------------------------------

    def _skip_space(self):
        self._at = _SPACE.match(self._text, self._at).end()

    def _at_end(self):
        self._skip_space()
        return self._at >= len(self._text)

    def _take(self, pattern):
        match = pattern.match(self._text, self._at)
        if match:
            self._at = match.end()
        return match

    def _statement(self):
        """(line, text without the semicolon) of the statement that starts here."""
        start = self._at
        match = self._take(_STATEMENT)
        if not match:
            self._fail(self._text[start:].split("\n")[0], "a statement that is not understood", _REPORT)
        return self._line_of(start), " ".join(match.group()[:-1].split())

    def _line_of(self, position):
        return bisect.bisect_right(self._line_starts, position)

    def _fail(self, text, why, advice, line=None):
        raise PtxError(self._line_of(self._at) if line is None else line, " ".join(text.split()), why, advice)


def parse(text, path):
    return Parser(text, path).parse()

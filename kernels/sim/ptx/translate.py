"""A whole PTX file -> one C++ file: variables, functions, registration."""
import os
import re

from . import arithmetic, control, convert, memory  # noqa: F401  (they fill the table of emitters)
from .model import Instruction, PtxError, Variable
from .parser import parse
from .writer import FunctionWriter, identifier

_HEADER = """\
// Generated from {source} by kernels/sim/ptx2cpp.py; do not edit.
#include "kernels/sim/ptx.h"

// nvcc leaves labels, registers and functions that nothing uses.
#pragma GCC diagnostic ignored "-Wunused-label"
#pragma GCC diagnostic ignored "-Wunused-variable"
#pragma GCC diagnostic ignored "-Wunused-but-set-variable"
#pragma GCC diagnostic ignored "-Wunused-function"
"""

# Lines of these files are the dialect's, not the kernel's: who calls them is of interest.
_DIALECT = ("kernels/launch.h",)


class _Output:
    """Lines of C++, and #line for those that belong to another file."""

    def __init__(self, path):
        self._path, self._lines, self._foreign = path, [], False

    def own(self, text):
        """Lines that belong to the generated file."""
        if self._foreign:
            self._lines.append(f'#line {len(self._lines) + 2} "{_quoted(self._path)}"')
            self._foreign = False
        self._lines += text.split("\n")

    def foreign(self, file, line, text):
        """One line of code that belongs to a line of the kernel's source."""
        self._lines += [f'#line {line} "{_quoted(file)}"', text]
        self._foreign = True

    def text(self):
        return "\n".join(self._lines) + "\n"


def _quoted(path):
    return path.replace("\\", "\\\\").replace('"', '\\"')


def place(location):
    """(file, line) for #line.  Inlined code is named with the line of the kernel that called it, as
    "kernels/device.cuh:14@softmax.cu" 50: the line itself, then where it was inlined."""
    inside = [f for f in location.frames if not os.path.isabs(f[0]) and f[0] not in _DIALECT]
    frames = inside or location.frames
    (file, line), (outer_file, outer_line) = frames[0], frames[-1]
    if len(frames) == 1:
        return file, line
    return f"{file}:{line}@{os.path.basename(outer_file)}", outer_line


def short_name(mangled):
    """"_ZZ11nw_kernelEvE4tile" -> "tile"."""
    for match in re.finditer(r"\d+", mangled):
        rest = mangled[match.end():]
        name, tail = rest[:int(match.group())], rest[int(match.group()):]
        if name and len(name) == int(match.group()) and re.fullmatch(r"(_\d+)?", tail):
            return name
    return mangled


class _Translator:
    def __init__(self, module, output_path):
        self._module = module
        self._out = _Output(output_path)
        self._symbols = {}
        self._functions = [f for f in module.functions if f.body is not None]

    def translate(self):
        self._out.own(_HEADER.format(source=os.path.basename(self._module.path)))
        self._declare_functions()
        for variable in self._module.variables:
            self._define_variable(variable)
        for i, function in enumerate(self._functions):
            self._function(i, function)
        for function in self._functions:
            if function.is_entry:
                self._register(function)
        return self._out.text()

    # ---- what functions may name --------------------------------------------------------------------------------------

    def _declare_functions(self):
        for function in self._module.functions:  # a name that stays external has no body anywhere in the file
            if not function.is_entry:
                self._symbols[function.name] = "external:" + function.name
        for function in self._functions:
            if not function.is_entry:
                self._symbols[function.name] = f"(uint64_t)&func_{identifier(function.name)}"
                self._out.own(f"{self._header_of(function)};")

    def _define_variable(self, variable):
        if variable.space == "shared":
            self._symbols[variable.name] = "shared:cusim::shared_dynamic()"
            if not variable.extern:
                self._define_shared(variable, self._symbols, "module", None)
            return
        name, word = f"var_{identifier(variable.name)}", f"uint{variable.type.bits}_t"
        values = ", ".join(self._value(variable, v) for v in variable.values or [])
        const = "const " if variable.space == "const" else ""
        count = 1 if variable.count is None else variable.count
        self._out.own(f"alignas({variable.alignment}) static {const}{word} {name}[{count}] = {{{values}}};")
        self._symbols[variable.name] = f"(uint64_t){name}"

    @staticmethod
    def _value(variable, text):
        """One initial value as an unsigned integer."""
        match = re.fullmatch(r"0[fFdD]([0-9a-fA-F]+)|(-?(?:0[xX][0-9a-fA-F]+|\d+))U?", text)
        if not match:
            raise PtxError(variable.line, f"{variable.name} = {text}", "an initial value that is not a number",
                           "tables may hold numbers only, no addresses")
        value = int(match.group(1), 16) if match.group(1) else int(match.group(2), 0)
        return f"{value & (1 << variable.type.bits) - 1}u{'ll' if variable.type.bits == 64 else ''}"

    def _define_shared(self, variable, symbols, owner, location):
        site = f"site_{owner}_{identifier(variable.name)}"
        file, line = place(location) if location else ("", 0)
        self._out.own(f'static cusim::SharedSite {site}{{"{short_name(variable.name)}", {variable.bytes}, "{_quoted(file)}", {line}}};')
        symbols[variable.name] = f"shared:cusim::shared_static({site})"

    # ---- functions ----------------------------------------------------------------------------------------------------

    @staticmethod
    def _header_of(function):
        if function.is_entry:
            return f"static PTX_FUNCTION void entry_{identifier(function.name)}([[maybe_unused]] const char* P)"
        names = [identifier(v.name) for v in function.returns + function.params]
        parameters = ", ".join(f"[[maybe_unused]] char* {name}" for name in names)
        return f"static PTX_FUNCTION __attribute__((noinline)) void func_{identifier(function.name)}({parameters})"

    def _function(self, number, function):
        symbols = dict(self._symbols)
        location = next((i.location for i in function.body if isinstance(i, Instruction) and i.location), None)
        for item in function.body:
            if isinstance(item, Variable) and item.space == "shared":
                self._define_shared(item, symbols, number, location)
        symbols.update(self._parameters(function))
        writer = FunctionWriter(symbols, function)
        statements = list(writer.statements())
        self._out.own(f"\n{self._header_of(function)} {{")
        self._locals(writer)
        for where, statement, text in statements:
            code = f"    {statement}  // {text}" if text else f"  {statement}"
            if where is None:
                self._out.own(code)
            else:
                self._out.foreign(*place(where), code)
        self._out.own("}")

    @staticmethod
    def _parameters(function):
        if not function.is_entry:
            return {v.name: f"(uint64_t){identifier(v.name)}" for v in function.returns + function.params}
        return {v.name: f"(uint64_t)(P + {offset})" for v, offset in zip(function.params, offsets(function.params))}

    def _locals(self, writer):
        if writer.uses_window:
            self._out.own("    char* const S = cusim::shared_base();")
        for name, array in writer.used_shared.items():
            self._out.own(f"    const uint32_t {name} = px::shared_offset({array}, S);")
        if writer.uses_carry:
            self._out.own("    bool carry = false;")
        for array in writer.arrays:
            self._out.own(f"    {array}")
        by_type = {}
        for name, cpp in writer.registers.items():
            by_type.setdefault(cpp, []).append(name)
        for cpp, names in by_type.items():
            for i in range(0, len(names), 12):
                self._out.own(f"    {cpp} {', '.join(f'{n} = 0' for n in names[i:i + 12])};")

    def _register(self, function):
        name, size = function.name, offsets(function.params)[-1]
        self._out.own(f'static const bool registered_{identifier(name)} = '
                      f'px::register_kernel("{name}", {{&entry_{identifier(name)}, {size}}});')


def offsets(params):
    """Byte offsets of the parameters in nvcc's layout, and at the end the size of the block."""
    result, end = [], 0
    for p in params:
        start = -(-end // p.alignment) * p.alignment
        result.append(start)
        end = start + p.bytes
    return result + [end]


def translate(text, source_path, output_path):
    """C++ text for the PTX text; the paths are only named in it.  Raises model.PtxError."""
    return _Translator(parse(text, source_path), output_path).translate()

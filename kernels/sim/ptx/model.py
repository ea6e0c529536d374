"""What a PTX file says, as Python objects."""
from dataclasses import dataclass, field
from typing import List, NamedTuple, Optional, Tuple


class PtxError(Exception):
    """Something the translator does not know: where, what, and what to do about it."""

    def __init__(self, line, text, why, advice):
        super().__init__(why)
        self.line, self.text, self.why, self.advice = line, text, why, advice

    def describe(self, path):
        return f"{path}:{self.line}: {self.why}\n    {self.text}\n    {self.advice}"


class Type(NamedTuple):
    name: str  # as PTX writes it: "u32", "f64", "pred"
    kind: str  # u unsigned, s signed, b untyped bits, f float, p predicate
    bits: int
    cpp: str

    @property
    def bytes(self):
        return self.bits // 8


def _all_types():
    types = {"pred": Type("pred", "p", 1, "bool"), "f16": Type("f16", "f", 16, "uint16_t"),
             "f32": Type("f32", "f", 32, "float"), "f64": Type("f64", "f", 64, "double")}
    for bits in (8, 16, 32, 64):
        for kind, cpp in (("u", "uint"), ("s", "int"), ("b", "uint")):
            types[f"{kind}{bits}"] = Type(f"{kind}{bits}", kind, bits, f"{cpp}{bits}_t")
    return types


TYPES = _all_types()


@dataclass(frozen=True)
class Location:
    """A source line, innermost frame first where functions were inlined."""
    frames: Tuple[Tuple[str, int], ...]  # (file, line)


@dataclass
class Variable:
    """A declaration: `.shared .align 16 .b8 tile[64]`, a parameter, a table with its initial values, registers."""
    space: str  # reg param shared local global const
    type: Type
    name: str
    line: int
    align: int = 0            # bytes; 0 means natural
    count: Optional[int] = None   # elements of an array; None for a scalar
    family: Optional[int] = None  # `.reg .b32 %r<7>` declares %r0 .. %r6
    values: Optional[List[str]] = None
    extern: bool = False

    @property
    def bytes(self):
        return self.type.bytes * (1 if self.count is None else self.count)

    @property
    def alignment(self):
        return self.align or self.type.bytes


@dataclass
class Instruction:
    line: int                 # in the PTX file
    text: str
    location: Optional[Location]
    guard: Optional[str]      # "%p1" or "!%p1"
    opcode: str               # "add"
    modifiers: Tuple[str, ...]  # ("rn", "f32")
    operands: List[str]


@dataclass
class Label:
    name: str
    line: int


@dataclass
class Targets:
    """`name: .branchtargets A, B;`"""
    name: str
    labels: List[str]
    line: int


class Open:
    """`{` inside a function: names declared from here on end at the matching Close."""


class Close:
    """`}`"""


@dataclass
class Function:
    name: str
    is_entry: bool
    line: int
    returns: List[Variable]
    params: List[Variable]
    body: Optional[list] = None  # Instruction, Label, Targets, Variable, Open, Close; None for a mere declaration


@dataclass
class Module:
    path: str
    variables: List[Variable] = field(default_factory=list)
    functions: List[Function] = field(default_factory=list)

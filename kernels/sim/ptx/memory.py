"""Emitters: loads, stores, atomics.

The generated code accesses memory itself, by one C++ access per PTX access, so that the checks see its size and line.
"""
from .model import TYPES
from .registry import emitter

_SPACES = ("global", "shared", "shared::cta", "local", "const", "param", "param::entry", "param::func")
# Words that choose a cache, a scope or an order: one simulated GPU executes its accesses one after the other.
_HINTS = {"weak", "volatile", "relaxed", "acquire", "release", "acq_rel", "cta", "cluster", "gpu", "sys", "ca", "cg", "cs",
          "lu", "cv", "wb", "wt", "nc", "unified"}
_LEVEL_HINTS = ("L1::", "L2::")


def _space(m, ins):
    m.ignore(_HINTS | {word for word in ins.modifiers if word.startswith(_LEVEL_HINTS)})
    return m.choice(_SPACES, "generic").split("::")[0]


def _vector(m):
    return {"v2": 2, "v4": 4, "": 1}[m.choice(("v2", "v4"), "")]


def _access_type(m, type_, count):
    """The C++ type of one access: an integer as wide as the vector; 16 bytes are a call of the engine's."""
    total = type_.bytes * count
    m.require(total <= 16, f"an access of {total} bytes is not supported")
    return "float4" if total == 16 else f"uint{8 * total}_t"


@emitter("ld", "ldu")
def load(w, ins, m):
    type_ = m.type("busf", (8, 16, 32, 64))
    space, count = _space(m, ins), _vector(m)
    m.done(2)
    to, address = w.vector(ins.operands[0]), w.address(ins.operands[1], space)
    m.require(len(to) == count, f"{count} destinations were expected")
    if count == 1:
        return w.write(to[0], f"*(const {type_.cpp}*){address}", type_)
    packed = _access_type(m, type_, count)
    value = f"PTX_LOAD16((const void*){address})" if packed == "float4" else f"*(const {packed}*){address}"
    writes = [w.write(d, f"px::lane<{type_.cpp}>(v, {i})", type_) for i, d in enumerate(to)]
    return f"{{ const {packed} v = {value}; {' '.join(writes)} }}"


@emitter("st")
def store(w, ins, m):
    type_ = m.type("busf", (8, 16, 32, 64))
    space, count = _space(m, ins), _vector(m)
    m.done(2)
    address, source = w.address(ins.operands[0], space), w.vector(ins.operands[1])
    m.require(len(source) == count, f"{count} values were expected")
    values = [w.read(s, type_) for s in source]
    if count == 1:
        return f"*({type_.cpp}*){address} = {values[0]};"
    packed = _access_type(m, type_, count)
    vector = f"px::pack<{packed}>({', '.join(values)})"
    if packed == "float4":
        return f"PTX_STORE16((void*){address}, {vector});"
    return f"*({packed}*){address} = {vector};"


# ---- atomics ----------------------------------------------------------------------------------------------------------

_ATOMIC_TYPES = {
    "add": ("u32", "s32", "u64", "f32", "f64"), "exch": ("b32", "b64"), "cas": ("b32", "b64"),
    "min": ("u32", "s32", "u64", "s64"), "max": ("u32", "s32", "u64", "s64"),
    "and": ("b32", "b64"), "or": ("b32", "b64"), "xor": ("b32", "b64"), "inc": ("u32",), "dec": ("u32",),
}


@emitter("atom", "red")
def atomic(w, ins, m):
    type_ = m.types(1)[0]
    space, operation = _space(m, ins), m.choice(tuple(_ATOMIC_TYPES))
    m.require(type_.name in _ATOMIC_TYPES[operation], f"atomic {operation} of .{type_.name} is not supported")
    returns = ins.opcode == "atom"
    m.done(2 + returns + (operation == "cas"))
    address, *values = ins.operands[returns:]
    arguments = [w.read(v, type_) for v in reversed(values)]  # the engine takes (value, compare), PTX (compare, value)
    name = operation + "_" if operation in ("and", "or", "xor") else operation
    call = f"cusim::atomic<{type_.cpp}>(cusim::Atomic::{name}, ({type_.cpp}*){w.address(address, space)}, {', '.join(arguments)})"
    return w.write(ins.operands[0], call, type_) if returns else f"(void){call};"

"""Emitters: mov, cvt, cvta."""
from .arithmetic import ftz_flag
from .model import TYPES
from .registry import emitter

_U64 = TYPES["u64"]


@emitter("mov")
def mov(w, ins, m):
    type_ = m.type("busfp", (1, 16, 32, 64))
    m.done(2)
    to, source = ins.operands
    if to.startswith("{"):
        return _unpack(w, to, source, type_)
    if source.startswith("{"):
        return _pack(w, to, source, type_)
    if type_.kind == "p":
        return w.write(to, w.predicate(source), type_)
    return w.write(to, w.read(source, type_), type_)


def _parts(w, operand, type_):
    """(elements, type of one): mov.b64 {%r1, %r2} has two of 32 bits."""
    elements = w.vector(operand)
    if type_.bits % len(elements) or f"b{type_.bits // len(elements)}" not in TYPES:
        raise w.error("the elements do not fill the register")
    return elements, TYPES[f"b{type_.bits // len(elements)}"]


def _unpack(w, to, source, type_):
    elements, part = _parts(w, to, type_)
    word = TYPES[f"b{type_.bits}"]
    writes = [w.write(e, f"px::lane<{part.cpp}>(v, {i})", part) for i, e in enumerate(elements)]
    return f"{{ const {word.cpp} v = {w.read(source, word)}; {' '.join(writes)} }}"


def _pack(w, to, source, type_):
    elements, part = _parts(w, source, type_)
    word = TYPES[f"b{type_.bits}"]
    return w.write(to, f"px::pack<{word.cpp}>({', '.join(w.read(e, part) for e in elements)})", word)


@emitter("cvta")
def cvta(w, ins, m):
    """Only shared memory has addresses of its own."""
    m.require(m.type("u", (64,)) == _U64, "addresses have 64 bits")
    to = m.flag("to")
    space = m.choice(("global", "shared", "local", "const", "param", "shared::cta"))
    m.done(2)
    value = w.read(ins.operands[1], _U64)
    if space.startswith("shared"):
        w.uses_window = True
        value = f"{value} - (uint64_t)S" if to else f"(uint64_t)S + {value}"
    return w.write(ins.operands[0], value, _U64)


# ---- cvt --------------------------------------------------------------------------------------------------------------


@emitter("cvt")
def cvt(w, ins, m):
    to, source = m.types(2)
    ftz = m.flag("ftz")
    m.require(not ftz or "f32" in (to.name, source.name), ".ftz is for .f32")
    sat = m.flag("sat")
    integral = m.choice(("rni", "rzi", "rmi", "rpi"), "")
    rounding = m.ROUND[integral[:2]] if integral else m.rounding()
    m.done(2)
    value = w.read(ins.operands[1], source)
    if ftz and source.name == "f32":
        value = f"px::ftz({value})"
    if source.name == "f16":
        value, source = f"px::half_to_float({value})", TYPES["f32"]
    if source.kind == "f" and to.kind == "f":
        expression = _float_to_float(m, value, source, to, rounding, bool(integral), sat)
    elif source.kind == "f":
        m.require(rounding != "", "float to integer needs .rni, .rzi, .rmi or .rpi")
        expression = f"px::to_int<px::Round::{rounding}, {to.cpp}>({value})"
    elif to.kind == "f":
        expression = _integer_to_float(m, value, source, to, rounding)
        expression = f"px::sat({expression})" if sat else expression
    else:
        expression = f"px::saturate<{to.cpp}>({value})" if sat else f"({to.cpp}){value}"
    if ftz and to.name == "f32":
        expression = f"px::ftz({expression})"
    return w.write(ins.operands[0], expression, to)


def _float_to_float(m, value, source, to, rounding, integral, sat):
    if integral:
        value = f"px::round_to_integer<px::Round::{rounding}>({value})"
    if source.bits > to.bits and not integral and to.bits == 32:
        m.require(rounding != "", "a narrower float needs a rounding mode")
        value = f"(float){value}" if rounding == "nearest" else f"px::to_float<px::Round::{rounding}, float>({value})"
    elif to.name == "f16":
        m.require(source.name == "f32" and rounding == "nearest" and not sat, "only cvt.rn.f16.f32 is known")
        return f"px::float_to_half({value})"
    else:
        value = f"({to.cpp}){value}"
    return f"px::sat({value})" if sat else value


def _integer_to_float(m, value, source, to, rounding):
    m.require(to.bits >= 32 and rounding != "", "integer to float needs a rounding mode and .f32 or .f64")
    if rounding == "nearest":
        return f"({to.cpp}){value}"
    wide = "int64_t" if source.kind == "s" else "uint64_t"
    return f"px::to_float<px::Round::{rounding}, {to.cpp}>(({wide}){value})"

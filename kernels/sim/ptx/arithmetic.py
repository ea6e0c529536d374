"""Emitters: integer and floating-point arithmetic, logic, bits, comparison."""
from .model import TYPES
from .registry import emitter

_U32, _S32, _PRED = TYPES["u32"], TYPES["s32"], TYPES["pred"]
_INTEGERS = (16, 32, 64)
_FLOATS = (32, 64)


# What C++ computes as PTX does is written as C++: half of the compile time goes into calls of one-line functions.
_OPERATOR = {"add": "+", "sub": "-", "mul": "*", "div": "/"}


def integer_operation(opcode, a, b, type_):
    """add, sub, mul of unsigned integers, which wrap; 16-bit ones would become int on the way."""
    return f"px::{opcode}({a}, {b})" if type_.bits < 32 else f"({a} {_OPERATOR[opcode]} {b})"


def float_operation(opcode, rounding, values, type_):
    """An operation of floats: C++'s own where it rounds to nearest, a helper such as px::add<px::Round::up> otherwise."""
    if rounding not in ("", "nearest"):
        return f"px::{opcode}<px::Round::{rounding}>({', '.join(values)})"
    if opcode in _OPERATOR:
        return f"({values[0]} {_OPERATOR[opcode]} {values[1]})"
    if opcode == "fma":
        return f"__builtin_fma{'f' if type_.bits == 32 else ''}({', '.join(values)})"
    return f"px::{opcode}({', '.join(values)})"


def unsigned(type_):
    return TYPES[f"u{type_.bits}"]


def twice(type_):
    return TYPES[f"{type_.kind}{2 * type_.bits}"]


def read_all(w, operands, type_, ftz=False):
    values = [w.read(o, type_) for o in operands]
    return [f"px::ftz({v})" for v in values] if ftz else values


def finish(expression, ftz, sat):
    """What .ftz and .sat do to a float result."""
    if ftz:
        expression = f"px::ftz({expression})"
    return f"px::sat({expression})" if sat else expression


def ftz_flag(m, type_):
    ftz = m.flag("ftz")
    m.require(not ftz or type_.name == "f32", ".ftz is for .f32")
    return ftz


# ---- add, sub, mul, mad, fma, div -------------------------------------------------------------------------------------


def _float_operation(w, ins, m, type_, operands, helper):
    """d = helper(a, b, ...) with .rn/.rz/.rm/.rp, .ftz and .sat."""
    rounding, ftz, sat = m.rounding(), ftz_flag(m, type_), m.flag("sat")
    m.require(not sat or type_.name == "f32", ".sat is for .f32")
    m.done(operands + 1)
    values = read_all(w, ins.operands[1:], type_, ftz)
    return w.write(ins.operands[0], finish(float_operation(helper, rounding, values, type_), ftz, sat), type_)


@emitter("add", "sub")
def add_sub(w, ins, m):
    type_ = m.type("usf", _INTEGERS)
    if type_.kind == "f":
        return _float_operation(w, ins, m, type_, 2, ins.opcode)
    if m.flag("cc"):
        m.done(3)
        return _carry_operation(w, ins, unsigned(type_), "false", "&carry", *ins.operands[1:])
    if m.flag("sat"):
        m.require(type_.name == "s32", ".sat is for .s32")
        m.done(3)
        return w.write(ins.operands[0], f"px::{ins.opcode}_sat({', '.join(read_all(w, ins.operands[1:], _S32))})", _S32)
    m.done(3)
    type_ = unsigned(type_)
    return w.write(ins.operands[0], integer_operation(ins.opcode, *read_all(w, ins.operands[1:], type_), type_), type_)


@emitter("addc", "subc")
def add_sub_carry(w, ins, m):
    type_ = unsigned(m.type("us", (32, 64)))
    out = "&carry" if m.flag("cc") else "nullptr"
    m.done(3)
    return _carry_operation(w, ins, type_, "carry", out, *ins.operands[1:])


def _carry_operation(w, ins, type_, carry_in, carry_out, a, b):
    w.uses_carry = True
    helper = "sub_borrow" if ins.opcode.startswith("sub") else "add_carry"
    return w.write(ins.operands[0], f"px::{helper}({w.read(a, type_)}, {w.read(b, type_)}, {carry_in}, {carry_out})", type_)


def _product(w, part, type_, a, b):
    """C++ expression of mul.lo, mul.hi or mul.wide, and its type."""
    if part == "hi":
        return f"px::mul_hi({w.read(a, type_)}, {w.read(b, type_)})", type_
    if part == "wide":
        wide = twice(type_)
        return f"(({wide.cpp}){w.read(a, type_)} * ({wide.cpp}){w.read(b, type_)})", wide
    type_ = unsigned(type_)
    return integer_operation("mul", w.read(a, type_), w.read(b, type_), type_), type_


@emitter("mul")
def mul(w, ins, m):
    type_ = m.type("usf", _INTEGERS)
    if type_.kind == "f":
        return _float_operation(w, ins, m, type_, 2, "mul")
    part = m.choice(("lo", "hi", "wide"))
    m.require(part != "wide" or type_.bits < 64, ".wide is for 16 and 32 bits")
    m.done(3)
    return w.write(ins.operands[0], *_product(w, part, type_, *ins.operands[1:]))


@emitter("mad", "madc")
def mad(w, ins, m):
    type_ = m.type("usf", _INTEGERS)
    if type_.kind == "f":
        return _float_operation(w, ins, m, type_, 3, "fma")
    part = m.choice(("lo", "hi", "wide"))
    carry = m.flag("cc")
    m.done(4)
    product, result = _product(w, part, type_, *ins.operands[1:3])
    word = unsigned(result)
    product, addend = f"({word.cpp}){product}", w.read(ins.operands[3], word)
    if not carry and ins.opcode == "mad":
        return w.write(ins.operands[0], integer_operation("add", product, addend, word), word)
    m.require(part != "wide", "a carry does not go with .wide")
    w.uses_carry = True
    carry_in, carry_out = "carry" if ins.opcode == "madc" else "false", "&carry" if carry else "nullptr"
    return w.write(ins.operands[0], f"px::add_carry({product}, {addend}, {carry_in}, {carry_out})", word)


@emitter("mul24", "mad24")
def mul24(w, ins, m):
    type_ = m.type("us", (32,))
    part = m.choice(("lo", "hi"))
    m.done(3 if ins.opcode == "mul24" else 4)
    product = f"px::mul24_{part}({w.read(ins.operands[1], type_)}, {w.read(ins.operands[2], type_)})"
    if ins.opcode == "mad24":
        product = f"px::add({product}, {w.read(ins.operands[3], type_)})"
    return w.write(ins.operands[0], product, type_)


@emitter("fma")
def fma(w, ins, m):
    return _float_operation(w, ins, m, m.type("f", _FLOATS), 3, "fma")


@emitter("div")
def div(w, ins, m):
    type_ = m.type("usf", _INTEGERS)
    if type_.kind == "f":
        if type_.bits == 32 and (m.flag("approx") or m.flag("full")):
            return _float_operation(w, ins, m, type_, 2, "div_approx")
        return _float_operation(w, ins, m, type_, 2, "div")
    m.done(3)
    return w.write(ins.operands[0], f"px::div({', '.join(read_all(w, ins.operands[1:], type_))})", type_)


# ---- functions of one float -------------------------------------------------------------------------------------------


@emitter("sqrt")
def sqrt(w, ins, m):
    type_ = m.type("f", _FLOATS)
    helper = "sqrt_approx" if type_.bits == 32 and m.flag("approx") else "sqrt"
    return _float_operation(w, ins, m, type_, 1, helper)


@emitter("rcp")
def rcp(w, ins, m):
    type_ = m.type("f", _FLOATS)
    approx = m.flag("approx")
    if approx and type_.bits == 64:
        return _high_word(w, ins, m, type_)
    if approx:
        return _float_operation(w, ins, m, type_, 1, "rcp_approx")
    rounding, ftz = m.rounding(), ftz_flag(m, type_)
    m.done(2)
    values = [f"({type_.cpp})1"] + read_all(w, ins.operands[1:], type_, ftz)
    return w.write(ins.operands[0], finish(float_operation("div", rounding, values, type_), ftz, False), type_)


@emitter("rsqrt")
def rsqrt(w, ins, m):
    type_ = m.type("f", _FLOATS)
    m.require(m.flag("approx"), "only .approx is known")
    if type_.bits == 64 and "ftz" in ins.modifiers:
        return _high_word(w, ins, m, type_)
    return _float_operation(w, ins, m, type_, 1, "rsqrt_approx")


def _high_word(w, ins, m, type_):
    m.require(m.flag("ftz"), ".approx.f64 needs .ftz")
    m.done(2)
    return w.write(ins.operands[0], f"px::{ins.opcode}_approx_ftz({w.read(ins.operands[1], type_)})", type_)


@emitter("ex2", "lg2", "sin", "cos", "tanh")
def approximate(w, ins, m):
    type_ = m.type("f", (32,))
    m.require(m.flag("approx"), "only .approx is known")
    return _float_operation(w, ins, m, type_, 1, f"{ins.opcode}_approx")


# ---- sign, minimum, maximum -------------------------------------------------------------------------------------------


@emitter("neg", "abs")
def neg_abs(w, ins, m):
    type_ = m.type("sf", _INTEGERS)
    ftz = ftz_flag(m, type_)
    m.done(2)
    value, = read_all(w, ins.operands[1:], type_, ftz)
    return w.write(ins.operands[0], f"px::{ins.opcode}({value})", type_)


@emitter("min", "max")
def min_max(w, ins, m):
    type_ = m.type("usf", _INTEGERS)
    ftz = ftz_flag(m, type_)
    nan = "_nan" if type_.kind == "f" and m.flag("NaN") else ""
    m.done(3)
    return w.write(ins.operands[0], f"px::{ins.opcode}{nan}({', '.join(read_all(w, ins.operands[1:], type_, ftz))})", type_)


@emitter("copysign")
def copysign(w, ins, m):
    type_ = m.type("f", _FLOATS)
    m.done(3)
    return w.write(ins.operands[0], f"px::copysign({', '.join(read_all(w, ins.operands[1:], type_))})", type_)


@emitter("testp")
def testp(w, ins, m):
    type_ = m.type("f", _FLOATS)
    test = m.choice(("finite", "infinite", "number", "notanumber", "normal", "subnormal"))
    m.done(2)
    value = w.read(ins.operands[1], type_)
    expression = {"number": f"px::ordered({value}, {value})", "notanumber": f"!px::ordered({value}, {value})"}
    return w.write(ins.operands[0], expression.get(test, f"px::is_{test}({value})"), _PRED)


# ---- integers alone ---------------------------------------------------------------------------------------------------


def _uniform(w, ins, m, kinds, bits, helper, operands):
    """d = helper(a, b, ...), all of the instruction's type."""
    type_ = m.type(kinds, bits)
    m.done(operands + 1)
    return w.write(ins.operands[0], f"px::{helper}({', '.join(read_all(w, ins.operands[1:], type_))})", type_)


@emitter("rem")
def rem(w, ins, m):
    return _uniform(w, ins, m, "us", _INTEGERS, "rem", 2)


@emitter("sad")
def sad(w, ins, m):
    return _uniform(w, ins, m, "us", _INTEGERS, "sad", 3)


@emitter("brev")
def brev(w, ins, m):
    return _uniform(w, ins, m, "b", (32, 64), "brev", 1)


@emitter("prmt")
def prmt(w, ins, m):
    return _uniform(w, ins, m, "b", (32,), "prmt", 3)


@emitter("dp4a", "dp2a")
def dot_product(w, ins, m):
    a, b = m.types(2)
    helper = "dp4a" if ins.opcode == "dp4a" else f"dp2a<{'true' if m.choice(('lo', 'hi')) == 'hi' else 'false'}>"
    m.require(a.name in ("u32", "s32") and b.name in ("u32", "s32"), "only .u32 and .s32 are known")
    m.done(4)
    result = _S32 if "s" in (a.kind, b.kind) else _U32
    x, y, z = ins.operands[1:]
    return w.write(ins.operands[0], f"px::{helper}({w.read(x, a)}, {w.read(y, b)}, {w.read(z, result)})", result)


@emitter("popc", "clz", "bfind")
def count_bits(w, ins, m):
    type_ = m.type("us" if ins.opcode == "bfind" else "b", (32, 64))
    helper = "bfind_shiftamt" if m.flag("shiftamt") else ins.opcode
    m.done(2)
    return w.write(ins.operands[0], f"px::{helper}({w.read(ins.operands[1], type_)})", _U32)


@emitter("bfe")
def bfe(w, ins, m):
    type_ = m.type("us", (32, 64))
    m.done(4)
    a, pos, length = ins.operands[1:]
    return w.write(ins.operands[0], f"px::bfe({w.read(a, type_)}, {w.read(pos, _U32)}, {w.read(length, _U32)})", type_)


@emitter("bfi")
def bfi(w, ins, m):
    type_ = m.type("b", (32, 64))
    m.done(5)
    a, b, pos, length = ins.operands[1:]
    values = f"{w.read(a, type_)}, {w.read(b, type_)}, {w.read(pos, _U32)}, {w.read(length, _U32)}"
    return w.write(ins.operands[0], f"px::bfi({values})", type_)


@emitter("shl", "shr")
def shift(w, ins, m):
    type_ = m.type("b" if ins.opcode == "shl" else "bus", _INTEGERS)
    m.done(3)
    value, distance = w.read(ins.operands[1], type_), ins.operands[2]
    if distance.isdigit() and int(distance) < type_.bits and type_.bits >= 32:
        return w.write(ins.operands[0], f"({value} {'<<' if ins.opcode == 'shl' else '>>'} {distance})", type_)
    return w.write(ins.operands[0], f"px::{ins.opcode}({value}, {w.read(distance, _U32)})", type_)


@emitter("shf")
def funnel_shift(w, ins, m):
    type_ = m.type("b", (32,))
    side, mode = m.choice(("l", "r")), m.choice(("wrap", "clamp"))
    m.done(4)
    a, b, n = ins.operands[1:]
    distance = f"px::{mode}_distance({w.read(n, _U32)})"
    return w.write(ins.operands[0], f"px::shf_{side}({w.read(a, type_)}, {w.read(b, type_)}, {distance})", type_)


# ---- logic ------------------------------------------------------------------------------------------------------------


@emitter("and", "or", "xor")
def logic(w, ins, m):
    type_ = m.type("bp", (1,) + _INTEGERS)
    m.done(3)
    operator = {"and": "&", "or": "|", "xor": "^"}[ins.opcode]
    read = w.predicate if type_.kind == "p" else lambda o: w.read(o, type_)
    return w.write(ins.operands[0], f"({type_.cpp})({read(ins.operands[1])} {operator} {read(ins.operands[2])})", type_)


@emitter("not")
def not_(w, ins, m):
    type_ = m.type("bp", (1,) + _INTEGERS)
    m.done(2)
    value = w.read(ins.operands[1], type_)
    return w.write(ins.operands[0], f"!{value}" if type_.kind == "p" else f"({type_.cpp})~{value}", type_)


@emitter("cnot")
def cnot(w, ins, m):
    type_ = m.type("b", _INTEGERS)
    m.done(2)
    return w.write(ins.operands[0], f"({type_.cpp})({w.read(ins.operands[1], type_)} == 0)", type_)


@emitter("lop3")
def lop3(w, ins, m):
    type_ = m.type("b", (32,))
    m.done(5)
    values = ", ".join(read_all(w, ins.operands[1:4], type_))
    return w.write(ins.operands[0], f"px::lop3({values}, {int(ins.operands[4], 0)})", type_)


# ---- comparison and selection -----------------------------------------------------------------------------------------

_ORDERED = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}
_UNSIGNED = {"lo": "<", "ls": "<=", "hi": ">", "hs": ">="}
_OPPOSITE = {"neu": "==", "ltu": ">=", "leu": ">", "gtu": "<=", "geu": "<"}  # true, too, where one is NaN
_JOIN = {"and": "&", "or": "|", "xor": "^"}


def comparison(w, m, type_, a, b, ftz):
    """C++ expression of the comparison that stands among the modifiers."""
    x, y = read_all(w, (a, b), type_, ftz)
    if type_.kind != "f":
        word = m.choice({"u": tuple(_ORDERED) + tuple(_UNSIGNED), "s": tuple(_ORDERED), "b": ("eq", "ne")}[type_.kind])
        return f"({x} {(_ORDERED.get(word) or _UNSIGNED[word])} {y})"
    word = m.choice(tuple(_ORDERED) + tuple(_OPPOSITE) + ("equ", "num", "nan"))
    if word in _OPPOSITE:
        return f"!({x} {_OPPOSITE[word]} {y})"
    named = {"ne": f"px::less_or_greater({x}, {y})", "equ": f"!px::less_or_greater({x}, {y})",
             "num": f"px::ordered({x}, {y})", "nan": f"!px::ordered({x}, {y})"}
    return named.get(word) or f"({x} {_ORDERED[word]} {y})"


def _combined(w, ins, m, type_, ftz):
    """(comparison, how to join the third operand): setp and set may combine their result with a predicate."""
    test = comparison(w, m, type_, ins.operands[1], ins.operands[2], ftz)
    join = m.choice(tuple(_JOIN), "")
    m.done(4 if join else 3)
    tail = f" {_JOIN[join]} {w.predicate(ins.operands[3])}" if join else ""
    return test, tail


@emitter("setp")
def setp(w, ins, m):
    type_ = m.type("busf", _INTEGERS)
    test, tail = _combined(w, ins, m, type_, ftz_flag(m, type_))
    destinations = [d.strip() for d in ins.operands[0].split("|")]
    if len(destinations) == 1:
        return w.write(destinations[0], f"(bool)({test}{tail})", _PRED)
    # A destination may be the third operand: both values exist before one is written.
    first, second = (w.write(d, v, _PRED) for d, v in zip(destinations, ("yes", "no")))
    return f"{{ const bool t = {test}, yes = (bool)(t{tail}), no = (bool)(!t{tail}); {first} {second} }}"


@emitter("set")
def set_(w, ins, m):
    result, type_ = m.types(2)
    m.require(result.name in ("u32", "s32", "f32"), "the result is .u32, .s32 or .f32")
    test, tail = _combined(w, ins, m, type_, ftz_flag(m, type_))
    return w.write(ins.operands[0], f"(({test}{tail}) ? ({result.cpp}){1 if result.kind == 'f' else -1} : ({result.cpp})0)", result)


@emitter("selp")
def selp(w, ins, m):
    type_ = m.type("busf", _INTEGERS)
    m.done(4)
    a, b = read_all(w, ins.operands[1:3], type_)
    return w.write(ins.operands[0], f"({w.predicate(ins.operands[3])} ? {a} : {b})", type_)


@emitter("slct")
def slct(w, ins, m):
    type_, condition = m.types(2)
    m.require(condition.name in ("s32", "f32"), "the condition is .s32 or .f32")
    ftz = ftz_flag(m, condition)
    m.done(4)
    a, b = read_all(w, ins.operands[1:3], type_)
    c, = read_all(w, ins.operands[3:], condition, ftz)
    return w.write(ins.operands[0], f"({c} >= 0 ? {a} : {b})", type_)

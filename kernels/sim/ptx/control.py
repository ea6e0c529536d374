"""Emitters: branches, calls, barriers, fences, warp operations."""
from .model import TYPES
from .registry import emitter
from .writer import identifier

_U32, _PRED = TYPES["u32"], TYPES["pred"]


# ---- branches and calls -----------------------------------------------------------------------------------------------


@emitter("bra")
def bra(w, ins, m):
    m.ignore({"uni"})
    m.done(1)
    return f"goto {w.label(ins.operands[0])};"


@emitter("brx")
def brx(w, ins, m):
    m.require(m.flag("idx"), "only brx.idx is known")
    m.ignore({"uni"})
    m.done(2)
    cases = " ".join(f"case {i}: goto {label};" for i, label in enumerate(w.targets(ins.operands[1])))
    return f'switch ({w.read(ins.operands[0], _U32)}) {{ {cases} default: px::trap("brx.idx beyond its table", PTX_HERE); }}'


@emitter("ret", "exit")
def ret(w, ins, m):
    m.ignore({"uni"})
    m.done(0)
    if ins.opcode == "exit" and not w.function.is_entry:
        raise w.error("exit ends the thread from inside a function", "return to the kernel and leave it from there")
    return "return;"


@emitter("trap")
def trap(_w, _ins, m):
    m.done(0)
    return 'px::trap("trap: the kernel stopped itself", PTX_HERE);'


@emitter("call")
def call(w, ins, m):
    """call (results), function, (arguments), prototype;  -- everything but the function may be missing"""
    m.ignore({"uni"})
    m.done()
    operands = list(ins.operands)
    results = _names(operands.pop(0)) if operands[0].startswith("(") else []
    target = operands.pop(0)
    arguments = _names(operands.pop(0)) if operands and operands[0].startswith("(") else []
    if w.register(target):  # through a pointer: a prototype follows, which says nothing that the arguments do not
        types = ", ".join(["char*"] * len(results + arguments))
        function = f"((void (*)({types})){w.read(target, TYPES['u64'])})"
    else:
        w.symbol(target)  # is it there?
        function = f"func_{identifier(target)}"
    buffers = ", ".join(f"(char*){w.symbol(name)}" for name in results + arguments)
    return f"{function}({buffers});"


def _names(text):
    return [name.strip() for name in text[1:-1].split(",") if name.strip()]


# ---- barriers and fences ----------------------------------------------------------------------------------------------


@emitter("bar", "barrier")
def bar(w, ins, m):
    m.ignore({"aligned", "cta"})
    if m.flag("warp"):
        m.require(m.flag("sync"), "only bar.warp.sync is known")
        m.done(1)
        return f"{_warp_op('sync', w.read(ins.operands[0], _U32), '0')};"
    m.require(m.flag("sync"), "only .sync is known")
    m.done(1)
    m.require(ins.operands[0] == "0", "only barrier 0, of all threads, is known")
    return "cusim::sync_threads(PTX_HERE);"


@emitter("membar", "fence")
def fence(_w, _ins, m):
    """Fibers run one after the other and the host's memory is stronger ordered than a GPU's; only the compiler must not move."""
    m.ignore({"cta", "gl", "sys", "sc", "acq_rel", "gpu"})
    m.done(0)
    return '__asm__ volatile("" : : : "memory");'


# ---- warp operations --------------------------------------------------------------------------------------------------


def _warp_op(name, mask, value):
    return f"cusim::warp_op(cusim::WarpOp::{name}, {mask}, {value}, 0, 32, PTX_HERE)"


def _two_destinations(w, operand):
    """"%r1|%p1" -> (%r1, %p1); the predicate may be missing."""
    parts = [part.strip() for part in operand.split("|")]
    return parts[0], parts[1] if len(parts) > 1 else "_"


@emitter("shfl")
def shfl(w, ins, m):
    m.require(m.flag("sync"), "only shfl.sync is known")
    type_ = m.type("b", (32,))
    mode = m.choice(("up", "down", "bfly", "idx"))
    m.done(5)
    to, in_range = _two_destinations(w, ins.operands[0])
    value, b, c, mask = (w.read(o, type_) for o in ins.operands[1:])
    writes = f"{w.write(to, 'v', type_)} {w.write(in_range, 'in_range', _PRED)}"
    return (f"{{ bool in_range = false; const uint32_t v = px::shuffle(px::Shuffle::{mode}, {value}, {b}, {c}, {mask}, "
            f"&in_range, PTX_HERE); {writes} }}")


@emitter("vote")
def vote(w, ins, m):
    m.require(m.flag("sync"), "only vote.sync is known")
    mode, type_ = m.choice(("all", "any", "uni", "ballot")), m.types(1)[0]
    m.require(type_ == (TYPES["b32"] if mode == "ballot" else _PRED), "vote gives a predicate, ballot .b32")
    m.done(3)
    value, mask = w.predicate(ins.operands[1]), w.read(ins.operands[2], _U32)
    if mode == "uni":
        return w.write(ins.operands[0], f"px::vote_uni({mask}, {value}, PTX_HERE)", _PRED)
    return w.write(ins.operands[0], f"({type_.cpp}){_warp_op(mode, mask, value)}", type_)


@emitter("match")
def match(w, ins, m):
    type_ = m.type("b", (32, 64))
    mode = m.choice(("any", "all"))
    m.require(m.flag("sync"), "only match.sync is known")
    m.done(3)
    value, mask = w.read(ins.operands[1], type_), w.read(ins.operands[2], _U32)
    if mode == "any":
        return w.write(ins.operands[0], f"px::match_any({mask}, {value}, PTX_HERE)", _U32)
    to, all_ = _two_destinations(w, ins.operands[0])
    writes = f"{w.write(to, 'v', _U32)} {w.write(all_, 'all', _PRED)}"
    return f"{{ bool all = false; const uint32_t v = px::match_all({mask}, {value}, &all, PTX_HERE); {writes} }}"


@emitter("redux")
def redux(w, ins, m):
    type_ = m.type("bus", (32,))
    m.require(m.flag("sync"), "only redux.sync is known")
    operation = m.choice(("add", "min", "max", "and", "or", "xor"))
    m.done(3)
    name = operation + "_" if operation in ("and", "or", "xor") else operation
    value, mask = w.read(ins.operands[1], type_), w.read(ins.operands[2], _U32)
    return w.write(ins.operands[0], f"px::redux<px::Reduce::{name}>({mask}, {value}, PTX_HERE)", type_)


@emitter("activemask")
def activemask(w, ins, m):
    """Threads that run together are nobody's promise: here each runs alone, which a GPU may do, too."""
    type_ = m.type("b", (32,))
    m.done(1)
    return w.write(ins.operands[0], "px::lane_mask_eq()", type_)

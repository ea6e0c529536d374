"""The table opcode -> emitter, and the modifiers of an instruction.

An emitter takes (writer, instruction, modifiers) and returns one C++ statement.  It has to ask for every modifier it
honours: what nobody asked for stops the translation, so that an instruction is never translated only in part.
"""
from .model import TYPES, PtxError

EMITTERS = {}

_ADVICE = ("the simulator's translator does not know this instruction: rewrite the kernel without it, or add an emitter "
           "(kernels/sim/ptx), a helper (kernels/sim/ptx.h) and a test (tests/ptx_opcodes.cu)")


def emitter(*opcodes):
    """Decorator: the function writes these opcodes."""
    def add(function):
        for opcode in opcodes:
            assert opcode not in EMITTERS, opcode
            EMITTERS[opcode] = function
        return function
    return add


def unsupported(instruction, why, advice=_ADVICE):
    return PtxError(instruction.line, instruction.text, why, advice)


class Modifiers:
    """The words after the opcode; each method takes out those it knows."""

    ROUND = {"rn": "nearest", "rz": "zero", "rm": "down", "rp": "up"}

    def __init__(self, instruction):
        self._instruction = instruction
        self._words = list(instruction.modifiers)

    def flag(self, word):
        if word in self._words:
            self._words.remove(word)
            return True
        return False

    def ignore(self, words):
        """Takes out words that make no difference here: cache hints, memory scopes."""
        self._words = [w for w in self._words if w not in words]

    def choice(self, words, default=None):
        """The one of `words` that stands here; `default` may be None where there has to be one."""
        for word in words:
            if self.flag(word):
                return word
        if default is None:
            raise unsupported(self._instruction, f"one of .{' .'.join(words)} was expected")
        return default

    def rounding(self):
        """"nearest", "zero", "down", "up", or "" where the instruction does not say."""
        word = self.choice(tuple(self.ROUND), "")
        return self.ROUND.get(word, "")

    def types(self, count):
        """The last `count` words, which are types."""
        words, self._words = self._words[-count:], self._words[:-count]
        if len(words) < count or any(w not in TYPES for w in words):
            raise unsupported(self._instruction, "the type of this instruction is not supported")
        return [TYPES[w] for w in words]

    def type(self, kinds, bits):
        """The one type of an instruction, which must be of these kinds ("us") and widths."""
        type_ = self.types(1)[0]
        self.require(type_.kind in kinds and type_.bits in bits, f"type .{type_.name} is not supported here")
        return type_

    def require(self, condition, why):
        if not condition:
            raise unsupported(self._instruction, why)

    def done(self, operands=None):
        """Every word has been understood, and the number of operands is the expected one."""
        if self._words:
            raise unsupported(self._instruction, f"modifier .{' .'.join(self._words)} is not supported")
        if operands is not None and len(self._instruction.operands) != operands:
            raise unsupported(self._instruction, f"{operands} operands were expected, found {len(self._instruction.operands)}")

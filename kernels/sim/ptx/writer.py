"""One PTX function -> one C++ function: names and scopes, operands, addresses.

Registers become local variables, all declared at the top, because C++ does not let a goto jump over a declaration.
Shared addresses are offsets from the block's window S; all other addresses are those of the host.
"""
import re

from .model import TYPES, Close, Instruction, Label, Open, PtxError, Targets, Variable
from .registry import EMITTERS, Modifiers, unsupported

SPECIAL = {
    **{f"%{ptx}.{axis}": f"cusim::indices.{field}.{axis}" for axis in "xyz" for ptx, field in
       (("tid", "thread"), ("ntid", "block_dim"), ("ctaid", "block"), ("nctaid", "grid_dim"))},
    "%laneid": "cusim::lane_id()", "%warpid": "px::warp_id()", "WARP_SZ": "32",
    **{f"%lanemask_{word}": f"px::lane_mask_{word}()" for word in ("eq", "lt", "le", "gt", "ge")},
}

MAX_LOCAL_BYTES = 16 * 1024  # of a fiber's stack

_FAMILY = re.compile(r"(.*?)(\d+)")
_INTEGER = re.compile(r"-?(?:0[xX][0-9a-fA-F]+|0[bB][01]+|\d+)U?")
_HEX_FLOAT = re.compile(r"0([fF])([0-9a-fA-F]{8})|0([dD])([0-9a-fA-F]{16})")
_DECIMAL_FLOAT = re.compile(r"-?(?:\d+\.\d*|\.\d+)(?:[eE][-+]?\d+)?")
_SYMBOL_OFFSET = re.compile(r"([A-Za-z_$%][\w$]*)\s*\+\s*(-?\w+)")
_ADDRESS = re.compile(r"\[\s*([\w$%]+)\s*(?:\+\s*(-?\w+))?\s*\]")


def identifier(name):
    """A PTX name as part of a C++ one."""
    return name.replace("%", "").replace("$", "_S")


class FunctionWriter:
    def __init__(self, module_symbols, function):
        self.function = function
        self._scopes = [dict(module_symbols)]  # name -> Variable, Label's C++ name, Targets or an address expression
        self._families = [{}]                  # prefix -> Variable of `.reg .b32 %r<7>`
        self._scope_ids = [0]
        self._next_scope = 0
        self._found = {}         # cache of registers, for the innermost scope
        self.registers = {}      # C++ name -> C++ type, in order of appearance
        self.arrays = []         # C++ declarations of call parameters and local memory
        self.used_shared = {}    # C++ name of the offset -> expression of the array's address
        self.uses_window = False
        self.uses_carry = False
        self._local_bytes = 0
        self._instruction = None

    # ---- the function's body ------------------------------------------------------------------------------------------

    def statements(self):
        """Yields (location, C++ statement, PTX text) for every instruction and label."""
        body = self.function.body
        self._enter(body, 0)
        for i, item in enumerate(body):
            if isinstance(item, Instruction):
                self._instruction = item
                yield item.location, self._translate(item), item.text
            elif isinstance(item, Label):
                yield None, f"{self._scopes[-1][item.name]}:;", ""
            elif isinstance(item, Variable):
                self._declare(item)
            elif isinstance(item, Targets):
                self._scopes[-1][item.name] = item
            elif isinstance(item, Open):
                self._enter(body, i + 1)
            elif isinstance(item, Close):
                self._leave()

    def _enter(self, body, start):
        """A new scope.  Its labels are known before the first jump to them."""
        self._next_scope += 1
        names, depth = {}, 1
        for item in body[start:]:
            depth += isinstance(item, Open) - isinstance(item, Close)
            if depth == 0:
                break
            if depth == 1 and isinstance(item, Label):
                names[item.name] = f"L_{identifier(item.name)}_{self._next_scope}"
        self._scopes.append(names)
        self._families.append({})
        self._scope_ids.append(self._next_scope)
        self._found = {}

    def _leave(self):
        for stack in (self._scopes, self._families, self._scope_ids):
            stack.pop()
        self._found = {}

    def _translate(self, instruction):
        emit = EMITTERS.get(instruction.opcode)
        if emit is None:
            raise unsupported(instruction, f"opcode '{instruction.opcode}' is not supported")
        statement = emit(self, instruction, Modifiers(instruction))
        if instruction.guard is None:
            return statement
        return f"if ({self.predicate(instruction.guard)}) {{ {statement} }}"

    def _declare(self, variable):
        """Registers, call parameters, local arrays; shared arrays are symbols of the file already (translate.py)."""
        scope = self._scopes[-1]
        if variable.space == "reg":
            if variable.family is not None:
                self._families[-1][variable.name] = variable
            else:
                scope[variable.name] = variable
            self._found = {}
        elif variable.space in ("param", "local"):
            name = f"{identifier(variable.name)}_{self._scope_ids[-1]}"
            self._local_bytes += variable.bytes
            if self._local_bytes > MAX_LOCAL_BYTES:
                raise PtxError(variable.line, f".{variable.space} {variable.name}[{variable.bytes}]",
                               f"more than {MAX_LOCAL_BYTES} bytes of local memory per thread do not fit the simulator's stacks",
                               "keep large arrays in shared or global memory: on a GPU local memory is slow, too")
            self.arrays.append(f"alignas({variable.alignment}) char {name}[{variable.bytes}];")
            scope[variable.name] = f"(uint64_t){name}"

    # ---- names --------------------------------------------------------------------------------------------------------

    def _lookup(self, name):
        for scope in reversed(self._scopes):
            if name in scope:
                return scope[name]
        return None

    def register(self, name):
        """(C++ variable, Type of its storage), or None if this is no register."""
        found = self._found.get(name)
        if found is None:
            found = self._find_register(name)
            self._found[name] = found
        return found or None

    def _find_register(self, name):
        match = _FAMILY.fullmatch(name)
        for scope, families, number in zip(reversed(self._scopes), reversed(self._families), reversed(self._scope_ids)):
            variable = scope.get(name)
            if variable is None and match:
                family = families.get(match.group(1))
                variable = family if family and int(match.group(2)) < family.family else None
            if variable is not None:
                if not isinstance(variable, Variable) or variable.space != "reg":
                    return False
                return self._storage(name, variable.type, number)
        return False

    def _storage(self, name, type_, scope_number):
        """Newer compilers declare floats as `.b32 %f<9>`: the name tells what the bits are, and what C++ should make of them."""
        prefix = name.rstrip("0123456789")
        if type_.kind == "b" and prefix in ("%f", "%fd"):
            type_ = TYPES[f"f{type_.bits}"]
        elif type_.kind in "us" or type_.name == "f16":
            type_ = TYPES[f"b{type_.bits}"]
        cpp_name = identifier(name) if name[0] == "%" and scope_number == 1 else f"{identifier(name)}_{scope_number}"
        self.registers[cpp_name] = type_.cpp
        return cpp_name, type_

    def error(self, why, advice=None):
        return unsupported(self._instruction, why, *([advice] if advice else []))

    # ---- operands -----------------------------------------------------------------------------------------------------

    def read(self, operand, type_):
        """C++ expression of type type_.cpp for a source operand."""
        register = self.register(operand)
        if register:
            return self._cast(*register, type_)
        if operand in SPECIAL:
            return f"({type_.cpp}){SPECIAL[operand]}"
        if _INTEGER.fullmatch(operand):
            return self._integer(int(operand.rstrip("U"), 0), type_)
        match = _HEX_FLOAT.fullmatch(operand)
        if match:
            return self._float_bits(match, type_)
        if _DECIMAL_FLOAT.fullmatch(operand) and type_.name in ("f32", "f64"):
            return f"({type_.cpp}){operand}"
        match = _SYMBOL_OFFSET.fullmatch(operand)
        if match:
            return f"({type_.cpp})({self.symbol(match.group(1))} + {int(match.group(2), 0)})"
        return f"({type_.cpp})({self.symbol(operand)})"

    @staticmethod
    def _cast(name, stored, wanted):
        """Storage is unsigned, float or bool; wider registers give their low bits."""
        if stored.cpp == wanted.cpp:
            return name
        if stored.bits == wanted.bits and "f" in (stored.kind, wanted.kind):
            return f"px::bits<{wanted.cpp}>({name})"
        if stored.kind == "f":
            return f"({wanted.cpp})px::bits<uint{stored.bits}_t>({name})"
        return f"({wanted.cpp}){name}"

    @staticmethod
    def _integer(value, type_):
        if type_.kind == "p":
            return "true" if value else "false"
        if type_.kind == "f":
            return f"({type_.cpp}){value}"
        value &= (1 << type_.bits) - 1
        return f"({type_.cpp}){value}{'ull' if type_.bits == 64 else 'u'}"

    @staticmethod
    def _float_bits(match, type_):
        bits, digits = ("32", match.group(2)) if match.group(1) else ("64", match.group(4))
        literal = f"UINT{bits}_C(0x{digits})"
        return f"px::bits<{type_.cpp}>({literal})" if type_.kind == "f" else f"({type_.cpp}){literal}"

    def predicate(self, operand):
        if operand.startswith("!"):
            return "!" + self.predicate(operand[1:].strip())
        return self.read(operand, TYPES["pred"])

    def write(self, operand, expression, type_):
        """C++ statement that stores an expression of type type_.cpp in a destination, extended by its own sign."""
        if operand == "_":
            return f"(void)({expression});"
        register = self.register(operand)
        if not register:
            raise self.error(f"'{operand}' is not a register")
        name, stored = register
        if stored.cpp == type_.cpp:
            return f"{name} = {expression};"
        if stored.bits == type_.bits and "f" in (stored.kind, type_.kind):
            return f"{name} = px::bits<{stored.cpp}>({expression});"
        if stored.kind == "f" or type_.kind == "f" and type_.name != "f16":
            raise self.error(f"'{operand}' does not fit the type of the instruction")
        return f"{name} = ({stored.cpp})({expression});"

    def vector(self, operand):
        """Elements of "{%f1, %f2}"; a lone operand is a vector of one."""
        if operand.startswith("{"):
            return [part.strip() for part in operand[1:-1].split(",")]
        return [operand]

    # ---- addresses ----------------------------------------------------------------------------------------------------

    def symbol(self, name):
        """C++ expression of a variable's address (in shared memory: its offset) or of a function."""
        value = self._lookup(name)
        if isinstance(value, Variable):
            raise self.error(f"'{name}' cannot be used here")
        if not isinstance(value, str):
            raise self.error(f"'{name}' is not declared")
        if value.startswith("shared:"):
            offset = f"offset_{identifier(name)}"
            self.used_shared[offset] = value[len("shared:"):]
            self.uses_window = True
            return offset
        if value.startswith("external:"):
            raise self.error(f"'{name}' is a function outside of this file",
                             "printf, assert, malloc and other device library calls are not simulated: remove the call")
        return value

    def address(self, operand, space):
        """C++ expression, a pointer to char, of "[%rd1+4]" or "[symbol+4]"."""
        match = _ADDRESS.fullmatch(operand)
        if not match:
            raise self.error(f"address '{operand}' is not understood")
        base, offset = match.group(1), int(match.group(2) or "0", 0)
        if self.register(base) or base.isdigit():
            wide = TYPES["u32"] if space == "shared" else TYPES["u64"]
            expression = self.read(base, wide)
        else:
            expression = self.symbol(base)
        if offset:
            expression = f"{expression} + {offset}" if offset > 0 else f"{expression} - {-offset}"
        if space == "shared":
            self.uses_window = True
            return f"(S + (uint32_t)({expression}))"
        return f"({expression})"

    def label(self, name):
        value = self._lookup(name)
        if not isinstance(value, str) or not value.startswith("L_"):
            raise self.error(f"label '{name}' is not declared")
        return value

    def targets(self, name):
        value = self._lookup(name)
        if not isinstance(value, Targets):
            raise self.error(f"branch targets '{name}' are not declared")
        return [self.label(label) for label in value.labels]

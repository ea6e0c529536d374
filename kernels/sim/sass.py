#!/usr/bin/env python3
"""sass.py -- what nvcc's machine code does in its loops, read from a cubin without NVIDIA's disassembler.

    nvcc -cubin -arch=sm_80 ... -o gemm.cubin
    python3 kernels/sim/sass.py gemm.cubin                         instruction mix of kernels and of their hottest loops
    python3 kernels/sim/sass.py gemm.cubin --nvdisasm nvdisasm     compares every instruction with NVIDIA's decoding

An instruction is 16 bytes: two little-endian words, lo and hi.  Four fields are all that is decoded here:

    lo  0..8          operation: 0x023 is FFMA, wherever its operands come from (bits 9..11 say that)
    hi  9..11         width of a memory access: 4 is 32 bits, 5 is 64, 6 is 128, less is a byte or two
    lo 34..63         signed distance of a branch from the next instruction, in units of 4 bytes, hi 0..17 above it;
                      sm_90 and later: in units of 1024 bytes, and lo 16..23 add units of 4 bytes

Valid for sm_75, 80, 86, 89 and 90.  NVIDIA publishes no encoding: fields and names were compared with its nvdisasm
13.4, instruction by instruction.  sm_100 and sm_120 have the same branches and widths, but a few other operations.
"""
import argparse
import collections
import re
import struct
import subprocess
import sys
from typing import NamedTuple, Optional

ARCHS = (75, 80, 86, 89, 90)

OPERATIONS = {
    # float32
    0x023: "FFMA", 0x020: "FMUL", 0x021: "FADD", 0x009: "FMNMX", 0x00b: "FSETP", 0x008: "FSEL", 0x102: "FCHK",
    0x108: "MUFU",
    # float16, float64, tensor cores
    0x031: "HFMA2", 0x035: "HFMA2", 0x028: "DMUL", 0x029: "DADD", 0x02b: "DFMA", 0x03c: "HMMA", 0x03e: "F2FP",
    # integers, logic, moves, conversions
    0x010: "IADD3", 0x024: "IMAD", 0x025: "IMAD", 0x027: "IMAD", 0x011: "LEA", 0x012: "LOP3", 0x013: "IABS",
    0x017: "IMNMX", 0x019: "SHF", 0x00c: "ISETP", 0x01c: "PLOP3", 0x002: "MOV", 0x003: "P2R", 0x007: "SEL",
    0x005: "CS2R", 0x109: "POPC", 0x036: "VIADD", 0x048: "VIMNMX", 0x045: "I2FP", 0x105: "F2I", 0x111: "F2I",
    0x106: "I2F", 0x112: "I2F", 0x110: "F2F",
    # once per warp ("uniform")
    0x082: "UMOV", 0x087: "USEL", 0x08c: "UISETP", 0x090: "UIADD3", 0x091: "ULEA", 0x092: "ULOP3", 0x096: "UPRMT",
    0x099: "USHF", 0x0a4: "UIMAD", 0x0a5: "UIMAD", 0x0b9: "ULDC", 0x0bd: "UFLO", 0x0bf: "UPOPC", 0x0ca: "R2UR",
    0x1c2: "R2UR", 0x1c3: "S2UR",
    # memory
    0x180: "LD", 0x181: "LDG", 0x182: "LDC", 0x183: "LDL", 0x184: "LDS", 0x186: "STG", 0x187: "STL", 0x188: "STS",
    0x18e: "RED", 0x1a6: "REDG", 0x1ae: "LDGSTS", 0x1af: "LDGDEPBAR", 0x03b: "LDSM", 0x11a: "DEPBAR",
    # between threads, and control
    0x006: "VOTE", 0x086: "VOTEU", 0x189: "SHFL", 0x1c4: "REDUX", 0x11d: "BAR", 0x148: "WARPSYNC",
    0x11b: "ENDCOLLECTIVE", 0x118: "NOP", 0x119: "S2R", 0x141: "BSYNC", 0x144: "CALL", 0x145: "BSSY", 0x147: "BRA",
    0x14d: "EXIT", 0x150: "RET", 0x155: "BMOV",
}
FLOAT32 = {"FFMA", "FMUL", "FADD", "FMNMX", "MUFU"}
SHARED_MEMORY = {"LDS", "STS", "LDGSTS"}
WIDTH_BITS = {0: 8, 1: 8, 2: 16, 3: 16, 4: 32, 5: 64, 6: 128}
HAVE_WIDTH = {"LD", "LDG", "LDL", "LDS", "STG", "STL", "STS", "LDGSTS"}
SIZE = 16  # bytes of an instruction


class Instruction(NamedTuple):
    name: str               # "FFMA", or "0x1ff" for an operation without a name here
    bits: int               # width of a memory access per thread, else 0
    target: Optional[int]   # index of the instruction that a branch goes to


class Loop(NamedTuple):
    first: int              # indices of its first and last instruction
    last: int
    own: list               # its instructions without those of the loops inside it


# ---- decoding --------------------------------------------------------------------------------------------------------

def signed(value, bits):
    return value - (1 << bits) if value >> (bits - 1) else value


def branch_distance(lo, hi, arch):
    """Bytes from the next instruction."""
    distance = signed((lo >> 34) | ((hi & 0x3ffff) << 30), 48)
    if arch >= 90:
        distance = distance * 256 + ((lo >> 16) & 0xff)
    return distance * 4


def decode_one(lo, hi, index, arch):
    name = OPERATIONS.get(lo & 0x1ff) or f"0x{lo & 0x1ff:03x}"
    bits = WIDTH_BITS.get((hi >> 9) & 7, 0) if name in HAVE_WIDTH else 0
    target = index + 1 + branch_distance(lo, hi, arch) // SIZE if name == "BRA" else None
    return Instruction(name, bits, target)


def decode(code, arch):
    """The instructions of one kernel, without the padding after its end: a branch to itself, then NOPs."""
    program = [decode_one(*struct.unpack_from("<QQ", code, SIZE * i), i, arch) for i in range(len(code) // SIZE)]
    while program and program[-1].name == "NOP":
        program.pop()
    if program and program[-1].target == len(program) - 1:
        program.pop()
    return program


# ---- loops -----------------------------------------------------------------------------------------------------------

def find_loops(program):
    """A loop is what lies between a backward branch and its target; two branches to one target are one loop."""
    last_of = {}
    for i, instruction in enumerate(program):
        if instruction.target is not None and 0 <= instruction.target < i:
            last_of[instruction.target] = i
    spans = sorted(last_of.items())
    loops = []
    for first, last in spans:
        inner = [s for s in spans if s != (first, last) and first <= s[0] and s[1] <= last]
        own = [program[i] for i in range(first, last + 1) if not any(a <= i <= b for a, b in inner)]
        loops.append(Loop(first, last, own))
    return loops


def count(instructions, names):
    return sum(1 for i in instructions if i.name in names)


def hottest_loop(program):
    """The loop with most float32 arithmetic of its own; the larger one, then the earlier one, where that is equal."""
    loops = find_loops(program)
    return max(loops, key=lambda l: (count(l.own, FLOAT32), len(l.own), -l.first)) if loops else None


def shared_wavefronts(instructions):
    """Passes over the 32 banks, 4 bytes each, that one warp needs: 128 bits per thread take four.  Bank conflicts add
    to this, and lanes that read one address take away from it; neither is visible in the code."""
    return sum(max(1, i.bits // 32) for i in instructions if i.name in SHARED_MEMORY)


# ---- the cubin, an ELF file ------------------------------------------------------------------------------------------

class Kernel(NamedTuple):
    code: bytes
    max_threads: Optional[int]   # per block, from __launch_bounds__


EIATTR_MAX_THREADS = 0x05
EIFMT_SIZED = 0x04               # an attribute whose third and fourth byte are a size, and then come so many bytes


def max_threads(info):
    """Walks over the attributes of a kernel (.nv.info.<name>): format, attribute, two bytes of value or size."""
    at = 0
    while at + 4 <= len(info):
        form, attribute, size = struct.unpack_from("<BBH", info, at)
        if form == EIFMT_SIZED and attribute == EIATTR_MAX_THREADS:
            x, y, z = struct.unpack_from("<III", info, at + 4)
            return x * y * z
        at += 4 + (size if form == EIFMT_SIZED else 0)
    return None


def read_sections(data):
    table, = struct.unpack_from("<Q", data, 40)
    number, names_index = struct.unpack_from("<HH", data, 60)
    headers = [struct.unpack_from("<IIQQQQIIQQ", data, table + 64 * i) for i in range(number)]
    names_at = headers[names_index][4]
    for name, _, _, _, offset, size, *_ in headers:
        start = names_at + name
        yield data[start:data.index(b"\0", start)].decode(), data[offset:offset + size]


def read_cubin(path):
    """Architecture and kernels {mangled name: Kernel} of a cubin."""
    with open(path, "rb") as file:
        data = file.read()
    if data[:5] != b"\x7fELF\x02" or struct.unpack_from("<H", data, 18)[0] != 190:  # 64-bit ELF, machine EM_CUDA
        raise ValueError(f"{path} is not a cubin; `nvcc -cubin` makes one")
    flags, = struct.unpack_from("<I", data, 48)
    arch = (flags >> 8 if data[8] >= 8 else flags) & 0xff   # CUDA 13 (ABI 8) moved it by a byte
    sections = dict(read_sections(data))
    kernels = {name[len(".text."):]: Kernel(code, max_threads(sections.get(".nv.info." + name[len(".text."):], b"")))
               for name, code in sections.items() if name.startswith(".text.")}
    return arch, kernels


# ---- comparison with NVIDIA's disassembler ---------------------------------------------------------------------------

# `        /*0080*/   @P0 BRA `(.L_x_1) ;   /* 0x00000b9000000947 */`, and below it the other word
DISASSEMBLED = re.compile(r"^\s+/\*([0-9a-f]{4,})\*/\s+(?:\{\s*)?(?:@!?U?P\w+\s+)?([A-Z][A-Z0-9_.]*)([^;]*);"
                          r"\s+/\* 0x([0-9a-f]{16}) \*/\n\s+/\* 0x([0-9a-f]{16}) \*/", re.M)
LABEL = re.compile(r"^(\.L_x_\d+):\n(?:\s*\n|\s*//.*\n|\.L\S*:\n)*\s+/\*([0-9a-f]{4,})\*/", re.M)


def width_in_name(mnemonic):
    """128 of LDS.128; the LTC128B of LDGSTS.E.LTC128B is about the L2 cache and no part of its own."""
    for part in mnemonic.split("."):
        if re.fullmatch(r"[US]?(8|16|64|128)", part):
            return int(part.lstrip("US"))
    return 32


def agrees(ours, mnemonic, operands, labels):
    name = mnemonic.split(".")[0]
    if ours.name != name and (ours.name, name) != ("RED", "REDG"):   # sm_90 renamed one
        return False
    if ours.bits and ours.bits != width_in_name(mnemonic):
        return False
    label = re.search(r"\((\.L_x_\d+)\)", operands)
    return ours.target is None or label is None or ours.target == labels.get(label[1])


def compare(path, nvdisasm):
    """How many instructions of which operation are the same, different or unnamed here."""
    arch, _ = read_cubin(path)
    text = subprocess.run([nvdisasm, "-hex", "-ndf", path], capture_output=True, text=True, check=True).stdout
    seen = {"same": collections.Counter(), "different": collections.Counter(), "unnamed": collections.Counter()}
    for section in text.split("//---------------------")[1:]:
        labels = {name: int(at, 16) // SIZE for name, at in LABEL.findall(section)}
        for at, mnemonic, operands, lo, hi in DISASSEMBLED.findall(section):
            lo, hi = int(lo, 16), int(hi, 16)
            ours = decode_one(lo, hi, int(at, 16) // SIZE, arch)
            if agrees(ours, mnemonic, operands, labels):
                seen["same"][ours.name] += 1
            else:
                kind = "unnamed" if ours.name.startswith("0x") else "different"
                seen[kind][f"{lo & 0x1ff:#05x} {mnemonic}"] += 1
    return arch, seen


# ---- the command -----------------------------------------------------------------------------------------------------

def mix(instructions, most=10):
    counts = collections.Counter(i.name + (f".{i.bits}" if i.bits > 32 else "") for i in instructions)
    return ", ".join(f"{n} {c}" for n, c in sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:most])


def show(path):
    arch, kernels = read_cubin(path)
    if arch not in ARCHS:
        print(f"sm_{arch}: not one of {', '.join(f'sm_{a}' for a in ARCHS)}; names may be missing", file=sys.stderr)
    for name, kernel in sorted(kernels.items()):
        program = decode(kernel.code, arch)
        loop = hottest_loop(program)
        print(f"{name}  sm_{arch}  {len(program)} instructions: {mix(program)}")
        if loop:
            n = len(loop.own)
            print(f"    hottest loop: {n} instructions, FFMA {round(100 * count(loop.own, {'FFMA'}) / n)} %, "
                  f"{shared_wavefronts(loop.own)} shared wavefronts: {mix(loop.own)}")


def main():
    parser = argparse.ArgumentParser(description="Instruction mix of kernels and of their hottest loops.")
    parser.add_argument("cubin", nargs="+")
    parser.add_argument("--nvdisasm", help="compare every instruction with this disassembler instead")
    options = parser.parse_args()
    bad = 0
    for path in options.cubin:
        if not options.nvdisasm:
            show(path)
            continue
        arch, seen = compare(path, options.nvdisasm)
        print(f"sm_{arch}: " + ", ".join(f"{sum(c.values())} instructions {kind}" for kind, c in seen.items()))
        for kind in ("different", "unnamed"):
            for what, n in sorted(seen[kind].items()):
                print(f"    {kind}: {what}, {n} times")
        bad += bool(seen["different"]) or (arch in ARCHS and bool(seen["unnamed"]))
    return 1 if bad else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (OSError, ValueError) as error:
        sys.exit(f"sass: {error}")

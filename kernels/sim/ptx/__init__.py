"""The PTX translator behind kernels/sim/ptx2cpp.py.

    model.py        what a PTX file says, as Python objects
    parser.py       text -> model
    writer.py       one function: names, scopes, operands, addresses -> C++
    registry.py     the table opcode -> emitter, and the check that no modifier is overlooked
    arithmetic.py   emitters: integers, floats, logic, comparison
    convert.py      emitters: mov, cvt, cvta
    memory.py       emitters: ld, st, atom, red
    control.py      emitters: branches, calls, barriers, warp operations
    translate.py    a whole file: variables, functions, registration
"""

"""The instructions of the Java Virtual Machine: their lengths, and what they take from the stack and leave on it.

Source: Java Virtual Machine Specification, §6.5. A letter is a type as in descriptors; `A` is a reference.
"""

from __future__ import annotations

BIPUSH, SIPUSH, LDC, LDC_W, LDC2_W = 16, 17, 18, 19, 20
POP, POP2, DUP, DUP_X1, DUP_X2, DUP2, DUP2_X1, DUP2_X2, SWAP = 87, 88, 89, 90, 91, 92, 93, 94, 95
IINC, GOTO, JSR, RET, TABLESWITCH, LOOKUPSWITCH = 132, 167, 168, 169, 170, 171
GETSTATIC, PUTSTATIC, GETFIELD, PUTFIELD = 178, 179, 180, 181
INVOKEVIRTUAL, INVOKESPECIAL, INVOKESTATIC, INVOKEINTERFACE, INVOKEDYNAMIC = 182, 183, 184, 185, 186
NEW, NEWARRAY, ANEWARRAY, ARRAYLENGTH, ATHROW, CHECKCAST = 187, 188, 189, 190, 191, 192
WIDE, MULTIANEWARRAY, GOTO_W, JSR_W = 196, 197, 200, 201
AASTORE, IRETURN, RETURN = 83, 172, 177

LOAD, LOAD_SHORT, STORE, STORE_SHORT = 21, 26, 54, 59
_TYPES = "IJFDA"

_LENGTHS = {
    BIPUSH: 2, SIPUSH: 3, LDC: 2, LDC_W: 3, LDC2_W: 3, RET: 2, IINC: 3, INVOKEINTERFACE: 5, INVOKEDYNAMIC: 5,
    NEWARRAY: 2, MULTIANEWARRAY: 4, GOTO_W: 5, JSR_W: 5,
    **dict.fromkeys(range(21, 26), 2), **dict.fromkeys(range(54, 59), 2), **dict.fromkeys(range(153, 169), 3),
    **dict.fromkeys((178, 179, 180, 181, 182, 183, 184, 187, 189, 192, 193, 198, 199), 3),
}  # fmt: skip

# opcode → constants that it pushes
PUSHED: dict[int, tuple[int | float | None, str]] = {
    1: (None, ""),
    **{opcode: (opcode - 3, "I") for opcode in range(2, 9)},
    **{opcode: (opcode - 9, "J") for opcode in range(9, 11)},
    **{opcode: (float(opcode - 11), "F") for opcode in range(11, 14)},
    **{opcode: (float(opcode - 14), "D") for opcode in range(14, 16)},
}

# opcode → words that it takes as values, and the type that it leaves
COMPUTED: dict[int, tuple[int, str]] = {
    **{opcode: (2, "IJFDAIII"[opcode - 46]) for opcode in range(46, 54)},
    **{opcode: (2, "IJFD"[(opcode - 96) % 4]) for opcode in range(96, 116)},
    **{opcode: (1, "IJFD"[opcode - 116]) for opcode in range(116, 120)},
    **{opcode: (2, "IJ"[opcode % 2]) for opcode in range(120, 132)},
    **{opcode: (1, "JFDIFDIJDIJFIII"[opcode - 133]) for opcode in range(133, 148)},
    **dict.fromkeys(range(148, 153), (2, "I")),
    190: (1, "I"),
    193: (1, "I"),
}

# opcode → values that it takes and leaves nothing for
TAKEN: dict[int, int] = {
    **dict.fromkeys(range(79, 87), 3),
    **dict.fromkeys(range(153, 159), 1),
    **dict.fromkeys(range(159, 167), 2),
    TABLESWITCH: 1,
    LOOKUPSWITCH: 1,
    **dict.fromkeys((191, 194, 195, 198, 199), 1),
}

CONDITIONAL = frozenset((*range(153, 167), 198, 199))
ENDS = frozenset((GOTO, GOTO_W, RET, TABLESWITCH, LOOKUPSWITCH, *range(172, 178), ATHROW))


def length_of(code: bytes, position: int) -> int:
    """Return the length of the instruction at a position; 0 if the code ends within it."""
    opcode = code[position]
    if opcode in (TABLESWITCH, LOOKUPSWITCH):
        at = (position + 4) & ~3
        if at + 12 > len(code):
            return 0
        if opcode == LOOKUPSWITCH:
            count = int.from_bytes(code[at + 4 : at + 8], "big", signed=True)
            return at - position + 8 + 8 * count if count >= 0 else 0
        low, high = (int.from_bytes(code[at + 4 * n : at + 4 * n + 4], "big", signed=True) for n in (1, 2))
        return at - position + 12 + 4 * (high - low + 1) if high >= low else 0
    if opcode == WIDE:
        return 6 if position + 1 < len(code) and code[position + 1] == IINC else 4
    return _LENGTHS.get(opcode, 1)


def targets_of(code: bytes, position: int, length: int) -> list[int]:
    """Return where the instruction at a position may jump to."""
    opcode = code[position]
    if opcode in CONDITIONAL or opcode in (GOTO, JSR):
        return [position + int.from_bytes(code[position + 1 : position + 3], "big", signed=True)]
    if opcode in (GOTO_W, JSR_W):
        return [position + int.from_bytes(code[position + 1 : position + 5], "big", signed=True)]
    if opcode not in (TABLESWITCH, LOOKUPSWITCH):
        return []
    at = (position + 4) & ~3
    offsets = [at]
    first, step = (at + 12, 4) if opcode == TABLESWITCH else (at + 12, 8)
    offsets += range(first, position + length - 3, step)
    return [position + int.from_bytes(code[each : each + 4], "big", signed=True) for each in offsets]


def local_of(code: bytes, position: int) -> tuple[int, str, bool] | None:
    """Return index, type, and whether it is stored, of the local variable that an instruction uses; None if it uses none."""
    opcode = code[position]
    if opcode == WIDE:
        inner = code[position + 1]
        index = int.from_bytes(code[position + 2 : position + 4], "big")
        if LOAD <= inner < LOAD + 5:
            return index, _TYPES[inner - LOAD], False
        return (index, _TYPES[inner - STORE], True) if STORE <= inner < STORE + 5 else None
    if LOAD <= opcode < LOAD + 5:
        return code[position + 1], _TYPES[opcode - LOAD], False
    if STORE <= opcode < STORE + 5:
        return code[position + 1], _TYPES[opcode - STORE], True
    if LOAD_SHORT <= opcode < LOAD_SHORT + 20:
        return (opcode - LOAD_SHORT) % 4, _TYPES[(opcode - LOAD_SHORT) // 4], False
    if STORE_SHORT <= opcode < STORE_SHORT + 20:
        return (opcode - STORE_SHORT) % 4, _TYPES[(opcode - STORE_SHORT) // 4], True
    return None


def incremented(code: bytes, position: int) -> int | None:
    """Return the local variable that an instruction adds to; None if it adds to none."""
    if code[position] == IINC:
        return code[position + 1]
    if code[position] == WIDE and code[position + 1] == IINC:
        return int.from_bytes(code[position + 2 : position + 4], "big")
    return None

"""Entries that are laid out alike, decoded a block at a time: each instruction runs over all entries of a block.

Most entries of a state differ in numbers and texts only: no value is null, all objects are of one class, texts are ASCII. Then the
instructions that the first entry takes are those of all, and the work of choosing them is done once a block. Whatever else
a block holds, and whatever contradicts the program, is left to the loop of `execute.py`, entry by entry: nothing counts as written
before the block is at its end, for the columns' lengths are set last.

The position of an entry is a word at `base + number * stride`, and `passed` bytes behind it: an instruction that reads as many bytes
of every entry moves all positions at once. Bytes that are stepped over are checked by the next instruction that looks at a
limit.
"""

from __future__ import annotations

import numpy as np

from readers.compiled.routines import subroutine
from readers.decode import instructions as op
from readers.decode.columns import (
    CAPACITY,
    DATA,
    DATA_CAPACITY,
    DATA_LENGTH,
    LAYOUT,
    LENGTH,
    LIST,
    NEXT,
    VALUES,
    VARIABLE,
)
from readers.decode.loads import (
    load_i2,
    load_i4,
    load_i8,
    load_le_i4,
    load_le_i8,
    load_u1,
    stack_memory,
    store_1,
    store_2,
    store_4,
    store_8,
)
from readers.decode.machine.columns import get_field, put_nulls, set_field
from readers.decode.machine.registers import target, word
from readers.decode.machine.text import HIGH_BITS, bytes_seen, copy_seen, read_varint

# The entries of a block and what is read of them have room in the first cache of a processor.
BLOCK_ENTRIES = 256

DECODED = 0
IRREGULAR = 1  # an entry is not as the first one, or contradicts the program
UNFIT = 2  # the program has instructions that are not run this way

_MIN_I8 = -(2**63)
_MOST_COLUMNS = 64
_positions = stack_memory(8 * BLOCK_ENTRIES)


@subroutine
def decode_block(
    instructions: int,
    targets: int,
    data: int,
    starts: int,
    ends: int,
    segments: int,
    row: int,
    table: int,
    memory: int,
) -> int:
    """Decode the BLOCK_ENTRIES entries from `row` on, or none of them; for the arguments see `execute`.

    Returns:
        DECODED, IRREGULAR or UNFIT.
    """
    columns = get_field(table, 0, NEXT)
    length = _equal_lengths(table, columns)
    if length < 0:
        return UNFIT
    positions = _positions()
    stride = segments * 8
    base = starts + row * stride
    limits = ends + row * stride
    passed = 0
    unchecked = False
    nulls = np.int64(0)
    pc = 0
    while True:
        opcode = word(instructions, pc, op.OPCODE)
        column = word(instructions, pc, op.COLUMN)
        if opcode == op.SKIP or opcode == op.KEY_GROUP:
            passed += word(instructions, pc, op.BYTES)
            unchecked = True
        elif opcode == op.STRING:
            nullable = word(instructions, pc, op.NULLABLE)
            if column < 0:
                if not _pass_strings(data, base, stride, passed, limits, segments, nullable, positions):
                    return IRREGULAR
            elif not _put_strings(
                table, memory, column, data, base, stride, passed, limits, segments, nullable, positions
            ):
                return IRREGULAR
            base = positions
            stride = np.int64(8)
            passed = 0
            unchecked = False
        elif (
            opcode == op.FIXED8
            or opcode == op.FIXED8_FLIPPED
            or opcode == op.FIXED4
            or opcode == op.FIXED2
            or opcode == op.FIXED1
            or opcode == op.BOOLEAN
        ):
            width = np.int64(8)
            if opcode == op.FIXED4:
                width = np.int64(4)
            elif opcode == op.FIXED2:
                width = np.int64(2)
            elif opcode == op.FIXED1 or opcode == op.BOOLEAN:
                width = np.int64(1)
            if not _has_bytes(base, stride, passed + width, limits, segments):
                return IRREGULAR
            unchecked = False
            if opcode == op.BOOLEAN and not _has_flags(data, base, stride, passed):
                return IRREGULAR
            if column >= 0:
                out = memory + get_field(table, column, VALUES) + length * width
                flip = np.int64(0)
                if opcode == op.FIXED8_FLIPPED:
                    flip = np.int64(_MIN_I8)
                if width == 8:
                    _copy_8(data, base, stride, passed, out, flip)
                elif width == 4:
                    _copy_4(data, base, stride, passed, out)
                elif width == 2:
                    _copy_2(data, base, stride, passed, out)
                else:
                    _copy_1(data, base, stride, passed, out)
            passed += width
        elif opcode == op.NULL_FLAG:
            if not _has_byte(
                data, base, stride, passed, limits, segments, 1 - word(instructions, pc, op.NULL_VALUE)
            ):
                return IRREGULAR
            passed += 1
            unchecked = False
        elif opcode == op.SWITCH:
            position = load_le_i8(base, 0) + passed
            if position >= load_le_i8(limits, 0):
                return IRREGULAR
            tag = load_u1(data, position)
            following = np.int64(op.NOWHERE)
            if tag < word(instructions, pc, op.CASES):
                following = target(targets, word(instructions, pc, op.TABLE) + tag)
            if following == op.NOWHERE or not _has_byte(data, base, stride, passed, limits, segments, tag):
                return IRREGULAR
            passed += 1
            unchecked = False
            pc = following
            continue
        elif opcode == op.SEGMENT or opcode == op.END:
            if unchecked and not _has_bytes(base, stride, passed, limits, segments):
                return IRREGULAR
            if opcode == op.END:
                break
            stride = segments * 8
            offset = row * stride + word(instructions, pc, op.SEGMENT_NUMBER) * 8
            base = starts + offset
            limits = ends + offset
            passed = 0
            unchecked = False
        elif opcode == op.EXPECT_END:
            if not _has_ends(base, stride, passed, limits, segments):
                return IRREGULAR
            unchecked = False
        elif opcode == op.JUMP:
            pc = word(instructions, pc, op.BEHIND)
            continue
        elif opcode == op.NULL:
            if column >= 0:
                nulls |= np.int64(1) << column
        elif opcode != op.STRUCT and opcode != op.REPEATED and opcode != op.REPEATED_END:
            return UNFIT
        pc += 1
    _append(table, memory, columns, nulls, length + BLOCK_ENTRIES)
    return DECODED


@subroutine
def _equal_lengths(table: int, columns: int) -> int:
    """Return the number of items that each column has; -1 if blocks do not suit the columns, or have no room."""
    if columns < 2 or columns > _MOST_COLUMNS:
        return -1
    length = get_field(table, 1, LENGTH)
    column = 1
    while column < columns:
        if (
            get_field(table, column, LAYOUT) == LIST
            or get_field(table, column, LENGTH) != length
            or get_field(table, column, CAPACITY) < length + BLOCK_ENTRIES
        ):
            return -1
        column += 1
    return length


@subroutine
def _append(table: int, memory: int, columns: int, nulls: int, length: int) -> None:
    """Make the items up to `length`, which are written, part of all columns; those of the columns in the set `nulls` are null."""
    column = 1
    while column < columns:
        if nulls >> column & 1:
            for _ in range(BLOCK_ENTRIES):
                put_nulls(table, memory, column)
            # Its children have got their items with it.
            column = get_field(table, column, NEXT)
            continue
        if get_field(table, column, LAYOUT) == VARIABLE:
            end = load_le_i4(memory, get_field(table, column, VALUES) + length * 4)
            set_field(table, column, DATA_LENGTH, end)
        set_field(table, column, LENGTH, length)
        column += 1


@subroutine
def _has_bytes(base: int, stride: int, passed: int, limits: int, segments: int) -> bool:
    """Return whether all segments have `passed` bytes behind the positions."""
    short = np.int64(0)
    for number in range(BLOCK_ENTRIES):
        short |= load_le_i8(limits, number * segments * 8) - load_le_i8(base, number * stride) - passed
    return short >= 0


@subroutine
def _has_ends(base: int, stride: int, passed: int, limits: int, segments: int) -> bool:
    """Return whether all segments end `passed` bytes behind the positions."""
    other = np.int64(0)
    for number in range(BLOCK_ENTRIES):
        other |= load_le_i8(limits, number * segments * 8) - load_le_i8(base, number * stride) - passed
    return other == 0


@subroutine
def _has_byte(
    data: int, base: int, stride: int, passed: int, limits: int, segments: int, expected: int
) -> bool:
    """Return whether the next byte of all entries is the expected one."""
    for number in range(BLOCK_ENTRIES):
        position = load_le_i8(base, number * stride) + passed
        if position >= load_le_i8(limits, number * segments * 8) or load_u1(data, position) != expected:
            return False
    return True


@subroutine
def _has_flags(data: int, base: int, stride: int, passed: int) -> bool:
    """Return whether the next byte of all entries, which is there, is 0 or 1."""
    seen = np.int64(0)
    for number in range(BLOCK_ENTRIES):
        seen |= load_u1(data, load_le_i8(base, number * stride) + passed)
    return seen <= 1


@subroutine
def _copy_8(data: int, base: int, stride: int, passed: int, out: int, flip: int) -> None:
    for number in range(BLOCK_ENTRIES):
        value = load_i8(data, load_le_i8(base, number * stride) + passed)
        store_8(out, number * 8, value ^ flip)


@subroutine
def _copy_4(data: int, base: int, stride: int, passed: int, out: int) -> None:
    for number in range(BLOCK_ENTRIES):
        store_4(out, number * 4, load_i4(data, load_le_i8(base, number * stride) + passed))


@subroutine
def _copy_2(data: int, base: int, stride: int, passed: int, out: int) -> None:
    for number in range(BLOCK_ENTRIES):
        store_2(out, number * 2, load_i2(data, load_le_i8(base, number * stride) + passed))


@subroutine
def _copy_1(data: int, base: int, stride: int, passed: int, out: int) -> None:
    for number in range(BLOCK_ENTRIES):
        store_1(out, number, load_u1(data, load_le_i8(base, number * stride) + passed))


@subroutine
def _begin_string(data: int, position: int, limit: int, nullable: int) -> tuple[int, int]:
    """Return the units of a string that is not null, and where they begin; -1 if it is null, or longer than what is left."""
    if position >= limit:
        return -1, position
    units = load_u1(data, position)
    position += 1
    if units >= 0x80:
        units, position = read_varint(data, position - 1, limit)
        if position < 0:
            return -1, position
    units -= nullable
    if units > limit - position:
        return -1, position
    return units, position


@subroutine
def _pass_strings(
    data: int, base: int, stride: int, passed: int, limits: int, segments: int, nullable: int, positions: int
) -> bool:
    """Step over a string of each entry and keep the positions behind it; return False unless all are ASCII and not null."""
    seen = np.int64(0)
    for number in range(BLOCK_ENTRIES):
        position = load_le_i8(base, number * stride) + passed
        limit = load_le_i8(limits, number * segments * 8)
        units, position = _begin_string(data, position, limit, nullable)
        if units < 0:
            return False
        seen |= bytes_seen(data, position, units, limit)
        store_8(positions, number * 8, position + units)
    return seen & HIGH_BITS == 0


@subroutine
def _put_strings(
    table: int,
    memory: int,
    column: int,
    data: int,
    base: int,
    stride: int,
    passed: int,
    limits: int,
    segments: int,
    nullable: int,
    positions: int,
) -> bool:
    """Write a string of each entry behind the data of a column; return False unless all are ASCII, not null, and have room."""
    used = get_field(table, column, DATA_LENGTH)
    room = get_field(table, column, DATA_CAPACITY) - 8  # whole words are written
    to = memory + get_field(table, column, DATA)
    offsets = memory + get_field(table, column, VALUES) + (get_field(table, column, LENGTH) + 1) * 4
    seen = np.int64(0)
    for number in range(BLOCK_ENTRIES):
        position = load_le_i8(base, number * stride) + passed
        limit = load_le_i8(limits, number * segments * 8)
        units, position = _begin_string(data, position, limit, nullable)
        if units < 0 or units > room - used:
            return False
        seen |= copy_seen(to, used, data, position, units, limit)
        used += units
        store_4(offsets, number * 4, used)
        store_8(positions, number * 8, position + units)
    return seen & HIGH_BITS == 0

"""Text: varint UTF-16, modified UTF-8 and UTF-8, appended to a column as UTF-8."""

from __future__ import annotations

import numpy as np

from readers.compiled.routines import subroutine
from readers.decode.columns import DATA, DATA_CAPACITY, DATA_LENGTH
from readers.decode.loads import load_le_i8, load_u1, store_1, store_8
from readers.decode.machine.columns import close_variable, get_field
from readers.decode.machine.registers import BAD_TEXT, DONE, FULL

REPLACEMENT = 0xFFFD  # as Java decodes what is no text
HIGH_BITS = np.int64(-0x7F7F7F7F7F7F7F80)  # 0x80 in each of eight bytes


@subroutine
def put_code_point(memory: int, at: int, code: int) -> int:
    """Write one code point as UTF-8 at `at`; return the position behind it."""
    if code < 0x80:
        store_1(memory, at, code)
        return at + 1
    if code < 0x800:
        store_1(memory, at, 0xC0 | code >> 6)
        store_1(memory, at + 1, 0x80 | code & 0x3F)
        return at + 2
    if code < 0x10000:
        store_1(memory, at, 0xE0 | code >> 12)
        store_1(memory, at + 1, 0x80 | code >> 6 & 0x3F)
        store_1(memory, at + 2, 0x80 | code & 0x3F)
        return at + 3
    store_1(memory, at, 0xF0 | code >> 18)
    store_1(memory, at + 1, 0x80 | code >> 12 & 0x3F)
    store_1(memory, at + 2, 0x80 | code >> 6 & 0x3F)
    store_1(memory, at + 3, 0x80 | code & 0x3F)
    return at + 4


@subroutine
def put_unit(memory: int, at: int, unit: int, pending: int) -> tuple[int, int]:
    """Write a UTF-16 unit as UTF-8; a lone surrogate becomes U+FFFD.

    Args:
        pending: the high surrogate before the unit, which is not yet written, or 0.

    Returns:
        The position behind what was written, and `pending` for the next unit.
    """
    if pending:
        if 0xDC00 <= unit < 0xE000:
            return put_code_point(memory, at, 0x10000 + ((pending - 0xD800) << 10) + (unit - 0xDC00)), 0
        at = put_code_point(memory, at, REPLACEMENT)
    if 0xD800 <= unit < 0xDC00:
        return at, unit
    if 0xDC00 <= unit < 0xE000:
        unit = REPLACEMENT
    return put_code_point(memory, at, unit), 0


@subroutine
def put_char(table: int, memory: int, column: int, unit: int) -> bool:
    """Append a UTF-16 unit; half of a surrogate pair becomes U+FFFD."""
    used = get_field(table, column, DATA_LENGTH)
    if used + 8 > get_field(table, column, DATA_CAPACITY):
        return True
    base = get_field(table, column, DATA)
    at, pending = put_unit(memory, base + used, unit, 0)
    if pending:
        at = put_code_point(memory, at, REPLACEMENT)
    return close_variable(table, memory, column, at - base)


@subroutine
def read_varint(data: int, position: int, limit: int) -> tuple[int, int]:
    """Return an unsigned LEB128 of at most five bytes, and the position behind it; position -1 if there is none."""
    value = 0
    shift = 0
    while shift < 35:
        if position >= limit:
            return 0, -1
        byte = load_u1(data, position)
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
        shift += 7
    return 0, -1


@subroutine
def is_equal(data: int, position: int, other: int, count: int) -> bool:
    """Return whether `count` bytes stand at both positions."""
    index = 0
    if count >= 8:
        # The last eight bytes first, some of them once more below: there most keys differ.
        index = count - 8
        if load_le_i8(data, position + index) != load_le_i8(data, other + index):
            return False
        index = 0
        while index < count - 8:
            if load_le_i8(data, position + index) != load_le_i8(data, other + index):
                return False
            index += 8
        return True
    while index < count:
        if load_u1(data, position + index) != load_u1(data, other + index):
            return False
        index += 1
    return True


@subroutine
def bytes_seen(data: int, position: int, count: int, limit: int) -> int:
    """Return a word in which HIGH_BITS are 0 if `count` bytes are all less than 0x80."""
    # Eight bytes at a time: most strings are ASCII, and this loop is most of their time.
    seen = np.int64(0)
    if count >= 8:
        index = 0
        while index < count - 8:
            seen |= load_le_i8(data, position + index)
            index += 8
        # The last eight bytes, some of them once more.
        return seen | load_le_i8(data, position + count - 8)
    if position + 8 <= limit:
        return load_le_i8(data, position) & ((np.int64(1) << (8 * count)) - 1)
    for index in range(count):
        seen |= load_u1(data, position + index)
    return seen


@subroutine
def copy_seen(memory: int, at: int, data: int, position: int, count: int, limit: int) -> int:
    """Copy bytes and return the same as `bytes_seen`; up to eight bytes behind `at + count` are overwritten."""
    seen = np.int64(0)
    if count >= 8:
        index = 0
        while index < count - 8:
            eight = load_le_i8(data, position + index)
            store_8(memory, at + index, eight)
            seen |= eight
            index += 8
        eight = load_le_i8(data, position + count - 8)
        store_8(memory, at + count - 8, eight)
        return seen | eight
    if position + 8 <= limit:
        eight = load_le_i8(data, position)
        store_8(memory, at, eight)
        return eight & ((np.int64(1) << (8 * count)) - 1)
    for index in range(count):
        byte = load_u1(data, position + index)
        store_1(memory, at + index, byte)
        seen |= byte
    return seen


@subroutine
def put_string(
    table: int, memory: int, column: int, data: int, position: int, limit: int, units: int
) -> tuple[int, int]:
    """Append the `units` varint UTF-16 units at `position`; return the position behind them and the status."""
    if column < 0:
        if bytes_seen(data, position, units, limit) & HIGH_BITS == 0:
            return position + units, DONE
        for _ in range(units):
            _, position = read_varint(data, position, limit)
            if position < 0:
                return 0, BAD_TEXT
        return position, DONE
    used = get_field(table, column, DATA_LENGTH)
    capacity = get_field(table, column, DATA_CAPACITY)
    base = get_field(table, column, DATA)
    # 8: `copy_seen` writes whole words.
    if used + units + 8 > capacity:
        return 0, FULL
    at = base + used
    # What is no ASCII is written again, unit by unit.
    if copy_seen(memory, at, data, position, units, limit) & HIGH_BITS == 0:
        return position + units, FULL if close_variable(table, memory, column, used + units) else DONE
    pending = 0
    for _ in range(units):
        # A unit writes U+FFFD for a lone surrogate before it, and itself.
        if at + 7 > base + capacity:
            return 0, FULL
        unit, position = read_varint(data, position, limit)
        if position < 0 or unit > 0xFFFF:
            return 0, BAD_TEXT
        at, pending = put_unit(memory, at, unit, pending)
    if pending:
        at = put_code_point(memory, at, REPLACEMENT)
    return position, FULL if close_variable(table, memory, column, at - base) else DONE


@subroutine
def put_modified_utf8(table: int, memory: int, column: int, data: int, position: int, count: int) -> int:
    """Append `count` bytes of modified UTF-8 (`DataOutput#writeUTF`); return the status."""
    used = get_field(table, column, DATA_LENGTH)
    base = get_field(table, column, DATA)
    if used + count + 8 > get_field(table, column, DATA_CAPACITY):
        return FULL
    at = base + used
    end = position + count
    pending = 0
    while position < end:
        byte = load_u1(data, position)
        if byte < 0x80:
            unit = byte
            position += 1
        # U+0000 has two bytes here, and a surrogate three: each stands for one unit.
        elif byte & 0xE0 == 0xC0 and position + 1 < end:
            unit = (byte & 0x1F) << 6 | load_u1(data, position + 1) & 0x3F
            position += 2
        elif byte & 0xF0 == 0xE0 and position + 2 < end:
            unit = (
                (byte & 0xF) << 12
                | (load_u1(data, position + 1) & 0x3F) << 6
                | load_u1(data, position + 2) & 0x3F
            )
            position += 3
        else:
            return BAD_TEXT
        at, pending = put_unit(memory, at, unit, pending)
    if pending:
        at = put_code_point(memory, at, REPLACEMENT)
    return FULL if close_variable(table, memory, column, at - base) else DONE


@subroutine
def _code_point(data: int, position: int, end: int) -> tuple[int, int]:
    """Return the code point at `position` and the position behind it; U+FFFD for the longest prefix of one."""
    # As Java and Unicode (table 3-7) do it: no overlong forms, no surrogates, nothing above U+10FFFF.
    lead = load_u1(data, position)
    position += 1
    if lead < 0x80:
        return lead, position
    if lead < 0xC2 or lead > 0xF4:
        return REPLACEMENT, position
    more = 1 if lead < 0xE0 else 2 if lead < 0xF0 else 3
    code = lead & (0x3F >> more)
    lowest = 0xA0 if lead == 0xE0 else 0x90 if lead == 0xF0 else 0x80
    highest = 0x9F if lead == 0xED else 0x8F if lead == 0xF4 else 0xBF
    for _ in range(more):
        if position >= end:
            return REPLACEMENT, position
        byte = load_u1(data, position)
        if byte < lowest or byte > highest:
            return REPLACEMENT, position
        code = code << 6 | byte & 0x3F
        position += 1
        lowest = 0x80
        highest = 0xBF
    return code, position


@subroutine
def put_utf8(table: int, memory: int, column: int, data: int, position: int, count: int) -> bool:
    """Append `count` bytes of UTF-8, with U+FFFD for what is no UTF-8; return True if the column is full."""
    used = get_field(table, column, DATA_LENGTH)
    capacity = get_field(table, column, DATA_CAPACITY)
    base = get_field(table, column, DATA)
    if used + count > capacity:
        return True
    seen = 0
    for index in range(count):
        byte = load_u1(data, position + index)
        seen |= byte
        store_1(memory, base + used + index, byte)
    if seen < 0x80:
        return close_variable(table, memory, column, used + count)
    at = base + used
    end = position + count
    while position < end:
        if at + 4 > base + capacity:
            return True
        code, position = _code_point(data, position, end)
        at = put_code_point(memory, at, code)
    return close_variable(table, memory, column, at - base)

"""Text: UTF-8 of a column → varint UTF-16, modified UTF-8 and UTF-8. The caller has asked for room."""

from __future__ import annotations

import numpy as np

from readers import load_le_i8, load_u1, store_1, store_8, store_be_2, subroutine

_HIGH_BITS = np.int64(-0x7F7F7F7F7F7F7F80)  # 0x80 in each of eight bytes
_LONG_TEXT = 32
MAX_UTF_BYTES = 65_535  # the length of `writeUTF` is a u2


@subroutine
def copy_bytes(output: int, position: int, data: int, start: int, end: int, data_end: int) -> None:
    """Copy bytes; up to seven bytes behind them are overwritten."""
    if end - start >= _LONG_TEXT:
        # LLVM makes vectors of it, which take some time to begin.
        for index in range(end - start):
            store_1(output, position + index, load_u1(data, start + index))
        return
    while start < end:
        if start + 8 <= data_end:
            store_8(output, position, load_le_i8(data, start))
            start += 8
            position += 8
        else:
            store_1(output, position, load_u1(data, start))
            start += 1
            position += 1


@subroutine
def is_ascii(data: int, start: int, end: int, data_end: int) -> bool:
    """Return whether all bytes are less than 0x80."""
    seen = np.int64(0)
    while start < end:
        if start + 8 <= data_end:
            word = load_le_i8(data, start)
            if end - start < 8:
                word &= (np.int64(1) << (8 * (end - start))) - 1
            seen |= word
            start += 8
        else:
            seen |= load_u1(data, start)
            start += 1
    return seen & _HIGH_BITS == 0


@subroutine
def put_varint(output: int, position: int, value: int) -> int:
    """Write an unsigned LEB128; return the position behind it."""
    while value >= 0x80:
        store_1(output, position, value & 0x7F | 0x80)
        value >>= 7
        position += 1
    store_1(output, position, value)
    return position + 1


@subroutine
def code_point(data: int, start: int, end: int) -> tuple[int, int]:
    """Return the code point at `start` and the position behind it, -1 if the bytes are no UTF-8."""
    lead = load_u1(data, start)
    start += 1
    if lead < 0x80:
        return lead, start
    if lead < 0xC2 or lead > 0xF4:
        return 0, -1
    more = 1 if lead < 0xE0 else 2 if lead < 0xF0 else 3
    if start + more > end:
        return 0, -1
    code = lead & (0x3F >> more)
    for index in range(more):
        byte = load_u1(data, start + index)
        if byte & 0xC0 != 0x80:
            return 0, -1
        code = code << 6 | byte & 0x3F
    if code > 0x10FFFF or (more == 2 and (code < 0x800 or 0xD800 <= code < 0xE000)):
        return 0, -1
    if more == 3 and code < 0x10000:
        return 0, -1
    return code, start + more


@subroutine
def count_units(data: int, start: int, end: int) -> int:
    """Return the UTF-16 units of UTF-8 text; -1 if the bytes are none."""
    units = np.int64(0)
    while start < end:
        code, start = code_point(data, start, end)
        if start < 0:
            return -1
        units += 2 if code > 0xFFFF else 1
    return units


@subroutine
def put_string(
    output: int, position: int, data: int, start: int, end: int, data_end: int, nullable: int
) -> int:
    """Write a string of `StringValue`; return the position behind it, -1 if the bytes are no UTF-8."""
    if is_ascii(data, start, end, data_end):
        position = put_varint(output, position, end - start + nullable)
        copy_bytes(output, position, data, start, end, data_end)
        return position + end - start
    units = count_units(data, start, end)
    if units < 0:
        return -1
    position = put_varint(output, position, units + nullable)
    while start < end:
        code, start = code_point(data, start, end)
        if code > 0xFFFF:
            code -= 0x10000
            position = put_varint(output, position, 0xD800 + (code >> 10))
            code = 0xDC00 + (code & 0x3FF)
        position = put_varint(output, position, code)
    return position


@subroutine
def _put_modified_unit(output: int, position: int, unit: int) -> int:
    """Write a UTF-16 unit as modified UTF-8; return the position behind it."""
    if 0 < unit < 0x80:
        store_1(output, position, unit)
        return position + 1
    if unit < 0x800:
        store_1(output, position, 0xC0 | unit >> 6)
        store_1(output, position + 1, 0x80 | unit & 0x3F)
        return position + 2
    store_1(output, position, 0xE0 | unit >> 12)
    store_1(output, position + 1, 0x80 | unit >> 6 & 0x3F)
    store_1(output, position + 2, 0x80 | unit & 0x3F)
    return position + 3


@subroutine
def put_utf(output: int, position: int, data: int, start: int, end: int) -> int:
    """Write a string of `DataOutput#writeUTF`; return the position behind it.

    Returns:
        -1 if the bytes are no UTF-8, -2 if the string is too long.
    """
    begin = position
    position += 2
    while start < end:
        code, start = code_point(data, start, end)
        if start < 0:
            return -1
        if code > 0xFFFF:
            code -= 0x10000
            position = _put_modified_unit(output, position, 0xD800 + (code >> 10))
            code = 0xDC00 + (code & 0x3FF)
        position = _put_modified_unit(output, position, code)
    if position - begin - 2 > MAX_UTF_BYTES:
        return -2
    store_be_2(output, begin, position - begin - 2)
    return position


@subroutine
def put_char(output: int, position: int, data: int, start: int, end: int) -> int:
    """Write the only UTF-16 unit of a text; return 0, or -1 if the text is of another length or no UTF-8."""
    if start >= end:
        return -1
    code, start = code_point(data, start, end)
    if start != end or code > 0xFFFF:
        return -1
    store_be_2(output, position, code)
    return 0

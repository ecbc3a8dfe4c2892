"""The interpreter: walks the entries of a page and fills column arenas.

One compiled function over flat arrays; see `program.py` for the instructions and `columns.py` for the arenas.
It holds no state of its own: what must survive a suspension (a full arena, a Python leaf) stands in
`registers`. Every length is compared with the bytes left in the segment before it is believed, so hostile
bytes end in an error code.

Registers, int64:

| index | name | meaning |
|---|---|---|
| 0 | STATUS | why the machine stopped |
| 1 | ROW | the entry it stopped in |
| 2–5 | PC POSITION LIMIT TOP | where |
| 6 | MARKED | position of MARK |
| 7 8 | DETAIL_A DETAIL_B | numbers for the error message |
"""

from __future__ import annotations

import numpy as np

from readers.compiled.kernel import kernel
from readers.compiled.routines import subroutine
from readers.decode import program as op
from readers.decode.columns import (
    CAPACITY,
    DATA,
    DATA_CAPACITY,
    DATA_LENGTH,
    FIELDS,
    FIXED,
    LAYOUT,
    LENGTH,
    LIST,
    NEXT,
    NULLS,
    VALIDITY,
    VALUES,
    VARIABLE,
    WIDTH,
)
from readers.decode.loads import (
    load_i1,
    load_i2,
    load_i4,
    load_i8,
    load_le_i2,
    load_le_i4,
    load_le_i8,
    load_u1,
    load_u2,
    stack_memory,
    store_1,
    store_2,
    store_4,
    store_8,
)

STATUS = 0
ROW = 1
PC = 2
POSITION = 3
LIMIT = 4
TOP = 5
MARKED = 6
DETAIL_A = 7
DETAIL_B = 8
REGISTERS = 9

# int64 slots a stack frame: where to go on, elements left, position of a mask or of a binary region, position and limit
# behind that region, position of its slots (or the number of elements).
FRAME = 6
REGION = 2
SLOTS = 5

DONE = 0
FULL = 1  # an arena is full; the entry ROW was not finished
CALL = 2  # PYTHON instruction PC at POSITION
TOO_SHORT = 10  # needed DETAIL_A bytes, DETAIL_B are left
TRAILING = 11  # DETAIL_A bytes are left at the end of a segment
BAD_FLAG = 12  # a flag byte DETAIL_A that is neither 0 nor 1
BAD_TAG = 13  # a switch on DETAIL_A
BAD_CLASS = 14  # a class name of DETAIL_A bytes that is not known
BAD_COUNT = 15  # a count DETAIL_A with DETAIL_B bytes left
BAD_DELIMITER = 16  # DETAIL_A instead of 0x2C
BAD_INDEX = 17  # an enum index DETAIL_A of DETAIL_B constants
BAD_TEXT = 18  # not modified UTF-8, or a varint too long
BAD_SUFFIX = 19  # the key length that stands behind the key is DETAIL_A, the key has DETAIL_B bytes
OUT_OF_RANGE = 20  # the value does not fit the column's type; dates and times: instruction PC at POSITION
BAD_DATE = 21  # not a date or time: DETAIL_A

MAX_BIG_INTEGER_BYTES = 4096
_MAX_ZERO_WIDTH = 1 << 24
_LIMBS = 1200
_LIMB = 1_000_000_000
_MAX_PLAIN_ZEROS = 5000
_NANOS_A_SECOND = 1_000_000_000
_SECONDS_A_DAY = 86_400
_MIN_I8 = -(2**63)
_MIN_I4 = -(2**31)
_MAX_I8 = 2**63 - 1
_MAX_INLINE_BYTES = 7
_MAX_DECIMAL_BYTES = 16
_NANOS_A_MILLISECOND = 1_000_000
_MAX_SECONDS = 9_223_372_036  # of an int64 of nanoseconds
_DELIMITER = 0x2C
_limbs_memory = stack_memory(_LIMBS * 8)
_digits_memory = stack_memory(_LIMBS * 9)
_HIGH_BITS = np.int64(-0x7F7F7F7F7F7F7F80)  # of eight bytes


@subroutine
def _get(table: int, column: int, field: int) -> int:
    """A field of a column; see `columns.py`."""
    return load_le_i8(table, (column * FIELDS + field) * 8)


@subroutine
def _set(table: int, column: int, field: int, value: int) -> None:
    store_8(table, (column * FIELDS + field) * 8, value)


@subroutine
def _operand(code: int, pc: int, index: int) -> int:
    """Part `index` of instruction `pc`; see `program.py`."""
    return load_le_i8(code, (pc * op.OPERANDS + index) * 8)


@subroutine
def _target(targets: int, index: int) -> int:
    return load_le_i8(targets, index * 8)


@subroutine
def _frame(stack: int, top: int, field: int) -> int:
    """A field of a frame of the stack; see FRAME."""
    return load_le_i8(stack, (top * FRAME + field) * 8)


@subroutine
def _set_frame(stack: int, top: int, field: int, value: int) -> None:
    store_8(stack, (top * FRAME + field) * 8, value)


@subroutine
def _register(registers: int, register: int) -> int:
    return load_le_i8(registers, register * 8)


@subroutine
def _set_register(registers: int, register: int, value: int) -> None:
    store_8(registers, register * 8, value)


@subroutine
def _put8(table: int, memory: int, column: int, value: int) -> bool:
    length = _get(table, column, LENGTH)
    if length >= _get(table, column, CAPACITY):
        return True
    store_8(memory, _get(table, column, VALUES) + length * 8, value)
    _set(table, column, LENGTH, length + 1)
    return False


@subroutine
def _put4(table: int, memory: int, column: int, value: int) -> bool:
    length = _get(table, column, LENGTH)
    if length >= _get(table, column, CAPACITY):
        return True
    store_4(memory, _get(table, column, VALUES) + length * 4, value)
    _set(table, column, LENGTH, length + 1)
    return False


@subroutine
def _put2(table: int, memory: int, column: int, value: int) -> bool:
    length = _get(table, column, LENGTH)
    if length >= _get(table, column, CAPACITY):
        return True
    store_2(memory, _get(table, column, VALUES) + length * 2, value)
    _set(table, column, LENGTH, length + 1)
    return False


@subroutine
def _put1(table: int, memory: int, column: int, value: int) -> bool:
    length = _get(table, column, LENGTH)
    if length >= _get(table, column, CAPACITY):
        return True
    store_1(memory, _get(table, column, VALUES) + length, value)
    _set(table, column, LENGTH, length + 1)
    return False


@kernel
def close_variable(table: int, memory: int, column: int, data_length: int) -> bool:
    """The next item of a VARIABLE column ends at `data_length`."""
    length = _get(table, column, LENGTH)
    if length >= _get(table, column, CAPACITY):
        return True
    _set(table, column, DATA_LENGTH, data_length)
    store_4(memory, _get(table, column, VALUES) + (length + 1) * 4, data_length)
    _set(table, column, LENGTH, length + 1)
    return False


@subroutine
def _put_bytes(table: int, memory: int, column: int, source: int, start: int, count: int) -> bool:
    """Append `source[start:start + count]` as one item."""
    used = _get(table, column, DATA_LENGTH)
    if used + count > _get(table, column, DATA_CAPACITY):
        return True
    base = _get(table, column, DATA) + used
    for index in range(count):
        store_1(memory, base + index, load_u1(source, start + index))
    return close_variable(table, memory, column, used + count)


@kernel
def put_nulls(table: int, memory: int, column: int) -> bool:
    """Append null to `column` and to all columns below it that have as many items."""
    current = column
    end = _get(table, column, NEXT)
    while current < end:
        length = _get(table, current, LENGTH)
        if length >= _get(table, current, CAPACITY):
            return True
        layout = _get(table, current, LAYOUT)
        following = current + 1
        if layout == FIXED:
            width = _get(table, current, WIDTH)
            base = _get(table, current, VALUES) + length * width
            for index in range(width):
                store_1(memory, base + index, 0)
        elif layout == VARIABLE:
            store_4(
                memory, _get(table, current, VALUES) + (length + 1) * 4, _get(table, current, DATA_LENGTH)
            )
        elif layout == LIST:
            store_4(memory, _get(table, current, VALUES) + (length + 1) * 4, _get(table, current + 1, LENGTH))
            following = _get(table, current, NEXT)
        store_1(memory, _get(table, current, VALIDITY) + length, 0)
        _set(table, current, LENGTH, length + 1)
        _set(table, current, NULLS, _get(table, current, NULLS) + 1)
        current = following
    return False


@subroutine
def _close_list(table: int, memory: int, column: int) -> bool:
    """The next item of a LIST column ends at the child's length."""
    length = _get(table, column, LENGTH)
    if length >= _get(table, column, CAPACITY):
        return True
    store_4(memory, _get(table, column, VALUES) + (length + 1) * 4, _get(table, column + 1, LENGTH))
    _set(table, column, LENGTH, length + 1)
    return False


@subroutine
def _put_code_point(memory: int, at: int, code: int) -> int:
    """Write one code point as UTF-8 at `at`; returns the position behind it."""
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
def _put_unit(memory: int, at: int, unit: int, pending: int) -> tuple[int, int]:
    """Write a UTF-16 unit; `pending` is a high surrogate not yet written, or 0. A lone surrogate becomes U+FFFD."""
    if pending:
        if 0xDC00 <= unit < 0xE000:
            return _put_code_point(memory, at, 0x10000 + ((pending - 0xD800) << 10) + (unit - 0xDC00)), 0
        at = _put_code_point(memory, at, 0xFFFD)
    if 0xD800 <= unit < 0xDC00:
        return at, unit
    if 0xDC00 <= unit < 0xE000:
        unit = 0xFFFD
    return _put_code_point(memory, at, unit), 0


@subroutine
def _varint(data: int, position: int, limit: int) -> tuple[int, int]:
    """Unsigned LEB128 of at most five bytes; (value, position behind it), position -1 if it is not one."""
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
def _is_ascii(data: int, position: int, count: int, limit: int) -> bool:
    """Whether `count` bytes are all below 0x80; eight at a time where `limit` leaves room."""
    seen = np.int64(0)
    index = 0
    while index < count:
        if position + index + 8 <= limit:
            word = load_le_i8(data, position + index)
            if count - index < 8:
                word &= (np.int64(1) << (8 * (count - index))) - 1
            seen |= word
            index += 8
        else:
            seen |= load_u1(data, position + index)
            index += 1
    return seen & _HIGH_BITS == 0


@subroutine
def _copy(memory: int, at: int, data: int, position: int, count: int, limit: int) -> None:
    """Copy bytes, eight at a time where `limit` leaves room; up to seven behind `at + count` are overwritten."""
    index = 0
    while index < count:
        if position + index + 8 <= limit:
            store_8(memory, at + index, load_le_i8(data, position + index))
            index += 8
        else:
            store_1(memory, at + index, load_u1(data, position + index))
            index += 1


@subroutine
def _put_string(
    table: int, memory: int, column: int, data: int, position: int, limit: int, units: int
) -> tuple[int, int]:
    """Append the `units` varint UTF-16 units at `position`: (position behind them, status)."""
    ascii_only = _is_ascii(data, position, units, limit)
    if column < 0:
        if ascii_only:
            return position + units, DONE
        for _ in range(units):
            _, position = _varint(data, position, limit)
            if position < 0:
                return 0, BAD_TEXT
        return position, DONE
    used = _get(table, column, DATA_LENGTH)
    capacity = _get(table, column, DATA_CAPACITY)
    base = _get(table, column, DATA)
    if used + units + 8 > capacity:
        return 0, FULL
    at = base + used
    if ascii_only:
        _copy(memory, at, data, position, units, limit)
        return position + units, FULL if close_variable(table, memory, column, used + units) else DONE
    pending = 0
    for _ in range(units):
        if at + 7 > base + capacity:
            return 0, FULL
        unit, position = _varint(data, position, limit)
        if position < 0 or unit > 0xFFFF:
            return 0, BAD_TEXT
        at, pending = _put_unit(memory, at, unit, pending)
    if pending:
        at = _put_code_point(memory, at, 0xFFFD)
    return position, FULL if close_variable(table, memory, column, at - base) else DONE


@subroutine
def _put_modified_utf8(table: int, memory: int, column: int, data: int, position: int, count: int) -> int:
    """Append `count` bytes of modified UTF-8; the status."""
    used = _get(table, column, DATA_LENGTH)
    base = _get(table, column, DATA)
    if used + count + 8 > _get(table, column, DATA_CAPACITY):
        return FULL
    at = base + used
    end = position + count
    pending = 0
    while position < end:
        byte = load_u1(data, position)
        if byte < 0x80:
            unit = byte
            position += 1
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
        at, pending = _put_unit(memory, at, unit, pending)
    if pending:
        at = _put_code_point(memory, at, 0xFFFD)
    return FULL if close_variable(table, memory, column, at - base) else DONE


@subroutine
def _utf8(data: int, position: int, end: int) -> tuple[int, int]:
    """The code point at `position` and the position behind it; U+FFFD for the longest prefix that is none."""
    lead = load_u1(data, position)
    position += 1
    if lead < 0x80:
        return lead, position
    if lead < 0xC2 or lead > 0xF4:
        return 0xFFFD, position
    more = 1 if lead < 0xE0 else 2 if lead < 0xF0 else 3
    code = lead & (0x3F >> more)
    lowest = 0xA0 if lead == 0xE0 else 0x90 if lead == 0xF0 else 0x80
    highest = 0x9F if lead == 0xED else 0x8F if lead == 0xF4 else 0xBF
    for _ in range(more):
        if position >= end:
            return 0xFFFD, position
        byte = load_u1(data, position)
        if byte < lowest or byte > highest:
            return 0xFFFD, position
        code = code << 6 | byte & 0x3F
        position += 1
        lowest = 0x80
        highest = 0xBF
    return code, position


@subroutine
def _put_utf8(table: int, memory: int, column: int, data: int, position: int, count: int) -> bool:
    """Append `count` bytes of UTF-8, repaired where they are none; whether the arena is full."""
    used = _get(table, column, DATA_LENGTH)
    capacity = _get(table, column, DATA_CAPACITY)
    base = _get(table, column, DATA)
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
        code, position = _utf8(data, position, end)
        at = _put_code_point(memory, at, code)
    return close_variable(table, memory, column, at - base)


@subroutine
def _put_decimal128(
    table: int, memory: int, column: int, high: int, low: int, bound_high: int, bound_low: int
) -> int:
    """Append a 128-bit number whose magnitude is below the bound; the status."""
    magnitude_high = high
    magnitude_low = low
    if high < 0:
        magnitude_low = -low
        magnitude_high = ~high + (1 if low == 0 else 0)
    if magnitude_high < 0 or magnitude_high > bound_high:
        return OUT_OF_RANGE
    if magnitude_high == bound_high and magnitude_low ^ _MIN_I8 >= bound_low ^ _MIN_I8:
        return OUT_OF_RANGE
    if column < 0:
        return DONE
    length = _get(table, column, LENGTH)
    if length >= _get(table, column, CAPACITY):
        return FULL
    store_8(memory, _get(table, column, VALUES) + length * 16, low)
    store_8(memory, _get(table, column, VALUES) + length * 16 + 8, high)
    _set(table, column, LENGTH, length + 1)
    return DONE


@subroutine
def _two_complement(data: int, position: int, count: int) -> tuple[int, int]:
    """`count` (1 to 16) big-endian bytes as the high and the low 64 bits of a signed number."""
    high = np.int64(-1) if load_i1(data, position) < 0 else np.int64(0)
    low = high
    for index in range(count):
        high = high << 8 | low >> 56 & 0xFF
        low = low << 8 | load_u1(data, position + index)
    return high, low


@subroutine
def _sign_bytes(data: int, position: int, count: int) -> int:
    """How many of `count` bytes of two's complement, beyond the 16 that fit, only repeat the sign."""
    sign = load_i1(data, position) >> 7
    padding = 0
    while count - padding > _MAX_DECIMAL_BYTES and load_i1(data, position + padding) == sign:
        if load_i1(data, position + padding + 1) >> 7 != sign:
            break
        padding += 1
    return padding


@subroutine
def _put_timestamp(table: int, memory: int, column: int, millis: int, nanos: int, nanos_a_unit: int) -> int:
    """Append milliseconds and the nanos of the millisecond in units of the column; the status."""
    if nanos < 0 or nanos >= _NANOS_A_MILLISECOND:
        return BAD_DATE
    if column < 0:
        return DONE
    units = _NANOS_A_MILLISECOND // nanos_a_unit
    if millis >= _MAX_I8 // units or millis <= -(_MAX_I8 // units):
        return OUT_OF_RANGE
    if _put8(table, memory, column, millis * units + nanos // nanos_a_unit):
        return FULL
    return DONE


@subroutine
def _put_decimal(
    table: int, memory: int, column: int, data: int, position: int, count: int, small: int, scale: int
) -> bool:
    """Append unscaled · 10^-scale as text; unscaled is `count` bytes two's complement, or `small` if count is 0."""
    limbs = _limbs_memory()
    for limb in range(_LIMBS):
        store_8(limbs, limb * 8, 0)
    used_limbs = 1
    negative = False
    if count == 0:
        store_8(limbs, 0, small)
    else:
        negative = load_i1(data, position) < 0
        flip = 0xFF if negative else 0
        for index in range(count):
            carry = load_u1(data, position + index) ^ flip
            for limb in range(used_limbs):
                carry += load_le_i8(limbs, limb * 8) * 256
                store_8(limbs, limb * 8, carry % _LIMB)
                carry //= _LIMB
            if carry:
                store_8(limbs, used_limbs * 8, carry)
                used_limbs += 1
        if negative:
            limb = 0
            store_8(limbs, 0, load_le_i8(limbs, 0) + 1)
            while load_le_i8(limbs, limb * 8) == _LIMB:
                store_8(limbs, limb * 8, 0)
                limb += 1
                store_8(limbs, limb * 8, load_le_i8(limbs, limb * 8) + 1)
            used_limbs = max(used_limbs, limb + 1)
    digits = _digits_memory()
    total = used_limbs * 9
    for limb in range(used_limbs):
        value = load_le_i8(limbs, limb * 8)
        for place in range(9):
            store_1(digits, total - 1 - limb * 9 - place, value % 10)
            value //= 10
    first = 0
    while first < total - 1 and load_u1(digits, first) == 0:
        first += 1
    length = total - first
    zero = length == 1 and load_u1(digits, first) == 0
    used = _get(table, column, DATA_LENGTH)
    base = _get(table, column, DATA)
    if used + length + _MAX_PLAIN_ZEROS + 32 > _get(table, column, DATA_CAPACITY):
        return True
    at = base + used
    if negative:
        store_1(memory, at, 45)
        at += 1
    leading = scale - length + 1 if scale >= length else 0
    trailing = -scale if scale < 0 and not zero else 0
    if leading > _MAX_PLAIN_ZEROS or trailing > _MAX_PLAIN_ZEROS:
        store_1(memory, at, 48 + load_u1(digits, first))
        at += 1
        if length > 1:
            store_1(memory, at, 46)
            at += 1
            for index in range(1, length):
                store_1(memory, at, 48 + load_u1(digits, first + index))
                at += 1
        exponent = length - 1 - scale
        store_1(memory, at, 69)
        store_1(memory, at + 1, 45 if exponent < 0 else 43)
        at += 2
        exponent = abs(exponent)
        power = 1
        while power * 10 <= exponent:
            power *= 10
        while power > 0:
            store_1(memory, at, 48 + exponent // power % 10)
            at += 1
            power //= 10
        return close_variable(table, memory, column, at - base)
    point = length + leading - scale if scale > 0 else -1
    for index in range(leading + length):
        if index == point:
            store_1(memory, at, 46)
            at += 1
        digit = 0 if index < leading else load_u1(digits, first + index - leading)
        store_1(memory, at, 48 + digit)
        at += 1
    for _ in range(trailing):
        store_1(memory, at, 48)
        at += 1
    return close_variable(table, memory, column, at - base)


@kernel
def days_from_civil(year: int, month: int, day: int) -> int:
    """Days since 1970-01-01 in the proleptic Gregorian calendar (`LocalDate#toEpochDay`)."""
    year -= month <= 2
    era = year // 400
    year_of_era = year - era * 400
    day_of_year = (153 * (month + (-3 if month > 2 else 9)) + 2) // 5 + day - 1
    return era * 146_097 + year_of_era * 365 + year_of_era // 4 - year_of_era // 100 + day_of_year - 719_468


@subroutine
def _nanos(seconds: int, nanos: int) -> tuple[int, bool]:
    """Nanoseconds since the epoch, and whether an int64 holds them; its greatest is DuckDB's infinity.

    Args:
        seconds: since the epoch.
        nanos: since then, less than a day.
    """
    if seconds > _MAX_SECONDS or seconds < -_MAX_SECONDS:
        return 0, False
    if seconds * _NANOS_A_SECOND >= _MAX_I8 - nanos:
        return 0, False
    return seconds * _NANOS_A_SECOND + nanos, True


@kernel
def execute(
    code_at: int,
    targets_at: int,
    pool_at: int,
    bytes_at: int,
    starts: int,
    ends: int,
    segments: int,
    stop: int,
    table_at: int,
    memory_at: int,
    stack: int,
    registers: int,
) -> None:
    """Decode entries `registers[ROW]` to `stop`; returns when done, full, at a Python leaf or at an error.

    Args:
        code_at: int64 (n, 6); targets_at: int64; pool_at: uint8; see `Code`.
        bytes_at: uint8, the page's buffer; starts, ends: int64 (entries, segments).
        stop: the first entry not to decode.
        table_at: int64 (columns, FIELDS); memory_at: uint8; see `Arena`.
        stack: int64 (depth, FRAME).
        registers: int64 (REGISTERS,); STATUS is CALL to go on at PC, DONE to begin at ROW.
    """
    row = _register(registers, ROW)
    resume = _register(registers, STATUS) == CALL
    pc = _register(registers, PC)
    position = _register(registers, POSITION)
    limit = _register(registers, LIMIT)
    top = _register(registers, TOP)
    marked = _register(registers, MARKED)
    status = DONE
    detail_a = 0
    detail_b = 0
    while row < stop:
        if not resume:
            pc = 0
            top = -1
            position = load_le_i8(starts, row * segments * 8)
            limit = load_le_i8(ends, row * segments * 8)
            marked = position
        resume = False
        while True:
            opcode = _operand(code_at, pc, 0)
            column = _operand(code_at, pc, 1)
            if opcode == op.END:
                break
            if opcode == op.FIXED8:
                if limit - position < 8:
                    status, detail_a = TOO_SHORT, 8
                    break
                if column >= 0 and _put8(table_at, memory_at, column, load_i8(bytes_at, position)):
                    status = FULL
                    break
                position += 8
            elif opcode == op.FIXED4:
                if limit - position < 4:
                    status, detail_a = TOO_SHORT, 4
                    break
                if column >= 0 and _put4(table_at, memory_at, column, load_i4(bytes_at, position)):
                    status = FULL
                    break
                position += 4
            elif opcode == op.STRING:
                units, position = _varint(bytes_at, position, limit)
                if position < 0:
                    status = BAD_TEXT
                    break
                if _operand(code_at, pc, 2):
                    if units == 0:
                        if column >= 0 and put_nulls(table_at, memory_at, column):
                            status = FULL
                            break
                        pc += 1
                        continue
                    units -= 1
                if units > limit - position:
                    status, detail_a = TOO_SHORT, units
                    break
                position, status = _put_string(table_at, memory_at, column, bytes_at, position, limit, units)
                if status != DONE:
                    break
            elif opcode == op.NULL_FLAG:
                if position >= limit:
                    status, detail_a = TOO_SHORT, 1
                    break
                flag = load_u1(bytes_at, position)
                if flag > 1:
                    status, detail_a = BAD_FLAG, flag
                    break
                position += 1
                if flag == _operand(code_at, pc, 2):
                    if limit - position < _operand(code_at, pc, 3):
                        status, detail_a = TOO_SHORT, _operand(code_at, pc, 3)
                        break
                    position += _operand(code_at, pc, 3)
                    if column >= 0 and put_nulls(table_at, memory_at, column):
                        status = FULL
                        break
                    pc = _operand(code_at, pc, 4)
                    continue
            elif opcode == op.STRUCT:
                if column >= 0:
                    length = _get(table_at, column, LENGTH)
                    if length >= _get(table_at, column, CAPACITY):
                        status = FULL
                        break
                    _set(table_at, column, LENGTH, length + 1)
            elif opcode == op.SKIP:
                if limit - position < _operand(code_at, pc, 2):
                    status, detail_a = TOO_SHORT, _operand(code_at, pc, 2)
                    break
                position += _operand(code_at, pc, 2)
            elif opcode == op.SEGMENT:
                segment = row * segments + _operand(code_at, pc, 2)
                position = load_le_i8(starts, segment * 8)
                limit = load_le_i8(ends, segment * 8)
            elif opcode == op.EXPECT_END:
                if position != limit:
                    status, detail_a = TRAILING, limit - position
                    break
            elif opcode == op.LIST_NEXT:
                _set_frame(stack, top, 1, _frame(stack, top, 1) - 1)
                if _frame(stack, top, 1) > 0:
                    pc = _frame(stack, top, 0)
                    continue
                top -= 1
                if column >= 0 and _close_list(table_at, memory_at, column):
                    status = FULL
                    break
            elif opcode == op.LIST:
                if limit - position < 4:
                    status, detail_a = TOO_SHORT, 4
                    break
                count = load_i4(bytes_at, position)
                least = _operand(code_at, pc, 2)
                if (
                    count < 0
                    or count * least > limit - position - 4
                    or (least == 0 and count > _MAX_ZERO_WIDTH)
                ):
                    status, detail_a = BAD_COUNT, count
                    break
                position += 4
                if count == 0:
                    if column >= 0 and _close_list(table_at, memory_at, column):
                        status = FULL
                        break
                    pc = _operand(code_at, pc, 4)
                    continue
                top += 1
                _set_frame(stack, top, 0, pc + 1)
                _set_frame(stack, top, 1, count)
            elif opcode == op.FIXED1:
                if position >= limit:
                    status, detail_a = TOO_SHORT, 1
                    break
                if column >= 0 and _put1(table_at, memory_at, column, load_u1(bytes_at, position)):
                    status = FULL
                    break
                position += 1
            elif opcode == op.FIXED2:
                if limit - position < 2:
                    status, detail_a = TOO_SHORT, 2
                    break
                if column >= 0 and _put2(table_at, memory_at, column, load_i2(bytes_at, position)):
                    status = FULL
                    break
                position += 2
            elif opcode == op.BOOLEAN:
                if position >= limit:
                    status, detail_a = TOO_SHORT, 1
                    break
                flag = load_u1(bytes_at, position)
                if flag > 1:
                    status, detail_a = BAD_FLAG, flag
                    break
                if column >= 0 and _put1(table_at, memory_at, column, flag):
                    status = FULL
                    break
                position += 1
            elif opcode == op.SWITCH:
                if position >= limit:
                    status, detail_a = TOO_SHORT, 1
                    break
                tag = load_u1(bytes_at, position)
                target = np.int64(op.NOWHERE)
                if tag < _operand(code_at, pc, 3):
                    target = _target(targets_at, _operand(code_at, pc, 2) + tag)
                if target == op.NOWHERE:
                    status, detail_a = BAD_TAG, tag
                    break
                position += 1
                pc = target
                continue
            elif opcode == op.JUMP:
                pc = _operand(code_at, pc, 4)
                continue
            elif opcode == op.NULL:
                if column >= 0 and put_nulls(table_at, memory_at, column):
                    status = FULL
                    break
            elif opcode == op.FIXED8_FLIPPED:
                if limit - position < 8:
                    status, detail_a = TOO_SHORT, 8
                    break
                if column >= 0 and _put8(table_at, memory_at, column, load_i8(bytes_at, position) ^ _MIN_I8):
                    status = FULL
                    break
                position += 8
            elif opcode == op.MARK:
                marked = position
            elif opcode == op.LENGTH_SUFFIX:
                measured = position - marked
                size = 1
                while size < 8 and measured >> (8 * size):
                    size += 1
                if limit - position < size:
                    status, detail_a = TOO_SHORT, size
                    break
                stored = 0
                for index in range(size):
                    stored |= load_u1(bytes_at, position + index) << (8 * index)
                if stored != measured:
                    status, detail_a, detail_b = BAD_SUFFIX, stored, measured
                    break
                position += size
                marked = position
            elif opcode == op.BLOB:
                if limit - position < 4:
                    status, detail_a = TOO_SHORT, 4
                    break
                count = load_i4(bytes_at, position)
                if count < 0 or count > limit - position - 4:
                    status, detail_a = BAD_COUNT, count
                    break
                if column >= 0 and _put_bytes(table_at, memory_at, column, bytes_at, position + 4, count):
                    status = FULL
                    break
                position += 4 + count
            elif opcode == op.REST:
                if column >= 0 and _put_bytes(
                    table_at, memory_at, column, bytes_at, position, limit - position
                ):
                    status = FULL
                    break
                position = limit
            elif opcode == op.DELIMITED:
                if position >= limit:
                    if column >= 0 and _close_list(table_at, memory_at, column):
                        status = FULL
                        break
                    pc = _operand(code_at, pc, 4)
                    continue
                top += 1
                _set_frame(stack, top, 0, pc + 1)
                _set_frame(stack, top, 1, position)
            elif opcode == op.DELIMITED_NEXT:
                if position < limit:
                    if load_u1(bytes_at, position) != _DELIMITER:
                        status, detail_a = BAD_DELIMITER, load_u1(bytes_at, position)
                        break
                    position += 1
                    if position == _frame(stack, top, 1):
                        status = BAD_COUNT
                        break
                    pc = _frame(stack, top, 0)
                    continue
                top -= 1
                if column >= 0 and _close_list(table_at, memory_at, column):
                    status = FULL
                    break
            elif opcode == op.PRIMITIVES:
                width = _operand(code_at, pc, 2)
                if limit - position < 4:
                    status, detail_a = TOO_SHORT, 4
                    break
                count = load_i4(bytes_at, position)
                if count < 0 or count * width > limit - position - 4:
                    status, detail_a = BAD_COUNT, count
                    break
                position += 4
                if column >= 0:
                    child = column + 1
                    length = _get(table_at, child, LENGTH)
                    if length + count > _get(table_at, child, CAPACITY):
                        _set(table_at, child, LENGTH, _get(table_at, child, CAPACITY))
                        status = FULL
                        break
                    base = _get(table_at, child, VALUES) + length * width
                    for index in range(count):
                        if width == 8:
                            store_8(memory_at, base + index * 8, load_i8(bytes_at, position + index * 8))
                        elif width == 4:
                            store_4(memory_at, base + index * 4, load_i4(bytes_at, position + index * 4))
                        elif width == 2:
                            store_2(memory_at, base + index * 2, load_i2(bytes_at, position + index * 2))
                        else:
                            store_1(memory_at, base + index, load_u1(bytes_at, position + index))
                    _set(table_at, child, LENGTH, length + count)
                    if _close_list(table_at, memory_at, column):
                        status = FULL
                        break
                position += count * width
            elif opcode == op.CONSTANT:
                if column >= 0 and _put_bytes(
                    table_at,
                    memory_at,
                    column,
                    pool_at,
                    _operand(code_at, pc, 2),
                    _operand(code_at, pc, 3),
                ):
                    status = FULL
                    break
            elif opcode == op.ENUM:
                if limit - position < 4:
                    status, detail_a = TOO_SHORT, 4
                    break
                index = load_i4(bytes_at, position)
                if index < 0 or index >= _operand(code_at, pc, 3):
                    status, detail_a, detail_b = BAD_INDEX, index, _operand(code_at, pc, 3)
                    break
                at = _operand(code_at, pc, 2) + 2 * index
                if column >= 0 and _put_bytes(
                    table_at,
                    memory_at,
                    column,
                    pool_at,
                    _target(targets_at, at),
                    _target(targets_at, at + 1),
                ):
                    status = FULL
                    break
                position += 4
            elif opcode == op.MASK:
                size = _operand(code_at, pc, 2)
                if limit - position < size:
                    status, detail_a = TOO_SHORT, size
                    break
                top += 1
                _set_frame(stack, top, 2, position)
                position += size
            elif opcode == op.MASK_NULL:
                bit = _operand(code_at, pc, 2)
                if load_u1(bytes_at, _frame(stack, top, 2) + (bit >> 3)) & (0x80 >> (bit & 7)):
                    if column >= 0 and put_nulls(table_at, memory_at, column):
                        status = FULL
                        break
                    pc = _operand(code_at, pc, 4)
                    continue
            elif opcode == op.MASK_KIND:
                byte = load_u1(bytes_at, _frame(stack, top, 2))
                at = _operand(code_at, pc, 2) + 2 * ((byte >> 7) + 2 * (byte >> 6 & 1))
                if column >= 0 and _put_bytes(
                    table_at,
                    memory_at,
                    column,
                    pool_at,
                    _target(targets_at, at),
                    _target(targets_at, at + 1),
                ):
                    status = FULL
                    break
            elif opcode == op.MASK_END:
                top -= 1
            elif opcode == op.CLASS:
                if limit - position < 2:
                    status, detail_a = TOO_SHORT, 2
                    break
                count = load_u2(bytes_at, position)
                if count > limit - position - 2:
                    status, detail_a = TOO_SHORT, count
                    break
                target = np.int64(op.NOWHERE)
                for index in range(_operand(code_at, pc, 3)):
                    at = _operand(code_at, pc, 2) + 3 * index
                    if _target(targets_at, at + 1) == count:
                        same = True
                        for offset in range(count):
                            if load_u1(bytes_at, position + 2 + offset) != load_u1(
                                pool_at, _target(targets_at, at) + offset
                            ):
                                same = False
                                break
                        if same:
                            target = _target(targets_at, at + 2)
                if target == op.NOWHERE:
                    status, detail_a = BAD_CLASS, count
                    break
                position += 2 + count
                pc = target
                continue
            elif opcode == op.UTF:
                if limit - position < 2:
                    status, detail_a = TOO_SHORT, 2
                    break
                count = load_u2(bytes_at, position)
                if count > limit - position - 2:
                    status, detail_a = TOO_SHORT, count
                    break
                if column >= 0:
                    status = _put_modified_utf8(table_at, memory_at, column, bytes_at, position + 2, count)
                    if status != DONE:
                        break
                position += 2 + count
            elif opcode == op.CHAR:
                if limit - position < 2:
                    status, detail_a = TOO_SHORT, 2
                    break
                if column >= 0:
                    used = _get(table_at, column, DATA_LENGTH)
                    if used + 8 > _get(table_at, column, DATA_CAPACITY):
                        status = FULL
                        break
                    base = _get(table_at, column, DATA)
                    at, pending = _put_unit(memory_at, base + used, load_u2(bytes_at, position), 0)
                    if pending:
                        at = _put_code_point(memory_at, at, 0xFFFD)
                    if close_variable(table_at, memory_at, column, at - base):
                        status = FULL
                        break
                position += 2
            elif opcode == op.BIG_INTEGER or opcode == op.BIG_DECIMAL:
                if limit - position < 4:
                    status, detail_a = TOO_SHORT, 4
                    break
                code = load_i4(bytes_at, position)
                size = code - 4 if code > 4 else 0
                if code < 0 or code == 4 or size > limit - position - 4:
                    status, detail_a = BAD_COUNT, code
                    break
                if size > MAX_BIG_INTEGER_BYTES:
                    status, detail_a = OUT_OF_RANGE, size
                    break
                start = position + 4
                position = start + size
                if code == 0:
                    if column >= 0 and put_nulls(table_at, memory_at, column):
                        status = FULL
                        break
                    pc += 1
                    continue
                scale = 0
                if opcode == op.BIG_DECIMAL:
                    if limit - position < 4:
                        status, detail_a = TOO_SHORT, 4
                        break
                    scale = load_i4(bytes_at, position)
                    position += 4
                small = 10 if code == 3 else code - 1
                if column >= 0 and _put_decimal(
                    table_at, memory_at, column, bytes_at, start, size, small, scale
                ):
                    status = FULL
                    break
            elif opcode == op.MILLIS:
                if limit - position < 8:
                    status, detail_a = TOO_SHORT, 8
                    break
                value = load_i8(bytes_at, position)
                if column >= 0:
                    if value == _MIN_I8:
                        if put_nulls(table_at, memory_at, column):
                            status = FULL
                            break
                    elif _put8(table_at, memory_at, column, value):
                        status = FULL
                        break
                position += 8
            elif opcode == op.TIMESTAMP or opcode == op.INSTANT:
                if limit - position < 12:
                    status, detail_a = TOO_SHORT, 12
                    break
                seconds = load_i8(bytes_at, position)
                nanos = load_i4(bytes_at, position + 8)
                if seconds == _MIN_I8 and (nanos == 0 or nanos == _MIN_I4):
                    if column >= 0 and put_nulls(table_at, memory_at, column):
                        status = FULL
                        break
                else:
                    if nanos < 0 or nanos >= _NANOS_A_SECOND:
                        status, detail_a = BAD_DATE, nanos
                        break
                    if opcode == op.TIMESTAMP:
                        seconds = seconds // 1000
                    value, fits = _nanos(seconds, nanos)
                    if column >= 0:
                        if not fits:
                            status, detail_a = OUT_OF_RANGE, seconds
                            break
                        if _put8(table_at, memory_at, column, value):
                            status = FULL
                            break
                position += 12
            elif opcode == op.LOCAL_DATE or opcode == op.LOCAL_TIME or opcode == op.LOCAL_DATE_TIME:
                with_date = opcode != op.LOCAL_TIME
                with_time = opcode != op.LOCAL_DATE
                size = 6 * with_date + 7 * with_time
                if limit - position < size:
                    status, detail_a = TOO_SHORT, size
                    break
                days = np.int64(0)
                nanos = np.int64(0)
                missing = False
                at = position
                if with_date:
                    year = load_i4(bytes_at, at)
                    month = load_u1(bytes_at, at + 4)
                    day = load_u1(bytes_at, at + 5)
                    missing = year == _MIN_I4 and month == 0x80 and day == 0
                    if not missing and (month < 1 or month > 12 or day < 1 or day > 31):
                        status, detail_a = BAD_DATE, month * 100 + day
                        break
                    if not missing:
                        days = days_from_civil(year, month, day)
                    at += 6
                if with_time:
                    hour = load_u1(bytes_at, at)
                    minute = load_u1(bytes_at, at + 1)
                    second = load_u1(bytes_at, at + 2)
                    nano = load_i4(bytes_at, at + 3)
                    if hour == 0x80 and minute == 0x80 and second == 0 and nano == _MIN_I4:
                        missing = True
                    elif hour > 23 or minute > 59 or second > 59 or nano < 0 or nano >= _NANOS_A_SECOND:
                        status, detail_a = BAD_DATE, hour * 10_000 + minute * 100 + second
                        break
                    else:
                        nanos = ((hour * 60 + minute) * 60 + second) * _NANOS_A_SECOND + nano
                if column >= 0:
                    full = False
                    if missing:
                        full = put_nulls(table_at, memory_at, column)
                    elif not with_date:
                        full = _put8(table_at, memory_at, column, nanos)
                    elif not with_time:
                        if days > 2**31 - 1 or days < _MIN_I4:
                            status, detail_a = OUT_OF_RANGE, days
                            break
                        full = _put4(table_at, memory_at, column, days)
                    else:
                        value, fits = _nanos(days * _SECONDS_A_DAY, nanos)
                        if not fits:
                            status, detail_a = OUT_OF_RANGE, days
                            break
                        full = _put8(table_at, memory_at, column, value)
                    if full:
                        status = FULL
                        break
                position += size
            elif opcode == op.PYTHON:
                status = CALL
                break
            elif opcode == op.TEXT:
                if limit - position < 4:
                    status, detail_a = TOO_SHORT, 4
                    break
                count = load_i4(bytes_at, position)
                if count < 0 or count > limit - position - 4:
                    status, detail_a = BAD_COUNT, count
                    break
                if column >= 0 and _put_utf8(table_at, memory_at, column, bytes_at, position + 4, count):
                    status = FULL
                    break
                position += 4 + count
            elif opcode == op.RAW_BYTES:
                count = _operand(code_at, pc, 2)
                if limit - position < count:
                    status, detail_a = TOO_SHORT, count
                    break
                if column >= 0 and _put_bytes(table_at, memory_at, column, bytes_at, position, count):
                    status = FULL
                    break
                position += count
            elif opcode == op.SWITCH_I4:
                if limit - position < 4:
                    status, detail_a = TOO_SHORT, 4
                    break
                tag = load_i4(bytes_at, position)
                target = np.int64(op.NOWHERE)
                if tag >= 0 and tag < _operand(code_at, pc, 3):
                    target = _target(targets_at, _operand(code_at, pc, 2) + tag)
                if target == op.NOWHERE:
                    status, detail_a = BAD_TAG, tag
                    break
                position += 4
                pc = target
                continue
            elif opcode == op.BLOCKS or opcode == op.BLOCKS_NEXT:
                if opcode == op.BLOCKS_NEXT:
                    _set_frame(stack, top, 1, _frame(stack, top, 1) - 1)
                    if _frame(stack, top, 1) > 0:
                        pc = _frame(stack, top, 0)
                        continue
                count, behind = _varint(bytes_at, position, limit)
                if behind < 0:
                    status, detail_a = TOO_SHORT, 1
                    break
                least = _operand(code_at, pc, 2)
                if opcode == op.BLOCKS:
                    top += 1
                    _set_frame(stack, top, 0, pc + 1)
                    _set_frame(stack, top, 5, 0)
                _set_frame(stack, top, 5, _frame(stack, top, 5) + count)
                if count * least > limit - behind or (least == 0 and _frame(stack, top, 5) > _MAX_ZERO_WIDTH):
                    status, detail_a = BAD_COUNT, count
                    break
                position = behind
                if count > 0:
                    _set_frame(stack, top, 1, count)
                    pc = _frame(stack, top, 0)
                    continue
                top -= 1
                if column >= 0 and _close_list(table_at, memory_at, column):
                    status = FULL
                    break
                if opcode == op.BLOCKS:
                    pc = _operand(code_at, pc, 4)
                    continue
            elif opcode == op.MASKED_LIST:
                if limit - position < 4:
                    status, detail_a = TOO_SHORT, 4
                    break
                count = load_i4(bytes_at, position)
                if count < 0 or (count + 7) // 8 > limit - position - 4:
                    status, detail_a = BAD_COUNT, count
                    break
                position += 4
                if count == 0:
                    if column >= 0 and _close_list(table_at, memory_at, column):
                        status = FULL
                        break
                    pc = _operand(code_at, pc, 4)
                    continue
                top += 1
                _set_frame(stack, top, 0, pc + 1)
                _set_frame(stack, top, 1, count)
                _set_frame(stack, top, 2, position)
                _set_frame(stack, top, 5, count)
                position += (count + 7) // 8
            elif opcode == op.ELEMENT_MASKED:
                bit = _frame(stack, top, 5) - _frame(stack, top, 1)
                if load_u1(bytes_at, _frame(stack, top, 2) + (bit >> 3)) & (0x80 >> (bit & 7)):
                    if column >= 0 and put_nulls(table_at, memory_at, column):
                        status = FULL
                        break
                    pc = _operand(code_at, pc, 4)
                    continue
            elif opcode == op.DECIMAL:
                at = _operand(code_at, pc, 4)
                count = _operand(code_at, pc, 3)
                if _operand(code_at, pc, 2):
                    count = np.int64(8)
                elif count == 0:
                    if limit - position < 4:
                        status, detail_a = TOO_SHORT, 4
                        break
                    count = load_i4(bytes_at, position)
                    position += 4
                if count < 1 or count > limit - position:
                    status, detail_a = BAD_COUNT, count
                    break
                if _operand(code_at, pc, 2):
                    low = load_i8(bytes_at, position)
                    high = low >> 63
                else:
                    padding = _sign_bytes(bytes_at, position, count)
                    if count - padding > _MAX_DECIMAL_BYTES:
                        status, detail_a = OUT_OF_RANGE, count
                        break
                    high, low = _two_complement(bytes_at, position + padding, count - padding)
                status = _put_decimal128(
                    table_at,
                    memory_at,
                    column,
                    high,
                    low,
                    _target(targets_at, at),
                    _target(targets_at, at + 1),
                )
                if status != DONE:
                    detail_a = low
                    break
                position += count
            elif opcode == op.TIMESTAMP_DATA:
                if limit - position < 12:
                    status, detail_a = TOO_SHORT, 12
                    break
                millis = load_i8(bytes_at, position)
                nano = load_i4(bytes_at, position + 8)
                status = _put_timestamp(table_at, memory_at, column, millis, nano, _operand(code_at, pc, 3))
                if status != DONE:
                    detail_a = nano if status == BAD_DATE else millis
                    break
                position += 12
            elif opcode == op.BINARY:
                if limit - position < 4:
                    status, detail_a = TOO_SHORT, 4
                    break
                count = load_i4(bytes_at, position)
                if count < 0 or count > limit - position - 4:
                    status, detail_a = BAD_COUNT, count
                    break
                position += 4
                top += 1
                _set_frame(stack, top, 2, position)
                _set_frame(stack, top, 3, position + count)
                _set_frame(stack, top, 4, limit)
                _set_frame(stack, top, 5, position)
                limit = position + count
            elif opcode == op.BINARY_SLOT or opcode == op.BINARY_KEYS or opcode == op.BINARY_VALUES:
                base = _frame(stack, top, 2)
                if opcode == op.BINARY_SLOT:
                    slot = load_le_i8(bytes_at, _frame(stack, top, 5) + _operand(code_at, pc, 2))
                    start = slot >> 32
                    count = slot & 0xFFFFFFFF
                else:
                    if limit - base < 8:
                        status, detail_a = TOO_SHORT, 8
                        break
                    start = np.int64(4)
                    count = load_le_i4(bytes_at, base)
                if count < 0 or start < 0 or start + count > limit - base:
                    status, detail_a = BAD_COUNT, count
                    break
                if opcode == op.BINARY_VALUES:
                    start += count
                    count = limit - base - start
                    if count < 4:
                        status, detail_a = TOO_SHORT, 4
                        break
                    if load_le_i4(bytes_at, base + start) != load_le_i4(bytes_at, base + 4):
                        status, detail_a = BAD_COUNT, load_le_i4(bytes_at, base + start)
                        break
                top += 1
                _set_frame(stack, top, 2, base + start)
                _set_frame(stack, top, 3, position)
                _set_frame(stack, top, 4, limit)
                _set_frame(stack, top, 5, base + start)
                position = base + start
                limit = position + count
            elif opcode == op.BINARY_END:
                position = _frame(stack, top, 3)
                limit = _frame(stack, top, 4)
                top -= 1
            elif opcode == op.ROW:
                if limit - position < _operand(code_at, pc, 2):
                    status, detail_a = TOO_SHORT, _operand(code_at, pc, 2)
                    break
            elif opcode == op.ROW_KIND:
                tag = load_u1(bytes_at, _frame(stack, top, 2))
                if tag >= _operand(code_at, pc, 3):
                    status, detail_a = BAD_TAG, tag
                    break
                at = _operand(code_at, pc, 2) + 2 * tag
                if column >= 0 and _put_bytes(
                    table_at,
                    memory_at,
                    column,
                    pool_at,
                    _target(targets_at, at),
                    _target(targets_at, at + 1),
                ):
                    status = FULL
                    break
            elif opcode == op.SLOT_NULL:
                bit = _operand(code_at, pc, 2)
                if load_u1(bytes_at, _frame(stack, top, 2) + (bit >> 3)) >> (bit & 7) & 1:
                    if column >= 0 and put_nulls(table_at, memory_at, column):
                        status = FULL
                        break
                    pc = _operand(code_at, pc, 4)
                    continue
            elif opcode == op.SLOT8:
                value = load_le_i8(bytes_at, _frame(stack, top, 5) + _operand(code_at, pc, 2))
                if column >= 0 and _put8(table_at, memory_at, column, value):
                    status = FULL
                    break
            elif opcode == op.SLOT4:
                value = load_le_i4(bytes_at, _frame(stack, top, 5) + _operand(code_at, pc, 2))
                if _operand(code_at, pc, 3) and (value < 0 or value >= _operand(code_at, pc, 3)):
                    status, detail_a = BAD_DATE, value
                    break
                if column >= 0 and _put4(table_at, memory_at, column, value):
                    status = FULL
                    break
            elif opcode == op.SLOT2:
                value = load_le_i2(bytes_at, _frame(stack, top, 5) + _operand(code_at, pc, 2))
                if column >= 0 and _put2(table_at, memory_at, column, value):
                    status = FULL
                    break
            elif opcode == op.SLOT1:
                value = load_u1(bytes_at, _frame(stack, top, 5) + _operand(code_at, pc, 2))
                if column >= 0 and _put1(table_at, memory_at, column, value):
                    status = FULL
                    break
            elif opcode == op.SLOT_TEXT or opcode == op.SLOT_BYTES:
                at = _frame(stack, top, 5) + _operand(code_at, pc, 2)
                slot = load_le_i8(bytes_at, at)
                if slot < 0:
                    count = slot >> 56 & 0x7F
                    if count > _MAX_INLINE_BYTES:
                        status, detail_a = BAD_COUNT, count
                        break
                else:
                    count = slot & 0xFFFFFFFF
                    start = slot >> 32
                    if start + count > limit - _frame(stack, top, 2):
                        status, detail_a = BAD_COUNT, count
                        break
                    at = _frame(stack, top, 2) + start
                if column >= 0:
                    full = False
                    if opcode == op.SLOT_TEXT:
                        full = _put_utf8(table_at, memory_at, column, bytes_at, at, count)
                    else:
                        full = _put_bytes(table_at, memory_at, column, bytes_at, at, count)
                    if full:
                        status = FULL
                        break
            elif opcode == op.SLOT_DECIMAL:
                slot = load_le_i8(bytes_at, _frame(stack, top, 5) + _operand(code_at, pc, 2))
                low = slot
                high = slot >> 63
                if not _operand(code_at, pc, 3):
                    count = slot & 0xFFFFFFFF
                    start = slot >> 32
                    if count < 1 or start < 0 or start + count > limit - _frame(stack, top, 2):
                        status, detail_a = BAD_COUNT, count
                        break
                    if count > _MAX_DECIMAL_BYTES:
                        status, detail_a = OUT_OF_RANGE, count
                        break
                    high, low = _two_complement(bytes_at, _frame(stack, top, 2) + start, count)
                at = _operand(code_at, pc, 4)
                status = _put_decimal128(
                    table_at,
                    memory_at,
                    column,
                    high,
                    low,
                    _target(targets_at, at),
                    _target(targets_at, at + 1),
                )
                if status != DONE:
                    detail_a = low
                    break
            elif opcode == op.SLOT_TIMESTAMP:
                slot = load_le_i8(bytes_at, _frame(stack, top, 5) + _operand(code_at, pc, 2))
                start = slot >> 32
                if start < 0 or start + 8 > limit - _frame(stack, top, 2):
                    status, detail_a = BAD_COUNT, start
                    break
                millis = load_le_i8(bytes_at, _frame(stack, top, 2) + start)
                nano = slot & 0xFFFFFFFF
                status = _put_timestamp(table_at, memory_at, column, millis, nano, _operand(code_at, pc, 3))
                if status != DONE:
                    detail_a = nano if status == BAD_DATE else millis
                    break
            elif opcode == op.ARRAY:
                base = _frame(stack, top, 2)
                if limit - base < 4:
                    status, detail_a = TOO_SHORT, 4
                    break
                count = load_le_i4(bytes_at, base)
                size = 4 + (count + 31) // 32 * 4
                if count < 0 or size + count * _operand(code_at, pc, 2) > limit - base:
                    status, detail_a = BAD_COUNT, count
                    break
                if count == 0:
                    if (
                        _operand(code_at, pc, 3) == 0
                        and column >= 0
                        and _close_list(table_at, memory_at, column)
                    ):
                        status = FULL
                        break
                    pc = _operand(code_at, pc, 4)
                    continue
                _set_frame(stack, top, 0, pc + 1)
                _set_frame(stack, top, 1, count)
                _set_frame(stack, top, 5, base + size)
            elif opcode == op.ELEMENT_NULL:
                base = _frame(stack, top, 2)
                bit = load_le_i4(bytes_at, base) - _frame(stack, top, 1)
                if load_u1(bytes_at, base + 4 + (bit >> 3)) >> (bit & 7) & 1:
                    if column >= 0 and put_nulls(table_at, memory_at, column):
                        status = FULL
                        break
                    pc = _operand(code_at, pc, 4)
                    continue
            elif opcode == op.ARRAY_NEXT:
                _set_frame(stack, top, 1, _frame(stack, top, 1) - 1)
                _set_frame(stack, top, 5, _frame(stack, top, 5) + _operand(code_at, pc, 2))
                if _frame(stack, top, 1) > 0:
                    pc = _frame(stack, top, 0)
                    continue
                if _operand(code_at, pc, 3) == 0 and column >= 0 and _close_list(table_at, memory_at, column):
                    status = FULL
                    break
            elif opcode == op.MAP_END and column >= 0:
                child = column + 1
                length = _get(table_at, child, LENGTH) + load_le_i4(bytes_at, _frame(stack, top, 2) + 4)
                if length > _get(table_at, child, CAPACITY):
                    _set(table_at, child, LENGTH, _get(table_at, child, CAPACITY))
                    status = FULL
                    break
                _set(table_at, child, LENGTH, length)
                if _close_list(table_at, memory_at, column):
                    status = FULL
                    break
            pc += 1
        if status != DONE:
            break
        row += 1
    if status in (TOO_SHORT, BAD_COUNT):
        detail_b = limit - position
    _set_register(registers, STATUS, status)
    _set_register(registers, ROW, row)
    _set_register(registers, PC, pc)
    _set_register(registers, POSITION, position)
    _set_register(registers, LIMIT, limit)
    _set_register(registers, TOP, top)
    _set_register(registers, MARKED, marked)
    _set_register(registers, DETAIL_A, detail_a)
    _set_register(registers, DETAIL_B, detail_b)


@kernel
def measure(
    instructions: int,
    targets: int,
    pool: int,
    data: int,
    position: int,
    limit: int,
    starts: int,
    ends: int,
    count: int,
    table: int,
    memory: int,
    stack: int,
    registers: int,
) -> None:
    """Find where entries that follow each other without lengths begin and end: native heap data, broadcast state.

    Runs a program without columns on entry after entry from `position`; fills `starts` and `ends`, int64
    (entries, 1), from index `registers[ROW]` on. POSITION is behind the last entry when the status is DONE.
    """
    row = _register(registers, ROW)
    while row < count:
        if _register(registers, STATUS) != CALL:
            store_8(starts, row * 8, position)
            store_8(ends, row * 8, limit)
        _set_register(registers, ROW, row)
        execute(instructions, targets, pool, data, starts, ends, 1, row + 1, table, memory, stack, registers)
        if _register(registers, STATUS) != DONE:
            return
        position = _register(registers, POSITION)
        store_8(ends, row * 8, position)
        row += 1
    _set_register(registers, POSITION, position)


@kernel
def measure_each(
    instructions: int,
    targets: int,
    pool: int,
    data: int,
    starts: int,
    limits: int,
    ends: int,
    count: int,
    table: int,
    memory: int,
    stack: int,
    registers: int,
) -> None:
    """Find where a part ends that begins at `starts`: the key of each change in a changelog.

    Runs a program without columns from each of `starts` up to `limits`, int64 (parts, 1), and fills `ends`,
    int64 (parts,), from index `registers[ROW]` on.
    """
    row = _register(registers, ROW)
    while row < count:
        _set_register(registers, ROW, row)
        execute(
            instructions, targets, pool, data, starts, limits, 1, row + 1, table, memory, stack, registers
        )
        if _register(registers, STATUS) != DONE:
            return
        store_8(ends, row * 8, _register(registers, POSITION))
        row += 1

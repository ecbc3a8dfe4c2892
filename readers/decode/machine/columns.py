"""The columns as the machine sees them: fields of the table, and items that it appends to the arena.

See `readers/decode/columns.py` for the fields and buffers. The subroutines `put…` and `close…` append one item, or return
True if a column is full: what the entry has written by then does not matter, as the decoder cuts it off. Decimals, two's complement of
any length, are appended as a 128-bit number or as text; dates and times as days or as units since the epoch.
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
    load_le_i8,
    load_u1,
    stack_memory,
    store_1,
    store_2,
    store_4,
    store_8,
)
from readers.decode.machine.registers import BAD_DATE, DONE, FULL, OUT_OF_RANGE, target


@subroutine
def get_field(table: int, column: int, field: int) -> int:
    """Return a field of a column."""
    return load_le_i8(table, (column * FIELDS + field) * 8)


@subroutine
def set_field(table: int, column: int, field: int, value: int) -> None:
    """Set a field of a column."""
    store_8(table, (column * FIELDS + field) * 8, value)


@subroutine
def put8(table: int, memory: int, column: int, value: int) -> bool:
    """Append a value to a FIXED column of 8 bytes."""
    length = get_field(table, column, LENGTH)
    if length >= get_field(table, column, CAPACITY):
        return True
    store_8(memory, get_field(table, column, VALUES) + length * 8, value)
    set_field(table, column, LENGTH, length + 1)
    return False


@subroutine
def put4(table: int, memory: int, column: int, value: int) -> bool:
    """Append a value to a FIXED column of 4 bytes."""
    length = get_field(table, column, LENGTH)
    if length >= get_field(table, column, CAPACITY):
        return True
    store_4(memory, get_field(table, column, VALUES) + length * 4, value)
    set_field(table, column, LENGTH, length + 1)
    return False


@subroutine
def put2(table: int, memory: int, column: int, value: int) -> bool:
    """Append a value to a FIXED column of 2 bytes."""
    length = get_field(table, column, LENGTH)
    if length >= get_field(table, column, CAPACITY):
        return True
    store_2(memory, get_field(table, column, VALUES) + length * 2, value)
    set_field(table, column, LENGTH, length + 1)
    return False


@subroutine
def put1(table: int, memory: int, column: int, value: int) -> bool:
    """Append a value to a FIXED column of 1 byte."""
    length = get_field(table, column, LENGTH)
    if length >= get_field(table, column, CAPACITY):
        return True
    store_1(memory, get_field(table, column, VALUES) + length, value)
    set_field(table, column, LENGTH, length + 1)
    return False


@subroutine
def put_items(table: int, column: int, count: int) -> bool:
    """Append items without values: to a STRUCT, or to the child of a list, whose values are written on their own."""
    length = get_field(table, column, LENGTH) + count
    if length > get_field(table, column, CAPACITY):
        # The decoder gives more room to columns that are full to the last item.
        set_field(table, column, LENGTH, get_field(table, column, CAPACITY))
        return True
    set_field(table, column, LENGTH, length)
    return False


@subroutine
def close_variable(table: int, memory: int, column: int, data_length: int) -> bool:
    """Append the item of a VARIABLE column whose data, already written, ends at `data_length`."""
    length = get_field(table, column, LENGTH)
    if length >= get_field(table, column, CAPACITY):
        return True
    set_field(table, column, DATA_LENGTH, data_length)
    store_4(memory, get_field(table, column, VALUES) + (length + 1) * 4, data_length)
    set_field(table, column, LENGTH, length + 1)
    return False


@subroutine
def put_bytes(table: int, memory: int, column: int, source: int, start: int, count: int) -> bool:
    """Append `source[start:start + count]` to a VARIABLE column."""
    used = get_field(table, column, DATA_LENGTH)
    if used + count > get_field(table, column, DATA_CAPACITY):
        return True
    base = get_field(table, column, DATA) + used
    for index in range(count):
        store_1(memory, base + index, load_u1(source, start + index))
    return close_variable(table, memory, column, used + count)


@subroutine
def put_constant(table: int, memory: int, column: int, pool: int, targets: int, entry: int) -> bool:
    """Append the text of an entry of a table of constants."""
    offset = target(targets, entry + op.ENTRY_OFFSET)
    return put_bytes(table, memory, column, pool, offset, target(targets, entry + op.ENTRY_BYTES))


@subroutine
def put_nulls(table: int, memory: int, column: int) -> bool:
    """Append null to `column` and to all columns below it that have as many items."""
    # Arrow wants an item in every child of a struct. A null list has no elements: the columns below it are passed over.
    current = column
    end = get_field(table, column, NEXT)
    while current < end:
        length = get_field(table, current, LENGTH)
        if length >= get_field(table, current, CAPACITY):
            return True
        layout = get_field(table, current, LAYOUT)
        following = current + 1
        if layout == FIXED:
            width = get_field(table, current, WIDTH)
            base = get_field(table, current, VALUES) + length * width
            # The arena is not cleared: files and answers must not carry what its memory held before.
            for index in range(width):
                store_1(memory, base + index, 0)
        elif layout == VARIABLE:
            end_offset = get_field(table, current, VALUES) + (length + 1) * 4
            store_4(memory, end_offset, get_field(table, current, DATA_LENGTH))
        elif layout == LIST:
            end_offset = get_field(table, current, VALUES) + (length + 1) * 4
            store_4(memory, end_offset, get_field(table, current + 1, LENGTH))
            following = get_field(table, current, NEXT)
        store_1(memory, get_field(table, current, VALIDITY) + length, 0)
        set_field(table, current, LENGTH, length + 1)
        set_field(table, current, NULLS, get_field(table, current, NULLS) + 1)
        current = following
    return False


@subroutine
def close_list(table: int, memory: int, column: int) -> bool:
    """Append the item of a LIST column whose elements, already appended to its child, end here."""
    length = get_field(table, column, LENGTH)
    if length >= get_field(table, column, CAPACITY):
        return True
    store_4(memory, get_field(table, column, VALUES) + (length + 1) * 4, get_field(table, column + 1, LENGTH))
    set_field(table, column, LENGTH, length + 1)
    return False


MAX_DECIMAL_BYTES = 16  # of a decimal128
# Text of a number takes time with the square of its length: longer numbers are hostile.
MAX_BIG_INTEGER_BYTES = 4096
_MIN_I8 = -(2**63)
# Nine decimal digits a limb: room for the 9,865 digits of MAX_BIG_INTEGER_BYTES.
_LIMBS = 1200
_LIMB = 1_000_000_000
# A scale is any int32: 1E-2000000000 must not become two billion characters.
_MAX_PLAIN_ZEROS = 5000
_PLUS, _MINUS, _POINT, _ZERO, _EXPONENT = b"+-.0E"
_limbs_memory = stack_memory(_LIMBS * 8)
_digits_memory = stack_memory(_LIMBS * 9)


@subroutine
def is_within(high: int, low: int, bound_high: int, bound_low: int) -> bool:
    """Return whether the magnitude of a 128-bit number is less than a bound."""
    magnitude_high = high
    magnitude_low = low
    if high < 0:
        magnitude_low = -low
        magnitude_high = ~high + (1 if low == 0 else 0)
    if magnitude_high < 0 or magnitude_high > bound_high:
        return False
    # With the sign bits inverted, signed order is the order of unsigned words.
    return magnitude_high != bound_high or magnitude_low ^ _MIN_I8 < bound_low ^ _MIN_I8


@subroutine
def put_decimal128(
    table: int, memory: int, column: int, high: int, low: int, bound_high: int, bound_low: int
) -> int:
    """Append a 128-bit number if its magnitude is less than the bound, also 128 bits; return the status."""
    if not is_within(high, low, bound_high, bound_low):
        return OUT_OF_RANGE
    if column < 0:
        return DONE
    length = get_field(table, column, LENGTH)
    if length >= get_field(table, column, CAPACITY):
        return FULL
    store_8(memory, get_field(table, column, VALUES) + length * 16, low)
    store_8(memory, get_field(table, column, VALUES) + length * 16 + 8, high)
    set_field(table, column, LENGTH, length + 1)
    return DONE


@subroutine
def read_two_complement(data: int, position: int, count: int) -> tuple[int, int]:
    """Return the high and low 64 bits of a signed number of `count` (1 to 16) big-endian bytes."""
    high = np.int64(-1) if load_i1(data, position) < 0 else np.int64(0)
    low = high
    for index in range(count):
        high = high << 8 | low >> 56 & 0xFF
        low = low << 8 | load_u1(data, position + index)
    return high, low


@subroutine
def sign_bytes(data: int, position: int, count: int) -> int:
    """Return the number of leading bytes that only repeat the sign, of those beyond the 16 that fit."""
    sign = load_i1(data, position) >> 7
    padding = 0
    while count - padding > MAX_DECIMAL_BYTES and load_i1(data, position + padding) == sign:
        if load_i1(data, position + padding + 1) >> 7 != sign:
            break
        padding += 1
    return padding


@subroutine
def put_decimal_text(
    table: int, memory: int, column: int, data: int, position: int, count: int, small: int, scale: int
) -> bool:
    """Append unscaled · 10^-scale as text. The unscaled number is `count` bytes, or `small` if count is 0."""
    limbs = _limbs_memory()
    for limb in range(_LIMBS):
        store_8(limbs, limb * 8, 0)
    used_limbs = 1
    negative = False
    if count == 0:
        store_8(limbs, 0, small)
    else:
        negative = load_i1(data, position) < 0
        # The magnitude of a negative number is its inverted bits, and one more.
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
    used = get_field(table, column, DATA_LENGTH)
    base = get_field(table, column, DATA)
    # 32: a sign, a point and an exponent.
    if used + length + _MAX_PLAIN_ZEROS + 32 > get_field(table, column, DATA_CAPACITY):
        return True
    at = base + used
    if negative:
        store_1(memory, at, _MINUS)
        at += 1
    leading = scale - length + 1 if scale >= length else 0
    trailing = -scale if scale < 0 and not zero else 0
    if leading > _MAX_PLAIN_ZEROS or trailing > _MAX_PLAIN_ZEROS:
        store_1(memory, at, _ZERO + load_u1(digits, first))
        at += 1
        if length > 1:
            store_1(memory, at, _POINT)
            at += 1
            for index in range(1, length):
                store_1(memory, at, _ZERO + load_u1(digits, first + index))
                at += 1
        exponent = length - 1 - scale
        store_1(memory, at, _EXPONENT)
        store_1(memory, at + 1, _MINUS if exponent < 0 else _PLUS)
        at += 2
        exponent = abs(exponent)
        power = 1
        while power * 10 <= exponent:
            power *= 10
        while power > 0:
            store_1(memory, at, _ZERO + exponent // power % 10)
            at += 1
            power //= 10
        return close_variable(table, memory, column, at - base)
    point = length + leading - scale if scale > 0 else -1
    for index in range(leading + length):
        if index == point:
            store_1(memory, at, _POINT)
            at += 1
        digit = 0 if index < leading else load_u1(digits, first + index - leading)
        store_1(memory, at, _ZERO + digit)
        at += 1
    for _ in range(trailing):
        store_1(memory, at, _ZERO)
        at += 1
    return close_variable(table, memory, column, at - base)


NANOS_A_SECOND = 1_000_000_000
SECONDS_A_DAY = 86_400
_NANOS_A_MILLISECOND = 1_000_000
_MAX_I8 = 2**63 - 1
_MAX_SECONDS = 9_223_372_036  # whole seconds in an int64 of nanoseconds


@subroutine
def put_timestamp(table: int, memory: int, column: int, millis: int, nanos: int, nanos_a_unit: int) -> int:
    """Append milliseconds and the nanoseconds of the millisecond, in units of the column; return the status."""
    if nanos < 0 or nanos >= _NANOS_A_MILLISECOND:
        return BAD_DATE
    if column < 0:
        return DONE
    units = _NANOS_A_MILLISECOND // nanos_a_unit
    # In the last millisecond of an int64 the nanoseconds could overflow; DuckDB reads its ends as infinity, too.
    if millis >= _MAX_I8 // units or millis <= -(_MAX_I8 // units):
        return OUT_OF_RANGE
    if put8(table, memory, column, millis * units + nanos // nanos_a_unit):
        return FULL
    return DONE


@subroutine
def days_from_civil(year: int, month: int, day: int) -> int:
    """Return the days since 1970-01-01 in the proleptic Gregorian calendar (`LocalDate#toEpochDay`)."""
    # The year begins in March here: a leap day is the last day of its year, and months before it have fixed offsets.
    year -= month <= 2
    era = year // 400
    year_of_era = year - era * 400
    day_of_year = (153 * (month + (-3 if month > 2 else 9)) + 2) // 5 + day - 1
    return era * 146_097 + year_of_era * 365 + year_of_era // 4 - year_of_era // 100 + day_of_year - 719_468


@subroutine
def nanos_since_epoch(seconds: int, nanos: int) -> tuple[int, bool]:
    """Return the nanoseconds since the epoch, and whether an int64 holds them.

    Args:
        seconds: since the epoch.
        nanos: since then, less than a day.
    """
    if seconds > _MAX_SECONDS or seconds < -_MAX_SECONDS:
        return 0, False
    # Not the greatest int64 either: it is DuckDB's infinity.
    if seconds * NANOS_A_SECOND >= _MAX_I8 - nanos:
        return 0, False
    return seconds * NANOS_A_SECOND + nanos, True
